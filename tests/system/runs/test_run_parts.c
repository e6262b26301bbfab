/* How a run calls its parts (launch/run.h): which parts it calls, and in which order, if the run succeeds, if a step
 * fails, and if the run is abandoned. */
#include <gpu_dispatch/gpu_dispatch.h>

#include "base/alloc.h"
#include "launch/run.h"
#include "support/test.h"

/* --- parts that record their calls --- */

struct job {
    struct gd__run run;
    char called[512];   /* the names of the parts that were called, in order */
    const char *fails;  /* the part that fails */
    const char *leaves; /* the part that abandons the run */
    const char *gpus;
    int given, tasks;
    int turned_into; /* the return value of ended(); 0: it returns its argument */
    uint64_t done;   /* number of successes; on_success compares it with the balancer */
    char summary[1024];
};

static int note(struct job *j, const char *part)
{
    const size_t length = strlen(j->called);
    snprintf(j->called + length, sizeof j->called - length, "%s%s", length > 0 ? " " : "", part);
    j->run.left_behind = j->run.left_behind || (j->leaves && strcmp(j->leaves, part) == 0);
    return j->fails && strcmp(j->fails, part) == 0 ? GD_E_FAILED : 0;
}

static int next(void *user, struct gd_item *item)
{
    struct job *j = user;
    item->data = "x";
    item->size = 1;
    return j->given++ < j->tasks;
}

static void on_success(void *user, const struct gd_report *r)
{
    (void)r;
    struct job *j = user;
    struct gd_balance b = { .size = sizeof b };
    CHECK_EQ(gd_balancer_overall(j->run.balancer, &b), 0);
    CHECK_EQ(b.done, ++j->done); /* the balancer counts a task before this callback */
}

static int prepare(void *user, struct gd_options *o)
{
    struct job *j = user;
    o->gpus = j->gpus;
    o->output = GD_OUTPUT_DISCARD;
    o->user = j;
    o->source = next;
    o->on_success = on_success;
    CHECK(!j->run.d);
    return note(j, "prepare");
}

static int open_source(void *user)
{
    struct job *j = user;
    CHECK(j->run.d);
    gd__run_set_total(&j->run, (uint64_t)j->tasks);
    return note(j, "open_source");
}

static int open_views(void *user)
{
    struct job *j = user;
    CHECK(j->run.balancer);
    CHECK_EQ(j->run.n_workers, 2);
    return note(j, "open_views");
}

static int ended(void *user, int result)
{
    struct job *j = user;
    (void)note(j, "ended");
    return j->turned_into ? j->turned_into : result;
}

static void close_views(void *user)
{
    (void)note(user, "close_views");
}

static void report(void *user, int result)
{
    struct job *j = user;
    FILE *to = fmemopen(j->summary, sizeof j->summary, "w");
    CHECK(to);
    CHECK_EQ(result, j->turned_into);
    CHECK(j->run.d);
    CHECK_EQ(gd__run_print_summary(&j->run, to, "tasks"), 0);
    fclose(to);
    (void)note(j, "report");
}

static void conclude(void *user, int result)
{
    struct job *j = user;
    CHECK_EQ(result, j->turned_into);
    /* Unless the run is abandoned, the dispatcher is closed by now, so the journal has no writer any more. */
    CHECK_EQ(j->run.d != NULL, j->run.left_behind);
    (void)note(j, "conclude");
}

static void close_all(void *user)
{
    struct job *j = user;
    CHECK(!j->run.d);
    (void)note(j, "close");
}

static void failed(void *user, int code)
{
    CHECK_LT(code, 0);
    CHECK_GT(strlen(gd_error_text()), 0);
    (void)note(user, "failed");
}

static void say(void *user, const char *what, const char *why)
{
    (void)user;
    FAIL("no event of a worker was expected: %s: %s", what, why);
}

static const struct gd__run_parts parts = { .prepare = prepare,
                                            .open_source = open_source,
                                            .open_views = open_views,
                                            .ended = ended,
                                            .close_views = close_views,
                                            .report = report,
                                            .conclude = conclude,
                                            .close = close_all,
                                            .failed = failed,
                                            .say = say };

static int execute(struct job *j)
{
    j->gpus = j->gpus ? j->gpus : "sim:2";
    j->tasks = 5;
    return gd__run_execute(&j->run, &parts, j);
}

/* --- what is called --- */

TEST(the_steps_are_called_in_order)
{
    struct job j = { 0 };
    CHECK_EQ(execute(&j), 0);
    CHECK_STR(j.called, "prepare open_source open_views ended close_views report conclude close");
    CHECK_EQ(j.done, 5);
    CHECK_CONTAINS(j.summary, "\n5 tasks in ");
}

TEST(the_return_value_of_ended_is_the_result)
{
    struct job j = { .turned_into = GD_E_INTERRUPTED };
    CHECK_EQ(execute(&j), GD_E_INTERRUPTED);
    CHECK_STR(j.called, "prepare open_source open_views ended close_views report conclude close");
}

/* If the run did not begin, report() and conclude() are not called, and everything is closed. */
TEST(a_part_that_fails_ends_the_run)
{
    struct job first = { .fails = "prepare" }, second = { .fails = "open_source" }, third = { .fails = "open_views" };
    CHECK_EQ(execute(&first), GD_E_FAILED);
    CHECK_STR(first.called, "prepare close_views close");
    CHECK_EQ(execute(&second), GD_E_FAILED);
    CHECK_STR(second.called, "prepare open_source close_views close");
    CHECK_EQ(execute(&third), GD_E_FAILED);
    CHECK_STR(third.called, "prepare open_source open_views close_views close");
}

TEST(a_step_of_the_run_itself_that_fails_is_reported)
{
    struct job j = { .gpus = "rubbish" };
    CHECK_LT(execute(&j), 0);
    CHECK_STR(j.called, "prepare failed close_views close");
}

/* --- abandoned --- */

/* Frees memory that an abandoned thread would still use. These cases have no such thread. */
static void free_left(struct job *j)
{
    gd_dispatcher_close(&j->run.d);
    gd_balancer_close(&j->run.balancer);
    gd__free(j->run.setup_failures);
    gd__free(j->run.no_setup);
    gd__free(j->run.workers);
}

TEST(an_abandoned_run_is_not_closed)
{
    struct job early = { .leaves = "close_views" }, late = { .leaves = "conclude" };
    CHECK_EQ(execute(&early), 0);
    CHECK_STR(early.called, "prepare open_source open_views ended close_views report conclude");
    CHECK(early.run.d);
    free_left(&early);
    CHECK_EQ(execute(&late), 0);
    CHECK_STR(late.called, "prepare open_source open_views ended close_views report conclude");
    CHECK(late.run.balancer);
    free_left(&late);
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    return gd_result_set(r, t->data, t->size);
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
