/* Workers from a plugin, run by the host program. $GPU_DISPATCH_HOST is its path, and $GD_TEST_PLUGINS the directory of
 * the plugins. */
#include <gpu_dispatch/gpu_dispatch.h>
#include <limits.h>

#include "support/test.h"

struct tally {
    uint64_t next, total, done, errors, exits;
    const uint64_t *numbers;
    char last_error[1024], setup_error[1024];
    enum gd_failure last_failure;
    int last_exit_code;
};

static int source(void *user, struct gd_item *item)
{
    struct tally *t = user;
    if (t->next == t->total)
        return 0;
    static uint64_t number;
    number = t->numbers ? t->numbers[t->next] : t->next + 1000;
    item->data = &number;
    item->size = sizeof number;
    t->next++;
    return 1;
}

static void on_success(void *user, const struct gd_report *r)
{
    struct tally *t = user;
    uint64_t in, out;
    CHECK_EQ(r->size, sizeof out);
    memcpy(&in, r->input, sizeof in);
    memcpy(&out, r->data, sizeof out);
    CHECK_EQ(out, 2 * in);
    t->done++;
}

static void on_error(void *user, const struct gd_report *r)
{
    struct tally *t = user;
    t->errors++;
    t->last_failure = r->failure;
    t->last_exit_code = r->exit_code;
    snprintf(t->last_error, sizeof t->last_error, "%s", r->error);
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct tally *t = user;
    (void)worker_id, (void)gpu_id;
    snprintf(t->setup_error, sizeof t->setup_error, "%s", error);
}

static void on_exit_callback(void *user)
{
    struct tally *t = user;
    t->exits++;
}

static const char *plugin_path(const char *name)
{
    static char path[PATH_MAX];
    const char *directory = getenv("GD_TEST_PLUGINS");
    if (!directory || !getenv("GPU_DISPATCH_HOST"))
        SKIP("GD_TEST_PLUGINS or GPU_DISPATCH_HOST is not set");
    snprintf(path, sizeof path, "%s/%s.so", directory, name);
    return path;
}

static struct gd_options options(struct tally *t, const char *plugin)
{
    static const int gpus[] = { 0, 1 };
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = gpus;
    o.n_gpus = 2;
    o.plugin = plugin;
    o.output = GD_OUTPUT_DISCARD;
    o.restart_delay_ms = 1;
    o.user = t;
    o.source = source;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_setup_fail = on_setup_fail;
    o.on_exit = on_exit_callback;
    return o;
}

TEST(a_plugin_does_the_work)
{
    struct tally t = { .total = 2000 };
    const struct gd_options o = options(&t, plugin_path("plugin_double"));
    CHECK_EQ(gd_run(&o), 0);
    CHECK_EQ(t.done, 2000);
    CHECK_EQ(t.exits, 1);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(errors_and_crashes_of_a_plugin)
{
    static const uint64_t numbers[] = { 1, 13, 3 }, deadly[] = { 1, 666, 3 };
    struct tally t = { .total = 3, .numbers = numbers }, u = { .total = 3, .numbers = deadly };
    struct gd_options o = options(&t, plugin_path("plugin_double"));
    CHECK_EQ(gd_run(&o), 0);
    CHECK_EQ(t.done, 2);
    CHECK_STR(t.last_error, "13 is bad luck");
    o.user = &u;
    CHECK_EQ(gd_run(&o), 0);
    CHECK_EQ(u.done, 2);
    CHECK_EQ(u.last_failure, GD_FAILURE_CRASH);
    CHECK_EQ(u.last_exit_code, 66);
}

TEST(the_setup_of_a_plugin_may_fail)
{
    struct tally t = { .total = 5 };
    struct gd_options o = options(&t, plugin_path("plugin_double"));
    o.setup_args = "refuse";
    o.setup_args_size = 6;
    CHECK_EQ(gd_run(&o), GD_E_SETUP);
    CHECK_STR(t.setup_error, "the plugin refused");
}

TEST(a_relative_path)
{
    struct tally t = { .total = 20 };
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", plugin_path("plugin_double"));
    *strrchr(directory, '/') = '\0';
    CHECK_EQ(chdir(directory), 0);
    const struct gd_options o = options(&t, "plugin_double.so");
    CHECK_EQ(gd_run(&o), 0);
    CHECK_EQ(t.done, 20);
}

TEST(no_such_plugin)
{
    struct tally t = { .total = 5 };
    const struct gd_options o = options(&t, "/nonexistent/plugin.so");
    CHECK_EQ(gd_run(&o), GD_E_PLUGIN);
    CHECK_CONTAINS(gd_error_text(), "/nonexistent/plugin.so");
    CHECK_EQ(t.next, 0);
}

TEST(a_shared_object_without_the_symbol)
{
    struct tally t = { .total = 5 };
    const struct gd_options o = options(&t, plugin_path("plugin_nothing"));
    CHECK_EQ(gd_run(&o), GD_E_SETUP);
    CHECK_CONTAINS(t.setup_error, GD_PLUGIN_SYMBOL);
    CHECK_EQ(t.errors, t.next);
}

TEST(a_file_that_is_not_a_shared_object)
{
    struct tally t = { .total = 5 };
    plugin_path("");
    const struct gd_options o = options(&t, "/etc/passwd");
    CHECK_EQ(gd_run(&o), GD_E_SETUP);
    CHECK_CONTAINS(t.setup_error, "/etc/passwd");
}

TEST(no_host_program)
{
    struct tally t = { .total = 5 };
    const struct gd_options o = options(&t, plugin_path("plugin_double"));
    setenv("GPU_DISPATCH_HOST", "/nonexistent/host", 1);
    CHECK_EQ(gd_run(&o), GD_E_SETUP);
    CHECK_CONTAINS(t.setup_error, "/nonexistent/host");
}

TEST_MAIN()
