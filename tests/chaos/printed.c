/* SPDX-License-Identifier: MIT
 *
 * Checks the standard output of a run of commands. It must have the whole output of each task that the run finished, in
 * one piece, and nothing else. With --tag each line begins with the input. With -k the order is that of the input.
 */
#include "chaos/chaos.h"

static char wrong[300];

/* The input and a TAB before each line. */
static void add_tags(struct text *t, enum kind kind, unsigned number)
{
    static struct text plain;
    plain = *t;
    t->size = 0;
    for (size_t at = 0; at < plain.size;) {
        const char *end = memchr(plain.bytes + at, '\n', plain.size - at);
        CHECK(end != NULL);
        const size_t length = (size_t)(end - plain.bytes) + 1 - at;
        t->size += (size_t)snprintf(t->bytes + t->size, sizeof t->bytes - t->size, "%s%u\t%.*s", kind_names[kind],
                                    number, (int)length, plain.bytes + at);
        CHECK_LT(t->size, sizeof t->bytes);
        at += length;
    }
}

/* The task whose output begins at this place with "did INPUT\n" or "INPUT\tdid INPUT\n"; -1: no task. */
static int task_at(const struct plan *p, const char *at)
{
    char first[INPUT_MAX];
    enum kind kind;
    unsigned number;
    if (sscanf(at, p->tag ? "%31s" : "did %31s", first) != 1 || !input_read(first, strlen(first), &kind, &number))
        return -1;
    return number < p->n && p->kinds[number] == kind ? (int)number : -1;
}

/* Returns how many bytes are the output of a task, or 0. */
static size_t match(const struct plan *p, const char *at, size_t left, int task)
{
    static struct text must;
    expected_stdout(&must, p->kinds[task], (unsigned)task);
    if (p->tag)
        add_tags(&must, p->kinds[task], (unsigned)task);
    return must.size <= left && memcmp(at, must.bytes, must.size) == 0 ? must.size : 0;
}

static const char *check_all(const struct plan *p, const char *text, size_t size, const bool *finished, unsigned *seen)
{
    int before = -1;
    for (size_t at = 0, n; at < size; at += n) {
        const int task = task_at(p, text + at);
        n = task < 0 ? 0 : match(p, text + at, size - at, task);
        if (n == 0)
            snprintf(wrong, sizeof wrong, "unexpected text at byte %zu: \"%.100s\"", at, text + at);
        else if (seen[task]++ || !finished[task])
            snprintf(wrong, sizeof wrong, "%s%d is there %s", kind_names[p->kinds[task]], task,
                     finished[task] ? "twice" : "and not in the journal");
        else if (p->keep_order && task < before)
            snprintf(wrong, sizeof wrong, "task %d comes after task %d", task, before);
        if (wrong[0])
            return wrong;
        before = task;
    }
    for (unsigned i = 0; i < p->n; i++)
        if (finished[i] && !seen[i]) {
            snprintf(wrong, sizeof wrong, "%s%u is missing", kind_names[p->kinds[i]], i);
            return wrong;
        }
    return NULL;
}

const char *check_printed(const struct plan *p, unsigned nth, const bool *finished)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "stdout.%u", nth);
    FILE *f = fopen(path, "re");
    CHECK(f && fstat(fileno(f), &st) == 0);
    char *text = calloc(1, (size_t)st.st_size + 1);
    unsigned *seen = calloc(p->n, sizeof *seen);
    CHECK(text && seen);
    const size_t size = fread(text, 1, (size_t)st.st_size, f);
    fclose(f);
    wrong[0] = '\0';
    const char *result = check_all(p, text, size, finished, seen);
    free(seen);
    free(text);
    return result;
}
