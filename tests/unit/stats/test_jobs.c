/* SPDX-License-Identifier: MIT
 *
 * Finding the runs on this machine, and choosing one of them.
 */
#include "support/test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/process/owner.h"
#include "stats/jobs.h"
#include "stats/page/page.h"
#include "support/directory.h"

static struct gd_job items[] = {
    { .id = "100", .pid = 100, .name = "train big" },     { .id = "100.2", .pid = 100, .name = "train small" },
    { .id = "200.3", .pid = 200, .name = "resize" },      { .id = "300", .pid = 300, .name = "resize" },
    { .id = "400", .pid = 400, .name = "resize images" }, { .id = "500", .pid = 500, .name = "300" },
};
static const struct gd__jobs all = { .items = items, .n = sizeof items / sizeof *items };

/* --- choosing a job --- */

TEST(by_id_before_name)
{
    CHECK_EQ(gd__jobs_choose(&all, "100"), 0);
    CHECK_EQ(gd__jobs_choose(&all, "100.2"), 1);
    CHECK_EQ(gd__jobs_choose(&all, "300"), 3); /* not the job with this name */
}

TEST(by_process_id)
{
    CHECK_EQ(gd__jobs_choose(&all, "200"), 2);
}

TEST(by_name_and_by_prefix)
{
    CHECK_EQ(gd__jobs_choose(&all, "train small"), 1);
    CHECK_EQ(gd__jobs_choose(&all, "train b"), 0);
    CHECK_EQ(gd__jobs_choose(&all, "resize im"), 4);
}

TEST(an_ambiguous_name_is_refused)
{
    CHECK_EQ(gd__jobs_choose(&all, "train"), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "100 (train big), 100.2 (train small)");
    CHECK_EQ(gd__jobs_choose(&all, "resize"), GD_E_NO_JOB); /* two jobs have exactly this name */
    CHECK_CONTAINS(gd_error_text(), "200.3 (resize), 300 (resize)");
    CHECK(!strstr(gd_error_text(), "400"));
    CHECK_EQ(gd__jobs_choose(&all, NULL), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "500 (300)");
}

TEST(a_missing_job_is_reported)
{
    CHECK_EQ(gd__jobs_choose(&all, "nothing"), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "no job \"nothing\"");
    CHECK_CONTAINS(gd_error_text(), "100 (train big)");
    CHECK_EQ(gd__jobs_choose(&all, ""), GD_E_NO_JOB);
    const struct gd__jobs none = { 0 };
    CHECK_EQ(gd__jobs_choose(&none, NULL), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "you have no running jobs");
    CHECK_EQ(gd__jobs_choose(&none, "x"), GD_E_NO_JOB);
}

TEST(without_a_name_the_only_job_is_chosen)
{
    const struct gd__jobs one = { .items = items, .n = 1 };
    CHECK_EQ(gd__jobs_choose(&one, NULL), 0);
}

/* --- the directory --- */

static void enter(void)
{
    char path[512];
    directory_enter();
    snprintf(path, sizeof path, "%s/jobs", directory_path);
    setenv("GPU_DISPATCH_JOBS", path, 1);
}

static struct gd__page *open_page(const char *job)
{
    const struct gd__page_spec spec = { .job = job, .n_workers = 1 };
    struct gd__page *p;
    CHECK_EQ(gd__page_open(&p, &spec), 0);
    CHECK_GE(p->directory, 0);
    return p;
}

static int list(void)
{
    struct gd_job jobs[4];
    return gd_jobs_list(jobs, sizeof *jobs, 4);
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* Writes a copy of the page with another header, as if another process had left it. */
static void leave(const struct gd__page *p, const char *name, const struct gd__page_header *h)
{
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, p->base, p->plan.size), p->plan.size);
    CHECK_EQ(pwrite(fd, h, sizeof *h, 0), sizeof *h);
    close(fd);
}

TEST(no_directory_means_no_jobs)
{
    enter();
    CHECK_EQ(list(), 0);
    CHECK(!is_there("jobs")); /* listing does not create the directory */
}

TEST(the_oldest_job_is_first)
{
    struct gd_job jobs[3];
    enter();
    struct gd__page *a = open_page("a"), *b = open_page("b"), *c = open_page("c");
    CHECK_EQ(gd_jobs_list(jobs, sizeof *jobs, 3), 3);
    CHECK_STR(jobs[0].name, "a");
    CHECK_STR(jobs[1].name, "b");
    CHECK_STR(jobs[2].name, "c");
    CHECK_LE(jobs[0].started, jobs[1].started);
    CHECK_EQ(jobs[0].pid, getpid());
    CHECK_EQ(atoi(jobs[0].id), getpid());
    CHECK(!strchr(jobs[0].id, '.'));
    CHECK(strchr(jobs[1].id, '.') != NULL);
    CHECK_EQ(gd_jobs_list(jobs, sizeof *jobs, 1), 3);
    CHECK_EQ(gd_jobs_list(NULL, sizeof *jobs, 0), 3);
    CHECK_EQ(gd_jobs_list(NULL, sizeof *jobs, 1), GD_E_INVALID);
    CHECK_EQ(gd_jobs_list(jobs, 0, 1), GD_E_INVALID);
    gd__page_close(&b);
    CHECK_EQ(list(), 2);
    gd__page_close(&a);
    gd__page_close(&c);
    CHECK_EQ(list(), 0);
}

TEST(a_name_is_made_printable_and_shortened)
{
    struct gd_job job;
    char name[600];
    enter();
    memset(name, 'x', sizeof name - 1);
    memcpy(name, "a\033\n", 3);
    name[sizeof name - 1] = '\0';
    struct gd__page *p = open_page(name);
    CHECK_EQ(gd_jobs_list(&job, sizeof job, 1), 1);
    CHECK_EQ(strlen(job.name), sizeof job.name - 1);
    CHECK(strncmp(job.name, "a? x", 4) == 0);
    gd__page_close(&p);
}

TEST(pages_of_processes_that_are_gone_are_removed)
{
    struct gd__page_header h;
    enter();
    struct gd__page *p = open_page("alive");
    memcpy(&h, p->base, sizeof h);
    h.pid_start++; /* a later process, ours, has the same id now */
    leave(p, "jobs/reused", &h);
    memcpy(&h, p->base, sizeof h);
    h.pid_space++; /* a process in another container cannot be checked */
    leave(p, "jobs/elsewhere", &h);
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0)
        _exit(0);
    siginfo_t info;
    CHECK_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); /* ended, but not reaped yet */
    memcpy(&h, p->base, sizeof h);
    h.pid = (uint64_t)child;
    leave(p, "jobs/dead", &h);
    char leftover[64];
    snprintf(leftover, sizeof leftover, "jobs/.%d.1-%llu", (int)child, (unsigned long long)h.pid_space);
    CHECK_EQ(list(), 1);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    make_file(leftover, 10);
    CHECK_EQ(list(), 1);
    CHECK(!is_there("jobs/reused"));
    CHECK(!is_there("jobs/dead"));
    CHECK(!is_there(leftover));
    CHECK(is_there("jobs/elsewhere"));
    gd__page_close(&p);
}

TEST(other_files_are_not_removed)
{
    enter();
    struct gd__page *p = open_page("alive");
    make_file("jobs/empty", 0);
    make_file("jobs/other", 100000);
    make_file("jobs/.hidden", 10);
    CHECK_EQ(mkfifo("jobs/fifo", 0600), 0); /* listing must not wait for a writer */
    CHECK_EQ(mkdir("jobs/folder", 0700), 0);
    CHECK_EQ(symlink("other", "jobs/link"), 0);
    CHECK_EQ(list(), 1);
    CHECK(is_there("jobs/empty"));
    CHECK(is_there("jobs/other"));
    CHECK(is_there("jobs/.hidden"));
    gd__page_close(&p);
    CHECK_EQ(list(), 0);
}

TEST(a_refused_directory_is_reported)
{
    enter();
    CHECK_EQ(mkdir("jobs", 0755), 0);
    CHECK_EQ(chmod("jobs", 0755), 0);
    CHECK_EQ(list(), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "chmod 700");
}

TEST(a_forked_process_does_not_end_the_run)
{
    enter();
    struct gd__page *p = open_page("mine");
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        gd__page_close(&p);
        exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(list(), 1);
    gd__page_close(&p);
}

TEST(other_programs_inherit_no_descriptor_of_an_observer)
{
    struct gd_observer *o;
    unsigned n = 0;
    enter();
    struct gd__page *p = open_page("mine");
    const int next = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3); /* the observer gets descriptors from here on */
    CHECK_GE(next, 0);
    close(next);
    CHECK_EQ(gd_observer_open(&o, "mine"), 0);
    for (int fd = next; fd < next + 32; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        n += flags >= 0;
        CHECK(flags < 0 || flags & FD_CLOEXEC);
    }
    CHECK_GT(n, 0);
    gd_observer_close(&o);
    gd__page_close(&p);
}

TEST_MAIN()
