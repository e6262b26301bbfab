/* SPDX-License-Identifier: MIT
 *
 * Options that all subcommands with --queue share: see queue_options.h.
 */
#include "cli/queue/queue_options.h"

#include "base/failure.h"
#include "binding.h"
#include "cli/say.h"

enum { WARNING_ROOM = 512 };

int cli_queue_check(const struct cli_queue *q)
{
    const struct {
        const char *value, *name;
    } options[] = {
        { q->creds, "--creds" },      { q->nkey, "--nkey" },      { q->tls_ca, "--tlsca" },
        { q->tls_cert, "--tlscert" }, { q->tls_key, "--tlskey" }, { q->spill_dir, "--spill-dir" },
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].value && !q->url)
            return gd__fail("%s is for a queue: give --queue nats://HOST/NAME too", options[i].name);
        if (options[i].value && !*options[i].value)
            return gd__fail("%s needs the name of a file or directory", options[i].name);
    }
    if (q->creds && q->nkey)
        return gd__fail("--creds and --nkey: give only one of them");
    if (!q->tls_cert != !q->tls_key)
        return gd__fail("a certificate needs its private key: give both --tlscert and --tlskey");
    return 0;
}

void cli_queue_apply(const struct cli_queue *q, struct gd_queue_options *o)
{
    o->url = q->url;
    o->creds = q->creds;
    o->nkey = q->nkey;
    o->tls_ca = q->tls_ca;
    o->tls_cert = q->tls_cert;
    o->tls_key = q->tls_key;
    o->spill_dir = q->spill_dir;
}

void cli_queue_warn(const struct gd_queue_options *o)
{
    char warning[WARNING_ROOM];
    gd__queue_secrets_warning(o, warning, sizeof warning);
    if (*warning)
        cli_say("%s", warning);
}

const char *cli_queue_durability(int durable)
{
    if (durable > 0)
        return "the server writes each message to disk before it confirms it";
    if (durable == 0)
        return "the server may lose confirmed messages in a power loss: set sync_interval: always in the jetstream "
               "block of its configuration";
    return "whether confirmed messages survive a power loss cannot be learned from the server: check that its "
           "configuration has sync_interval: always in the jetstream block";
}
