/* Sources that report failures of devices: see health.c. */
#ifndef GD_GPU_HEALTH_HEALTH_H
#define GD_GPU_HEALTH_HEALTH_H

#include <stdbool.h>

/* Reports an Xid of the device with that UUID to every subscriber, if that Xid requires an action. Called on the thread
 * of a source. */
void gd__health_report(const char *uuid, unsigned xid);
void gd__health_report_lost(const char *uuid);

struct gd__health_source {
    const char *name;
    bool (*open)(void);         /* prepares watch() without waiting; called under the module's lock */
    bool (*watch)(void);        /* waits for an event and reports it, on its own thread; returns false at the end */
    void (*close)(bool forked); /* called if its thread could not be started, or in a fork, which does not have it */
};

extern const struct gd__health_source gd__health_nvml, gd__health_sim;

#endif
