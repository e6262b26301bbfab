/* Sources of word that a device has failed: see health.c. */
#ifndef GD_GPU_HEALTH_HEALTH_H
#define GD_GPU_HEALTH_HEALTH_H

#include <stdbool.h>

/* For a source's thread: tells every subscriber of an Xid of the device with that UUID, if it asks for anything. */
void gd__health_report(const char *uuid, unsigned xid);
void gd__health_report_lost(const char *uuid);

struct gd__health_source {
    const char *name;
    bool (*open)(void);  /* ready to be watched, without waiting for anything; called under the module's lock */
    bool (*watch)(void); /* on a thread of its own: sleeps until something is there, reports it. False: it is over */
    void (*close)(bool forked); /* its thread could not be started, or is another process's since a fork */
};

extern const struct gd__health_source gd__health_nvml, gd__health_sim;

#endif
