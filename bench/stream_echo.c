/* SPDX-License-Identifier: MIT
 *
 * The simplest stream program: the output of each task is its input. It relies on the known form of the lines,
 * {"id":N,...,"input":TEXT}, and answers all lines of one read with one write.
 *
 * usage: bench_stream_echo [CONCURRENCY]   the number is announced in the ready line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *in, *out;
static size_t in_size, room = 1 << 20;

static void write_all(const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done < 0)
            exit(1);
        bytes += done;
        n -= (size_t)done;
    }
}

/* Writes the answer to one line (given without its newline). Returns the end of what was written. */
static char *answer(char *to, const char *line, size_t n)
{
    static const char id_key[] = "{\"id\":", input_key[] = "\"input\":";
    const char *digits = line + sizeof id_key - 1, *comma = memchr(digits, ',', n - sizeof id_key + 1);
    const char *input = memmem(line, n, input_key, sizeof input_key - 1);
    if (strncmp(line, id_key, sizeof id_key - 1) != 0)
        return to; /* {"flush":true}: every line is answered at once anyway */
    if (!comma || !input)
        exit(1);
    input += sizeof input_key - 1;
    const size_t id_size = (size_t)(comma - line), input_size = (size_t)(line + n - input);
    memcpy(to, line, id_size);
    to += id_size;
    to = stpcpy(to, ",\"output\":");
    memcpy(to, input, input_size); /* includes the brace at the end */
    to += input_size;
    *to++ = '\n';
    return to;
}

/* Answers the complete lines and keeps the rest. An answer is never longer than its line, so `out` has room for all. */
static void answer_all(void)
{
    char *at = in, *to = out;
    for (char *end; (end = memchr(at, '\n', in_size - (size_t)(at - in))); at = end + 1)
        to = answer(to, at, (size_t)(end - at));
    in_size -= (size_t)(at - in);
    memmove(in, at, in_size);
    write_all(out, (size_t)(to - out));
}

int main(int argc, char **argv)
{
    char ready[64];
    const int length = argc > 1 ? snprintf(ready, sizeof ready, "{\"ready\":true,\"concurrency\":%d}\n", atoi(argv[1]))
                                : snprintf(ready, sizeof ready, "{\"ready\":true}\n");
    in = malloc(room);
    out = malloc(room);
    write_all(ready, (size_t)length);
    while (in && out) {
        const ssize_t n = read(STDIN_FILENO, in + in_size, room - in_size);
        if (n <= 0)
            return n < 0;
        in_size += (size_t)n;
        if (memchr(in + in_size - n, '\n', (size_t)n))
            answer_all();
        if (in_size == room) {
            room *= 2;
            in = realloc(in, room);
            free(out);
            out = malloc(room);
        }
    }
    return 1;
}
