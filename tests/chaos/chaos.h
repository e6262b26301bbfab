/* SPDX-License-Identifier: MIT
 *
 * Chaos of the command: random jobs get random signals and are resumed until they are done. Then a checker compares
 * everything with what must be there. The files:
 *
 *   task.c     what the tasks do, as commands and as a stream program: this program itself, started by the workers
 *   plan.c     a job and its signals, from a seed
 *   storm.c    one run: starts it, waits for moments, sends signals, sees every process end
 *   history.c  what the tasks themselves have logged
 *   check.c    what must be true after each run and at the end
 *   printed.c  the same for what a run wrote to standard output
 *
 * A job is in a directory of its own:
 *
 *   in               one input a line: "quick0", "fails1", ... (the kind of a task, and its number)
 *   log              a line for each thing that a task did: "try quick0 4711", then "start ...", then "end ..."
 *   gate             a FIFO; tasks of kind "long" wait until it is open for writing
 *   kept/            journal, --output, --joblog, --results
 *   stdout.N stderr.N    of the Nth run
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

/* What a task of that input prints on standard output and on standard error, as a command. */
void expected_stdout(struct text *t, enum kind kind, unsigned number);
void expected_stderr(struct text *t, enum kind kind, unsigned number);

/* The JSON text that it answers, as a stream program. */
void expected_answer(struct text *t, enum kind kind, unsigned number);

/* The program as a command (words: "task", INPUT) or as a stream program ("stream"): does not return then. */
void become_task(int argc, char **argv);

/* --- a job, from a seed -------------------------------------------------------------- */

enum aim { ANY_PROCESS, A_WORKER, A_COMMAND, EVERYTHING, THE_DISPATCHER, N_AIMS };

struct step {
    bool by_output; /* the moment is counted in lines of --output, otherwise of the log */
    unsigned lines; /* how many more lines than at the step before */
    enum aim aim;   /* the processes that get the signal */
    int signal;
    bool twice;        /* send it once more when the first was confirmed */
    unsigned on_after; /* after a stop: SIGCONT this many lines later */
    bool across;       /* or SIGCONT after the next step, which then comes while the processes are stopped */
    bool open_gate;    /* before waiting for the moment */
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

/* What a job is made of. */
struct theme {
    const char *name;
    bool stream;
    unsigned most_tasks, timeout_ms;
    unsigned weights[N_KINDS];
};
extern const struct theme theme_commands, theme_streams, theme_timeouts;

/* scale: 1 in small, more for larger jobs with more runs. */
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
    char overlap[200]; /* describes the first attempt that did something after the next had begun; or "" */
};

void history_read(struct history *h, unsigned n);
void history_free(struct history *h);
uint64_t count_lines(const char *path);

/* --- one run -------------------------------------------------------------------------------- */

/* What was done to the tasks of a run. */
struct harm {
    unsigned *hits;   /* by task: signals that ended its command */
    unsigned unknown; /* signals at commands that can't be told apart: they may have hit any task */
    unsigned lethal;  /* signals, of all kinds, that end something */
    unsigned sent;    /* signals */
};

struct outcome {
    int status;  /* exit code, or 128 + signal */
    bool killed; /* the latter */
    struct harm harm;
};

/* Starts the nth run (from 1), disturbs it by those steps, and returns when no process of it is left. */
void storm_run(const struct plan *p, unsigned nth, const struct step *steps, unsigned n_steps, struct outcome *out);

/* Whether a line that the nth run wrote to standard error contains this text. */
bool storm_said(unsigned nth, const char *words);

/* The end of what the nth run wrote to standard error. */
const char *storm_words(unsigned nth);

/* --- the checker ------------------------------------------------------------------------------ */

struct checker {
    const struct plan *p;
    unsigned runs;
    bool done;        /* the last run reported it */
    unsigned *starts; /* by task, as of the last run */
    unsigned *worst;  /* by task: the most hits in one run */
    unsigned worst_unknown, lethal;
    uint64_t *committed;   /* by task: number of the run that finished it, as the journal counts; 0: none has */
    unsigned *finished_in; /* the same as we count: a run that is killed early is not in the journal */
    bool ended_well[MOST_RUNS + 3]; /* by run: it ended by itself, however early */
};

void checker_open(struct checker *c, const struct plan *p);
void checker_close(struct checker *c);

/* After each run. */
void check_run(struct checker *c, const struct outcome *o);

/* When the job is done. status: of the last run. */
void check_end(struct checker *c, int status);

/* What the nth run wrote to standard output. finished: by task, whether that run finished it. Returns NULL, or in words
 * what is wrong. */
const char *check_printed(const struct plan *p, unsigned nth, const bool *finished);

#endif
