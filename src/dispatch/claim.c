/* The locks of a run on its devices; gpu/claim/claim.h lists them. They are taken when the dispatcher is opened, and
 * released when the run has ended. Opening may wait for free devices.
 */
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "dispatch/internal.h"
#include "gpu/claim/claim.h"
#include "proc/signals.h"

/* With handle_signals a signal ends the wait. Returns a token for gd__signals_unsubscribe(), or -1. */
static int subscribe(const struct gd_options *o, int *fd)
{
    if (!o->handle_signals)
        return -1;
    *fd = GD__FAULT("eventfd") ? -1 : gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return *fd < 0 ? -1 : gd__signals_subscribe(*fd); /* on failure signals keep their usual effect during the wait */
}

int gd__devices_claim(struct gd_dispatcher *d, struct gd_devices *list)
{
    struct gd__claim_ask ask = { .ids = d->o.gpus ? NULL : d->o.gpu_ids,
                                 .n_ids = d->o.gpus ? 0 : d->o.n_gpus,
                                 .least = d->o.gpus_per_worker,
                                 .ignore_locks = d->o.ignore_gpu_locks,
                                 .stop_fds = { d->o.wait_stop_fd, -1 },
                                 .note = d->o.on_device_note,
                                 .user = d->o.user };
    const int token = subscribe(&d->o, &ask.stop_fds[1]);
    const int rc = gd__claim_open(&d->claim, list, &ask);
    gd__signals_unsubscribe(token);
    gd__fd_close(&ask.stop_fds[1]);
    return rc;
}

void gd__devices_release(struct gd_dispatcher *d)
{
    gd__claim_close(&d->claim);
}
