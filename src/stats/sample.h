/* What the driver says of a run's devices: asked by the observer, about once a second. */
#ifndef GD_STATS_SAMPLE_H
#define GD_STATS_SAMPLE_H

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/observe.h>

struct gd__sample {
    struct gd_devices *list; /* NULL: there is none, or not yet */
    uint64_t at_ns;          /* when they were last asked; 0: never */
    bool given_up;
};

/* Brings the driver's part of these up to date if that is due. Without a driver nothing is known of them. */
void gd__sample_update(struct gd__sample *s, uint64_t now_ns, struct gd_device_view *views, size_t n);
void gd__sample_close(struct gd__sample *s);

#endif
