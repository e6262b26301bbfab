/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as the address of a queue. An accepted address, written again from its parts, is parsed to the
 * same parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/buffer.h"
#include "queue/names/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static void parse_again(const struct gd__queue_address *a)
{
    struct gd__queue_address again;
    struct gd__buffer b = { 0 };
    char one[GD__QUEUE_SERVER_TEXT_ROOM];
    for (size_t i = 0; i < a->n_servers; i++) {
        gd__buffer_text(&b, i ? "," : "");
        gd__buffer_text(&b, gd__queue_server_text(one, a, i));
    }
    gd__buffer_text(&b, "/");
    gd__buffer_add(&b, a->name, strlen(a->name) + 1);
    MUST(!b.failed && gd__queue_address_parse(&again, b.data) == 0);
    MUST(again.tls == a->tls && again.n_servers == a->n_servers && strcmp(again.name, a->name) == 0);
    for (size_t i = 0; i < a->n_servers; i++)
        MUST(again.servers[i].port == a->servers[i].port && strcmp(again.servers[i].host, a->servers[i].host) == 0);
    gd__buffer_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__queue_address a;
    char *text = malloc(size + 1);
    MUST(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    const int rc = gd__queue_address_parse(&a, text);
    MUST(rc == 0 || rc == GD_E_INVALID);
    if (rc == 0) {
        MUST(a.n_servers > 0 && a.n_servers <= GD__QUEUE_SERVERS_MOST && !strchr(text, '@'));
        MUST(gd__queue_name_check(a.name, strlen(a.name)) == 0);
        parse_again(&a);
    }
    free(text);
    return 0;
}
