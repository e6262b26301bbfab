/* Whether the holder of a lock file is alive. The table at the top of lock.c says what decides. */
#include "journal/lock/life.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file/shared.h"
#include "journal/db.h"
#include "journal/lock/lock.h"

/* The path is in the directory of the real journal, so a journal with two names has one lock. It is absolute, so it is
 * still right after the working directory has changed. */
char *gd__lock_path(const char *journal)
{
    char full[PATH_MAX];
    const char *real = gd__db_full_path(journal, full);
    const size_t size = strlen(real) + sizeof "-lock";
    char *path = gd__calloc(1, size);
    if (path)
        snprintf(path, size, "%s-lock", real);
    return path;
}

/* --- locks on bytes --- */

static enum gd__byte state_of_error(int number)
{
    switch (number) {
    case EAGAIN:
    case EACCES:
        return GD__BYTE_LOCKED;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOLCK:
        return GD__BYTE_NO_LOCKS;
    default:
        return GD__BYTE_ERROR;
    }
}

enum gd__byte gd__lock_byte(const struct gd__lock_settings *s, int fd, int byte)
{
    struct flock one = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    if (s->no_locks || s->local_locks)
        return s->no_locks ? GD__BYTE_NO_LOCKS : GD__BYTE_FREE;
    return fcntl(fd, F_OFD_SETLK, &one) == 0 ? GD__BYTE_FREE : state_of_error(errno);
}

/* Takes no lock, so two newcomers do not see each other. fd may be open for reading only. */
static enum gd__byte test_byte(const struct gd__lock_settings *s, int fd, int byte)
{
    struct flock one = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    if (s->no_locks || s->local_locks)
        return s->no_locks ? GD__BYTE_NO_LOCKS : GD__BYTE_FREE;
    if (fcntl(fd, F_OFD_GETLK, &one) < 0)
        return state_of_error(errno);
    return one.l_type == F_UNLCK ? GD__BYTE_FREE : GD__BYTE_LOCKED;
}

bool gd__lock_is_shared(const struct gd__lock_settings *s, const char *path)
{
    return s->shared >= 0 ? s->shared == 1 : gd__file_is_shared(path);
}

/* --- whether a file is dead --- */

/* Adds a look at that holder. Returns whether its heartbeat has stood still long enough. */
static bool stands_still(struct gd__watch *w, const struct gd__lock_holder *holder, const struct gd__lock_settings *s)
{
    const uint64_t now = gd__now_ns(), most = 2 * s->look_ms * GD__NS_PER_MS;
    const bool same = w->seen_ns > 0 && strcmp(w->nonce, holder->nonce) == 0 && w->pid == holder->owner.pid &&
                      w->beat == holder->beat;
    const uint64_t since = now - w->seen_ns;
    w->still_ns = same ? w->still_ns + (since < most ? since : most) : 0;
    w->seen_ns = now;
    w->pid = holder->owner.pid;
    w->beat = holder->beat;
    memcpy(w->nonce, holder->nonce, sizeof w->nonce);
    return w->still_ns >= s->stale_ms * GD__NS_PER_MS;
}

enum gd__life gd__lock_look(int fd, struct gd__watch *w, const struct gd__lock_settings *s, bool shared,
                            struct gd__lock_holder *holder)
{
    gd__lock_holder_read(fd, holder);
    const enum gd__byte byte = test_byte(s, fd, GD__HOLDER_BYTE);
    const bool still = stands_still(w, holder, s);
    if ((byte == GD__BYTE_FREE && !shared) || gd__lock_holder_is_gone(holder))
        return GD__HOLDER_DEAD;
    return still && (byte == GD__BYTE_FREE || byte == GD__BYTE_NO_LOCKS) ? GD__HOLDER_SILENT : GD__HOLDER_ALIVE;
}

/* --- for observers --- */

static enum gd__byte look_as_observer(int fd, struct gd__lock_holder *holder, struct stat *info)
{
    struct gd__lock_settings s;
    gd__lock_settings_read(&s);
    gd__lock_holder_read(fd, holder);
    return fstat(fd, info) == 0 && S_ISREG(info->st_mode) ? test_byte(&s, fd, GD__HOLDER_BYTE) : GD__BYTE_ERROR;
}

/* An observer cannot wait for a heartbeat. So it compares the time of the last one, which the server of the file system
 * or the host of the holder has set, with our clock. */
static double quiet_seconds(const struct stat *info)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double quiet =
        (double)(now.tv_sec - info->st_mtim.tv_sec) + (double)(now.tv_nsec - info->st_mtim.tv_nsec) / 1e9;
    return quiet > 0 ? quiet : 0;
}

/* Whether the holder is this process, and it has unlocked byte 0. It could not remove the file then: the disk was full or
 * failed. Locks work at least between processes of one machine. */
static bool was_released(const struct gd__lock_holder *holder, enum gd__byte byte, const struct gd__lock_settings *s)
{
    return byte == GD__BYTE_FREE && !s->local_locks && holder->owner.pid == (uint64_t)getpid() &&
           gd__lock_holder_is_here(holder);
}

static bool is_held(const char *path, int fd, struct gd__lock_seen *out)
{
    struct gd__lock_settings s;
    struct gd__lock_holder holder;
    struct stat info;
    const enum gd__byte byte = look_as_observer(fd, &holder, &info);
    gd__lock_settings_read(&s);
    if (byte == GD__BYTE_ERROR || gd__lock_holder_is_gone(&holder) || was_released(&holder, byte, &s))
        return false;
    const bool beats = byte == GD__BYTE_NO_LOCKS || gd__lock_is_shared(&s, path);
    const double quiet = quiet_seconds(&info);
    if (byte != GD__BYTE_LOCKED && !(beats && (gd__lock_holder_is_here(&holder) || quiet * 1000 < s.stale_ms)))
        return false;
    out->pid = holder.owner.pid;
    out->quiet_seconds = beats ? quiet : 0;
    return true;
}

void gd__journal_lock_see(const char *journal, struct gd__lock_seen *out)
{
    char *path = gd__lock_path(journal);
    const int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    *out = (struct gd__lock_seen){ .held = false };
    if (fd >= 0) {
        out->held = is_held(path, fd, out);
        close(fd);
    }
    gd__free(path);
}

bool gd__journal_lock_test(const char *journal, uint64_t *pid)
{
    struct gd__lock_seen seen;
    gd__journal_lock_see(journal, &seen);
    *pid = seen.pid;
    return seen.held;
}
