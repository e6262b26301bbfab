/* Reads the reply subjects of task messages: see jetstream.h. */
#include <string.h>

#include "queue/nats/language/parts.h"

#include <gpu_dispatch/dispatcher.h>

bool gd__js_number(const char *text, size_t size, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned digit = (unsigned char)text[i] - (unsigned)'0';
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return size > 0;
}

enum { SHORT_FORM = 9, LONG_FORM = 11, TOKENS_MOST = 12 };

struct token {
    const char *at;
    size_t size;
};

/* Returns the number of tokens, or 0 if there are too many or one is empty. */
static size_t split(const char *text, struct token tokens[TOKENS_MOST])
{
    size_t n = 0;
    for (const char *at = text;; at++) {
        const size_t size = strcspn(at, ".");
        if (n == TOKENS_MOST || size == 0)
            return 0;
        tokens[n++] = (struct token){ at, size };
        at += size;
        if (*at == '\0')
            return n;
    }
}

static bool token_is(struct token t, const char *text)
{
    return t.size == strlen(text) && memcmp(t.at, text, t.size) == 0;
}

/* "gd_NAME_t", as gd__queue_stream_text() writes it. Each task message is checked, so nothing is formatted here. */
static bool is_task_stream(struct token t, const char *name)
{
    const size_t size = strlen(name);
    return t.size == size + 5 && memcmp(t.at, "gd_", 3) == 0 && memcmp(t.at + 3, name, size) == 0 &&
           memcmp(t.at + 3 + size, "_t", 2) == 0;
}

/* "priority_-4", as gd__queue_consumer_text() writes it. */
static bool token_priority(struct token t, int *priority)
{
    static const char prefix[] = "priority_";
    uint64_t number;
    if (t.size < sizeof prefix || memcmp(t.at, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *at = t.at + sizeof prefix - 1;
    const size_t size = t.size - (sizeof prefix - 1);
    const bool is_negative = *at == '-';
    if (size != 1u + is_negative || !gd__js_number(at + is_negative, 1, &number) || (is_negative && number == 0))
        return false;
    *priority = is_negative ? -(int)number : (int)number;
    return *priority >= GD_PRIORITY_MIN && *priority <= GD_PRIORITY_MAX;
}

bool gd__js_ack_parse(struct gd__js_ack *out, const char *name, const char *reply)
{
    struct token tokens[TOKENS_MOST];
    uint64_t number;
    for (const char *p = reply; *p; p++) /* it becomes a part of a line of the protocol */
        if (*p <= ' ' || *p >= 0x7f || *p == '*' || *p == '>')
            return false;
    const size_t n = split(reply, tokens);
    if ((n != SHORT_FORM && n < LONG_FORM) || !token_is(tokens[0], "$JS") || !token_is(tokens[1], "ACK"))
        return false;
    const struct token *t = n == SHORT_FORM ? tokens + 2 : tokens + 4; /* the stream */
    return is_task_stream(t[0], name) && token_priority(t[1], &out->priority) &&
           gd__js_number(t[2].at, t[2].size, &out->deliveries) && gd__js_number(t[3].at, t[3].size, &out->sequence) &&
           gd__js_number(t[4].at, t[4].size, &number) && gd__js_number(t[5].at, t[5].size, &number) &&
           gd__js_number(t[6].at, t[6].size, &out->pending);
}
