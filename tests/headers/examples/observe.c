/* The program around the example in <gpu_dispatch/observe.h>: see examples.sh. */
/* The source waits until the example has read the run once and calls sleep(). So the run cannot end earlier. */
#include "common.h"

#include <semaphore.h>

static sem_t seen;

#define sleep(seconds) sem_post(&seen)

static int wait_and_give(void *user, struct gd_item *item)
{
    if (n_given == 1)
        sem_wait(&seen);
    return next_path(user, item);
}

static int observe(void)
{
#include "example.inc"
    return 0;
}

int main(int argc, char **argv)
{
    if (gd_worker_main(&argc, argv, &echo_ops) < 0)
        return 1;
    struct gd_spawner *run;
    struct gd_options options = GD_OPTIONS_INIT;
    options.gpus = "sim:1";
    options.job = "example";
    options.source = wait_and_give;
    options.on_success = print_result;
    sem_init(&seen, 0, 0);
    if (gd_spawner_start(&run, &options) < 0)
        return 1;
    const int rc = observe();
    sem_post(&seen);
    gd_spawner_wait(run, -1, NULL);
    gd_spawner_close(&run);
    return rc == 0 && n_done == 3 ? 0 : 1;
}
