/* Sources of reports that a device has failed: see health.c. */
#ifndef GD_GPU_HEALTH_HEALTH_H
#define GD_GPU_HEALTH_HEALTH_H

#include <stdbool.h>

/* Called on the thread of a source: reports an Xid of the device with that UUID to every subscriber, if that Xid
 * requires an action. */
void gd__health_report(const char *uuid, unsigned xid);
void gd__health_report_lost(const char *uuid);

struct gd__health_source {
    const char *name;
    bool (*open)(void);         /* prepares watch() without waiting; called under the module's lock */
    bool (*watch)(void);        /* on a thread of its own: waits for an event and reports it; false: ended */
    void (*close)(bool forked); /* its thread could not be started, or was lost by a fork */
};

extern const struct gd__health_source gd__health_nvml, gd__health_sim;

#endif
