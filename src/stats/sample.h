/* Values from the driver about a run's devices. The observer reads them about once a second. */
#ifndef GD_STATS_SAMPLE_H
#define GD_STATS_SAMPLE_H

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/observe.h>

struct gd__sample {
    struct gd_devices *list; /* NULL: not available, or not opened yet */
    uint64_t at_ns;          /* when they were last read; 0: never */
    bool given_up;
};

/* Updates the driver's values in these views, if that is due. Without a driver they stay unknown. */
void gd__sample_update(struct gd__sample *s, uint64_t now_ns, struct gd_device_view *views, size_t n);
void gd__sample_close(struct gd__sample *s);

#endif
