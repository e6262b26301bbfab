/* Runs a simulation over many seeds: see seeds.h. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/seeds.h"

enum { EVENT_LIMIT_S = 30, NO_END = 99, MAX_JOBS = 64, SHOWN = 20 };

struct job {
    pid_t pid;
    volatile uint64_t seed, event; /* the current ones */
};

struct board { /* shared by all children */
    _Atomic uint64_t next, end, passed, failed;
    struct job jobs[MAX_JOBS];
};

static void report(const struct seeds *s, struct board *b, uint64_t seed, uint64_t event, const char *words)
{
    if (atomic_fetch_add(&b->failed, 1) < SHOWN)
        printf("%s: seed 0x%llx failed: %s at event %llu\n", s->name, (unsigned long long)seed, words,
               (unsigned long long)event);
    fflush(stdout);
}

/* --- seeds that do not end --- */

/* A run limits its number of events. So only a single event that does not end has to be found here. An event takes
 * microseconds. Only CPU time of this process is measured, so a slow or busy machine makes no difference. */
static const struct job *watched;

static void look_for_progress(int signal)
{
    static uint64_t seed, event;
    (void)signal;
    if (watched->seed == seed && watched->event == event)
        _exit(NO_END);
    seed = watched->seed;
    event = watched->event;
}

static void watch(const struct job *job)
{
    const struct itimerval every = { { EVENT_LIMIT_S, 0 }, { EVENT_LIMIT_S, 0 } };
    const struct sigaction action = { .sa_handler = look_for_progress, .sa_flags = SA_RESTART };
    watched = job;
    if (sigaction(SIGVTALRM, &action, NULL) < 0 || setitimer(ITIMER_VIRTUAL, &every, NULL) < 0)
        perror("a seed that does not end cannot be detected"); /* everything else can still be tested */
}

/* --- many seeds --- */

/* The seeds are consecutive numbers, so that the printed seed is enough to repeat a failure. sim_mix() makes sure that
 * neighbouring seeds do not give similar plans. */
static void work(const struct seeds *s, struct board *b, struct job *job)
{
    struct seed_outcome o;
    watch(job);
    for (;;) {
        const uint64_t seed = atomic_fetch_add(&b->next, 1);
        if (seed >= atomic_load(&b->end))
            return;
        job->seed = seed;
        job->event = 0;
        if (s->run(seed, false, &job->event, &o) == 0)
            atomic_fetch_add(&b->passed, 1);
        else
            report(s, b, seed, o.events, o.words);
    }
}

static int start_job(const struct seeds *s, struct board *b, struct job *job)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        return -1;
    }
    if (pid == 0) {
        work(s, b, job);
        fflush(stdout);
        exit(0); /* leak checkers run at exit */
    }
    job->pid = pid; /* only the parent sets it, because the board is shared */
    return 0;
}

static void bury_job(const struct seeds *s, struct board *b, struct job *job, int status)
{
    char words[100];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        job->pid = 0;
        return;
    }
    if (WIFSIGNALED(status))
        snprintf(words, sizeof words, "%s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == NO_END)
        snprintf(words, sizeof words, "the run does not end");
    else
        snprintf(words, sizeof words, "exit code %d", WEXITSTATUS(status));
    report(s, b, job->seed, job->event, words);
    if (start_job(s, b, job) < 0)
        job->pid = 0;
}

static int run_seeds(const struct seeds *s, uint64_t from, uint64_t n)
{
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    atomic_store(&b->next, from);
    atomic_store(&b->end, from + n);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int n_jobs = cores < 1 ? 1 : cores > MAX_JOBS ? MAX_JOBS : (int)cores;
    for (int i = 0; i < n_jobs; i++)
        if (start_job(s, b, &b->jobs[i]) < 0)
            return 1;
    int status;
    for (pid_t pid; (pid = wait(&status)) > 0 || errno == EINTR;)
        for (int i = 0; i < n_jobs; i++)
            if (pid > 0 && b->jobs[i].pid == pid)
                bury_job(s, b, &b->jobs[i], status);
    const uint64_t passed = atomic_load(&b->passed), failed = n - passed;
    printf("# %llu seeds passed\n", (unsigned long long)passed); /* all seeds count as one test */
    printf("%d passed, %llu failed\n", failed == 0, (unsigned long long)failed);
    munmap(b, sizeof *b);
    return failed > 0;
}

static int run_one(const struct seeds *s, uint64_t seed, bool trace)
{
    struct seed_outcome o;
    const int failed = s->run(seed, trace, NULL, &o);
    if (failed)
        printf("%s: seed 0x%llx failed: %s at event %llu\n", s->name, (unsigned long long)seed, o.words,
               (unsigned long long)o.events);
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}

int seeds_main(const struct seeds *s, int argc, char **argv)
{
    uint64_t from = 1, n = s->n, seed = 0;
    bool one = false, trace = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0)
            trace = true;
        else if (strcmp(argv[i], "--seeds") == 0 && *value && ++i)
            n = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--from") == 0 && *value && ++i)
            from = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0 && *value && ++i)
            seed = strtoull(value, NULL, 0), one = true;
        else {
            fprintf(stderr, "usage: %s [--seeds N] [--from S] [--seed S [--trace]]\n", argv[0]);
            return 2;
        }
    }
    return one ? run_one(s, seed, trace) : run_seeds(s, from, n);
}
