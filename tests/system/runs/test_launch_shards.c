/* Launches with a shard: which files each shard processes, and the deal beside the journals. */
#include <gpu_dispatch/gpu_dispatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/directory.h"

enum { FILES = 60, SHARDS = 3 };

struct launched {
    unsigned runs[FILES + 1]; /* of each file, over all shards */
    uint64_t bytes[SHARDS];
    uint64_t largest_id;
    uint32_t shard;
    struct gd_balance last; /* as progress was reported last */
};

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    return gd_result_set(r, t->data, t->size);
}

static void note(void *user, const struct gd_report *r)
{
    struct launched *l = user;
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%.*s", (int)r->input_size, (const char *)r->input);
    const int number = atoi(strrchr(path, '/') + 1);
    CHECK_LT(number, FILES + 1);
    l->runs[number]++;
    CHECK_EQ(stat(path, &st), 0);
    l->bytes[l->shard] += (uint64_t)st.st_size;
    if (r->task_id > l->largest_id)
        l->largest_id = r->task_id;
}

static void progress(void *user, const struct gd_balance *now)
{
    ((struct launched *)user)->last = *now;
}

/* The sizes differ, so that the number of files says little about the number of bytes. */
static void make_files(const char *dir)
{
    for (int i = 0; i < FILES; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%s%d", dir, i % 2 == 0 ? "sub/" : "", i);
        make_file(name, (size_t)(i < 3 ? 20000 : 100 + 10 * i));
    }
}

static int launch(struct launched *l, const char *dir, uint32_t index, struct gd_journal *journal, char **printed)
{
    struct gd_options o = GD_OPTIONS_INIT;
    struct gd_launch spec = GD_LAUNCH_INIT;
    size_t size;
    l->shard = index;
    o.user = l;
    o.on_success = note;
    o.shard = (struct gd_shard){ index, SHARDS };
    o.journal = journal;
    spec.input_dir = dir;
    spec.recursive = true;
    spec.gpus = "sim:1";
    spec.options = &o;
    spec.on_progress = progress;
    spec.summary = open_memstream(printed, &size);
    CHECK(spec.summary);
    const int code = gd_launch_run(&spec);
    fclose(spec.summary);
    return code;
}

/* The directory has another name on each machine, with or without a '/' at its end. */
TEST(each_file_is_processed_by_one_shard)
{
    static const char *const names[SHARDS] = { "mount", "other/place", "third/" };
    struct launched l = { .shard = 0 };
    directory_enter();
    for (uint32_t i = 0; i < SHARDS; i++) {
        char *printed;
        make_files(names[i]);
        const struct launched before = l;
        CHECK_EQ(launch(&l, names[i], i, NULL, &printed), 0);
        unsigned own = 0;
        for (unsigned k = 0; k < FILES; k++)
            own += l.runs[k] - before.runs[k];
        CHECK_GT(own, 0);
        CHECK_EQ(l.last.total, own); /* not the number of all files */
        CHECK_EQ(l.last.done, own);
        CHECK(!strstr(printed, "not done"));
        free(printed);
    }
    for (unsigned i = 0; i < FILES; i++)
        CHECK_EQ(l.runs[i], 1);
    CHECK_GE(l.largest_id, FILES / 2); /* positions in the whole list */
}

static int launch_with_journal(struct launched *l, uint32_t index)
{
    struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    char *printed;
    jo.path = "run.db";
    jo.resume = GD_JOURNAL_RESUME_REST;
    jo.shard = (struct gd_shard){ index, SHARDS };
    CHECK_EQ(gd_journal_open(&j, &jo), 0);
    const int code = launch(l, "in", index, j, &printed);
    CHECK_EQ(gd_journal_close(&j), 0);
    free(printed);
    return code;
}

TEST(with_a_journal_files_are_dealt_by_size)
{
    struct launched l = { .shard = 0 };
    if (!gd_journal_available())
        SKIP("built without SQLite");
    directory_enter();
    make_files("in");
    CHECK_EQ(launch_with_journal(&l, 0), 0);
    CHECK_EQ(access("run.of-3.deal", F_OK), 0);
    CHECK_EQ(access("run.1-of-3.db", F_OK), 0);
    make_file("in/60", 100); /* comes later, and goes by hash: all shards agree on it */
    CHECK_EQ(launch_with_journal(&l, 1), 0);
    CHECK_EQ(launch_with_journal(&l, 2), 0);
    CHECK_EQ(launch_with_journal(&l, 0), 0); /* resumed */
    for (unsigned i = 0; i <= FILES; i++)
        CHECK_EQ(l.runs[i], 1);
    const uint64_t even = (l.bytes[0] + l.bytes[1] + l.bytes[2]) / SHARDS;
    for (unsigned i = 0; i < SHARDS; i++)
        CHECK_LE(l.bytes[i], even + even / 20);
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
