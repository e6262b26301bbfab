/* Runs the simulator over many seeds.
 *
 *   ./test_sim                        10,000 seeds
 *   ./test_sim --seeds N [--from S]   N seeds, from S on
 *   ./test_sim --seed 0x... [--trace] one seed, with all that happens in it
 *
 * Seeds are shared among one child process per core. A child that dies (a crash in the scheduler, or a seed that does
 * not end) has failed the seed it was at; another goes on with the next one. The last line is `N passed, N failed`.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { SEEDS = 10000, SEED_LIMIT_S = 60, MAX_JOBS = 64, SHOWN = 20 };

struct job {
    pid_t pid;
    uint64_t seed; /* the one it is at */
    volatile uint64_t event;
};

struct board { /* shared by all children */
    _Atomic uint64_t next, end, passed, failed;
    struct job jobs[MAX_JOBS];
};

static void report(struct board *b, uint64_t seed, uint64_t event, const char *words)
{
    if (atomic_fetch_add(&b->failed, 1) < SHOWN)
        printf("sim: seed 0x%llx failed: %s at event %llu\n", (unsigned long long)seed, words,
               (unsigned long long)event);
    fflush(stdout);
}

/* Neighbouring numbers must not give alike plans, and a failure is known by what is printed: so the number is the
 * seed, and sim_mix() does the rest. */
static void work(struct board *b, struct job *job)
{
    static struct sim sim;
    for (;;) {
        const uint64_t seed = atomic_fetch_add(&b->next, 1);
        if (seed >= atomic_load(&b->end))
            return;
        job->seed = seed;
        job->event = 0;
        alarm(SEED_LIMIT_S);
        if (sim_run(&sim, seed, false, &job->event) == 0)
            atomic_fetch_add(&b->passed, 1);
        else
            report(b, seed, sim.handled, sim.words);
    }
}

static int start_job(struct board *b, struct job *job)
{
    fflush(stdout);
    job->pid = fork();
    if (job->pid < 0) {
        perror("fork");
        return -1;
    }
    if (job->pid == 0) {
        work(b, job);
        fflush(stdout);
        exit(0); /* leak checkers run at exit */
    }
    return 0;
}

static void bury_job(struct board *b, struct job *job, int status)
{
    char words[100];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        job->pid = 0;
        return;
    }
    if (WIFSIGNALED(status))
        snprintf(words, sizeof words, "%s", WTERMSIG(status) == SIGALRM ? "no end" : strsignal(WTERMSIG(status)));
    else
        snprintf(words, sizeof words, "exit code %d", WEXITSTATUS(status));
    report(b, job->seed, job->event, words);
    if (start_job(b, job) < 0)
        job->pid = 0;
}

static int run_seeds(uint64_t from, uint64_t n)
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
        if (start_job(b, &b->jobs[i]) < 0)
            return 1;
    int status;
    for (pid_t pid; (pid = wait(&status)) > 0 || errno == EINTR;)
        for (int i = 0; i < n_jobs; i++)
            if (pid > 0 && b->jobs[i].pid == pid)
                bury_job(b, &b->jobs[i], status);
    const uint64_t passed = atomic_load(&b->passed), failed = n - passed;
    printf("# %llu seeds passed\n", (unsigned long long)passed); /* together they count as one test */
    printf("%d passed, %llu failed\n", failed == 0, (unsigned long long)failed);
    munmap(b, sizeof *b);
    return failed > 0;
}

static int run_one(uint64_t seed, bool trace)
{
    static struct sim sim;
    const int failed = sim_run(&sim, seed, trace, NULL);
    if (failed)
        printf("sim: seed 0x%llx failed: %s at event %llu\n", (unsigned long long)seed, sim.words,
               (unsigned long long)sim.handled);
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, n = SEEDS, seed = 0;
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
    return one ? run_one(seed, trace) : run_seeds(from, n);
}
