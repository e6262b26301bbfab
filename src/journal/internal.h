/* A journal that is written to: what its files share.
 *
 *   journal.c  opening and closing, the run's and the feeder's calls
 *   follow.c   files whose length is recorded
 *   note.c     what callbacks add to a record
 *   record.c   a record as it waits in memory
 *   group.c    a piece of a group of them as a table
 *   store.c    the transaction that writes a group of them
 *   writer.c   the thread that does so
 */
#ifndef GD_JOURNAL_INTERNAL_H
#define GD_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "journal/db.h"
#include "journal/journal.h"
#include "journal/lock.h"
#include "journal/resume.h"

/* Bytes that grow; a failed append leaves them as they were. */
struct gd__bytes_buffer {
    char *bytes;
    size_t used, room;
};
/* Room for so many more, or NULL; what is written there counts after `used` was raised. */
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
    size_t size; /* with its strings, a multiple of 8 */
    uint64_t id, number, start_ns, duration_ns, input_size;
    uint32_t attempts, before_attempts;
    int32_t worker, gpu, exit_code, signal;
    uint8_t state, replaces;
    unsigned char key[GD__HASH_SIZE];
    uint32_t length[GD__TEXTS]; /* GD__NO_TEXT: NULL */
};

struct gd__note_kept {
    bool set;
    struct gd_journal_note note; /* pointers into text */
    struct gd__bytes_buffer text;
};

struct gd__follow {
    char *path;   /* absolute */
    char *beside; /* from the journal's directory; NULL: there is no such path */
    int fd;
    int reader;          /* the same file, to be read; -1: it cannot be */
    unsigned char *room; /* for what is read of it */
    int sync_errno;      /* of forcing it to the disk; 0: that went well so far */
    uint64_t size;       /* after the last callback */
    uint64_t size_then;  /* when the group that is being written was taken */
    uint64_t size_kept;  /* in the journal */
};

/* Figures of the run row. */
struct gd__figures {
    uint64_t done, failed, all_done, all_failed;
    double busy;
};

struct gd_journal {
    struct gd_journal_options o; /* path and command are ours */
    char *path, *command;
    pid_t pid; /* whose it is */
    struct gd__journal_lock hold;
    sqlite3 *db; /* the writer's, while there is one */
    sqlite3_stmt *insert, *update_run, *put_file;
    uint64_t run, before_done, before_failed;
    struct gd__figures figures; /* as they are on disk; the writer's */
    int64_t page_size;          /* of the database */
    uint64_t wal_tried;         /* bytes of the log when emptying it was last tried */
    size_t piece, piece_end;    /* of `writing`: what the table shows */

    /* the feeder's */
    struct gd__resume *resume; /* NULL: every task is new */
    uint64_t next_id;
    atomic_bool interrupted;
    _Atomic uint64_t taken, skipped, skipped_failed;

    /* the run's; the note is that of the thread that calls gd__journal_put() */
    struct gd__note_kept note;
    struct gd__follow *files;
    size_t n_files;
    bool files_may_grow; /* after the end too */

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t work;  /* for the writer */
    pthread_cond_t moved; /* something was written, or never will be */
    pthread_t thread;
    bool started; /* there is a writer */
    bool begun;   /* a run was */
    bool flush;   /* write now */
    bool closing;
    bool row_stale; /* figures of the run are to be written though there is no record */
    bool busy_now;  /* the writer is at it */
    struct gd__bytes_buffer gathered, writing;
    uint64_t n_gathered, n_writing, n_written;
    uint64_t gathered_since;
    struct gd__journal_run told;
    const char *how; /* the run ended; NULL: not yet */
    double ended;
    const char *how_then; /* when the group that is being written was taken */
    uint64_t n_lost;      /* records that there was no memory for */
    int error;            /* 0: all is well; else nothing is written any more, */
    char words[1024];
};

/* record.c: appends; GD_E_NO_MEMORY. */
int gd__record_append(struct gd__bytes_buffer *b, const struct gd_journal *j, const struct gd__journal_task *t,
                      const struct gd_report *r);
const char *gd__record_text(const struct gd__record *r, enum gd__text which); /* where it lies */
const struct gd__record *gd__record_at(const struct gd__bytes_buffer *b, size_t at);

/* note.c */
void gd__note_clear(struct gd__note_kept *n);

/* follow.c */
void gd__follow_measure(struct gd_journal *j);
int gd__follow_sync(struct gd_journal *j); /* forces them to the disk */
void gd__follow_end(struct gd_journal *j); /* all is written: nothing more is added to them */
/* What the file is known by: the hash of its last bytes before this length. False: they cannot be read. */
bool gd__follow_tail(const struct gd__follow *f, uint64_t size, unsigned char out[GD__HASH_SIZE]);
void gd__follow_close(struct gd_journal *j);

/* group.c */
#define GD__TASK_COLUMNS                                                                                 \
    "id, key, version, state, attempts, number, run, started, seconds, worker, gpu, exit_code, signal, " \
    "failure, input_size, input, output, error, stderr"
#define GD__GATHERED "gd__gathered"        /* as no table of the file is called */
int gd__group_offer(struct gd_journal *j); /* a result of SQLite's; from there on the connection has it */
bool gd__group_is_text(const char *bytes, size_t size);

/* store.c */
int gd__store_open(struct gd_journal *j);
void gd__store_close(struct gd_journal *j);
/* Writes the group in j->writing and the figures in one transaction. 0, or negative with words. */
int gd__store_group(struct gd_journal *j);
int gd__store_file(struct gd_journal *j, struct gd__follow *f); /* its present length, before the run */
int gd__store_begin_run(struct gd_journal *j);
void gd__store_forget_run(struct gd_journal *j);

/* writer.c */
int gd__writer_start(struct gd_journal *j);
void gd__writer_stop(struct gd_journal *j);         /* after it has tried to write all */
size_t gd__writer_much(const struct gd_journal *j); /* bytes that are written though the window is not over */
void gd__writer_fail(struct gd_journal *j);         /* with the thread's error text; under the lock */
double gd__wall_clock(void);

#endif
