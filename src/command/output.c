/* The layout of a command's result. The adapter (worker/command.c) writes it, and the receiver of the report reads it.
 *
 *   header | stdout | stderr
 *
 * The header is small enough to be stored inside a record of the result ring, so the result of a command that prints
 * nothing takes no room in the result region. Data from a worker is not trusted: the sizes are checked against the size
 * of the result. The result may be longer than the sizes say, if a file shrank while it was read.
 */
#include "command/output.h"

#include <string.h>

#include "base/error.h"
#include "base/sized.h"

_Static_assert(sizeof(struct gd__command_head) == 24, "two processes share this layout");

int gd_command_read(const void *data, size_t size, struct gd_command_output *out)
{
    struct gd__command_head head;
    struct gd_command_output o = { .size = sizeof o };
    const int rc = gd__sized_write(out, &o, sizeof o, "gd_command_output"); /* clears *out, even if this fails later */
    if (rc < 0)
        return rc;
    if (!data || size < sizeof head)
        return gd__error(GD_E_INVALID, "a result of %zu bytes is too short for the result of a command",
                         data ? size : 0);
    memcpy(&head, data, sizeof head);
    const size_t most = size - sizeof head;
    if (head.magic != GD__COMMAND_MAGIC)
        return gd__error(GD_E_INVALID, "this is not the result of a command");
    if (head.out_size > most || head.err_size > most - head.out_size)
        return gd__error(GD_E_INVALID, "the result of a command is shorter than its header says");
    o.exit_code = head.exit_code;
    o.signal = head.signal;
    o.out = (const char *)data + sizeof head;
    o.out_size = (size_t)head.out_size;
    o.err = o.out + o.out_size;
    o.err_size = (size_t)head.err_size;
    return gd__sized_write(out, &o, sizeof o, "gd_command_output");
}
