/* A journal that is written to: the declarations that these files share.
 *
 *   journal.c        opening and closing, the run's and the feeder's calls
 *   follow.c         files whose length is recorded
 *   renew.c          such a file, if the last run may still append to it
 *   renew_database.c the database, if the last run may still write to it
 *   identity.c       the shard that the journal belongs to
 *   mode.c           write-ahead log or rollback journal
 *   write/note.c     what callbacks add to a record
 *   write/record.c   a record as it waits in memory
 *   write/group.c    a group of records as a virtual table of SQLite
 *   write/store.c    the transaction that writes a group
 *   write/writer.c   the thread that writes
 */
#ifndef GD_JOURNAL_INTERNAL_H
#define GD_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "journal/db.h"
#include "journal/journal.h"
#include "journal/lock/lock.h"
#include "journal/lookup/done.h"
#include "journal/lookup/resume.h"

/* A growing buffer. If it cannot grow, it stays as it was. */
struct gd__bytes_buffer {
    char *bytes;
    size_t used, room;
};
/* Returns room for size more bytes, or NULL. The caller writes them and then raises `used`. */
char *gd__buffer_room(struct gd__bytes_buffer *b, size_t size);

/* The strings of a record, in the order in which they follow it. */
enum gd__text {
    GD__TEXT_VERSION,
    GD__TEXT_INPUT,
    GD__TEXT_OUTPUT,
    GD__TEXT_FAILURE,
    GD__TEXT_ERROR,
    GD__TEXT_STDERR,
    GD__TEXTS
};
#define GD__NO_TEXT UINT32_MAX

struct gd__record {
    size_t size; /* including its strings; a multiple of 8 */
    uint64_t id, number, start_ns, duration_ns, input_size;
    uint32_t attempts;
    int32_t worker, gpu, exit_code, signal;
    uint8_t state, replaces;
    unsigned char key[GD__HASH_SIZE];
    uint32_t length[GD__TEXTS]; /* GD__NO_TEXT: NULL */
};

struct gd__note_kept {
    bool set;
    struct gd_journal_note note; /* its pointers point into text */
    struct gd__bytes_buffer text;
};

struct gd__follow {
    char *path;   /* absolute */
    char *beside; /* relative to the journal's directory; NULL: no such path */
    int fd;
    int reader;          /* the same file, opened for reading; -1: it could not be opened */
    unsigned char *room; /* buffer for reading it */
    int sync_errno;      /* errno of a failed sync; 0: none failed */
    uint64_t size;       /* after the last callback */
    uint64_t size_then;  /* when the group being written was taken */
    uint64_t size_kept;  /* as recorded in the journal */
};

/* Figures of the run row. */
struct gd__figures {
    uint64_t done, failed, all_done, all_failed;
    double busy;
};

struct gd_journal {
    struct gd_journal_options o; /* path, command and skip_done are copies */
    char *path, *command;
    char **skip_done;
    pid_t pid; /* the process that opened it */
    struct gd__journal_lock hold;
    sqlite3 *db; /* used by the writer's thread while it runs */
    sqlite3_stmt *insert, *update_run, *put_file, *check_run;
    uint64_t run, before_done, before_failed;
    struct gd__figures figures; /* as they are on disk; for the writer only */
    bool rollback;              /* the file has a rollback journal: mode.h */
    int64_t page_size;          /* of the database */
    uint64_t wal_tried;         /* size of the write-ahead log when emptying it was last tried */
    size_t piece, piece_end;    /* the part of `writing` that is in the virtual table */

    /* used by the feeder's thread */
    struct gd__resume *resume; /* NULL: every task is new */
    struct gd__done *done;     /* in other journals; NULL: none were given */
    uint64_t next_id;
    atomic_bool interrupted;
    _Atomic uint64_t taken, skipped, skipped_failed;

    /* used by the run's thread; the note by the thread that calls gd__journal_put() */
    struct gd__note_kept note;
    struct gd__follow *files;
    size_t n_files;
    bool files_may_grow; /* the followed files may grow even after the end of the run */

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t work;  /* wakes the writer */
    pthread_cond_t moved; /* something was written, or writing has failed for good */
    pthread_t thread;
    bool started; /* the writer's thread runs */
    bool begun;   /* a run has begun */
    bool flush;   /* write now */
    bool closing;
    bool row_stale; /* the run row must be written even if there is no record */
    bool busy_now;  /* the writer is writing */
    struct gd__bytes_buffer gathered, writing;
    uint64_t n_gathered, n_writing, n_written;
    uint64_t gathered_since;
    struct gd__journal_run told;
    const char *how; /* how the run ended; NULL: not yet */
    double ended;
    const char *how_then; /* `how` when the group being written was taken */
    uint64_t n_lost;      /* records lost because memory ran out */
    int error;            /* 0, or the code of a failure; nothing is written after it */
    char message[1024];
};

/* write/record.c: appends a record. Returns 0 or GD_E_NO_MEMORY. */
int gd__record_append(struct gd__bytes_buffer *b, const struct gd_journal *j, const struct gd__journal_task *t,
                      const struct gd_report *r);
const char *gd__record_text(const struct gd__record *r, enum gd__text which);
const struct gd__record *gd__record_at(const struct gd__bytes_buffer *b, size_t at);

/* write/note.c */
void gd__note_clear(struct gd__note_kept *n);

/* follow.c */
void gd__follow_measure(struct gd_journal *j);
int gd__follow_sync(struct gd_journal *j); /* flushes the files to disk */
/* renew.c: puts a copy of the first bytes of the file in its place. The run that was given up has the old one. */
int gd__follow_renew(struct gd__follow *f, uint64_t size);
int gd__follow_mark(struct gd_journal *j); /* every file must be renewed; within a transaction */
int gd__database_renew(
    const struct gd_journal *j);           /* renew_database.c: the same for the database, before it is opened */
void gd__follow_end(struct gd_journal *j); /* called when the files do not grow any more: stores that */
/* Computes the hash of the last bytes of the file before this length. A resumed run checks it. Returns false if they
 * cannot be read. */
bool gd__follow_tail(const struct gd__follow *f, uint64_t size, unsigned char out[GD__HASH_SIZE]);
void gd__follow_close(struct gd_journal *j);

/* write/group.c */
#define GD__TASK_COLUMNS                                                                                 \
    "id, key, version, state, attempts, number, run, started, seconds, worker, gpu, exit_code, signal, " \
    "failure, input_size, input, output, error, stderr"
#define GD__GATHERED "gd__gathered"        /* not the name of a table in the file */
int gd__group_offer(struct gd_journal *j); /* registers the table; returns a result code of SQLite */
bool gd__group_is_text(const char *bytes, size_t size);

/* write/store.c
 *
 * Every change is made between gd__store_begin() and gd__store_end(). The first one fails if another run has taken the
 * journal over. The second one commits, or rolls back if rc < 0. Returns rc, or the code of a failed commit. */
int gd__store_begin(struct gd_journal *j);
int gd__store_end(struct gd_journal *j, int rc);
int gd__store_open(struct gd_journal *j);
void gd__store_close(struct gd_journal *j);
/* Writes the group in j->writing and the figures in one transaction. Returns 0 or a negative code. */
int gd__store_group(struct gd_journal *j);
int gd__store_file(struct gd_journal *j, struct gd__follow *f); /* records its present length, before the run */
/* Sets whether the last run may still exist, on another host. */
int gd__store_find_remaining(struct gd_journal *j, bool *remains);
int gd__store_begin_run(struct gd_journal *j); /* the caller has begun a transaction */
void gd__store_forget_run(struct gd_journal *j);

/* write/writer.c */
int gd__writer_start(struct gd_journal *j);
void gd__writer_stop(struct gd_journal *j);         /* tries to write everything first */
size_t gd__writer_much(const struct gd_journal *j); /* this many bytes are written without waiting for the window */
void gd__writer_fail(struct gd_journal *j);         /* uses gd_error_text(); the caller holds the lock */
double gd__wall_clock(void);

#endif
