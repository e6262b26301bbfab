/* The network of the simulation: see world.h.
 *
 * A letter is a request, a notice or an answer on its way. What the real link promises holds here too: a request gets
 * exactly one answer that ends it, at the latest when its time is over, and never from within link_ask().
 */
#include <stdlib.h>
#include <string.h>

#include "sim/queue/world/world.h"

enum letter_kind { LETTER_REQUEST, LETTER_NOTICE, LETTER_ANSWER };

struct letter {
    enum letter_kind kind;
    unsigned link;
    uint32_t connection;
    struct gd__queue_request request;
    struct gd__queue_answer answer;
    enum gd__queue_notice notice;
    uint32_t delay_ms;
    char *text;  /* subject, or the token of a notice */
    char *token; /* of an answer */
    void *data;
};

static void *copy_of(const void *from, size_t size)
{
    void *to = malloc(size + 1);
    if (!to)
        abort();
    if (size > 0)
        memcpy(to, from, size);
    return to;
}

static char *text_of(const char *text)
{
    return text ? copy_of(text, strlen(text) + 1) : NULL;
}

static struct letter *new_letter(const struct letter *from)
{
    struct letter *l = copy_of(from, sizeof *l);
    const void *data = l->kind == LETTER_REQUEST ? l->request.data : l->kind == LETTER_ANSWER ? l->answer.data : NULL;
    const size_t size = l->kind == LETTER_REQUEST ? l->request.size : l->kind == LETTER_ANSWER ? l->answer.size : 0;
    l->text = text_of(l->text);
    l->token = text_of(l->token);
    l->data = data ? copy_of(data, size) : NULL;
    l->request.subject = l->answer.subject = l->text;
    l->request.data = l->answer.data = l->data;
    l->answer.token = l->token;
    return l;
}

void letter_free(struct letter *l)
{
    if (!l)
        return;
    free(l->text);
    free(l->token);
    free(l->data);
    free(l);
}

/* --- waiting for answers --- */

static unsigned find_wait(const struct link *l, uint64_t id)
{
    unsigned i = 0;
    while (i < l->n_waits && l->waits[i].id != id)
        i++;
    return i;
}

/* Reports an answer that the client still waits for. */
static void report(struct world *w, struct link *l, const struct gd__queue_answer *a)
{
    const unsigned i = find_wait(l, a->id);
    if (i == l->n_waits)
        return; /* it has ended */
    if (l->waits[i].damaged && a->kind != GD__ANSWER_LOST)
        return;
    const struct wait wait = l->waits[i];
    if (a->kind != GD__ANSWER_ITEM)
        l->waits[i] = l->waits[--l->n_waits];
    if (wait.about_record && (a->kind == GD__ANSWER_OK || a->kind == GD__ANSWER_NONE || a->kind == GD__ANSWER_REFUSED))
        ledger_looked(l, &wait.key, a->kind != GD__ANSWER_NONE);
    else if (wait.ask == GD__ASK_PULL && a->kind == GD__ANSWER_ITEM)
        ledger_arrived(w, l, a);
    l->answer(l->user, a);
}

static void report_lost(struct world *w, struct link *l, uint64_t id)
{
    report(w, l, &(struct gd__queue_answer){ .id = id, .kind = GD__ANSWER_LOST, .text = "" });
}

/* --- sending --- */

/* A connection keeps the order of its messages. */
static uint64_t arrival(struct world *w, uint64_t *last, uint64_t delay)
{
    uint64_t at = w->now + delay + sim_spread(&w->chance, w->plan.hop_ns);
    if (world_happens(w, w->plan.slow))
        at += sim_below(&w->chance, 12 * GD__NS_PER_S);
    if (at < *last)
        at = *last;
    *last = at;
    return at;
}

static void send_letter(struct world *w, struct link *l, const struct letter *letter, uint64_t at)
{
    world_put(w, &(struct event){ .at = at,
                                  .kind = letter->kind == LETTER_ANSWER ? EVENT_TO_CLIENT : EVENT_TO_SERVER,
                                  .who = l->index,
                                  .letter = new_letter(letter) });
}

static void post_to_server(struct world *w, struct link *l, const struct letter *letter)
{
    for (int copies = world_happens(w, w->plan.repeat) ? 2 : 1; copies > 0; copies--) {
        const uint64_t at = arrival(w, &l->last_out, 0);
        if (!world_happens(w, w->plan.drop))
            send_letter(w, l, letter, at);
    }
}

/* A link notices that a part of a list is missing. */
static void post_to_client(struct world *w, struct link *l, const struct letter *letter, uint64_t delay)
{
    const uint64_t at = arrival(w, &l->last_in, delay);
    const unsigned i = find_wait(l, letter->answer.id);
    if (!world_happens(w, w->plan.drop))
        send_letter(w, l, letter, at);
    else if (i < l->n_waits && l->waits[i].ask != GD__ASK_PULL)
        l->waits[i].damaged = true;
}

static void note_look(struct wait *wait, const struct gd__queue_request *r)
{
    struct gd__queue_subject s;
    wait->about_record = (r->ask == GD__ASK_LAST || r->ask == GD__ASK_PUBLISH) &&
                         gd__queue_subject_parse(&s, WORLD_NAME, r->subject) == 0 && s.kind == GD__QUEUE_RECORD;
    if (wait->about_record)
        wait->key = s.key;
}

void link_ask(struct world *w, unsigned index, const struct gd__queue_request *r)
{
    struct link *l = w->links[index];
    WORLD_MUST(w, l->open, "a closed link is used");
    WORLD_MUST(w, find_wait(l, r->id) == l->n_waits, "the id %llu of a request is used twice", LLU(r->id));
    size_t room = l->waits_room;
    l->waits = world_grow(l->waits, &room, l->n_waits, sizeof *l->waits);
    l->waits_room = (unsigned)room;
    struct wait *wait = &l->waits[l->n_waits++];
    *wait = (struct wait){ .id = r->id, .serial = ++w->serial, .ask = r->ask };
    note_look(wait, r);
    const uint64_t limit_ms = (r->timeout_ms ? r->timeout_ms : 5000) + (r->ask == GD__ASK_PULL ? r->wait_ms : 0);
    const bool at_once = !l->connected && w->plan.lost_at_once;
    world_put(w, &(struct event){ .at = w->now + (at_once ? 0 : limit_ms * GD__NS_PER_MS),
                                  .kind = EVENT_TIMEOUT,
                                  .who = index,
                                  .number = w->serial,
                                  .w = 0 });
    if (!l->connected)
        return;
    const struct letter letter = { .kind = LETTER_REQUEST,
                                   .link = index,
                                   .connection = l->connection,
                                   .request = *r,
                                   .text = (char *)(uintptr_t)r->subject };
    post_to_server(w, l, &letter);
}

void link_tell(struct world *w, unsigned index, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    struct link *l = w->links[index];
    WORLD_MUST(w, l->open, "a closed link is used");
    if (!l->connected)
        return;
    const struct letter letter = { .kind = LETTER_NOTICE,
                                   .link = index,
                                   .connection = l->connection,
                                   .notice = notice,
                                   .delay_ms = delay_ms,
                                   .text = (char *)(uintptr_t)token };
    post_to_server(w, l, &letter);
}

/* The server is busy for a while with each request, one after the other. */
static uint64_t serve(struct world *w, bool publishes)
{
    const uint64_t from = w->server_busy_until > w->now ? w->server_busy_until : w->now;
    w->server_busy_until = from + (publishes ? w->plan.publish_ns : w->plan.serve_ns);
    return w->server_busy_until - w->now;
}

void wire_answer(void *user, unsigned client, const struct gd__queue_answer *a)
{
    struct world *w = user;
    struct link *l = w->links[client];
    if (!l->open || !l->connected)
        return;
    const struct letter letter = { .kind = LETTER_ANSWER,
                                   .link = client,
                                   .connection = l->connection,
                                   .answer = *a,
                                   .text = (char *)(uintptr_t)a->subject,
                                   .token = (char *)(uintptr_t)a->token };
    post_to_client(w, l, &letter, w->server_busy_until > w->now ? w->server_busy_until - w->now : 0);
}

static void count(struct world *w, const struct letter *letter)
{
    struct figures *f = &w->figures;
    if (letter->kind == LETTER_NOTICE)
        f->notices++;
    else
        f->requests++;
    f->publishes += letter->kind == LETTER_REQUEST && letter->request.ask == GD__ASK_PUBLISH;
    const size_t slot = (w->now - WORLD_BEGINNING) / (100 * GD__NS_PER_MS);
    if (f->per_100ms && slot < f->per_100ms_room)
        f->per_100ms[slot]++;
}

static void trace(struct world *w, const struct letter *letter)
{
    static const char *const asks[] = { "?",          "server", "create",   "create consumer",
                                        "priorities", "stream", "consumer", "subjects",
                                        "publish",    "last",   "read",     "pull" };
    static const char *const notices[] = { "?", "ack", "nak", "working" };
    const struct gd__queue_request *r = &letter->request;
    if (!w->trace)
        return;
    if (letter->kind == LETTER_NOTICE)
        world_trace(w, "  %u -> %s %s %u", letter->link, notices[letter->notice], letter->text, letter->delay_ms);
    else
        world_trace(w, "  %u -> %llu %s %s %u", letter->link, LLU(r->id), asks[r->ask], r->subject ? r->subject : "",
                    r->most);
}

static void to_server(struct world *w, struct link *l, const struct letter *letter)
{
    if (!w->server_up || l->cut_out || letter->connection != l->connection)
        return;
    count(w, letter);
    trace(w, letter);
    if (letter->kind == LETTER_NOTICE) {
        if (letter->notice != GD__TELL_WORKING)
            ledger_told(w, l->index, letter->notice, letter->text);
        server_tell(&w->server, w->now, letter->notice, letter->text, letter->delay_ms);
    } else {
        serve(w, letter->request.ask == GD__ASK_PUBLISH);
        if (world_happens(w, w->plan.later))
            wire_answer(
                w, l->index,
                &(struct gd__queue_answer){ .id = letter->request.id, .kind = GD__ANSWER_LATER, .text = "no leader" });
        else
            server_ask(&w->server, w->now, l->index, &letter->request);
    }
    world_tick_server(w);
}

static void trace_answer(struct world *w, const struct letter *letter)
{
    static const char *const kinds[] = { "?",     "item", "ok",     "none",      "refused",
                                         "later", "lost", "denied", "too large", "failed" };
    const struct gd__queue_answer *a = &letter->answer;
    if (w->trace)
        world_trace(w, "  <- %u: %llu %s %s %s", letter->link, LLU(a->id), kinds[a->kind], a->subject ? a->subject : "",
                    a->token ? a->token : "");
}

static void to_client(struct world *w, struct link *l, const struct letter *letter)
{
    if (!l->open || !l->connected || l->cut_in || letter->connection != l->connection)
        return;
    trace_answer(w, letter);
    report(w, l, &letter->answer);
}

/* --- connections --- */

unsigned link_open(struct world *w, void *user, void (*answer)(void *, const struct gd__queue_answer *),
                   void (*on_connected)(void *, bool))
{
    size_t room = w->links_room;
    w->links = world_grow(w->links, &room, w->n_links, sizeof(struct link *));
    w->links_room = (unsigned)room;
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    *l = (struct link){ .index = w->n_links,
                        .open = true,
                        .connected = true,
                        .world = w,
                        .user = user,
                        .answer = answer,
                        .on_connected = on_connected };
    w->links[w->n_links++] = l;
    if (!w->server_up)
        link_lose(w, l->index);
    return l->index;
}

void link_close(struct world *w, unsigned index)
{
    struct link *l = w->links[index];
    l->open = l->connected = false;
    l->connection++;
    l->n_waits = 0;
    server_forget_client(&w->server, index);
}

/* Two outages of which the second begins soon after the first are one: no sign of life may have come between them. */
void link_health(const struct world *w, struct link *l)
{
    const bool sick = l->cut_in || l->cut_out || !l->connected;
    if (sick == l->sick)
        return;
    l->sick = sick;
    if (sick && (l->well_ns == 0 || w->now - l->well_ns > w->plan.lease_ms * GD__NS_PER_MS))
        l->sick_ns = w->now;
    if (!sick)
        l->well_ns = w->now;
    if (!sick && w->now - l->sick_ns > l->worst_ns)
        l->worst_ns = w->now - l->sick_ns;
}

uint64_t link_outage(const struct world *w, const struct link *l)
{
    return l->sick && w->now - l->sick_ns > l->worst_ns ? w->now - l->sick_ns : l->worst_ns;
}

void link_lose(struct world *w, unsigned index)
{
    struct link *l = w->links[index];
    if (!l->open || !l->connected)
        return;
    l->connected = false;
    l->connection++;
    l->lost_ns = w->now;
    link_health(w, l);
    if (w->server_up)
        server_forget_client(&w->server, index);
    world_at(w, w->now + sim_below(&w->chance, 100 * GD__NS_PER_MS), EVENT_LINK_DOWN, index);
}

static void link_down(struct world *w, struct link *l)
{
    l->on_connected(l->user, false);
    if (w->plan.lost_at_once)
        while (l->open && l->n_waits > 0)
            report_lost(w, l, l->waits[l->n_waits - 1].id);
    if (l->open)
        world_at(w, w->now + sim_below(&w->chance, w->plan.reconnect_ns + 1), EVENT_LINK_UP, l->index);
}

/* Clients try again until the server can be reached. */
static void link_up(struct world *w, struct link *l)
{
    if (!w->server_up || l->cut_in || l->cut_out) {
        world_at(w, w->now + w->plan.reconnect_ns / 2 + sim_below(&w->chance, w->plan.reconnect_ns + 1), EVENT_LINK_UP,
                 l->index);
        return;
    }
    l->connected = true;
    link_health(w, l);
    l->on_connected(l->user, true);
}

static void timeout(struct world *w, struct link *l, uint64_t serial)
{
    for (unsigned i = 0; i < l->n_waits; i++)
        if (l->waits[i].serial == serial) {
            report_lost(w, l, l->waits[i].id);
            return;
        }
}

void wire_event(struct world *w, const struct event *e)
{
    struct link *l = w->links[e->who];
    if (e->kind == EVENT_TO_SERVER)
        to_server(w, l, e->letter);
    else if (e->kind == EVENT_TO_CLIENT)
        to_client(w, l, e->letter);
    else if (!l->open)
        return;
    else if (e->kind == EVENT_TIMEOUT)
        timeout(w, l, e->number);
    else if (e->kind == EVENT_LINK_DOWN)
        link_down(w, l);
    else if (e->kind == EVENT_LINK_UP)
        link_up(w, l);
}
