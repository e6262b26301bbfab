/* Connects a reader to the server of a queue: see reader.h. */
#include "base/error.h"
#include "queue/connect.h"
#include "queue/read/reader.h"

struct opening {
    const struct gd_queue_options *options;
    struct gd__queue_address address;
};

static int open_link(void *user, const struct gd__queue_listener *listener, struct gd__queue_link **out)
{
    struct opening *o = user;
    return gd__queue_connect(out, NULL, o->options, listener, NULL);
}

int gd_queue_reader_open(struct gd_queue_reader **out, const struct gd_queue_options *queue)
{
    struct gd_queue_options options;
    struct opening o = { .options = &options };
    struct gd__caller *caller = NULL;
    char server[GD__QUEUE_SERVER_TEXT_ROOM];
    if (!out || !queue)
        return gd__error(GD_E_INVALID, "gd_queue_reader_open: the options or out is NULL");
    *out = NULL;
    int rc = gd__queue_options_read(&options, queue);
    rc = rc < 0 ? rc : gd__queue_address_parse(&o.address, options.url);
    if (rc < 0)
        return rc;
    const struct gd__caller_config config = { .server = gd__queue_server_text(server, &o.address, 0), .stop_fd = -1 };
    rc = gd__caller_open(&caller, &config, open_link, &o);
    return rc < 0 ? rc : gd__reader_new(out, caller, o.address.name, options.spill_dir);
}
