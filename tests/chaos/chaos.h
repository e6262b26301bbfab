/* SPDX-License-Identifier: MIT
 *
 * Chaos tests of the command: random jobs get random signals and are resumed until they are done. Then a checker
 * compares the results with the expected ones. The files:
 *
 *   task.c     the tasks, as commands and as a stream program; workers start this test program to run them
 *   plan.c     makes a job and its signals from a seed
 *   storm.c    one run: starts it, waits for the moments of the signals, sends them, waits until no process is left
 *   history.c  reads what the tasks themselves have logged
 *   check.c    the conditions that must hold after each run and at the end
 *   printed.c  the same for the standard output of a run
 *
 * Each job has its own directory:
 *
 *   in               one input a line: "quick0", "fails1", ... (the kind of a task, and its number)
 *   log              three lines for each attempt: "try quick0 4711", then "start ...", then "end ..."
 *   gate             a FIFO; tasks of kind "long" wait until it is open for writing
 *   kept/            journal, --output, --joblog, --results
 *   stdout.N stderr.N    the output of the Nth run
 */
#ifndef GD_TESTS_CHAOS_H
#define GD_TESTS_CHAOS_H

#include "crash/common.h"

#define JOURNAL "kept/run.db"
#define OUTPUT  "kept/out.jsonl"
#define JOBLOG  "kept/joblog"
#define RESULTS "kept/results"
#define FAILED  "kept/run.failed.jsonl"

/* --- what tasks do ------------------------------------------------------------------ */

enum kind { QUICK, SLOW, NOISY, LONG, SESSION, CATCHES, FAILS, FAILS_ONCE, CRASHES, HANGS, N_KINDS };
enum { INPUT_MAX = 32, TEXT_MAX = 400000, FAILS_WITH = 3 };

extern const char *const kind_names[N_KINDS];

struct text {
    size_t size;
    char bytes[TEXT_MAX];
};

/* Splits "quick12" into its kind and number. False: not an input. */
bool input_read(const char *text, size_t size, enum kind *kind, unsigned *number);

/* The standard output and standard error of a task with this input, if it runs as a command. */
void expected_stdout(struct text *t, enum kind kind, unsigned number);
void expected_stderr(struct text *t, enum kind kind, unsigned number);

/* The JSON text of its answer, if it runs in a stream program. */
void expected_answer(struct text *t, enum kind kind, unsigned number);

/* If the arguments are "task" and INPUT, runs as a command. If the argument is "stream", runs as a stream program. Does
 * not return in these two cases. */
void become_task(int argc, char **argv);

/* --- a job, from a seed -------------------------------------------------------------- */

enum aim { ANY_PROCESS, A_WORKER, A_COMMAND, EVERYTHING, THE_DISPATCHER, N_AIMS };

struct step {
    bool by_output; /* the moment is counted in lines of --output; if false, in lines of the log */
    unsigned lines; /* how many more lines than at the step before */
    enum aim aim;   /* the processes that get the signal */
    int signal;
    bool twice;        /* send it again after the command has confirmed the first one */
    unsigned on_after; /* after a stop: send SIGCONT this many lines later */
    bool across;       /* or send SIGCONT only after the next step, so that the next step hits stopped processes */
    bool open_gate;    /* open the gate before waiting for the moment */
};

enum { MOST_RUNS = 12, MOST_STEPS = 8 };

struct plan {
    uint64_t seed;
    bool stream, keep_order, tag, output, joblog, results, full_sync;
    unsigned n, gpus, per_gpu, tries, crash_limit, window_ms, timeout_ms;
    enum kind *kinds;  /* n */
    unsigned n_storms; /* runs that are disturbed */
    unsigned n_steps[MOST_RUNS];
    struct step steps[MOST_RUNS][MOST_STEPS];
};

/* The kinds of tasks and options of a job. */
struct theme {
    const char *name;
    bool stream;
    unsigned most_tasks, timeout_ms;
    unsigned weights[N_KINDS];
};
extern const struct theme theme_commands, theme_streams, theme_timeouts;

/* scale: 1 for a small job, more for larger jobs with more runs. */
void plan_make(struct plan *p, const struct theme *theme, uint64_t seed, unsigned scale);
void plan_free(struct plan *p);
void plan_print(const struct plan *p);

/* Whether a signal stops a process until SIGCONT comes. Others end a process that does not catch them. */
bool signal_stops(int signal);

/* --- what the tasks have logged ---------------------------------------------------------- */

struct history {
    unsigned n;
    unsigned *tries, *starts; /* by task */
    uint64_t lines;
    char overlap[200]; /* describes the first attempt that logged a line after the next attempt had begun; or "" */
};

void history_read(struct history *h, unsigned n);
void history_free(struct history *h);
uint64_t count_lines(const char *path);

/* --- one run -------------------------------------------------------------------------------- */

/* The signals that hit the tasks of a run. */
struct harm {
    unsigned *hits;   /* by task: signals that ended its command */
    unsigned unknown; /* signals to commands whose task is unknown: they may have hit any task */
    unsigned lethal;  /* signals of all kinds that end a process */
    unsigned sent;    /* all signals */
};

struct outcome {
    int status;  /* exit code, or 128 + signal */
    bool killed; /* the command was killed by a signal */
    struct harm harm;
};

/* Starts the nth run (from 1), disturbs it with these steps, and returns when no process of the run is left. */
void storm_run(const struct plan *p, unsigned nth, const struct step *steps, unsigned n_steps, struct outcome *out);

/* Whether a line of the standard error of the nth run contains this text. */
bool storm_printed(unsigned nth, const char *text);

/* The end of the standard error of the nth run. */
const char *storm_last_output(unsigned nth);

/* --- the checker ------------------------------------------------------------------------------ */

struct checker {
    const struct plan *p;
    unsigned runs;
    bool done;        /* the last run reported that the job is done */
    unsigned *starts; /* by task, as of the last run */
    unsigned *worst;  /* by task: the most hits in one run */
    unsigned worst_unknown, lethal;
    uint64_t *committed;   /* by task: the run that finished it, as numbered in the journal; 0: no run yet */
    unsigned *finished_in; /* the same, as numbered by this test; a run that is killed early is not in the journal */
    bool ended_well[MOST_RUNS + 3]; /* by run: it ended by itself, perhaps early */
};

void checker_open(struct checker *c, const struct plan *p);
void checker_close(struct checker *c);

/* Called after each run. */
void check_run(struct checker *c, const struct outcome *o);

/* Called when the job is done. status: the exit status of the last run. */
void check_end(struct checker *c, int status);

/* Checks the standard output of the nth run. finished: by task, whether that run finished it. Returns NULL, or an error
 * message. */
const char *check_printed(const struct plan *p, unsigned nth, const bool *finished);

#endif
