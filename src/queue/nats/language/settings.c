/* Checks the settings of streams and consumers that exist already: see parts.h. */
#include <stdio.h>
#include <string.h>

#include "base/text/buffer.h"
#include "queue/nats/language/parts.h"

enum { NAME_MOST = 2 * GD__QUEUE_SUBJECT_ROOM /* longer texts are not of this program */ };

static bool is_text(const struct gd__json *value, const char *text)
{
    char decoded[NAME_MOST];
    if (value->kind != GD__JSON_STRING || value->size > sizeof decoded)
        return false;
    const size_t size = gd__json_decode(value, decoded);
    return size == strlen(text) && memcmp(decoded, text, size) == 0;
}

struct setting {
    const char *name;
    const char *value;
    bool is_text; /* a string; otherwise JSON: a number, true or false */
};

/* What is false or 0 may be left out. */
static bool has_value(const struct setting *s, const struct gd__json *config)
{
    struct gd__json value;
    if (!gd__json_member(config->at, config->size, s->name, &value))
        return !s->is_text && (strcmp(s->value, "false") == 0 || strcmp(s->value, "0") == 0);
    if (s->is_text)
        return is_text(&value, s->value);
    return value.size == strlen(s->value) && memcmp(value.at, s->value, value.size) == 0;
}

static bool check_settings(struct gd__js_exchange *x, const char *what, const struct gd__json *config,
                           const struct setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (has_value(&settings[i], config))
            continue;
        (void)snprintf(x->text, sizeof x->text,
                       "the server has a %s with this name and other settings: \"%s\" must be %s. Use another name for "
                       "the queue, or delete the %s",
                       what, settings[i].name, settings[i].value, what);
        return false;
    }
    return true;
}

bool gd__js_stream_fits(struct gd__js_exchange *x, const struct gd__json *config)
{
    const bool replaces = x->asked.stream == GD__QUEUE_STATE;
    const struct setting settings[] = {
        { "retention", "limits", true },
        { "storage", "file", true },
        { "max_msgs_per_subject", "1", false },
        { "discard", replaces ? "old" : "new", true },
        { "discard_new_per_subject", replaces ? "false" : "true", false },
        { "allow_direct", "true", false },
        { "max_msgs", "-1", false },
        { "max_age", "0", false },
        { "sealed", "false", false },
    };
    struct gd__json subjects, mode;
    char filter[GD__QUEUE_SUBJECT_ROOM];
    struct gd__buffer list = { 0 };
    gd__queue_stream_filter(filter, x->name, x->asked.stream);
    if (!check_settings(x, "stream", config, settings, sizeof settings / sizeof *settings))
        return false;
    const bool same = gd__json_member(config->at, config->size, "subjects", &subjects) &&
                      gd__json_read_list(&list, subjects.at, subjects.size) && !list.failed &&
                      list.size == strlen(filter) && memcmp(list.data, filter, list.size) == 0;
    gd__buffer_free(&list);
    if (same && !(gd__json_member(config->at, config->size, "persist_mode", &mode) && is_text(&mode, "async")))
        return true;
    (void)snprintf(x->text, sizeof x->text,
                   "the server has a stream with this name and other settings: %s. Use another name for the queue, or "
                   "delete the stream",
                   same ? "\"persist_mode\" is async" : "its subjects are others");
    return false;
}

bool gd__js_consumer_fits(struct gd__js_exchange *x, const struct gd__json *config)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    struct gd__json push;
    const struct setting settings[] = {
        { "ack_policy", "explicit", true },
        { "deliver_policy", "all", true },
        { "max_deliver", "-1", false },
        { "filter_subject", gd__queue_priority_filter(filter, x->name, x->asked.priority), true },
    };
    if (!check_settings(x, "consumer", config, settings, sizeof settings / sizeof *settings))
        return false;
    if (!gd__json_member(config->at, config->size, "deliver_subject", &push))
        return true;
    (void)snprintf(x->text, sizeof x->text, "the server has a consumer with this name that pushes messages: delete it");
    return false;
}
