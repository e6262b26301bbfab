/* Blocking requests on a link: see call.h.
 *
 * The listener runs on a thread of the link. It copies each answer into the list of the caller that has asked, and makes
 * that caller's eventfd readable. Everything else happens on the caller's thread: it waits for the eventfd, the stop
 * descriptor and the time at which the next request must be repeated.
 *
 * The highest byte of a request's id says which caller has asked, and the lowest two bytes say which place in its window a
 * publication has. Between them is a number that is never used again, so an answer that comes too late matches nothing
 * and is dropped.
 */
#include "queue/call.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/text/printable.h"

enum {
    CALLERS = 4, /* on one link */
    CALLER_SHIFT = 56,
    SERIAL_SHIFT = 16,
    SERVER_ROOM = 300,
    TEXT_ROOM = 256,
    WINDOW_MOST = 65536,
    DELAY_FIRST_MS = 50,
    DELAY_MOST_MS = 2000,
    CLOSE_MS = 2000,
};

/* An answer that the caller has not seen yet, with copies of all that it points to. */
struct arrival {
    struct arrival *next;
    struct gd__queue_answer answer;
    char bytes[];
};

/* When a request that got no useful answer is sent again. */
struct repetition {
    uint64_t since_ns; /* the first time without a useful answer; 0: none yet */
    uint64_t due_ns;
    unsigned times;
};

/* A publication without an answer. */
struct outstanding {
    uint64_t id; /* 0: free */
    bool waits;  /* until again.due_ns, to be sent again */
    struct repetition again;
    enum gd__queue_condition condition;
    uint64_t sequence, tag;
    char *subject;
    void *data;
    size_t size;
};

/* What the callers of one link share. */
struct shared {
    pthread_mutex_t mutex; /* for everything below, and for the lists of arrivals */
    struct gd__queue_link *link;
    struct gd__queue_listener listener;
    struct gd__caller *callers[CALLERS];
    unsigned users;
    bool connected;
    char lost_text[TEXT_ROOM]; /* why the connection was lost */
};

struct gd__caller {
    struct shared *shared;
    unsigned number; /* in shared->callers */
    int wake_fd;     /* readable: there are arrivals */
    int stop_fd;
    uint32_t patience_ms;
    char server[SERVER_ROOM];
    uint64_t serial, random;

    struct arrival *first, **last; /* guarded by shared->mutex */
    bool no_memory;                /* likewise: an answer could not be stored */

    struct arrival *end; /* the last answer of gd__call(), borrowed by its caller */

    struct outstanding *window;
    uint32_t window_room, used, waiting;
    size_t used_bytes;
    gd__published_fn *published;
    void *user;
    gd__repeat_fn *before_repetitions;
    void *repeat_user;
};

/* --- the listener, on a thread of the link --- */

static const char *copy_text(char **to, const char *text)
{
    const char *copy = *to;
    *to = stpcpy(*to, text ? text : "") + 1;
    return copy;
}

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 1;
}

static struct arrival *copy_answer(const struct gd__queue_answer *a)
{
    const size_t data_size = a->data ? a->size : 0;
    struct arrival *copy =
        gd__calloc(1, sizeof *copy + data_size + text_size(a->text) + text_size(a->subject) + text_size(a->token));
    if (!copy)
        return NULL;
    char *to = copy->bytes;
    copy->answer = *a;
    if (data_size > 0)
        memcpy(to, a->data, data_size);
    copy->answer.data = to;
    copy->answer.size = data_size;
    to += data_size;
    copy->answer.text = copy_text(&to, a->text);
    copy->answer.subject = copy_text(&to, a->subject);
    copy->answer.token = copy_text(&to, a->token);
    return copy;
}

static void wake(const struct gd__caller *c)
{
    const uint64_t one = 1;
    (void)!write(c->wake_fd, &one, sizeof one);
}

static void take_answer(void *user, const struct gd__queue_answer *a)
{
    struct shared *s = user;
    struct arrival *copy = copy_answer(a);
    pthread_mutex_lock(&s->mutex);
    const uint64_t number = a->id >> CALLER_SHIFT;
    struct gd__caller *c = number < CALLERS ? s->callers[number] : NULL;
    if (c) {
        if (copy) {
            *c->last = copy;
            c->last = &copy->next;
        } else {
            c->no_memory = true;
        }
        wake(c);
    }
    pthread_mutex_unlock(&s->mutex);
    if (!c)
        gd__free(copy);
}

static void take_connected(void *user, bool is_connected, const char *text)
{
    struct shared *s = user;
    pthread_mutex_lock(&s->mutex);
    s->connected = is_connected;
    if (!is_connected)
        (void)gd__text_line(s->lost_text, sizeof s->lost_text, text ? text : "", text ? strlen(text) : 0);
    pthread_mutex_unlock(&s->mutex);
}

/* --- opening and closing --- */

static void free_arrivals(struct arrival *a)
{
    while (a) {
        struct arrival *next = a->next;
        gd__free(a);
        a = next;
    }
}

static void forget(struct gd__caller *c, struct outstanding *o)
{
    c->used--;
    c->waiting -= o->waits;
    c->used_bytes -= o->size;
    gd__free(o->subject);
    gd__free(o->data);
    *o = (struct outstanding){ 0 };
}

static void forget_all(struct gd__caller *c)
{
    for (uint32_t i = 0; i < c->window_room && c->used > 0; i++) {
        if (c->window[i].id != 0)
            forget(c, &c->window[i]);
    }
}

static void free_shared(struct shared *s)
{
    if (s->link)
        s->link->ops->close(s->link, CLOSE_MS);
    pthread_mutex_destroy(&s->mutex);
    gd__free(s);
}

void gd__caller_close(struct gd__caller **caller)
{
    struct gd__caller *c = caller ? *caller : NULL;
    if (!c)
        return;
    struct shared *s = c->shared;
    pthread_mutex_lock(&s->mutex);
    s->callers[c->number] = NULL;
    const bool last = --s->users == 0;
    pthread_mutex_unlock(&s->mutex);
    if (last)
        free_shared(s);
    if (c->window)
        forget_all(c);
    gd__free(c->window);
    free_arrivals(c->first);
    free_arrivals(c->end);
    gd__fd_close(&c->wake_fd);
    gd__free(c);
    *caller = NULL;
}

/* Adds a caller to the link. */
static int new_caller(struct gd__caller **out, struct shared *s, const struct gd__caller_config *config)
{
    struct gd__caller *c = gd__calloc(1, sizeof *c);
    if (!c)
        return gd__error(GD_E_NO_MEMORY, "no memory for requests to the server of a queue");
    c->wake_fd = GD__FAULT("eventfd") ? -1 : gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    c->stop_fd = config->stop_fd;
    c->patience_ms = config->patience_ms ? config->patience_ms : GD__CALL_PATIENCE_MS;
    c->window_room = config->window ? config->window : GD__CALL_WINDOW;
    if (c->window_room > WINDOW_MOST)
        c->window_room = WINDOW_MOST;
    c->last = &c->first;
    (void)snprintf(c->server, sizeof c->server, "%s", config->server ? config->server : "the server");
    if (getrandom(&c->random, sizeof c->random, GRND_NONBLOCK) != (ssize_t)sizeof c->random)
        c->random = gd__now_ns();
    c->random |= 1;
    pthread_mutex_lock(&s->mutex);
    while (c->number < CALLERS && s->callers[c->number])
        c->number++;
    const bool fits = c->number < CALLERS && c->wake_fd >= 0;
    if (fits) {
        s->callers[c->number] = c;
        s->users++;
        c->shared = s;
    }
    pthread_mutex_unlock(&s->mutex);
    if (fits) {
        *out = c;
        return 0;
    }
    const int rc = c->wake_fd < 0 ? gd__error_errno("cannot make an eventfd")
                                  : gd__error(GD_E_BUSY, "more than %d callers on one link", CALLERS);
    gd__fd_close(&c->wake_fd);
    gd__free(c);
    return rc;
}

int gd__caller_open(struct gd__caller **out, const struct gd__caller_config *config, gd__link_open_fn *open_link,
                    void *user)
{
    struct shared *s = gd__calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return gd__error(GD_E_NO_MEMORY, "no memory for requests to the server of a queue");
    pthread_mutex_init(&s->mutex, NULL);
    s->listener = (struct gd__queue_listener){ .user = s, .answer = take_answer, .connected = take_connected };
    s->connected = true;
    struct gd__caller *c = NULL;
    int rc = new_caller(&c, s, config);
    if (rc < 0) {
        free_shared(s);
        return rc;
    }
    rc = open_link(user, &s->listener, &s->link);
    if (rc < 0) {
        s->link = NULL;
        gd__caller_close(&c);
        return rc;
    }
    *out = c;
    return 0;
}

int gd__caller_share(struct gd__caller **out, struct gd__caller *first)
{
    const struct gd__caller_config config = { .server = first->server,
                                              .patience_ms = first->patience_ms,
                                              .stop_fd = first->stop_fd,
                                              .window = first->window_room };
    *out = NULL;
    return new_caller(out, first->shared, &config);
}

void gd__caller_set(struct gd__caller *c, uint32_t patience_ms, int stop_fd)
{
    c->patience_ms = patience_ms ? patience_ms : GD__CALL_PATIENCE_MS;
    c->stop_fd = stop_fd;
}

struct gd__queue_link *gd__caller_link(struct gd__caller *c)
{
    return c->shared->link;
}

/* --- waiting --- */

/* xorshift64*: only spreads machines that ask again. */
static uint64_t next_random(struct gd__caller *c)
{
    c->random ^= c->random >> 12;
    c->random ^= c->random << 25;
    c->random ^= c->random >> 27;
    return (c->random * UINT64_C(2685821657736338717)) >> 16;
}

static int interrupted(void)
{
    return gd__error(GD_E_INTERRUPTED, "interrupted while waiting for the server of the queue");
}

/* Waits until the time has come, or an answer arrives: then the caller must take all arrivals. With a pause, answers do
 * not count. */
static int wait_until(struct gd__caller *c, uint64_t until_ns, bool pause)
{
    struct pollfd fds[] = { { pause ? -1 : c->wake_fd, POLLIN, 0 }, { c->stop_fd, POLLIN, 0 } };
    const uint64_t now = gd__now_ns();
    const uint64_t left = until_ns > now ? until_ns - now : 0;
    const struct timespec timeout = { (time_t)(left / GD__NS_PER_S), (long)(left % GD__NS_PER_S) };
    if (ppoll(fds, 2, until_ns == GD__NEVER ? NULL : &timeout, NULL) < 0)
        return errno == EINTR ? 0 : gd__error_errno("cannot wait for the server of the queue");
    if (fds[1].revents != 0)
        return interrupted();
    uint64_t count;
    if (fds[0].revents != 0)
        (void)!read(c->wake_fd, &count, sizeof count);
    return 0;
}

/* Takes all arrivals. The caller frees them. */
static int take_arrivals(struct gd__caller *c, struct arrival **out)
{
    pthread_mutex_lock(&c->shared->mutex);
    *out = c->first;
    c->first = NULL;
    c->last = &c->first;
    const bool no_memory = c->no_memory;
    c->no_memory = false;
    pthread_mutex_unlock(&c->shared->mutex);
    return no_memory ? gd__error(GD_E_NO_MEMORY, "no memory for an answer of the server of the queue") : 0;
}

int gd__call_pause(struct gd__caller *c, uint32_t ms)
{
    const uint64_t until = gd__now_ns() + ms * GD__NS_PER_MS;
    do {
        const int rc = wait_until(c, until, true);
        if (rc < 0)
            return rc;
    } while (gd__now_ns() < until);
    return 0;
}

/* --- asking again --- */

static int gave_up(struct gd__caller *c, const struct gd__queue_answer *a)
{
    char said[TEXT_ROOM] = "", lost[TEXT_ROOM];
    pthread_mutex_lock(&c->shared->mutex);
    const bool connected = c->shared->connected;
    memcpy(lost, c->shared->lost_text, sizeof lost);
    pthread_mutex_unlock(&c->shared->mutex);
    if (a->text && *a->text != '\0')
        (void)gd__text_line(said, sizeof said, a->text, strlen(a->text));
    else if (!connected)
        (void)snprintf(said, sizeof said, "%s", lost);
    return gd__error(GD_E_FAILED, "%s %s for %g s%s%s. Is the server running? What it has confirmed is in the queue",
                     c->server,
                     a->kind == GD__ANSWER_LATER ? "was not ready"
                     : connected                 ? "did not answer"
                                                 : "could not be reached",
                     (double)c->patience_ms / 1000, *said ? ": " : "", said);
}

/* Decides when to ask again, or that it is too late. The delay doubles, and half of it is random. */
static int plan_repetition(struct gd__caller *c, struct repetition *r, const struct gd__queue_answer *a)
{
    const uint64_t now = gd__now_ns();
    if (r->since_ns == 0)
        r->since_ns = now;
    uint64_t delay_ms = (uint64_t)DELAY_FIRST_MS << (r->times < 10 ? r->times : 10);
    if (delay_ms > DELAY_MOST_MS)
        delay_ms = DELAY_MOST_MS;
    r->times++;
    const uint64_t delay = delay_ms * GD__NS_PER_MS;
    r->due_ns = now + delay / 2 + next_random(c) % (delay / 2);
    return r->due_ns - r->since_ns > c->patience_ms * GD__NS_PER_MS ? gave_up(c, a) : 0;
}

static bool is_useful(enum gd__queue_answer_kind kind)
{
    return kind != GD__ANSWER_LOST && kind != GD__ANSWER_LATER;
}

/* The error of an answer that ends a request for good. */
static int refused_request(const struct gd__caller *c, const struct gd__queue_answer *a)
{
    char said[TEXT_ROOM];
    (void)gd__text_line(said, sizeof said, a->text, strlen(a->text));
    switch (a->kind) {
    case GD__ANSWER_NONE:
        return gd__error(GD_E_FAILED, "%s does not have what was asked for", c->server);
    case GD__ANSWER_REFUSED:
        return gd__error(GD_E_FAILED, "%s refused a message: another program has changed the queue", c->server);
    case GD__ANSWER_TOO_LARGE:
        return gd__error(GD_E_TOO_LARGE,
                         "a message is larger than %s accepts: set a higher max_payload in its configuration",
                         c->server);
    case GD__ANSWER_DENIED:
        return gd__error(GD_E_FAILED, "%s does not allow this with these credentials: %s", c->server, said);
    default:
        return gd__error(GD_E_FAILED, "%s: %s", c->server, *said ? said : "the request failed");
    }
}

static uint64_t next_id(struct gd__caller *c, size_t place)
{
    return (uint64_t)c->number << CALLER_SHIFT | ++c->serial << SERIAL_SHIFT | place;
}

/* --- publications --- */

static int send_publication(struct gd__caller *c, struct outstanding *o)
{
    o->id = next_id(c, (size_t)(o - c->window));
    c->waiting -= o->waits;
    o->waits = false;
    return gd__link_ask(c->shared->link, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                                                      .id = o->id,
                                                                      .subject = o->subject,
                                                                      .data = o->data,
                                                                      .size = o->size,
                                                                      .condition = o->condition,
                                                                      .sequence = o->sequence });
}

/* Handles the answer to a publication. An answer that no publication waits for is dropped. */
static int answer_publication(struct gd__caller *c, const struct gd__queue_answer *a)
{
    const uint64_t place = a->id & (WINDOW_MOST - 1);
    if (c->used == 0 || place >= c->window_room || a->kind == GD__ANSWER_ITEM)
        return 0;
    struct outstanding *o = &c->window[place];
    if (o->id != a->id || o->waits)
        return 0;
    if (!is_useful(a->kind)) {
        o->waits = true;
        c->waiting++;
        return plan_repetition(c, &o->again, a);
    }
    const struct gd__published p = {
        .tag = o->tag, .accepted = a->kind == GD__ANSWER_OK, .repeated = o->again.times > 0, .sequence = a->sequence
    };
    forget(c, o);
    if (a->kind != GD__ANSWER_OK && a->kind != GD__ANSWER_REFUSED)
        return refused_request(c, a);
    return c->published ? c->published(c->user, &p) : 0;
}

static bool is_repetition_due(const struct gd__caller *c)
{
    const uint64_t now = gd__now_ns();
    for (uint32_t i = 0; i < c->window_room && c->waiting > 0; i++) {
        if (c->window[i].waits && c->window[i].again.due_ns <= now)
            return true;
    }
    return false;
}

/* The function of the caller may wait for the server, so what is due is looked for again after it. */
static int may_repeat(struct gd__caller *c)
{
    return c->before_repetitions && is_repetition_due(c) ? c->before_repetitions(c->repeat_user) : 0;
}

/* Sends what must be sent again by now. *next: when the next one must be. */
static int repeat_publications(struct gd__caller *c, uint64_t *next)
{
    int rc = may_repeat(c);
    const uint64_t now = gd__now_ns();
    for (uint32_t i = 0; i < c->window_room && c->waiting > 0 && rc == 0; i++) {
        struct outstanding *o = &c->window[i];
        if (!o->waits)
            continue;
        if (o->again.due_ns <= now)
            rc = send_publication(c, o);
        else if (o->again.due_ns < *next)
            *next = o->again.due_ns;
    }
    return rc;
}

/* One round of waiting for answers to publications, in which nothing else is asked. */
static int work_on_publications(struct gd__caller *c)
{
    uint64_t next = GD__NEVER;
    struct arrival *list = NULL;
    int rc = repeat_publications(c, &next);
    if (rc == 0)
        rc = wait_until(c, next, false);
    if (rc == 0)
        rc = take_arrivals(c, &list);
    for (const struct arrival *a = list; a && rc == 0; a = a->next)
        rc = answer_publication(c, &a->answer);
    free_arrivals(list);
    return rc;
}

static struct outstanding *free_place(struct gd__caller *c)
{
    uint32_t i = 0;
    while (c->window[i].id != 0)
        i++;
    return &c->window[i];
}

static int add_publication(struct gd__caller *c, const struct gd__publication *p)
{
    struct outstanding *o = free_place(c);
    char *subject = gd__strdup(p->subject);
    void *data = gd__memdup(p->data, p->size);
    if (!subject || !data) {
        gd__free(subject);
        gd__free(data);
        return gd__error(GD_E_NO_MEMORY, "no memory for a message to the queue");
    }
    *o = (struct outstanding){ .condition = p->condition,
                               .sequence = p->sequence,
                               .tag = p->tag,
                               .subject = subject,
                               .data = data,
                               .size = p->size };
    c->used++;
    c->used_bytes += p->size;
    return send_publication(c, o);
}

static bool is_full(const struct gd__caller *c, size_t more)
{
    return c->used == c->window_room || (c->used > 0 && c->used_bytes + more > GD__CALL_WINDOW_BYTES);
}

int gd__call_publish(struct gd__caller *c, const struct gd__publication *p)
{
    int rc = 0;
    if (!c->window)
        c->window = gd__calloc(c->window_room, sizeof *c->window);
    if (!c->window)
        return gd__error(GD_E_NO_MEMORY, "no memory for messages to the queue");
    while (rc == 0 && is_full(c, p->size))
        rc = work_on_publications(c);
    if (rc == 0)
        rc = add_publication(c, p);
    if (rc != 0 && rc != GD_E_INTERRUPTED)
        forget_all(c);
    return rc;
}

int gd__call_flush(struct gd__caller *c)
{
    int rc = 0;
    while (rc == 0 && c->used > 0)
        rc = work_on_publications(c);
    if (rc != 0 && rc != GD_E_INTERRUPTED)
        forget_all(c);
    return rc;
}

void gd__call_when_published(struct gd__caller *c, gd__published_fn *fn, void *user)
{
    c->published = fn;
    c->user = user;
}

void gd__call_before_repetitions(struct gd__caller *c, gd__repeat_fn *fn, void *user)
{
    c->before_repetitions = fn;
    c->repeat_user = user;
}

/* --- one request --- */

struct call {
    struct gd__queue_request request;
    gd__call_item_fn *each;
    void *user;
    bool asked;
    struct repetition again;
};

static int ask(struct gd__caller *c, struct call *k)
{
    k->request.id = next_id(c, 0);
    k->asked = true;
    return gd__link_ask(c->shared->link, &k->request);
}

static int take_item(struct call *k, const struct gd__queue_answer *a)
{
    if (k->request.ask == GD__ASK_READ) {
        if (a->sequence < k->request.from)
            return 0; /* of an earlier request */
        k->request.from = a->sequence + 1;
    }
    k->again = (struct repetition){ 0 };
    return k->each ? k->each(k->user, a) : 0;
}

/* Handles an arrival during a call. It may be the answer to a publication. Keeps or frees it. */
static int handle(struct gd__caller *c, struct call *k, struct arrival *a)
{
    const enum gd__queue_answer_kind kind = a->answer.kind;
    int rc = 0;
    if (!k->asked || a->answer.id != k->request.id) {
        rc = answer_publication(c, &a->answer);
    } else if (kind == GD__ANSWER_ITEM) {
        rc = take_item(k, &a->answer);
    } else if (!is_useful(kind)) {
        k->asked = false;
        rc = plan_repetition(c, &k->again, &a->answer);
    } else {
        c->end = a;
        a->next = NULL;
        return 0;
    }
    gd__free(a);
    return rc;
}

static int one_round(struct gd__caller *c, struct call *k)
{
    uint64_t next = k->asked ? GD__NEVER : k->again.due_ns;
    struct arrival *list = NULL;
    int rc = 0;
    if (!k->asked && next <= gd__now_ns()) {
        rc = ask(c, k);
        next = GD__NEVER;
    }
    if (rc == 0 && !c->before_repetitions)
        rc = repeat_publications(c, &next);
    if (rc == 0)
        rc = wait_until(c, next, false);
    if (rc == 0)
        rc = take_arrivals(c, &list);
    while (list && rc == 0) {
        struct arrival *a = list;
        list = a->next;
        rc = handle(c, k, a);
    }
    free_arrivals(list);
    return rc;
}

int gd__call(struct gd__caller *c, const struct gd__queue_request *request, gd__call_item_fn *each, void *user,
             struct gd__queue_answer *end)
{
    struct call k = { .request = *request, .each = each, .user = user };
    int rc = 0;
    free_arrivals(c->end);
    c->end = NULL;
    while (rc == 0 && !c->end)
        rc = one_round(c, &k);
    if (rc != 0 || !c->end)
        return rc;
    const struct gd__queue_answer *a = &c->end->answer;
    const bool wanted =
        a->kind == GD__ANSWER_OK || (end && (a->kind == GD__ANSWER_NONE || a->kind == GD__ANSWER_REFUSED));
    if (end)
        *end = *a;
    return wanted ? 0 : refused_request(c, a);
}

struct reading {
    gd__call_item_fn *each;
    void *user;
    uint64_t from, items;
};

static int read_item(void *user, const struct gd__queue_answer *item)
{
    struct reading *r = user;
    r->from = item->sequence + 1;
    r->items++;
    return r->each(r->user, item);
}

/* One request. */
static int read_some(struct gd__caller *c, struct reading *r, enum gd__queue_kind stream, const char *filter,
                     bool by_leader)
{
    struct gd__queue_answer end;
    uint64_t next = GD__NEVER;
    r->items = 0;
    const int rc = repeat_publications(c, &next); /* reading may take long */
    return rc != 0 ? rc
                   : gd__call(c,
                              &(struct gd__queue_request){ .ask = GD__ASK_READ,
                                                           .stream = stream,
                                                           .subject = filter,
                                                           .from = r->from,
                                                           .most = by_leader ? 1 : GD__CALL_READ_MESSAGES,
                                                           .most_bytes = GD__CALL_READ_BYTES,
                                                           .by_leader = by_leader },
                              read_item, r, &end);
}

int gd__call_read(struct gd__caller *c, enum gd__queue_kind stream, const char *filter, uint64_t from,
                  gd__call_item_fn *each, void *user)
{
    struct reading r = { each, user, from > 0 ? from : 1, 0 };
    int rc;
    do {
        rc = read_some(c, &r, stream, filter, false);
    } while (rc == 0 && r.items > 0);
    return rc;
}

int gd__call_read_all(struct gd__caller *c, enum gd__queue_kind stream, uint64_t from, uint64_t until,
                      gd__call_item_fn *each, void *user)
{
    struct reading r = { each, user, from > 0 ? from : 1, 0 };
    bool by_leader = false;
    int rc = 0;
    while (rc == 0 && r.from <= until) {
        rc = read_some(c, &r, stream, NULL, by_leader);
        if (r.items == 0 && by_leader)
            break;
        by_leader = r.items == 0;
    }
    return rc;
}
