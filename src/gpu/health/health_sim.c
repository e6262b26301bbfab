/* Failures of simulated devices: lines "<index or UUID> <xid>" in a FIFO or a file that GPU_DISPATCH_SIM_XID names. A
 * FIFO is also opened for writing, so that it does not end when a writer closes it. Lines that are added to a file
 * later are read when inotify reports the change. A line that is not valid is ignored.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "gpu/backends/backend.h"
#include "gpu/backends/sim.h"
#include "gpu/health/health.h"
#include "gpu/spec.h"

static struct {
    int fd, changes; /* changes: inotify, -1 for a FIFO */
    size_t used;
    char line[256];
} state = { .fd = -1, .changes = -1 };

static void close_sim(bool forked)
{
    (void)forked;
    gd__fd_close(&state.fd);
    gd__fd_close(&state.changes);
    state.used = 0;
}

static bool watch_file(const char *path)
{
    state.changes = gd__fd_above_stdio(inotify_init1(IN_CLOEXEC));
    return state.changes >= 0 && inotify_add_watch(state.changes, path, IN_MODIFY) >= 0;
}

static bool open_sim(void)
{
    struct stat s;
    const char *path = getenv(GD__ENV_SIM_XID);
    if (!path || stat(path, &s) < 0)
        return false;
    const bool fifo = S_ISFIFO(s.st_mode);
    const bool watched = fifo || watch_file(path); /* before it is read, so that no change is missed */
    if (watched)
        state.fd = gd__fd_above_stdio(open(path, (fifo ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    if (state.fd >= 0)
        return true;
    close_sim(false);
    return false;
}

/* Reports an Xid of the GPU with that index, and of its MIG instances if it has any. */
static void report_index(unsigned index, unsigned xid)
{
    struct gd__found_list made = { 0 };
    if (gd__sim_make(&made, index + 1) == 0) {
        for (size_t i = 0; i < made.n; i++) {
            const struct gd__found *f = &made.items[i];
            if (f->d.index == (int)index && f->mig_index <= 0)
                gd__health_report(f->gpu_uuid, xid);
            if (f->d.index == (int)index && f->d.is_mig)
                gd__health_report(f->d.uuid, xid);
        }
    }
    gd__found_clear(&made);
}

static void read_line(char *line)
{
    char *device = line + strspn(line, " \t");
    char *number = device + strcspn(device, " \t");
    if (*number)
        *number++ = '\0';
    number += strspn(number, " \t");
    const long xid = gd__spec_number(number, strcspn(number, " \t\r"), 1, 99999);
    const long index = gd__spec_number(device, strlen(device), 0, GD__SPEC_MOST - 1);
    if (xid < 0)
        return;
    if (index >= 0)
        report_index((unsigned)index, (unsigned)xid);
    else if (!isdigit((unsigned char)*device))
        gd__health_report(device, (unsigned)xid);
}

static void read_bytes(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (state.used < sizeof state.line - 1)
                state.line[state.used++] = bytes[i];
            continue;
        }
        state.line[state.used] = '\0';
        state.used = 0;
        read_line(state.line);
    }
}

static bool await_change(void)
{
    char events[4096];
    if (state.changes < 0)
        return false;
    const ssize_t n = read(state.changes, events, sizeof events);
    return n > 0 || (n < 0 && errno == EINTR);
}

static bool watch_sim(void)
{
    char bytes[256];
    const ssize_t n = read(state.fd, bytes, sizeof bytes);
    if (n > 0)
        read_bytes(bytes, (size_t)n);
    if (n == 0)
        return await_change();
    return n > 0 || errno == EINTR;
}

const struct gd__health_source gd__health_sim = {
    .name = "simulated",
    .open = open_sim,
    .watch = watch_sim,
    .close = close_sim,
};
