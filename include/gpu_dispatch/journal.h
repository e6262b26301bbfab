/* SPDX-License-Identifier: MIT
 *
 * Durable runs: a journal on disk records which tasks are done, so that a killed run can be resumed.
 *
 *     struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
 *     jo.path = "run.db";
 *     jo.command = "my-program --model base";      // identifies the work: another command cannot resume it
 *     jo.resume = GD_JOURNAL_RESUME_REST;          // skip tasks that are final
 *     struct gd_journal *j;
 *     if (gd_journal_open(&j, &jo) < 0)
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *     o.journal = j;                               // o: the struct gd_options of one run
 *     gd_run(&o);
 *     if (gd_journal_close(&j) < 0)                // everything is on disk when this returns 0
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *
 * The file is an SQLite database, described in gpu-dispatch-journal(5). On file systems that are not known to be local, it
 * is written without a write-ahead log, so that it is safe on NFS, Lustre and others. Any tool that reads SQLite may read
 * it, even during the run. A task is identified by its key, not by its position in the list. The key is the payload,
 * unless the source sets another one with gd_item_key(). If a list contains the same key twice, these are two tasks.
 *
 * After a task's callback has returned, another thread writes its record. It writes many records at once, in one
 * transaction every window_ms. So after kill -9 only the tasks that ended in the last window_ms are run again. With
 * GD_JOURNAL_SYNC_FULL the same is true after a power loss. Tasks that were cancelled, or for which no worker was left,
 * get no record: they are not final.
 *
 * If the library was built without SQLite, these functions return GD_E_UNSUPPORTED with an error message.
 *
 * Threads: a journal belongs to one run. Call gd_journal_add_note() from callbacks only. A reader is independent of the
 * run.
 */
#ifndef GPU_DISPATCH_JOURNAL_H
#define GPU_DISPATCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>
#include <gpu_dispatch/shard.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Returns true if this library was built with SQLite, so that journals are available. */
bool gd_journal_available(void);

/* --- writing: part of a run ---------------------------------------------- */

struct gd_journal;

enum gd_journal_resume {
    GD_JOURNAL_RESUME_NONE = 0,            /* start a new journal; fails if the file contains records */
    GD_JOURNAL_RESUME_REST = 1,            /* skip every final task, including failed ones; a missing file is created */
    GD_JOURNAL_RESUME_FAILED = 2,          /* run only the tasks that failed */
    GD_JOURNAL_RESUME_REST_AND_FAILED = 3, /* skip only the tasks that succeeded */
};

enum gd_journal_sync {
    GD_JOURNAL_SYNC_NORMAL = 0, /* records survive the end of all processes; a power loss may lose the last seconds */
    /* For each group of records, the files of gd_journal_follow() are forced to the disk, and then the records. The run
     * waits for this. */
    GD_JOURNAL_SYNC_FULL = 1,
};

struct gd_journal_options {
    size_t size; /* sizeof(struct gd_journal_options) */
    const char *path;
    const char *command; /* identifies the work; NULL: not checked */
    enum gd_journal_resume resume;
    bool force; /* resume even if the command differs */
    enum gd_journal_sync sync;
    unsigned window_ms; /* default 100: how long records are collected; if there are many, they are written earlier */
    size_t queue_bytes; /* default 64 MiB: if more bytes of records wait to be written, the run waits for the disk */
    size_t input_bytes; /* default 64 KiB: how much of each task's input is recorded */

    /* The shard whose tasks the journal records (shard.h). The file then has the name of the shard: for run.db and shard
     * 2 of 16, run.3-of-16.db. The shard is recorded, and a run with another one is refused with GD_E_MISMATCH. It is
     * refused too if journals of another count are in the directory. count = 0 (default): the whole list. Then a new
     * journal is refused if journals of shards are in the directory. */
    struct gd_shard shard;

    /* How long to wait if another run uses the journal, before GD_E_BUSY. 0 (default): do not wait. If that run was on
     * another host and may be gone, the wait must be longer than 60 s: a run is given up if it has given no sign of life
     * for so long. */
    unsigned lock_wait_ms;

    /* The paths of other journals: tasks that are done there, with the same version, are skipped, as if this journal had
     * their records. The files are read when this journal is opened, and stay as they are. Each of their records takes 27
     * to 53 bytes of memory, and counts once. Copied. */
    const char *const *skip_done;
    size_t n_skip_done;

    /* Called while gd_journal_open() waits (lock_wait_ms): once with a line for the user that says which run uses the
     * journal, and with message = NULL before each sleep and each time a signal handler has interrupted the sleep.
     * Return 0 to go on. Any other value ends the call with GD_E_INTERRUPTED. NULL: no function. */
    int (*on_wait)(void *user, const char *message);
    void *user;

    /* When this descriptor (an eventfd or a pipe) becomes readable, gd_journal_open() stops waiting and returns
     * GD_E_INTERRUPTED. The descriptor is borrowed and not read. 0: no descriptor. */
    int wait_stop_fd;
};

#define GD_JOURNAL_OPTIONS_INIT                                                                       \
    {                                                                                                 \
        .size = sizeof(struct gd_journal_options), .window_ms = 100, .queue_bytes = (size_t)64 << 20, \
        .input_bytes = (size_t)64 << 10                                                               \
    }

/* Opens or creates the file and locks it: no second run can use it until gd_journal_close(). Copies the options.
 * Returns 0, or GD_E_INVALID, GD_E_SYSTEM, GD_E_BUSY (another run uses the file), GD_E_INTERRUPTED, GD_E_EXISTS (the file contains
 * records and resume is NONE), GD_E_MISMATCH (a different command), GD_E_CORRUPT (not a journal, or damaged),
 * GD_E_VERSION or GD_E_UNSUPPORTED. */
int gd_journal_open(struct gd_journal **out, const struct gd_journal_options *o);

/* Follows a file that callbacks append to. Call it before the run. fd is open for writing and borrowed until
 * gd_journal_close(). The length of the file is recorded with each group of tasks. If the journal already contains this
 * file, this call cuts the file to the recorded length. The bytes that are cut off belong to tasks that will be run
 * again, and their last line may be incomplete. The journal recognises the file by its absolute path, or by its path
 * relative to the directory of the journal.
 *
 * Returns 0 or a negative code. Returns GD_E_MISMATCH, and leaves the file unchanged, in three cases:
 *   - the file is shorter than recorded
 *   - the last 64 KiB before the recorded length have changed; this is checked only if the file can be opened for
 *     reading by its path
 *   - the file is longer than recorded although the last run ended normally
 * With force these cases are not errors: the whole file is kept, and new lines are appended. */
int gd_journal_follow(struct gd_journal *j, const char *path, int fd);

/* Like gd_journal_follow(), but for a file that the program has just rewritten as a whole. The file is neither checked
 * nor cut, and its present length is recorded. May also be called after the run, before gd_journal_close(), if a new
 * file has replaced a followed one. */
int gd_journal_follow_anew(struct gd_journal *j, const char *path, int fd);

/* What a callback adds to the record of its task. Everything is copied. */
struct gd_journal_note {
    size_t size;            /* sizeof(struct gd_journal_note) */
    const char *output;     /* where the output of the task was written; NULL: not known */
    const char *stderr_end; /* the last lines that the task wrote to standard error */
    size_t stderr_size;
    const char *failure; /* the class of the failure; NULL: gd_failure_name() */
    int exit_code;
    int signal;
    const char *input; /* the input in readable form, recorded in full; NULL: the payload */
    size_t input_size;
    bool not_done; /* the result of the task could not be stored: write no record, so that the task is run again */
};
/* Adds a note to the task of the current callback. Call it only within on_success, on_error or on_timeout. */
void gd_journal_add_note(struct gd_journal *j, const struct gd_journal_note *note);

struct gd_journal_counts {
    size_t size;     /* set to sizeof(struct gd_journal_counts) before the call */
    uint64_t run;    /* number of this run in the journal, from 1 */
    uint64_t before; /* records found when the journal was opened; done_before + failed_before */
    uint64_t done_before, failed_before;
    uint64_t skipped;        /* tasks of this run that were final already */
    uint64_t recorded;       /* tasks of this run whose records are on disk */
    uint64_t waiting;        /* tasks of this run whose records are not on disk yet */
    uint64_t skipped_failed; /* how many of `skipped` had failed in an earlier run */
};
/* Fills *out. Returns 0 or a negative code. May be called from any thread. */
int gd_journal_get_counts(struct gd_journal *j, struct gd_journal_counts *out);

/* Writes the remaining records and the outcome of the run. Unlocks and closes the file. Returns 0, or a negative code
 * if records could not be written. The tasks of those records will be run again. Always sets *j to NULL. NULL is
 * allowed. Must not be called during the run. In a process that was forked after the journal was opened, nothing is
 * written, because the parent still uses the journal. */
int gd_journal_close(struct gd_journal **j);

/* --- keys: within the source ----------------------------------------------- */

/* Sets the key and the version of a task. For example, the key is the path of a file, and the version is its size and
 * time. Without this call the key is the payload. If the journal has the key with another version, the task is run
 * again and its record is replaced. With a shard (gd_options.shard), the key also decides which shard runs the task. key
 * and version are copied; version may be NULL. Does nothing if the run has neither a journal nor a shard.
 * Returns 0, or a negative code, which the source must return. */
int gd_item_key(struct gd_item *item, const void *key, size_t key_size, const char *version);

/* --- reading: any journal, even one in use ----------------------------------- */

struct gd_journal_reader;

/* Opens a journal for reading. A journal that was not closed (kill -9) can be read too. The reader then sees the same
 * records that a resumed run would find. Figures are always in range, even if the file is damaged: counts are at most
 * 2^53, and times and durations are finite and not negative. Strings are not checked and may contain anything. */
int gd_journal_reader_open(struct gd_journal_reader **out, const char *path);
void gd_journal_reader_close(struct gd_journal_reader **r);

struct gd_journal_summary {
    size_t size;   /* set before the call */
    uint64_t runs; /* how many runs have used the journal */
    uint64_t done, failed;
    /* of the last run: */
    const char *command; /* like all strings: borrowed until the next call on this reader */
    const char *end;     /* "finished", "interrupted", ...; NULL: still running, or killed */
    bool held;           /* a run is using the journal now; an estimate if it is on another machine */
    uint64_t pid;
    uint64_t total;                 /* 0: not known */
    uint64_t taken, skipped;        /* the values of the last run, from its latest write to the journal */
    uint64_t run_done, run_failed;  /* in the last run alone */
    double started, written, ended; /* Unix time; 0: not yet */
    double busy_seconds;            /* sum over all records */
    uint64_t replaced;              /* how many records of all runs were replaced by later ones */
    struct gd_shard shard;          /* the shard that the journal records; count 0: the whole list */
    const char *host;               /* the machine of the last run; NULL: not known */
    /* If held: seconds since the run's last heartbeat, by the clock of this machine. A run makes heartbeats on file
     * systems that other machines may use, every five seconds. 0: it makes none */
    double quiet_seconds;
};
int gd_journal_reader_summary(struct gd_journal_reader *r, struct gd_journal_summary *out);

struct gd_journal_record {
    uint64_t id;     /* number of the record */
    uint64_t number; /* number of the task in the input of its run, from 0 */
    uint64_t run;
    const unsigned char *key; /* 16 bytes */
    const char *version;
    const char *input; /* may be shortened */
    size_t input_size, input_full_size;
    bool done; /* false: the task failed */
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
    GD_JOURNAL_SLOWEST = 2, /* the slowest tasks first */
};

struct gd_journal_query {
    size_t size;
    bool failed_only;
    const char *failure; /* only records with this class of failure; NULL: all */
    enum gd_journal_order order;
    uint64_t limit; /* the most records to read; 0: no limit */
};

/* Calls fn for each record. fn returns 0 to continue, or any other value to stop. Returns the last value of fn, or a
 * negative code. The record is borrowed until fn returns. */
int gd_journal_reader_each(struct gd_journal_reader *r, const struct gd_journal_query *q,
                           int (*fn)(void *user, const struct gd_journal_record *record), void *user);

/* Calls fn for each class of failure with its number of records, the most frequent class first. */
int gd_journal_reader_failures(struct gd_journal_reader *r, int (*fn)(void *user, const char *failure, uint64_t count),
                               void *user);

/* One run of a journal. */
struct gd_journal_run {
    uint64_t number;     /* from 1; gd_journal_record.run */
    const char *command; /* like all strings: borrowed until the function returns; NULL: not known */
    const char *host;    /* the machine; NULL: not known */
    const char *end;     /* as in gd_journal_summary */
    struct gd_shard shard;
    uint64_t pid, total, taken, skipped, done, failed;
    double started, written, ended; /* Unix time; 0: not yet */
    double busy_seconds;
};

/* Calls fn for each run, in the order of their numbers. fn returns 0 to continue, or any other value to stop. Returns the
 * last value of fn, or a negative code. */
int gd_journal_reader_runs(struct gd_journal_reader *r, int (*fn)(void *user, const struct gd_journal_run *run),
                           void *user);

/* --- several journals as one ------------------------------------------------ */

/* Journals of one list, such as those of its shards. A task may have records in several of them. They are recognised by
 * the key of the task. If a journal has records of several tasks with the same key, the k-th of them belongs to the same
 * task as the k-th in each other journal. Of the records of a task, one is taken: one that is done rather than one that
 * failed, and of these the one that ended first. But if their versions differ, only records with the version of the
 * newest one count, because a resumed run would have replaced the others. */
struct gd_journal_merge_options {
    size_t size;              /* sizeof(struct gd_journal_merge_options) */
    const char *const *paths; /* the journals; they are only read, and may be in use */
    size_t n_paths;
    const char *output; /* the journal to make; NULL: make none, only count */
    bool force;         /* merge even if the journals were made by different commands */
    size_t *unreadable; /* if not NULL, set to the index of the journal that could not be read, or to SIZE_MAX */
};

#define GD_JOURNAL_MERGE_OPTIONS_INIT                    \
    {                                                    \
        .size = sizeof(struct gd_journal_merge_options), \
    }

struct gd_journal_merge_counts {
    size_t size;           /* set before the call */
    uint64_t done, failed; /* tasks in the result */
    uint64_t overlaps;     /* records that were left out, because another record of the same task was taken */
    uint64_t runs;         /* of all journals; 0 if no output was made */
};

/* Makes one journal from several: it has one record for each task, by the order of the tasks in the list, and all runs
 * with their machines and shards. Its last run stands for the merge itself, with the end "merged". A run can resume it.
 * The file appears when it is complete. If this process is killed, there is no file, except one with the name
 * OUTPUT.part, which the next call replaces.
 *
 * out: NULL, or set on success. Returns 0, or GD_E_INVALID (also if output is one of the journals), GD_E_EXISTS (output
 * exists), GD_E_MISMATCH (different commands), GD_E_BUSY (another process makes output), or the codes of
 * gd_journal_reader_open(). */
int gd_journal_merge(const struct gd_journal_merge_options *o, struct gd_journal_merge_counts *out);

/* Opens several journals for reading, as if they had been merged. output must be NULL. Their records are copied to a
 * temporary file, in the directory that SQLite uses for those (TMPDIR). Returns the codes of gd_journal_merge(). */
int gd_journal_reader_open_merged(struct gd_journal_reader **out, const struct gd_journal_merge_options *o);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
