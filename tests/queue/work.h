/* SPDX-License-Identifier: MIT
 *
 * Work on a queue with the real command, for the tests:
 *
 *     work_begin(server.hosts);                        // in a directory of its own; the queue is nats://HOSTS/q
 *     list_add("quick", 0, 100);                       // 100 inputs: quick0, quick1, ...
 *     CHECK_EQ(push("").status, 0);                    // gpu-dispatch push --queue ... :::: list
 *     struct node n = node_start("--gpus sim:2");      // gpu-dispatch run --queue ... THIS_PROGRAM task {}
 *     await_log("start quick7");
 *     node_signal(&n, SIGKILL);
 *     ...
 *     check_queue(server.port, 100);                   // one right record for each task
 *
 * The kinds of tasks, which this program itself runs (work_task()):
 *
 *     quick     ends at once
 *     gate      waits until the test has opened the gate
 *     door      waits until the test has opened the door
 *     long      takes 4 s
 *     fails     exits with code 3
 *     once      the first attempt fails, the next one does not
 *     poison    kills the node that runs it with SIGKILL
 *
 * Each attempt appends two lines to the file `log`: "start INPUT NODE" and "end INPUT NODE", where NODE is the process id
 * of the node.
 */
#ifndef GD_TESTS_QUEUE_WORK_H
#define GD_TESTS_QUEUE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern char work_url[512];

/* If the first argument is "task", runs the task and does not return. Called first in main(). */
void work_task(int argc, char **argv);

/* For test programs with tasks. */
#define WORK_MAIN()                   \
    int main(int argc, char **argv)   \
    {                                 \
        work_task(argc, argv);        \
        return test_main(argc, argv); \
    }

void work_begin(const char *hosts);

/* Appends inputs to the file `list`. list_new() empties it. */
void list_add(const char *kind, unsigned from, unsigned n);
void list_new(void);

/* Lets all tasks of the kind "gate" go on, those that begin later too; or those of the kind "door". */
void open_gate(void);
void open_door(void);

/* Wait until the log has this line (without the id of the node), or so many lines that begin so. */
void await_log(const char *line);
void await_log_lines(const char *begin, unsigned n);
unsigned log_lines(const char *begin);

/* --- commands ------------------------------------------------------------------------------- */

/* A command that was started. Its outputs are in the files NUMBER.out and NUMBER.err. */
struct node {
    pid_t pid; /* 0: it has ended */
    int ended; /* pidfd */
    unsigned number;
};

/* Starts `gpu-dispatch ARGUMENTS`; "$URL" is the address of the queue. */
__attribute__((format(printf, 1, 2))) struct node command_start(const char *format, ...);

/* Starts a node: `gpu-dispatch run --queue $URL OPTIONS -- THIS_PROGRAM task {}`. */
struct node node_start(const char *options);

/* Through a prefix, such as `nsenter ...`, and with another address. */
struct node node_start_at(const char *prefix, const char *url, const char *options);

void node_signal(struct node *n, int signal);
/* Waits for its end, and returns its exit status, or 128 + signal. */
int node_wait(struct node *n);
/* SIGKILL to the node and to what it has started. */
void node_kill(struct node *n);
/* What it has printed so far. Valid until the next call. */
const char *node_output(const struct node *n);
const char *node_errors(const struct node *n);
/* Waits until it has printed this text to its standard error, or has ended. */
void node_await_error(const struct node *n, const char *text);

/* Runs a command to its end. The text is its standard error. */
struct result {
    int status;
    char out[8192], err[8192];
};
__attribute__((format(printf, 1, 2))) struct result command(const char *format, ...);
/* gpu-dispatch push --queue $URL OPTIONS :::: list */
struct result push(const char *options);

/* --- checks ------------------------------------------------------------------------------------ */

/* What is in a queue, by its streams. */
struct tally {
    unsigned tasks;    /* different tasks */
    unsigned messages; /* task messages */
    unsigned records;  /* records of single tasks, without those that moved */
    unsigned done, failed;
    unsigned missing; /* tasks without a record */
    unsigned twice;   /* tasks with more than one record that counts */
    unsigned wrong;   /* tasks whose state or output is not that of their input */
    char example[200];
};
void tally_queue(unsigned port, struct tally *t);

/* Fails unless there are so many tasks, each with one right record. */
void check_queue(unsigned port, unsigned tasks);

/* Waits until clients have so many messages of priority 0 that they have not acknowledged. */
void await_held(unsigned port, long messages);

#endif
