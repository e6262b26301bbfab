/* SPDX-License-Identifier: MIT
 *
 * Journals that are damaged, or made to attack the reader. Whatever is in the file, every command ends with an answer
 * or an error message, JSON output is valid, and no terminal commands are printed.
 */
#include <sqlite3.h>
#include <sys/stat.h>

#include <gpu_dispatch/error.h>

#include "base/text/json.h"
#include "support/shell.h"
#include "support/terminal.h"

/* The time limit is far more than any of these commands needs. It ends commands that would never end. */
#define WITHIN  "timeout -k 5 100 gpu-dispatch "
#define RESUME  WITHIN "run --gpus sim:2 --quiet --journal run.db --resume --retry-failed --output out.jsonl "
#define COMMAND "'case {} in bad*) echo why >&2; exit 3;; esac; echo {}' ::: "
#define INPUTS  "a b c d e f g h i j k l bad1 bad2 bad3 bad4 bad5 bad6 bad7 bad8 bad9 m n o"

static void sql(const char *text)
{
    char path[128], *words = NULL;
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/run.db", sh_dir());
    CHECK_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &words) != SQLITE_OK)
        FAIL("%.300s: %s", text, words);
    sqlite3_close(db);
}

__attribute__((format(printf, 1, 2))) static void sqlf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&text, format, args) >= 0);
    va_end(args);
    sql(text);
    free(text);
}

/* A complete journal: two runs, some tasks done, some failed. */
static void make_journal(void)
{
    CHECK_EQ(sh("gpu-dispatch run --gpus sim:2 --quiet --journal run.db " COMMAND "a b").status, 0);
    CHECK_EQ(sh("gpu-dispatch run --gpus sim:2 --quiet --journal run.db --resume " COMMAND INPUTS).status, 9);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK_EQ(sh("cp run.db good.db").status, 0);
}

static void begin_anew(void)
{
    CHECK_EQ(sh("rm -f run.db-* run.failed.jsonl out.jsonl; cp good.db run.db").status, 0);
}

/* --- what every command must do ----------------------------------------------------------- */

static void check_json(const char *text, size_t size, const char *what)
{
    struct gd__json top;
    if (gd__json_scan(text, size, &top) < 0)
        FAIL("%s: %s: %.300s", what, gd_error_text(), text);
}

/* Checks that the command ended by itself, with 0 or with an error message. */
static void check_ended(const struct ran *r, const char *command, const char *what)
{
    if (r->status != 0 && r->status != 255)
        FAIL("%s: %s ended with %d: %.300s", what, command, r->status, r->err);
    if (r->status == 255)
        CHECK_CONTAINS(r->err, "gpu-dispatch: ");
    check_harmless(r->err, r->err_size, what);
}

static void check_lines(const char *command, const char *what)
{
    struct ran r = sh(WITHIN "%s", command);
    check_ended(&r, command, what);
    check_harmless(r.out, r.out_size, what);
    for (const char *at = r.out, *end; r.status == 0 && (end = strchr(at, '\n')); at = end + 1)
        check_json(at, (size_t)(end - at), what);
}

static void check_report(const char *what)
{
    struct ran r = sh("rm -f r.html; " WITHIN "report run.db -o r.html");
    static const char mark[] = "<script type=\"application/json\" id=\"data\">";
    check_ended(&r, "report", what);
    if (r.status != 0)
        return;
    struct ran page = sh("cat r.html");
    const char *from = strstr(page.out, mark), *to = from ? strstr(from, "</script>") : NULL;
    CHECK(to != NULL);
    from += strlen(mark);
    CHECK(memchr(from, '<', (size_t)(to - from)) == NULL);
    check_json(from, (size_t)(to - from), what);
}

static void check_reading(const char *what)
{
    struct ran r = sh(WITHIN "status run.db");
    check_ended(&r, "status", what);
    check_harmless(r.out, r.out_size, what);
    check_lines("status --json run.db", what);
    check_lines("export --jsonl run.db", what);
    check_lines("export --jsonl --failed run.db", what);
    r = sh(WITHIN "export --csv run.db");
    check_ended(&r, "export --csv", what);
    check_report(what);
}

/* Resumes the run. It must succeed or print an error message. */
static struct ran check_resuming(const char *what)
{
    struct ran r = sh(RESUME COMMAND INPUTS);
    if (r.status >= 124 && r.status != 255)
        FAIL("%s: the run ended with %d: %.300s", what, r.status, r.err);
    check_harmless(r.err, r.err_size, what);
    check_lines("status --json run.db", what);
    struct ran out = sh("cat out.jsonl 2> /dev/null; cat run.failed.jsonl 2> /dev/null");
    for (const char *at = out.out, *end; (end = strchr(at, '\n')); at = end + 1)
        check_json(at, (size_t)(end - at), what);
    return r;
}

/* --- values ------------------------------------------------------------------------------------- */

static const char *const values[] = {
    "1e999",
    "-1e999",
    "1e308",
    "-1e308",
    "9223372036854775807",
    "-9223372036854775807 - 1",
    "-1",
    "0",
    "NULL",
    "''",
    "'text'",
    "'nan'",
    "char(27) || ']0;title' || char(7) || char(155) || '31m' || char(8238, 8294, 8232, 127, 13)",
    "x'1b5b33316d9b6d00c29b6dc0aff8'", /* also bytes that are not UTF-8, and a NUL */
    "'a' || char(0) || 'b'",
    "'</script><script>alert(1)</script><!--'",
    "'\",\"x\":\"'",
    "'[\"a\",\"' || char(155, 10) || '\"]'",
    "zeroblob(300000)",
    "printf('%.*c', 300000, 'x')",
};
enum { N_VALUES = sizeof values / sizeof *values };

static const char *const task_columns[] = { "key",     "version", "state",  "attempts",   "number", "run",
                                            "started", "seconds", "worker", "gpu",        "signal", "exit_code",
                                            "failure", "error",   "stderr", "input_size", "input",  "output" };
static const char *const run_columns[] = { "command", "started", "ended", "outcome",  "pid",
                                           "host",    "total",   "taken", "skipped",  "done",
                                           "failed",  "written", "busy",  "all_done", "all_failed" };
enum {
    N_TASK_COLUMNS = sizeof task_columns / sizeof *task_columns,
    N_RUN_COLUMNS = sizeof run_columns / sizeof *run_columns,
};

/* Gives each record a different one of the values in this column. */
TEST_WITHIN(900, hostile_values_in_records)
{
    make_journal();
    for (size_t c = 0; c < N_TASK_COLUMNS; c++) {
        begin_anew();
        for (size_t v = 0; v < N_VALUES; v++)
            sqlf("UPDATE OR IGNORE task SET %s = %s WHERE id %% %d = %zu", task_columns[c], values[v], (int)N_VALUES,
                 v);
        check_reading(task_columns[c]);
        check_resuming(task_columns[c]);
    }
}

/* Ids are always numbers. */
TEST_WITHIN(300, hostile_ids)
{
    make_journal();
    for (size_t v = 0; v < 8; v++) {
        begin_anew();
        if (v >= 4) /* the first four values are not integers, so SQLite itself refuses them */
            sqlf("UPDATE OR IGNORE task SET id = %s WHERE id = 3", values[v]);
        else
            sqlf("UPDATE OR IGNORE task SET id = (1 << 40) - 2 + %zu WHERE id = 3", v);
        check_reading(values[v]);
        check_resuming(values[v]);
    }
}

static void set_all(const char *value)
{
    for (size_t c = 0; c < N_RUN_COLUMNS; c++)
        sqlf("UPDATE OR IGNORE run SET %s = %s", run_columns[c], value);
}

TEST_WITHIN(900, hostile_values_in_runs)
{
    make_journal();
    for (size_t v = 0; v < N_VALUES; v++) {
        begin_anew();
        set_all(values[v]);
        check_reading(values[v]);
        check_resuming(values[v]);
    }
    for (size_t c = 0; c < N_RUN_COLUMNS; c++) {
        begin_anew();
        sqlf("UPDATE OR IGNORE run SET %s = 1e999", run_columns[c]);
        check_reading(run_columns[c]);
    }
}

TEST_WITHIN(300, hostile_numbers_of_runs)
{
    static const char *const numbers[] = { "9223372036854775807", "-9223372036854775807 - 1", "1 << 53" };
    make_journal();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        begin_anew();
        sqlf("DELETE FROM run WHERE number = 1; UPDATE run SET number = %s", numbers[i]);
        check_reading(numbers[i]);
        struct ran r = check_resuming(numbers[i]);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, "damaged");
    }
}

TEST_WITHIN(300, thousands_of_runs_and_of_classes)
{
    make_journal();
    sql("WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)"
        " INSERT INTO run(number, started, pid, busy, done) SELECT x, x, 1, 1e308, 9e18 FROM n;"
        "WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)"
        " INSERT INTO task(id, key, state, attempts, number, run, started, seconds, worker, gpu, failure, input_size)"
        " SELECT x, randomblob(16), 'failed', x, x, x, x * 1e6, x * 1e9, x, -x, 'class ' || x, x FROM n");
    check_reading("many");
    struct ran r = sh(WITHIN "status run.db | wc -l");
    CHECK_LT(atoi(r.out), 60);
    check_resuming("many");
}

/* An infinite or undefined figure is written as null or 0, because JSON cannot express it. */
TEST(infinity_is_not_written_as_json)
{
    make_journal();
    sql("UPDATE task SET started = 1e999, seconds = 1e999; UPDATE run SET busy = 1e999, started = 1e999, ended = 1e999,"
        " written = 1e999");
    struct ran r = sh(WITHIN "status --json run.db; " WITHIN "export --jsonl run.db; " WITHIN "export --csv run.db");
    CHECK_EQ(r.status, 0);
    CHECK(strstr(r.out, "inf") == NULL);
    CHECK(strstr(r.out, "nan") == NULL);
}

TEST(text_from_a_journal_contains_no_terminal_commands)
{
    make_journal();
    sql("UPDATE run SET outcome = 'ok' || char(27) || '[2J' || char(155) || '31m' || char(8238); UPDATE run SET "
        "command = outcome;"
        " UPDATE task SET failure = char(27) || '[2J' || char(155) || 'm', state = 'failed';"
        " UPDATE task SET input = failure, error = failure, output = failure");
    check_reading("escapes");
    struct ran r = sh(WITHIN "status run.db");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "ok [2J");
    /* The command is quoted in the message that refuses another one. */
    r = sh(WITHIN "run --gpus sim:1 --quiet --journal run.db --resume echo ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "another command");
    check_harmless(r.err, r.err_size, "the refusal");
}

/* --- other tables ---------------------------------------------------------------------------------- */

static void check_refused(const char *what)
{
    static const char *const commands[] = { "status run.db", "status --json run.db", "export --csv run.db",
                                            "export --jsonl run.db", "report run.db -o r.html" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ran r = sh(WITHIN "%s", commands[i]);
        if (r.status != 255)
            FAIL("%s: %s ended with %d", what, commands[i], r.status);
        check_ended(&r, commands[i], what);
    }
    struct ran r = sh(RESUME COMMAND INPUTS);
    CHECK_EQ(r.status, 255);
}

#define ENDLESS "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "

TEST_WITHIN(900, a_view_in_place_of_a_table)
{
    make_journal();
    sql("DROP TABLE task; CREATE VIEW task AS " ENDLESS
        "x AS id, zeroblob(16) AS key, NULL AS version, 'done' AS state, 1 AS attempts, x AS number, 1 AS run, x AS"
        " started, x AS seconds, 0 AS worker, 0 AS gpu, 0 AS exit_code, 0 AS signal, NULL AS failure, 0 AS input_size,"
        " '' AS input, NULL AS output, NULL AS error, NULL AS stderr FROM n");
    check_refused("task");
    begin_anew();
    sql("DROP TABLE run; CREATE VIEW Run AS " ENDLESS
        "x AS number, '' AS command, x AS started, x AS ended, 'finished' AS outcome, x AS pid, '' AS host, x AS total,"
        " x AS taken, x AS skipped, x AS done, x AS failed, x AS written, x AS busy, x AS all_done, x AS all_failed"
        " FROM n");
    check_refused("run");
    begin_anew();
    sql("DROP TABLE file; CREATE VIEW file AS " ENDLESS "x AS path, x AS size FROM n");
    check_refused("file");
    begin_anew();
    sql("DROP TABLE file");
    check_refused("a table is missing");
}

TEST_WITHIN(300, a_generated_column_is_refused)
{
    make_journal();
    if (sqlite3_libversion_number() < 3031000)
        SKIP("an SQLite without generated columns");
    sql("ALTER TABLE run ADD COLUMN more AS (hex(zeroblob(100000000)))");
    check_refused("a generated column");
}

/* Additional columns are allowed: gpu-dispatch-journal(5). */
TEST(an_additional_column_does_no_harm)
{
    make_journal();
    sql("ALTER TABLE task ADD COLUMN mine DEFAULT 7; CREATE INDEX mine ON task(mine)");
    CHECK_EQ(sh(WITHIN "status run.db").status, 0);
    CHECK_EQ(sh(RESUME COMMAND INPUTS).status, 9);
}

TEST_WITHIN(300, triggers_do_not_fire)
{
    make_journal();
    sql("CREATE TABLE pulled(x); CREATE TRIGGER on_run AFTER INSERT ON run BEGIN INSERT INTO pulled VALUES(1); END;"
        " CREATE TRIGGER on_task AFTER INSERT ON task BEGIN INSERT INTO pulled " ENDLESS "x FROM n; END");
    struct ran r = check_resuming("triggers");
    CHECK_EQ(r.status, 9);
    sql("PRAGMA wal_checkpoint(TRUNCATE); CREATE TABLE none(x CHECK(x = 0)); INSERT INTO none SELECT count(*) FROM "
        "pulled");
}

/* Reading a text in UTF-16 moves it in memory, because SQLite converts it. */
TEST_WITHIN(300, another_encoding)
{
    make_journal();
    CHECK_EQ(sh("rm run.db").status, 0);
    char path[128], *words = NULL;
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/run.db", sh_dir());
    CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "PRAGMA encoding = 'UTF-16'; CREATE TABLE run(x); DROP TABLE run", NULL, NULL, &words),
             SQLITE_OK);
    sqlite3_close(db);
    sql("PRAGMA application_id = 0x67644a31; PRAGMA user_version = 1;"
        "CREATE TABLE run(number INTEGER PRIMARY KEY, command, started REAL, ended REAL, outcome TEXT, pid INTEGER, "
        "host,"
        " total INTEGER, taken INTEGER, skipped INTEGER, done INTEGER, failed INTEGER, written REAL, busy REAL, "
        "all_done"
        " INTEGER, all_failed INTEGER); CREATE TABLE task(id INTEGER PRIMARY KEY, key, version, state TEXT, attempts,"
        " number, run, started, seconds, worker, gpu, exit_code, signal, failure, input_size, input, output, error,"
        " stderr); CREATE INDEX task_failed ON task(id, failure) WHERE state = 'failed';"
        " CREATE TABLE file(path PRIMARY KEY, size INTEGER) WITHOUT ROWID;"
        " INSERT INTO task(id, key, version, state, attempts) VALUES(1, 'sixteen letters!', 'v', 'done', 1)");
    check_refused("UTF-16");
}

/* --- damaged pages --------------------------------------------------------------------------------------- */

enum { PAGE = 16384, HEAD = 12, INTERIOR = 5, DEEP = 8 };

static unsigned number_at(const unsigned char *p, unsigned n)
{
    unsigned value = 0;
    while (n-- > 0)
        value = value << 8 | *p++;
    return value;
}

static void put_number_at(unsigned char *p, unsigned value)
{
    for (int i = 3; i >= 0; i--, value >>= 8)
        p[i] = (unsigned char)value;
}

/* Replaces all children of an inner page with this page. */
static void lead_to(unsigned char *page, unsigned child)
{
    const unsigned cells = number_at(page + 3, 2);
    for (unsigned i = 0; i < cells; i++)
        put_number_at(page + number_at(page + HEAD + 2 * i, 2), child);
    put_number_at(page + 8, child);
}

static unsigned root_of_tasks(void)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *s;
    snprintf(path, sizeof path, "%s/run.db", sh_dir());
    CHECK_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_master WHERE name = 'task'", -1, &s, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(s), SQLITE_ROW);
    const int root = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return (unsigned)root;
}

/* The root points only to a page like itself, that page points to another, and so on. Each row of the last page would
 * be read once for each path to it, and there are far too many paths. */
TEST_WITHIN(900, pages_that_lead_to_each_other)
{
    static unsigned char root[PAGE];
    char path[128];
    make_journal();
    sql("WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)"
        " INSERT INTO task(id, key, state, attempts, number, run, started, seconds, worker, gpu, input_size, input)"
        " SELECT x, randomblob(16), 'done', 1, x, 1, x, 1, 0, 0, 60, printf('%60d', x) FROM n;"
        " PRAGMA wal_checkpoint(TRUNCATE)");
    const unsigned at = root_of_tasks();
    snprintf(path, sizeof path, "%s/run.db", sh_dir());
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(pread(fd, root, PAGE, (off_t)(at - 1) * PAGE), PAGE);
    CHECK_EQ(root[0], INTERIOR);
    CHECK_GT(number_at(root + 3, 2), 20);
    unsigned pages[DEEP];
    for (unsigned i = 0; i < DEEP; i++) /* leaf pages, which become pages like the root */
        pages[i] = number_at(root + number_at(root + HEAD + 2 * i, 2), 4);
    for (unsigned i = 0; i + 1 < DEEP; i++) {
        lead_to(root, pages[i + 1]);
        CHECK_EQ(pwrite(fd, root, PAGE, (off_t)(pages[i] - 1) * PAGE), PAGE);
    }
    lead_to(root, pages[0]);
    CHECK_EQ(pwrite(fd, root, PAGE, (off_t)(at - 1) * PAGE), PAGE);
    close(fd);
    check_reading("pages");
    struct ran r = sh(WITHIN "export --jsonl run.db");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "damaged");
    r = check_resuming("pages");
    CHECK_EQ(r.status, 255);
}

/* --- other kinds of files ------------------------------------------------------------------------------------ */

TEST_WITHIN(300, fifos_and_devices)
{
    CHECK_EQ(sh("mkfifo run.db").status, 0);
    check_refused("a FIFO");
    CHECK_EQ(sh("rm run.db; ln -s /dev/zero run.db").status, 0);
    check_refused("a device");
    CHECK_EQ(sh("rm run.db; mkdir run.db").status, 0);
    check_refused("a directory");
    CHECK_EQ(sh("rm -r run.db").status, 0);
    make_journal();
    CHECK_EQ(sh("rm -f run.db-*; mkfifo run.db-wal").status, 0);
    check_refused("a FIFO for the log");
}

TEST_MAIN()
