/* Lets another part of the library receive the events of a run. A listener is called right before the user's callback
 * for the same event, with the same arguments. So that part does not need to replace a callback of the user. */
#ifndef GD_DISPATCH_LISTENER_H
#define GD_DISPATCH_LISTENER_H

#include <gpu_dispatch/dispatcher.h>

/* A function that is NULL is not called. */
struct gd__listener {
    void *user;
    void (*task_ended)(void *user, const struct gd_report *report); /* on_success, on_error, on_timeout */
    void (*setup_failed)(void *user, int worker_id, int gpu_id, const char *error);
    void (*cleanup_failed)(void *user, int worker_id, int gpu_id, const char *error);
    void (*worker_exited)(void *user, int worker_id, int gpu_id, const char *why, bool given_up);
    void (*device_out)(void *user, int worker_id, int gpu_id, const char *why); /* worker_id: one of its workers */
    void (*device_idle)(void *user, int gpu_id, const char *why);
    void (*control)(void *user, const char *what, int code);
};

/* Call it before the run. The listener is copied. */
void gd__dispatcher_listen(struct gd_dispatcher *d, const struct gd__listener *listener);

#endif
