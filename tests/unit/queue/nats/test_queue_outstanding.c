/* SPDX-License-Identifier: MIT
 *
 * The table of requests that wait for an answer, compared with a simple list.
 */
#include "queue/nats/outstanding.h"
#include "support/test.h"

static struct gd__outstanding o;

static struct gd__outstanding_request *add(enum gd__queue_ask ask, int priority, uint64_t deadline_ns)
{
    struct gd__outstanding_request *r = gd__outstanding_new(&o);
    CHECK(r);
    CHECK_EQ(gd__js_begin(&r->x, "q", &(struct gd__queue_request){ .ask = ask, .priority = priority }), 0);
    gd__outstanding_add(&o, r, deadline_ns);
    return r;
}

static void end(struct gd__outstanding_request *r)
{
    gd__outstanding_remove(&o, r);
    gd__outstanding_release(&o, r);
}

TEST(a_request_is_found_until_it_ends)
{
    struct gd__outstanding_request *r = add(GD__ASK_SERVER, 0, 5);
    const uint64_t token = r->token;
    CHECK(gd__outstanding_find(&o, token) == r);
    CHECK(gd__outstanding_find(&o, token + 1) == NULL);
    CHECK(gd__outstanding_find(&o, 0) == NULL);
    CHECK(gd__outstanding_find(&o, UINT64_MAX) == NULL);
    gd__outstanding_remove(&o, r);
    CHECK(gd__outstanding_find(&o, token) == NULL);
    gd__outstanding_release(&o, r);
    r = add(GD__ASK_SERVER, 0, 5); /* the same memory, but another token */
    CHECK_NE(r->token, token);
    CHECK(gd__outstanding_find(&o, token) == NULL);
    gd__outstanding_destroy(&o);
}

TEST(the_earliest_deadline_is_first)
{
    CHECK(gd__outstanding_first(&o) == NULL);
    struct gd__outstanding_request *late = add(GD__ASK_SERVER, 0, 50), *early = add(GD__ASK_SERVER, 0, 5);
    CHECK(gd__outstanding_first(&o) == early);
    gd__outstanding_move(&o, late, 1);
    CHECK(gd__outstanding_first(&o) == late);
    end(late);
    CHECK(gd__outstanding_first(&o) == early);
    gd__outstanding_destroy(&o);
}

TEST(the_oldest_pull_of_a_priority)
{
    struct gd__outstanding_request *a = add(GD__ASK_PULL, -4, 9), *b = add(GD__ASK_PULL, -4, 8),
                                   *c = add(GD__ASK_PULL, -4, 7), *other = add(GD__ASK_PULL, 3, 6);
    (void)add(GD__ASK_CONSUMER, 0, 1);
    CHECK(gd__outstanding_pull(&o, 0) == NULL);
    CHECK(gd__outstanding_pull(&o, 3) == other);
    CHECK(gd__outstanding_pull(&o, -4) == a);
    end(b);
    end(a);
    CHECK(gd__outstanding_pull(&o, -4) == c);
    end(c);
    CHECK(gd__outstanding_pull(&o, -4) == NULL);
    a = add(GD__ASK_PULL, -4, 9);
    CHECK(gd__outstanding_pull(&o, -4) == a);
    gd__outstanding_destroy(&o);
}

TEST(many_requests)
{
    enum { MANY = 5000 };
    static struct gd__outstanding_request *r[MANY];
    static uint64_t tokens[MANY];
    uint64_t x = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            if (r[i] && x >> 63) {
                end(r[i]);
                CHECK(!gd__outstanding_find(&o, tokens[i]));
                r[i] = NULL;
            } else if (!r[i]) {
                r[i] = add(x >> 62 & 1 ? GD__ASK_PULL : GD__ASK_SERVER, (int)(x >> 40 & 7) - 4, x >> 8);
                tokens[i] = r[i]->token;
            }
        }
        for (int i = 0; i < MANY; i++)
            CHECK(gd__outstanding_find(&o, tokens[i]) == r[i]);
    }
    uint64_t before = 0;
    for (struct gd__outstanding_request *first; (first = gd__outstanding_first(&o)); end(first)) {
        CHECK(first->timer.at_ns >= before);
        before = first->timer.at_ns;
    }
    CHECK_EQ(o.count, 0);
    gd__outstanding_destroy(&o);
}

TEST_MAIN()
