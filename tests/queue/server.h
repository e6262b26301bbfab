/* SPDX-License-Identifier: MIT
 *
 * A real NATS server for a test:
 *
 *     struct server s;
 *     server_start(&s, &(struct server_options){ .durable = true });   // skips the case if there is no server
 *     ... s.address is "nats://127.0.0.1:12345", s.hosts is "127.0.0.1:12345"
 *     server_kill(&s);        // kill -9
 *     server_again(&s);       // on the same port and with the same store
 *     server_end(&s);         // optional: at the end of the case all servers are killed, and their files are removed
 *
 * Each function returns when what it does has happened, and fails the case if it cannot. Nothing depends on the time
 * that a server takes: a start is complete when the server has logged that it is ready.
 *
 * Ports are reserved for the process of the case, below the range from which the kernel takes ports for connections. So
 * no other case gets the port of a server that is down.
 */
#ifndef GD_TESTS_QUEUE_SERVER_H
#define GD_TESTS_QUEUE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVER_PATH = 256, CLUSTER_SERVERS = 3 };

struct server_options {
    const char *binary;   /* NULL: that of $GD_TEST_NATS_SERVER */
    bool durable;         /* sync_interval: always. Otherwise the server's default: it syncs after minutes */
    uint64_t max_payload; /* bytes; 0: the default */
    bool tls;             /* with the files ca.pem, server.pem and server.key, made in the directory of the server */
    bool tls_verify;      /* and clients need client.pem and client.key */
    const char *user;     /* with password */
    const char *password;
    const char *token;
    const char *nkey;   /* the public key of the user that may connect (keys.h) */
    const char *config; /* more lines of the configuration */
    const char *store;  /* where JetStream has its files; NULL: in the directory of the server */
    const char *host;   /* the address to listen on; NULL: 127.0.0.1 */
    bool without_jetstream;
};

struct server {
    pid_t pid; /* 0: not running */
    int ended; /* pidfd */
    unsigned port, cluster_port;
    char address[SERVER_PATH + 8]; /* "nats://127.0.0.1:12345" or "tls://..." */
    char hosts[SERVER_PATH];       /* "127.0.0.1:12345", for the address of a queue */
    char dir[SERVER_PATH];         /* its files: config, log, store/, *.pem */
    char store[SERVER_PATH + 16];
    char binary[SERVER_PATH];
    long log_from; /* where the log of the running server begins */
};

/* Skips the case if this machine has no NATS server that is new enough, or no libnats. */
void server_require(void);

/* Debian's 2.9.10, which is too old for queues. NULL: it was not fetched. */
const char *server_old_binary(void);

/* Makes a directory for the server, with a configuration, and starts it. o may be NULL. */
void server_start(struct server *s, const struct server_options *o);

/* A cluster of three servers. Returns when each of them knows the leader. */
void cluster_start(struct server s[CLUSTER_SERVERS], const struct server_options *o);

/* "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", for the address of a queue. Valid until the next call. */
const char *cluster_hosts(const struct server s[CLUSTER_SERVERS]);

/* The server that leads the cluster now, by the logs of those that run. NULL: they have no leader. A stream may have
 * another leader. */
struct server *cluster_leader(struct server s[CLUSTER_SERVERS]);

void server_kill(struct server *s);     /* SIGKILL */
void server_end(struct server *s);      /* SIGTERM */
void server_again(struct server *s);    /* starts it again; it must not be running */
void server_launch(struct server *s);   /* the same, but does not wait until it is ready */
void server_await(struct server *s);    /* waits for that */
void server_stop(struct server *s);     /* SIGSTOP */
void server_continue(struct server *s); /* SIGCONT */

/* Whether the running server has logged this text; and waits until it has. */
bool server_logged(const struct server *s, const char *text);
void server_await_log(const struct server *s, const char *text);

/* A port that belongs to this process until it ends. */
unsigned reserve_port(void);

/* --- power loss ------------------------------------------------------------------------ */

/* A disk in a file. What has not been synced is in memory only, so a copy of the file is what a disk has after a power
 * loss. Skips the case if mounting is not allowed. */
struct disk {
    char file[SERVER_PATH];
    char mounted[SERVER_PATH]; /* the directory */
};
void disk_make(struct disk *d);
void disk_sync(struct disk *d);                                 /* what is written until now is safe */
void disk_lose_power(const struct disk *d, struct disk *after); /* mounts a copy of the file as it is now */

#endif
