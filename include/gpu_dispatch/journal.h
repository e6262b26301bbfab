/* SPDX-License-Identifier: MIT
 *
 * Durable runs: a journal on disk records what is done, and a run that was killed continues from it.
 *
 *     struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
 *     jo.path = "run.db";
 *     jo.command = "my-program --model base";      // identifies the work: resuming with another one is refused
 *     jo.resume = GD_JOURNAL_RESUME_REST;          // skip what is final
 *     struct gd_journal *j;
 *     if (gd_journal_open(&j, &jo) < 0)
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *     o.journal = j;                               // o: the struct gd_options of one run
 *     gd_run(&o);
 *     if (gd_journal_close(&j) < 0)                // everything is on disk when this returns 0
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *
 * The file is an SQLite database in WAL mode, described in gpu-dispatch-journal(5): any tool that reads SQLite may
 * read it, also while the run goes on. A task is known by its key, not by its place in the list: the payload, or what
 * the source sets with gd_item_key(). The same key twice in a list is two tasks.
 *
 * When a task's callback has returned, its record goes to a thread that writes many at once, one transaction every
 * window_ms. So after kill -9 at most the tasks that ended in the last window are run again; after power loss too, with
 * GD_JOURNAL_SYNC_FULL. Tasks that were cancelled, or for which no worker was left, have no record: they are not final.
 *
 * Without SQLite at build time all of these return GD_E_UNSUPPORTED, and say so.
 *
 * Threads: a journal belongs to one run. gd_journal_add_note() is for callbacks. Readers are independent of all that.
 */
#ifndef GPU_DISPATCH_JOURNAL_H
#define GPU_DISPATCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Whether this library was built with journals. */
bool gd_journal_available(void);

/* --- writing: part of a run ---------------------------------------------- */

struct gd_journal;

enum gd_journal_resume {
    GD_JOURNAL_RESUME_NONE = 0,   /* a new journal: refused if the file holds records */
    GD_JOURNAL_RESUME_REST = 1,   /* skip every task that is final, failed ones too. A missing file is created */
    GD_JOURNAL_RESUME_FAILED = 2, /* run the failed ones, and nothing else */
    GD_JOURNAL_RESUME_REST_AND_FAILED = 3, /* skip only what succeeded */
};

enum gd_journal_sync {
    GD_JOURNAL_SYNC_NORMAL = 0, /* survives the death of every process; power loss may take the last seconds */
    GD_JOURNAL_SYNC_FULL =
        1, /* each group is forced to the disk, with the followed files before it; the run waits for it */
};

struct gd_journal_options {
    size_t size; /* sizeof(struct gd_journal_options) */
    const char *path;
    const char *command; /* what identifies the work; NULL: not checked */
    enum gd_journal_resume resume;
    bool force; /* resume though the command is another */
    enum gd_journal_sync sync;
    unsigned window_ms; /* 100: how long records are gathered before they are written together, if it is not much */
    size_t queue_bytes; /* 64 MiB: records not yet written, beyond which the run waits for the disk */
    size_t input_bytes; /* 64 KiB: of each task's input are kept */
};

#define GD_JOURNAL_OPTIONS_INIT                                                                       \
    {                                                                                                 \
        .size = sizeof(struct gd_journal_options), .window_ms = 100, .queue_bytes = (size_t)64 << 20, \
        .input_bytes = (size_t)64 << 10                                                               \
    }

/* Opens or makes the file, and holds it: a second run on it is refused while this one lasts. All is copied.
 * GD_E_INVALID, GD_E_SYSTEM, GD_E_BUSY (another run holds it), GD_E_EXISTS (it holds records and resume is NONE),
 * GD_E_MISMATCH (another command), GD_E_CORRUPT (no journal, or a damaged one), GD_E_VERSION, GD_E_UNSUPPORTED. */
int gd_journal_open(struct gd_journal **out, const struct gd_journal_options *o);

/* A file that callbacks append to, open for writing at fd (borrowed until close). Its length is recorded with each
 * group of tasks; now, before the run, it is cut back to the recorded length if this journal knows the path, relative
 * to its own directory or absolute: what lies beyond belongs to tasks that will be run again, the last line perhaps
 * torn. GD_E_MISMATCH, with the file as it was: it is shorter; or its last 64 KiB before that length are not what was
 * written (they are read by way of the path, if that is allowed); or it is longer, though the last run came to its end.
 * With force such a file is not cut. Returns 0 or a negative code. */
int gd_journal_follow(struct gd_journal *j, const char *path, int fd);

/* The same for a file that was written anew and is whole as it is, though it may be shorter than the journal knows.
 * After the run too (before close), for a file that was followed: the new one has taken its place. */
int gd_journal_follow_anew(struct gd_journal *j, const char *path, int fd);

/* What a callback knows of the task that it was called for, beyond the report. All copied. */
struct gd_journal_note {
    size_t size;            /* sizeof(struct gd_journal_note) */
    const char *output;     /* where its output went; NULL: not said */
    const char *stderr_end; /* the last lines it wrote to standard error */
    size_t stderr_size;
    const char *failure; /* the class of its failure where that is not gd_failure_name()'s; NULL: that */
    int exit_code;
    int signal;
    const char
        *input; /* how it is to be shown, where the payload is nothing for people; NULL: the payload. Kept whole */
    size_t input_size;
    bool not_done; /* what it gave could not be kept: no record, it will be run again */
};
/* Within on_success, on_error or on_timeout only. */
void gd_journal_add_note(struct gd_journal *j, const struct gd_journal_note *note);

struct gd_journal_counts {
    size_t size;     /* set to sizeof(struct gd_journal_counts) before the call */
    uint64_t run;    /* number of this run in the journal, from 1 */
    uint64_t before; /* records found when it was opened: */
    uint64_t done_before, failed_before;
    uint64_t skipped;        /* tasks of this run that were final already */
    uint64_t recorded;       /* tasks of this run whose records are on disk */
    uint64_t waiting;        /* and not yet */
    uint64_t skipped_failed; /* of those skipped, the ones that had failed */
};
/* Any thread. */
int gd_journal_get_counts(struct gd_journal *j, struct gd_journal_counts *out);

/* Writes what is left, notes how the run ended, and lets go of the file. 0, or a negative code if records could not be
 * written: those tasks will be run again. Sets *j to NULL in any case. NULL is fine. Not while the run goes on. In a
 * process that was forked since it was opened nothing is done: the journal is the other's. */
int gd_journal_close(struct gd_journal **j);

/* --- keys: within the source ----------------------------------------------- */

/* What identifies the task, where that is not its payload; and its version: a task whose key is known with another
 * version is run again and its record replaced (a file's path; its size and time). Both copied; version may be NULL.
 * Without a journal this does nothing. 0, or a negative code to be returned. */
int gd_item_key(struct gd_item *item, const void *key, size_t key_size, const char *version);

/* --- reading: any journal, also one in use ----------------------------------- */

struct gd_journal_reader;

/* Read-only. One that nobody closed (kill -9) is read as it would be resumed. Figures are within their range whatever
 * the file holds: counts up to 2^53, times and durations finite and not negative. Texts are as they are in the file:
 * they may hold anything. */
int gd_journal_reader_open(struct gd_journal_reader **out, const char *path);
void gd_journal_reader_close(struct gd_journal_reader **r);

struct gd_journal_summary {
    size_t size;   /* set before the call */
    uint64_t runs; /* how often it was begun */
    uint64_t done, failed;
    /* of the last run: */
    const char *command; /* borrowed until the reader is closed or asked again, as are all strings */
    const char *end;     /* "finished", "interrupted", ...; NULL: it runs, or was killed */
    bool held;           /* a run holds it now */
    uint64_t pid;
    uint64_t total;                 /* 0: not known */
    uint64_t taken, skipped;        /* as of its last write */
    uint64_t run_done, run_failed;  /* in the last run alone */
    double started, written, ended; /* Unix time; 0: not yet */
    double busy_seconds;            /* sum over all records */
    uint64_t replaced;              /* records, of all runs, whose place a later one has taken */
};
int gd_journal_reader_summary(struct gd_journal_reader *r, struct gd_journal_summary *out);

struct gd_journal_record {
    uint64_t id;     /* of the record */
    uint64_t number; /* of the task in its run's input, from 0 */
    uint64_t run;
    const unsigned char *key; /* 16 bytes */
    const char *version;
    const char *input; /* perhaps shortened: */
    size_t input_size, input_full_size;
    bool done; /* else it failed */
    unsigned attempts;
    const char *failure; /* "error", "timeout", ...; NULL if done */
    const char *error;
    const char *stderr_end;
    size_t stderr_size;
    int exit_code, signal;
    int worker_id, gpu_id; /* -1: none */
    double started;        /* Unix time of the last attempt; 0: never */
    double seconds;
    const char *output;
};

enum gd_journal_order {
    GD_JOURNAL_BY_ID = 0,
    GD_JOURNAL_BY_START = 1,
    GD_JOURNAL_SLOWEST = 2, /* first */
};

struct gd_journal_query {
    size_t size;
    bool failed_only;
    const char *failure; /* of this class only; NULL: all */
    enum gd_journal_order order;
    uint64_t limit; /* 0: none */
};

/* Calls fn for each record; it returns 0 to go on, anything else to end. Returns what it ended with, or a negative
 * code. The record is borrowed until fn returns. */
int gd_journal_reader_each(struct gd_journal_reader *r, const struct gd_journal_query *q,
                           int (*fn)(void *user, const struct gd_journal_record *record), void *user);

/* Calls fn for each class of failure there is, with how many there are, most first. */
int gd_journal_reader_failures(struct gd_journal_reader *r, int (*fn)(void *user, const char *failure, uint64_t count),
                               void *user);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
