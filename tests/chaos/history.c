/* SPDX-License-Identifier: MIT
 *
 * Reads the log of the tasks of a job: how often each task was started, and whether two attempts of a task ever ran at
 * the same time.
 *
 * The lines of an attempt are "try", "start", "end". After the "try" line of an attempt there must be no line of an
 * earlier attempt of the same task, because that attempt must have ended or been killed before.
 */
#include "chaos/chaos.h"

struct entry {
    char verb[8];
    enum kind kind;
    unsigned number;
    int pid;
};

static bool read_entry(const char *line, struct entry *e)
{
    char input[INPUT_MAX];
    return sscanf(line, "%7s %31s %d", e->verb, input, &e->pid) == 3 &&
           input_read(input, strlen(input), &e->kind, &e->number);
}

static void take_entry(struct history *h, const struct entry *e, int *latest)
{
    CHECK_LT(e->number, h->n);
    if (strcmp(e->verb, "try") == 0) {
        h->tries[e->number]++;
        latest[e->number] = e->pid;
        return;
    }
    h->starts[e->number] += strcmp(e->verb, "start") == 0;
    if (latest[e->number] != e->pid && !h->overlap[0])
        snprintf(h->overlap, sizeof h->overlap,
                 "task %s%u: process %d logged \"%s\" after process %d had begun its next attempt", kind_names[e->kind],
                 e->number, e->pid, e->verb, latest[e->number]);
}

void history_read(struct history *h, unsigned n)
{
    char line[256];
    int *latest = calloc(n, sizeof *latest); /* the process of the last "try", by task */
    FILE *log = fopen("log", "re");
    *h = (struct history){ .n = n, .tries = calloc(n, sizeof *h->tries), .starts = calloc(n, sizeof *h->starts) };
    CHECK(log && latest && h->tries && h->starts);
    while (fgets(line, sizeof line, log)) {
        struct entry e;
        if (!read_entry(line, &e))
            FAIL("a line of the log is \"%s\"", line);
        take_entry(h, &e, latest);
        h->lines++;
    }
    fclose(log);
    free(latest);
}

void history_free(struct history *h)
{
    free(h->tries);
    free(h->starts);
}

uint64_t count_lines(const char *path)
{
    char bytes[16384];
    uint64_t n = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < got; i++)
            n += bytes[i] == '\n';
    if (fd >= 0)
        close(fd);
    return n;
}
