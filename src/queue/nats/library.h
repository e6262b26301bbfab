/* The part of libnats that is used here, in our own declarations. libnats is the client library of NATS. It is opened at
 * run time, and is not needed to build.
 *
 * Only functions that take pointers to opaque structs are used. The structs of its JetStream functions differ from one
 * version to the next, so JetStream is used through its JSON interface: see jetstream.h.
 */
#ifndef GD_QUEUE_NATS_LIBRARY_H
#define GD_QUEUE_NATS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Another library instead of libnats, for tests. */
#define GD__ENV_LIBNATS "GPU_DISPATCH_LIBNATS"

typedef struct gd__nats_options_object gd__nats_opts; /* natsOptions */
typedef struct gd__nats_connection gd__nats_conn;     /* natsConnection */
typedef struct gd__nats_message gd__nats_msg;         /* natsMsg */
typedef struct gd__nats_subscription gd__nats_sub;    /* natsSubscription */

enum gd__nats_status { /* natsStatus */
                       GD__NATS_OK = 0,
                       GD__NATS_PROTOCOL_ERROR = 2,
                       GD__NATS_IO_ERROR = 3,
                       GD__NATS_CONNECTION_CLOSED = 5,
                       GD__NATS_NO_SERVER = 6,
                       GD__NATS_SECURE_WANTED = 8,
                       GD__NATS_SECURE_REQUIRED = 9,
                       GD__NATS_AUTH_FAILED = 11,
                       GD__NATS_NOT_PERMITTED = 12,
                       GD__NATS_MAX_PAYLOAD = 21,
                       GD__NATS_NO_MEMORY = 24,
                       GD__NATS_TIMEOUT = 26,
                       GD__NATS_SSL_ERROR = 29,
                       GD__NATS_NO_RESPONDERS = 34,
};

typedef void gd__nats_on_message(gd__nats_conn *c, gd__nats_sub *s, gd__nats_msg *m, void *user);
typedef void gd__nats_on_connection(gd__nats_conn *c, void *user);
typedef void gd__nats_on_error(gd__nats_conn *c, gd__nats_sub *s, int status, void *user);
typedef int64_t gd__nats_delay(gd__nats_conn *c, int attempts, void *user);
typedef void gd__nats_on_complete(void *user);

/* X(field, result, name of the function, parameters) */
#define GD__NATS_FUNCTIONS(X)                                                                                        \
    X(open, int, "nats_Open", (int64_t spins))                                                                       \
    X(version, const char *, "nats_GetVersion", (void))                                                              \
    X(last_error, const char *, "nats_GetLastError", (int *status))                                                  \
    X(status_text, const char *, "natsStatus_GetText", (int status))                                                 \
    X(options_create, int, "natsOptions_Create", (gd__nats_opts * *o))                                               \
    X(options_destroy, void, "natsOptions_Destroy", (gd__nats_opts * o))                                             \
    X(set_servers, int, "natsOptions_SetServers", (gd__nats_opts * o, const char **servers, int n))                  \
    X(set_user, int, "natsOptions_SetUserInfo", (gd__nats_opts * o, const char *user, const char *password))         \
    X(set_token, int, "natsOptions_SetToken", (gd__nats_opts * o, const char *token))                                \
    X(set_timeout, int, "natsOptions_SetTimeout", (gd__nats_opts * o, int64_t ms))                                   \
    X(set_name, int, "natsOptions_SetName", (gd__nats_opts * o, const char *name))                                   \
    X(set_secure, int, "natsOptions_SetSecure", (gd__nats_opts * o, bool secure))                                    \
    X(set_ca, int, "natsOptions_LoadCATrustedCertificates", (gd__nats_opts * o, const char *file))                   \
    X(set_certificate, int, "natsOptions_LoadCertificatesChain",                                                     \
      (gd__nats_opts * o, const char *certificates, const char *key))                                                \
    X(set_host_name, int, "natsOptions_SetExpectedHostname", (gd__nats_opts * o, const char *host))                  \
    X(set_creds, int, "natsOptions_SetUserCredentialsFromFiles",                                                     \
      (gd__nats_opts * o, const char *file, const char *seed_file))                                                  \
    X(set_nkey, int, "natsOptions_SetNKeyFromSeed", (gd__nats_opts * o, const char *public_key, const char *file))   \
    X(set_ping_interval, int, "natsOptions_SetPingInterval", (gd__nats_opts * o, int64_t ms))                        \
    X(set_max_pings_out, int, "natsOptions_SetMaxPingsOut", (gd__nats_opts * o, int n))                              \
    X(set_max_reconnect, int, "natsOptions_SetMaxReconnect", (gd__nats_opts * o, int n))                             \
    X(set_reconnect_delay, int, "natsOptions_SetCustomReconnectDelay",                                               \
      (gd__nats_opts * o, gd__nats_delay * delay, void *user))                                                       \
    X(set_write_deadline, int, "natsOptions_SetWriteDeadline", (gd__nats_opts * o, int64_t ms))                      \
    X(on_error, int, "natsOptions_SetErrorHandler", (gd__nats_opts * o, gd__nats_on_error * call, void *user))       \
    X(on_closed, int, "natsOptions_SetClosedCB", (gd__nats_opts * o, gd__nats_on_connection * call, void *user))     \
    X(on_lost, int, "natsOptions_SetDisconnectedCB", (gd__nats_opts * o, gd__nats_on_connection * call, void *user)) \
    X(on_back, int, "natsOptions_SetReconnectedCB", (gd__nats_opts * o, gd__nats_on_connection * call, void *user))  \
    X(connect, int, "natsConnection_Connect", (gd__nats_conn * *c, gd__nats_opts * o))                               \
    X(close, void, "natsConnection_Close", (gd__nats_conn * c))                                                      \
    X(destroy, void, "natsConnection_Destroy", (gd__nats_conn * c))                                                  \
    X(flush, int, "natsConnection_FlushTimeout", (gd__nats_conn * c, int64_t ms))                                    \
    X(max_payload, int64_t, "natsConnection_GetMaxPayload", (gd__nats_conn * c))                                     \
    X(server_id, int, "natsConnection_GetConnectedServerId", (gd__nats_conn * c, char *to, size_t room))             \
    X(server_url, int, "natsConnection_GetConnectedUrl", (gd__nats_conn * c, char *to, size_t room))                 \
    X(connection_error, int, "natsConnection_GetLastError", (gd__nats_conn * c, const char **text))                  \
    X(subscribe, int, "natsConnection_Subscribe",                                                                    \
      (gd__nats_sub * *s, gd__nats_conn * c, const char *subject, gd__nats_on_message *call, void *user))            \
    X(request, int, "natsConnection_Request",                                                                        \
      (gd__nats_msg * *answer, gd__nats_conn * c, const char *subject, const void *data, int size, int64_t ms))      \
    X(publish, int, "natsConnection_Publish", (gd__nats_conn * c, const char *subject, const void *data, int size))  \
    X(publish_request, int, "natsConnection_PublishRequest",                                                         \
      (gd__nats_conn * c, const char *subject, const char *reply, const void *data, int size))                       \
    X(publish_message, int, "natsConnection_PublishMsg", (gd__nats_conn * c, gd__nats_msg * m))                      \
    X(pending_limits, int, "natsSubscription_SetPendingLimits", (gd__nats_sub * s, int messages, int bytes))         \
    X(on_complete, int, "natsSubscription_SetOnCompleteCB",                                                          \
      (gd__nats_sub * s, gd__nats_on_complete * call, void *user))                                                   \
    X(subscription_destroy, void, "natsSubscription_Destroy", (gd__nats_sub * s))                                    \
    X(message_create, int, "natsMsg_Create",                                                                         \
      (gd__nats_msg * *m, const char *subject, const char *reply, const char *data, int size))                       \
    X(message_destroy, void, "natsMsg_Destroy", (gd__nats_msg * m))                                                  \
    X(message_subject, const char *, "natsMsg_GetSubject", (const gd__nats_msg *m))                                  \
    X(message_reply, const char *, "natsMsg_GetReply", (const gd__nats_msg *m))                                      \
    X(message_data, const char *, "natsMsg_GetData", (const gd__nats_msg *m))                                        \
    X(message_size, int, "natsMsg_GetDataLength", (const gd__nats_msg *m))                                           \
    X(header_set, int, "natsMsgHeader_Set", (gd__nats_msg * m, const char *name, const char *value))                 \
    X(header_values, int, "natsMsgHeader_Values", (gd__nats_msg * m, const char *name, const char ***values, int *n))

struct gd__nats {
#define GD__NATS_FIELD(field, result, name, parameters) \
    result(*field) parameters; /* NOLINT(bugprone-macro-parentheses) */
    GD__NATS_FUNCTIONS(GD__NATS_FIELD)
#undef GD__NATS_FIELD
    void *library; /* for dlsym(): functions of the libraries that libnats is linked with */
};

/* Opens libnats if it is not open yet. It is never closed: its threads may still run. Returns NULL if that is not
 * possible; then the error message says what to install. May be called on any thread. */
const struct gd__nats *gd__nats_library(void);

#endif
