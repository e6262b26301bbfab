/* SPDX-License-Identifier: MIT
 *
 * A run and its journal.
 *
 * What identifies a task is chosen with --key: cli/input/task_key.h. The kind of key is part of what identifies the work,
 * because with another kind of key no task would be recognised.
 */
#include "cli/run/journal/run_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/replace.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "base/text/parse.h"
#include "binding.h"
#include "cli/input/task_key.h"
#include "cli/output/files/failure_record.h"
#include "cli/run/journal/final_files.h"
#include "cli/run/stop/free_wait.h"
#include "cli/say.h"

struct cli_journal {
    const struct cli_run *asked;
    struct gd_journal *journal;
    struct gd_journal_counts counts; /* at the end of the run */
    char *failed_path;
    bool taken_over;                   /* another run has the journal now, and makes the list of failures */
    int tidied;                        /* descriptor of --output after it was rewritten; -1: it was not rewritten */
    struct gd_journal_summary summary; /* at the end of the run; its pointers are no longer valid */
    struct cli_task_key key;           /* used by the source's thread */
    /* Used by the run's thread: */
    struct gd__buffer input;
};

/* --- what identifies the work ---------------------------------------------------- */

static const char *key_of(const struct cli_run *r)
{
    return cli_task_key_name(r->key, r->input_dir || r->watch);
}

void cli_journal_identity(struct gd__buffer *b, const struct cli_run *r)
{
    if (r->own.identity) {
        gd__buffer_text(b, r->own.identity);
        return;
    }
    gd__buffer_text(b, r->stream ? "--stream" : r->worker ? "--worker" : r->quote ? "-q --" : "--");
    for (size_t i = 0; i < r->n_words; i++) {
        gd__buffer_text(b, " ");
        gd__buffer_shell_word(b, r->words[i]);
    }
    if (r->setup_args) {
        gd__buffer_text(b, " --setup-args ");
        gd__buffer_shell_word(b, r->setup_args);
    }
    /* With --jsonl a stream program gets a different input for the same line. A command gets the same input either way.
     */
    if (r->stream && r->jsonl)
        gd__buffer_text(b, " --jsonl");
    if (strcmp(key_of(r), "input") != 0) {
        gd__buffer_text(b, " --key ");
        gd__buffer_shell_word(b, key_of(r));
    }
}

/* --- opening ---------------------------------------------------------------------- */

/* "run.db" has "run.failed.jsonl". */
static char *failed_beside(const char *journal)
{
    const char *base = strrchr(journal, '/'), *dot = strrchr(base ? base : journal, '.');
    const bool has_end = dot && dot > (base ? base + 1 : journal);
    char *path = NULL;
    int stem = (int)(has_end ? (size_t)(dot - journal) : strlen(journal));
    return asprintf(&path, "%.*s.failed.jsonl", stem, journal) < 0 ? NULL : path;
}

static enum gd_journal_resume resume_of(const struct cli_run *r)
{
    if (r->resume)
        return r->retry_failed ? GD_JOURNAL_RESUME_REST_AND_FAILED : GD_JOURNAL_RESUME_REST;
    return r->retry_failed ? GD_JOURNAL_RESUME_FAILED : GD_JOURNAL_RESUME_NONE;
}

/* How long records are gathered before a write. This is set in the environment, because only tests and disks that spin
 * down need it. */
static int window_of(unsigned *ms)
{
    const char *text = getenv("GPU_DISPATCH_JOURNAL_MS");
    uint64_t value;
    if (!text)
        return 0;
    if (gd__parse_number("GPU_DISPATCH_JOURNAL_MS", text, 1, 60000, &value) < 0)
        return -1;
    *ms = (unsigned)value;
    return 0;
}

/* The library's error message says what to do. This adds the option for it, or replaces the library's name of it. */
static int refuse(int rc)
{
    static const char named[] = "in skip_done";
    const char *text = gd_error_text(), *at = strstr(text, named);
    if (at)
        return gd__fail("%.*swith --skip-done FILE%s", (int)(at - text), text, at + sizeof named - 1);
    const char *option = rc == GD_E_EXISTS                  ? " (to resume: --resume)"
                         : rc != GD_E_MISMATCH              ? ""
                         : strstr(text, "records of shard") ? "" /* this cannot be forced */
                                                            : " (to force it: --force-resume)";
    return gd__fail("%s%s", text, option);
}

/* The journal belongs to other work. Shows both commands in a form that the user recognises. If they look the same, the
 * library's message is used. */
static int refuse_other(const struct cli_run *r, const char *identity)
{
    struct gd_journal_reader *reader = NULL;
    struct gd_journal_summary s = { .size = sizeof s };
    struct gd__buffer was = { 0 }, is = { 0 };
    int rc = refuse(GD_E_MISMATCH);
    if (gd_journal_reader_open(&reader, r->journal) == 0 && gd_journal_reader_summary(reader, &s) == 0 && s.command) {
        r->own.show_identity(&was, s.command);
        r->own.show_identity(&is, identity);
        gd__buffer_add(&was, "", 1);
        gd__buffer_add(&is, "", 1);
        if (!was.failed && !is.failed && strcmp(was.data, is.data) != 0)
            rc = gd__fail("%s was made by another command: \"%s\". The command now is \"%s\". Run the first one, or "
                          "force the resume if both do the same work (to force it: --force-resume)",
                          r->journal, was.data, is.data);
    }
    gd_journal_reader_close(&reader);
    gd__buffer_free(&was);
    gd__buffer_free(&is);
    return rc;
}

static int open_journal(struct cli_journal *k)
{
    const struct cli_run *r = k->asked;
    /* With a mistyped name, the run would do nothing and report success. */
    if (r->retry_failed && !r->resume && access(r->journal, F_OK) < 0)
        return gd__fail("--retry-failed: cannot open the journal %s: %s", r->journal, strerror(errno));
    struct gd__buffer identity = { 0 };
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    cli_journal_identity(&identity, r);
    gd__buffer_add(&identity, "", 1);
    o.path = r->journal_base; /* the library adds the shard to the name itself */
    o.shard = r->shard;
    o.lock_wait_ms = r->lock_wait.ms;
    o.on_wait = cli_free_wait_note;
    o.skip_done = r->skip_done.items;
    o.n_skip_done = r->skip_done.n;
    o.command = identity.data;
    o.resume = resume_of(r);
    o.force = r->force_resume;
    o.sync = r->sync && strcmp(r->sync, "full") == 0 ? GD_JOURNAL_SYNC_FULL : GD_JOURNAL_SYNC_NORMAL;
    int rc = identity.failed ? gd__fail("out of memory") : window_of(&o.window_ms);
    if (rc == 0) {
        rc = gd_journal_open(&k->journal, &o);
        if (rc == GD_E_MISMATCH && r->own.show_identity)
            rc = refuse_other(r, identity.data);
        else if (rc < 0)
            rc = refuse(rc);
    }
    gd__buffer_free(&identity);
    return rc;
}

int cli_journal_open(struct cli_journal **out, const struct cli_run *r)
{
    *out = NULL;
    if (!r->journal)
        return 0;
    struct cli_journal *k = calloc(1, sizeof *k);
    if (!k)
        return gd__fail("out of memory");
    k->asked = r;
    k->tidied = -1;
    k->failed_path = r->failed ? strdup(r->failed) : failed_beside(r->journal);
    int rc = k->failed_path ? cli_task_key_open(&k->key, key_of(r), r->jsonl) : gd__fail("out of memory");
    if (rc == 0)
        rc = open_journal(k);
    if (rc < 0)
        cli_journal_close(&k);
    *out = k;
    return rc;
}

struct gd_journal *cli_journal_handle(struct cli_journal *k)
{
    return k ? k->journal : NULL;
}

uint64_t cli_journal_run(struct cli_journal *k)
{
    struct gd_journal_counts c = { .size = sizeof c };
    return k && k->journal && gd_journal_get_counts(k->journal, &c) == 0 ? c.run : 0;
}

bool cli_journal_goes_on(struct cli_journal *k)
{
    struct gd_journal_counts c = { .size = sizeof c };
    return k && (k->asked->resume || k->asked->retry_failed) && gd_journal_get_counts(k->journal, &c) == 0 &&
           c.before > 0;
}

/* The file differs from what the journal recorded about it. Returns true if it still has every record of the journal
 * and no others, so that nothing has to be cut off. There are two causes. A run removed records out of date, and ended
 * before it recorded that in the journal. Or a user edited the file after a run had finished. */
static bool was_tidied(struct cli_journal *k, const char *path)
{
    struct gd_journal_reader *reader = NULL;
    const bool whole =
        gd_journal_reader_open(&reader, k->asked->journal) == 0 && cli_records_are_whole(path, reader) == 1;
    gd_journal_reader_close(&reader);
    return whole;
}

static int refuse_missing(const struct cli_journal *k, const char *path)
{
    return gd__fail("%s is missing, but the journal %s has records of what was written to it: restore the file, or "
                    "start again with another journal, or go on without the old output (--force-resume)",
                    path, k->asked->journal);
}

int cli_journal_check(struct cli_journal *k, const char *path)
{
    if (!path || strcmp(path, "-") == 0 || !cli_journal_goes_on(k))
        return 0;
    /* If path is a link, the journal has the path of its target. */
    const bool is_missing = access(path, F_OK) < 0 && errno == ENOENT;
    char *target = is_missing ? gd__link_target(path) : NULL;
    const int rc = gd__journal_check_file(k->journal, target ? target : path);
    free(target);
    if (rc == GD_E_MISMATCH && is_missing)
        return refuse_missing(k, path);
    if (rc < 0)
        (void)refuse(rc);
    return rc == 0 || (rc == GD_E_MISMATCH && was_tidied(k, path)) ? 0 : -1;
}

int cli_journal_follow(struct cli_journal *k, const char *path, int fd)
{
    struct stat st;
    if (!k || strcmp(path, "-") == 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (k->asked->sync && strcmp(k->asked->sync, "full") == 0 && gd__sync_directory_of(path) < 0)
        return gd__fail("cannot flush the directory of %s to disk: %s", path, strerror(errno));
    int rc = (cli_journal_goes_on(k) ? gd_journal_follow : gd__journal_follow_empty)(k->journal, path, fd);
    if (rc < 0)
        (void)refuse(rc);
    if (rc == GD_E_MISMATCH && was_tidied(k, path)) {
        rc = gd_journal_follow_anew(k->journal, path, fd);
        if (rc < 0)
            (void)gd__fail("%s", gd_error_text());
    }
    return rc < 0 ? -1 : 0;
}

/* --- keys -------------------------------------------------------------------------- */

int cli_journal_find_key(struct cli_journal *k, const void *data, size_t size, const void **key, size_t *key_size)
{
    *key = data;
    *key_size = size;
    return k ? cli_task_key_bytes(&k->key, data, size, key, key_size) : 0;
}

int cli_journal_key(struct cli_journal *k, struct gd_item *item)
{
    const void *key;
    size_t key_size;
    const char *version;
    if (!k || cli_task_key_is_payload(&k->key))
        return 0;
    if (cli_task_key_find(&k->key, item->data, item->size, &key, &key_size, &version) < 0)
        return gd_item_error(item, "%s", gd__fail_text());
    return key == item->data && !version ? 0 : gd_item_key(item, key, key_size, version);
}

/* --- notes --------------------------------------------------------------------------- */

bool cli_journal_show_input(struct gd__buffer *b, const char *payload, size_t size)
{
    if (size == 0)
        return false;
    if (memchr(payload, 0, size)) {
        gd__json_put_arguments(b, payload, size);
        return true;
    }
    /* A single argument that would be read back as several arguments, or as a different one, is written as an array
     * with one element. */
    struct gd__buffer list = { 0 };
    const bool is_list = *payload == '[' && gd__json_read_list(&list, payload, size);
    gd__buffer_free(&list);
    if (is_list) {
        gd__buffer_text(b, "[");
        gd__json_put_string(b, payload, size);
        gd__buffer_text(b, "]");
    }
    return is_list;
}

void cli_journal_read_input(struct gd__buffer *b, const char *text, size_t size)
{
    if (size == 0 || *text != '[' || !gd__json_read_list(b, text, size))
        gd__buffer_add(b, text, size);
}

void cli_journal_note(struct cli_journal *k, const struct cli_task_end *e, const char *where, bool lost)
{
    const struct gd_report *r = e->report;
    struct gd_journal_note note = { .size = sizeof note, .output = where, .not_done = lost };
    if (!k)
        return;
    note.stderr_size = e->err_size;
    note.stderr_end = e->err_size ? cli_last_lines(e->err, &note.stderr_size) : NULL;
    note.exit_code = e->exit_code;
    note.signal = e->signal;
    k->input.size = 0;
    if (cli_journal_show_input(&k->input, r->input, r->input_size)) {
        note.input = k->input.data;
        note.input_size = k->input.size;
    } else if (!e->ok) {
        /* The whole input, of any length, because the list of failures is made from it. */
        note.input = r->input;
        note.input_size = r->input_size;
    }
    gd_journal_add_note(k->journal, &note);
}

/* --- the end --------------------------------------------------------------------------- */

/* Whether --output may contain records that are out of date. That is possible only if a record of the journal was ever
 * replaced, by this run or by an earlier one. An earlier run may have been killed before its clean-up, or had another
 * --output. */
static bool wants_tidying(const struct cli_journal *k, const struct gd_journal_summary *s)
{
    const char *path = k->asked->output;
    struct stat st;
    if (s->replaced == 0 || !path || strcmp(path, "-") == 0)
        return false;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

static void say_count(struct gd__buffer *b, const char *before, uint64_t n, const char *words)
{
    if (n)
        gd__buffer_format(b, "%s%" PRIu64 " %s", before, n, words);
}

/* The number of tasks that failed before and are not in the input of this run. Valid only if the input was read to its
 * end. --retry-failed alone would not run them. */
static uint64_t failed_elsewhere(const struct cli_journal *k, uint64_t failed)
{
    const uint64_t here = k->summary.run_failed + k->counts.skipped_failed;
    return failed > here ? failed - here : 0;
}

/* Advice on what to do about the tasks that are left. If no tasks are left, advice about the tasks that failed. */
static const char *what_to_do(uint64_t failed, uint64_t elsewhere, bool some_left, bool at_least)
{
    if (some_left)
        return "; to run the rest, run the same command with --resume";
    if (at_least)
        return "; to run what is left, if anything, run the same command with --resume";
    if (failed && elsewhere == failed)
        return "; they were not in this input: to run them again, give them as input with --retry-failed";
    return failed ? "; to run them again, add --retry-failed" : "";
}

/* How many tasks were skipped because other journals have them (--skip-done). It may be more if this input no longer has
 * all tasks that ended before. */
static uint64_t done_in_other_journals(const struct cli_journal *k, uint64_t before)
{
    return k->asked->skip_done.n > 0 && k->summary.skipped > before ? k->summary.skipped - before : 0;
}

/* "journal run.db: 20 done, 3 failed, 12 of them before this run; ..." Skipped tasks are not used for the count,
 * because the input may no longer have all tasks that ended before. */
static void say(const struct cli_journal *k, uint64_t failed, uint64_t inputs, bool at_least)
{
    const struct gd_journal_summary *s = &k->summary;
    struct gd__buffer b = { 0 };
    const uint64_t all = s->done + s->failed, ours = s->run_done + s->run_failed, before = all > ours ? all - ours : 0;
    const bool some_left = inputs > ours + s->skipped;
    const uint64_t elsewhere = some_left || at_least ? 0 : failed_elsewhere(k, failed);
    gd__buffer_format(&b, "%" PRIu64 " done", s->done);
    say_count(&b, ", ", failed, "failed");
    say_count(&b, " (", elsewhere < failed ? elsewhere : 0, "not in this input)");
    say_count(&b, ", ", before, "of them before this run");
    say_count(&b, ", and ", done_in_other_journals(k, before), "in other journals");
    gd__buffer_add(&b, "", 1);
    if (!b.failed)
        cli_say("journal %s: %s%s%s%s", k->asked->journal, b.data, failed ? "; the failed tasks are listed in " : "",
                failed ? k->failed_path : "", what_to_do(failed, elsewhere, some_left, at_least));
    gd__buffer_free(&b);
}

/* Removes records out of date from --output, and records the file's new size in the journal. */
static int tidy(struct cli_journal *k, struct gd_journal_reader *reader)
{
    const char *path = k->asked->output;
    const int rc = cli_drop_old_records(path, reader);
    if (rc <= 0)
        return rc;
    k->tidied = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (k->tidied < 0)
        return gd__fail("cannot open %s: %s", path, strerror(errno));
    return gd_journal_follow_anew(k->journal, path, k->tidied) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int look_and_tidy(struct cli_journal *k)
{
    struct gd_journal_reader *reader = NULL;
    k->summary.size = sizeof k->summary;
    int rc = gd_journal_reader_open(&reader, k->asked->journal);
    if (rc == 0)
        rc = gd_journal_reader_summary(reader, &k->summary);
    if (rc < 0)
        rc = gd__fail("--journal %s: %s", k->asked->journal, gd_error_text());
    else if (wants_tidying(k, &k->summary))
        rc = tidy(k, reader);
    gd_journal_reader_close(&reader);
    return rc;
}

int cli_journal_finish(struct cli_journal *k, bool kept)
{
    if (!k || !k->journal)
        return 0;
    k->counts.size = sizeof k->counts;
    (void)gd_journal_get_counts(k->journal, &k->counts);
    int rc = kept && gd__journal_is_ours(k->journal) ? look_and_tidy(k) : 0;
    k->taken_over = gd__journal_was_taken_over(k->journal);
    if (!kept) /* output was abandoned: its thread may still write to the followed files */
        gd__journal_files_may_grow(k->journal);
    if (gd_journal_close(&k->journal) < 0)
        rc = gd__fail("--journal %s: %s", k->asked->journal, gd_error_text());
    return rc;
}

int cli_journal_conclude(struct cli_journal *k, uint64_t inputs, bool at_least, uint64_t *failed)
{
    struct gd_journal_reader *reader = NULL;
    if (!k || k->taken_over)
        return 0;
    k->summary.size = sizeof k->summary;
    int rc = gd_journal_reader_open(&reader, k->asked->journal);
    if (rc == 0)
        rc = gd_journal_reader_summary(reader, &k->summary);
    if (rc < 0)
        (void)gd__fail("--journal %s: %s", k->asked->journal, gd_error_text());
    else
        rc = cli_write_failures(k->failed_path, reader, k->asked->jsonl, k->asked->failed != NULL, failed);
    if (rc == 0 && !cli_run_is_silent(k->asked))
        say(k, *failed, inputs, at_least);
    gd_journal_reader_close(&reader);
    return rc < 0 ? -1 : 0;
}

void cli_journal_close(struct cli_journal **journal)
{
    struct cli_journal *k = *journal;
    if (!k)
        return;
    (void)gd_journal_close(&k->journal);
    if (k->tidied >= 0)
        close(k->tidied);
    cli_task_key_free(&k->key);
    gd__buffer_free(&k->input);
    free(k->failed_path);
    free(k);
    *journal = NULL;
}
