/* The layout of a command's result: written by the adapter (worker/command.c), read by whoever gets the report.
 *
 *   header | stdout | stderr
 *
 * The header is as large as what travels inside a record, so that a command that prints nothing takes no room in the
 * result region. What comes from a worker is not to be trusted: sizes are checked against what is there, which may be
 * more than they say (a file that shrank while it was read).
 */
#include "command/output.h"

#include <string.h>

#include "base/error.h"

_Static_assert(sizeof(struct gd__command_head) == 24, "a layout between two processes");

int gd_command_read(const void *data, size_t size, struct gd_command_output *out)
{
    struct gd__command_head head;
    if (!out)
        return gd__error(GD_E_INVALID, "gd_command_read: out is NULL");
    memset(out, 0, sizeof *out);
    if (!data || size < sizeof head)
        return gd__error(GD_E_INVALID, "a result of %zu bytes is too short for the result of a command",
                         data ? size : 0);
    memcpy(&head, data, sizeof head);
    const size_t most = size - sizeof head;
    if (head.magic != GD__COMMAND_MAGIC)
        return gd__error(GD_E_INVALID, "this is this is not the result of a command");
    if (head.out_size > most || head.err_size > most - head.out_size)
        return gd__error(GD_E_INVALID, "the result of a command is shorter than its header says");
    out->exit_code = head.exit_code;
    out->signal = head.signal;
    out->out = (const char *)data + sizeof head;
    out->out_size = (size_t)head.out_size;
    out->err = out->out + out->out_size;
    out->err_size = (size_t)head.err_size;
    return 0;
}
