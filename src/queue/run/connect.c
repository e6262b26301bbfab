/* How a run connects to the server of its queue. */
#include "queue/connect.h"

#include "queue/run/queue_run.h"

static int connect_to_server(struct gd__queue_link **out, const struct gd_queue_options *queue,
                             const struct gd__queue_listener *listener, const struct gd__queue_patience *patience)
{
    return gd__queue_connect(out, NULL, queue, listener, patience);
}

gd__queue_connect_fn *gd__queue_run_connect = connect_to_server;
