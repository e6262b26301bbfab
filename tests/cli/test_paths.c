/* SPDX-License-Identifier: MIT
 *
 * Paths that are longer than the space for them. Files of one directory differ only at the ends of their paths.
 */
#include "snapshots.h"

static const char *const long_directory =
    "/srv/recordings/of a company with a long name/2026/interviews/a day in spring/";

/* The library shortens such paths to at most 95 bytes. */
static struct made_up *long_paths(void)
{
    struct made_up *m = made_run("transcribe talks");
    made_worker(m, 0, GD_WORKER_BUSY, GD_IDLE_NOT,
                "…a company with a long name/2026/interviews/a day in spring/one.wav", 1);
    made_worker(m, 1, GD_WORKER_CANCELLING, GD_IDLE_NOT,
                "…a company with a long name/2026/interviews/a day in spring/two.wav", 1);
    made_worker(m, 2, GD_WORKER_BUSY, GD_IDLE_NOT, "recordings of spring/2026/interviews/in a folder/three.wav", 1);
    made_worker(m, 3, GD_WORKER_BUSY, GD_IDLE_NOT, "Größe/日本語のとても長いファイル名はどこかで切れる必要.wav", 1);
    return m;
}

TEST(screens_of_long_paths)
{
    static const struct {
        const char *name;
        struct tui_view v;
    } screens[] = {
        { "paths-40.txt", { .width = 40, .height = 24, .utf8 = true } },
        { "paths-80.txt", { .width = 80, .height = 24, .utf8 = true } },
        { "paths-80-ascii.txt", { .width = 80, .height = 24 } },
        { "paths-200.txt", { .width = 200, .height = 24, .utf8 = true } },
        { "paths-200-ascii.txt", { .width = 200, .height = 24 } },
    };
    for (size_t i = 0; i < sizeof screens / sizeof *screens; i++) {
        char *text = laid_out(long_paths(), &screens[i].v);
        check_screen("cli", screens[i].name, text);
        free(text);
    }
}

/* GPUs with several workers have one row each. The text before the path and the end of the path stay. */
TEST(a_path_in_a_row_of_several_workers_shows_its_end)
{
    const struct tui_view v = { .width = 80, .height = 12, .utf8 = true };
    struct made_up *m = made_run("transcribe");
    for (int i = 0; i < 12; i++) {
        char task[200];
        snprintf(task, sizeof task, "…%s%02d.wav", long_directory + sizeof "/srv/recordings/" - 1, i);
        made_worker(m, i % 2, GD_WORKER_BUSY, GD_IDLE_NOT, task, i);
    }
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, " 6 of 6: …");
    CHECK_CONTAINS(text, "spring/10.wav ");
    CHECK_CONTAINS(text, "spring/11.wav ");
    free(text);
}

/* The row shows the worker that has been busy longest, with the text before its task. */
TEST(the_worker_that_is_being_cancelled_is_shown)
{
    const struct tui_view v = { .width = 90, .height = 8, .utf8 = true };
    struct made_up *m = made_run("transcribe");
    for (int i = 0; i < 6; i++) {
        made_worker(m, i, GD_WORKER_BUSY, GD_IDLE_NOT, "one/of/the/others/is/at/this.wav", 1);
        made_worker(m, i, GD_WORKER_CANCELLING, GD_IDLE_NOT, "a/folder/that/is/deeper/than/most/are.wav", 2 + i);
    }
    m->s.n_workers = 4; /* on two GPUs */
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, " 2 of 2: asked to stop: …most/are.wav ");
    free(text);
}

/* A text that is marked as the end of a path is shown as one, whatever it looks like. */
TEST(a_path_without_an_extension_shows_its_end)
{
    const struct tui_view v = { .width = 60, .height = 24, .utf8 = true };
    struct made_up *m = made_run("transcribe");
    made_worker(m, 0, GD_WORKER_BUSY, GD_IDLE_NOT, "…of a company/interviews of a day in spring/the first one", 1);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "/the first one ");
    free(text);
}

/* If the text before the path takes all the room, it is shown like any other text. */
TEST(no_room_for_a_path)
{
    const struct tui_view v = { .width = 35, .height = 24, .utf8 = true };
    struct made_up *m = made_run("transcribe");
    made_worker(m, 0, GD_WORKER_CANCELLING, GD_IDLE_NOT, "/srv/a/long/path/of/somebody.wav", 1);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, " asked to sto…");
    free(text);
}

/* The task of a worker that is being cancelled is unknown. */
TEST(no_path_at_all)
{
    const struct tui_view v = { .width = 80, .height = 24 };
    struct made_up *m = made_run("transcribe");
    made_worker(m, 0, GD_WORKER_CANCELLING, GD_IDLE_NOT, "", 1);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "  0 processing  ");
    free(text);
}

TEST_MAIN()
