/* A fork of the dispatching program does not replace that program. When the program is killed, its workers end and its
 * journal is unlocked, even if the fork is still running. This is true for fork(), which runs the handlers of
 * pthread_atfork(), and for a direct clone(), which does not run them. */
#include <sys/syscall.h>

#include "support/test.h"
#include "support/world.h"

static pid_t fork_bare(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

struct forked {
    pid_t (*fork)(void);
    pid_t *pid; /* shared */
};

/* Forks the dispatching process after its first task has ended. The fork waits until it is killed. */
static void fork_once(struct world *w, const struct gd_report *r)
{
    const struct forked *f = w->mine;
    if (r->task_id != 0)
        return;
    const pid_t pid = f->fork();
    CHECK_GE(pid, 0);
    if (pid == 0) {
        for (;;)
            pause();
    }
    *f->pid = pid;
    world_count_add(w->page, WC_USER, 1);
}

static void *share(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static bool is_alive(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    return poll(&p, 1, 0) == 0;
}

/* Checks that the workers end while the fork is still running. A worker that does not end makes this case reach its
 * time limit. */
static void kill_the_forking_program(pid_t (*do_fork)(void))
{
    struct world w;
    struct forked f = { .fork = do_fork, .pid = share(sizeof *f.pid) };
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    world_open(&w, 2);
    w.mine = &f;
    w.on_final = fork_once;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_add_many(&w, 2, (struct world_order){ .what = W_ECHO, .gate = 5 });
    const pid_t parent = fork();
    CHECK_GE(parent, 0);
    if (parent == 0) {
        world_run(&w);
        _exit(0);
    }
    world_await(w.page, WC_ENTERED, 3);
    int workers[2];
    for (int i = 0; i < 2; i++)
        workers[i] = (int)syscall(SYS_pidfd_open, world_pid(w.page, i), 0);
    world_await(w.page, WC_USER, 1);
    const int fork_fd = (int)syscall(SYS_pidfd_open, *f.pid, 0);
    CHECK_GE(fork_fd, 0);
    kill(parent, SIGKILL);
    CHECK_EQ(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 2; i++)
        world_await_end(workers[i]);
    CHECK(is_alive(fork_fd));
    kill(*f.pid, SIGKILL);
    world_await_end(fork_fd);
    world_close(&w);
}

TEST(workers_end_while_a_fork_is_running)
{
    kill_the_forking_program(fork);
}

TEST(workers_end_while_a_clone_without_handlers_is_running)
{
    kill_the_forking_program(fork_bare);
}

/* The fork does not keep the lifeline of any worker open, and the run continues normally. */
TEST(a_fork_does_not_disturb_the_run)
{
    struct world w;
    struct forked f = { .fork = fork, .pid = share(sizeof *f.pid) };
    world_open(&w, 2);
    w.mine = &f;
    w.leaves_children = 1;
    w.on_final = fork_once;
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_KILL, .tries = 1 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 201);
    kill(*f.pid, SIGKILL);
    CHECK_EQ(waitpid(*f.pid, NULL, 0), *f.pid);
    world_close(&w);
}

WORLD_MAIN()
