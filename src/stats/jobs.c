/* Lists the runs of the user. Runs are found by searching the directories that contain their pages. A run removes its
 * page when it ends. If its process was killed, the process that searches removes the page. A page from another PID
 * namespace is ignored, because it is not known whether its process still exists. */
#include "stats/jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file/run_directory.h"
#include "base/process/owner.h"
#include "base/text/printable.h"
#include "stats/page/page_file.h"
#include "stats/page/reader.h"

void gd__job_describe(struct gd_job *out, const struct gd__page_header *h)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->pid = h->pid;
    out->started = (double)h->started / 1e9;
    gd__text_fit(out->name, sizeof out->name, h->job, strnlen(h->job, sizeof h->job));
    if (h->number > 1)
        snprintf(out->id, sizeof out->id, "%u.%u", (unsigned)h->pid, (unsigned)h->number);
    else
        snprintf(out->id, sizeof out->id, "%u", (unsigned)h->pid);
}

/* --- searching a directory --- */

typedef int visit_fn(void *user, const struct gd__page_header *h, int fd); /* a result other than 0 ends the search */

static struct gd__owner owner_of(const struct gd__page_header *h)
{
    return (struct gd__owner){ .pid = h->pid, .start = h->pid_start, .space = h->pid_space };
}

/* Removes a file that never got its final name, or a control socket, if its process is gone. The name tells which
 * process it belonged to. */
static void remove_leftover(int directory, const char *name, int fd)
{
    struct gd__owner o = { .pid = strtoull(name[0] == '.' ? name + 1 : name, NULL, 10) };
    const char *space = strchr(name, '-');
    o.space = space ? strtoull(space + 1, NULL, 10) : 0;
    if (o.pid > 0 && gd__owner_is_ours(&o) && !gd__owner_alive(&o))
        gd__page_file_remove(directory, name, fd);
}

static bool is_control_socket(const char *name)
{
    static const char end[] = ".control";
    const size_t n = strlen(name);
    return n >= sizeof end && strcmp(name + n - (sizeof end - 1), end) == 0;
}

/* A socket cannot be opened, only its place in the directory. */
static void visit_socket(int directory, const char *name)
{
    const int fd = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    remove_leftover(directory, name, fd);
    close(fd);
}

static int visit_file(int directory, const char *name, visit_fn *visit, void *user)
{
    struct gd__page_header h;
    int rc = 0;
    if (is_control_socket(name)) {
        visit_socket(directory, name);
        return 0;
    }
    const int fd = gd__page_file_read(directory, name);
    if (fd < 0)
        return 0;
    if (name[0] == '.') {
        remove_leftover(directory, name, fd);
    } else if (gd__reader_header(fd, &h) == 0) {
        const struct gd__owner o = owner_of(&h);
        if (gd__owner_is_ours(&o) && !gd__owner_alive(&o))
            gd__page_file_remove(directory, name, fd);
        else if (gd__owner_is_ours(&o))
            rc = visit(user, &h, fd);
    }
    close(fd);
    return rc;
}

static int visit_directory(unsigned i, visit_fn *visit, void *user)
{
    const int directory = gd__run_directory_open(i, false, NULL);
    if (directory < 0)
        return directory == GD_E_NO_JOB ? 0 : directory;
    const int copy = fcntl(directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* closedir() closes the copy */
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    int rc = dir ? 0 : gd__error_errno("cannot list the directory of runs");
    for (const struct dirent *e; rc == 0 && dir && (e = readdir(dir));)
        rc = visit_file(directory, e->d_name, visit, user);
    if (dir)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
    close(directory);
    return rc;
}

/* Searches all directories, even if one of them cannot be searched. Returns the result that ended the search, or else
 * the last error, or 0. */
static int visit_all(visit_fn *visit, void *user)
{
    int rc = 0;
    for (unsigned i = 0; i < GD__RUN_DIRECTORIES && rc <= 0; i++) {
        const int one = visit_directory(i, visit, user);
        rc = one != 0 ? one : rc;
        if (rc == GD_E_NO_MEMORY)
            break;
    }
    return rc;
}

/* --- the list --- */

static int add(void *user, const struct gd__page_header *h, int fd)
{
    struct gd__jobs *jobs = user;
    (void)fd;
    if (jobs->n == jobs->room) {
        const size_t room = jobs->room > 0 ? 2 * jobs->room : 16;
        struct gd_job *larger = gd__realloc(jobs->items, room * sizeof *larger);
        if (!larger)
            return gd__error(GD_E_NO_MEMORY, "no memory for a list of %zu jobs", room);
        jobs->items = larger;
        jobs->room = room;
    }
    gd__job_describe(&jobs->items[jobs->n++], h);
    return 0;
}

static int by_age(const void *a, const void *b)
{
    const struct gd_job *x = a, *y = b;
    if (x->started != y->started)
        return x->started < y->started ? -1 : 1;
    return strcmp(x->id, y->id);
}

int gd__jobs_find(struct gd__jobs *out)
{
    *out = (struct gd__jobs){ 0 };
    const int rc = visit_all(add, out);
    if (rc < 0 && (out->n == 0 || rc == GD_E_NO_MEMORY)) {
        gd__jobs_clear(out);
        return rc;
    }
    if (out->n > 1)
        qsort(out->items, out->n, sizeof *out->items, by_age);
    return 0;
}

void gd__jobs_clear(struct gd__jobs *jobs)
{
    gd__free(jobs->items);
    *jobs = (struct gd__jobs){ 0 };
}

int gd_jobs_list(struct gd_job *out, size_t element_size, size_t max)
{
    struct gd__jobs jobs;
    if (element_size < sizeof(size_t) || (max > 0 && !out))
        return gd__error(GD_E_INVALID,
                         "gd_jobs_list: out is NULL, or element_size is too small: pass sizeof(struct gd_job)");
    const int rc = gd__jobs_find(&jobs);
    if (rc < 0)
        return rc;
    const size_t size = element_size < sizeof *out ? element_size : sizeof *out;
    for (size_t i = 0; i < jobs.n && i < max; i++) {
        jobs.items[i].size = size;
        memcpy((char *)out + i * element_size, &jobs.items[i], size);
    }
    const int n = (int)jobs.n;
    gd__jobs_clear(&jobs);
    return n;
}

/* --- choosing one --- */

typedef bool fits_fn(const struct gd_job *job, const char *which);

static bool has_id(const struct gd_job *job, const char *which)
{
    return strcmp(job->id, which) == 0;
}

static bool has_pid(const struct gd_job *job, const char *which)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%llu", (unsigned long long)job->pid);
    return strcmp(pid, which) == 0;
}

static bool has_name(const struct gd_job *job, const char *which)
{
    return strcmp(job->name, which) == 0;
}

static bool name_begins_with(const struct gd_job *job, const char *which)
{
    return *which && strncmp(job->name, which, strlen(which)) == 0;
}

static bool is_any(const struct gd_job *job, const char *which)
{
    (void)job, (void)which;
    return true;
}

/* "4711 (train), 4712 (resize)" */
static void list(const struct gd__jobs *jobs, fits_fn *fits, const char *which, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < jobs->n && n < size; i++) {
        if (!fits(&jobs->items[i], which))
            continue;
        const int more =
            snprintf(out + n, size - n, "%s%s (%.40s)", n > 0 ? ", " : "", jobs->items[i].id, jobs->items[i].name);
        n += more > 0 ? (size_t)more : 0;
    }
}

static int ambiguous(const struct gd__jobs *jobs, fits_fn *fits, const char *which)
{
    char names[1024];
    list(jobs, fits, which ? which : "", names, sizeof names);
    if (!which)
        return gd__error(GD_E_NO_JOB, "%zu jobs are running: choose one of %s", jobs->n, names);
    return gd__error(GD_E_NO_JOB, "\"%s\" matches several jobs: choose one by its number: %s", which, names);
}

int gd__jobs_choose(const struct gd__jobs *jobs, const char *which)
{
    static fits_fn *const ways[] = { has_id, has_pid, has_name, name_begins_with };
    char names[1024];
    if (jobs->n == 0)
        return which ? gd__error(GD_E_NO_JOB, "no job \"%s\": you have no running jobs", which)
                     : gd__error(GD_E_NO_JOB, "you have no running jobs");
    if (!which)
        return jobs->n == 1 ? 0 : ambiguous(jobs, is_any, NULL);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        size_t found = 0;
        int at = -1;
        for (size_t i = 0; i < jobs->n; i++) {
            if (!ways[k](&jobs->items[i], which))
                continue;
            found++;
            at = (int)i;
        }
        if (found > 0)
            return found == 1 ? at : ambiguous(jobs, ways[k], which);
    }
    list(jobs, is_any, which, names, sizeof names);
    return gd__error(GD_E_NO_JOB, "no job \"%s\": the running %s: %s", which, jobs->n == 1 ? "job is" : "jobs are",
                     names);
}

/* --- opening its page --- */

struct search {
    const char *id;
    int fd;
};

static int take_page(void *user, const struct gd__page_header *h, int fd)
{
    struct search *s = user;
    struct gd_job job;
    gd__job_describe(&job, h);
    if (strcmp(job.id, s->id) != 0)
        return 0;
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* the caller closes its own descriptor */
    return s->fd < 0 ? gd__error_errno("cannot copy a descriptor") : 1;
}

int gd__jobs_open_page(const struct gd_job *job)
{
    struct search s = { .id = job->id, .fd = -1 };
    const int rc = visit_all(take_page, &s);
    if (s.fd >= 0)
        return s.fd;
    return rc < 0 ? rc : gd__error(GD_E_NO_JOB, "job %s (%.100s) has just ended", job->id, job->name);
}
