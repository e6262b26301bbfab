/* Credentials for a NATS server: see credentials.h. */
#include "queue/nats/access/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { FILE_MOST = 16384 /* bytes that are looked at */ };

static bool is_set(const char *text)
{
    return text && *text;
}

/* ---- the environment ---- */

static void set_from(const char **field, const char *variable)
{
    const char *value = getenv(variable);
    if (!*field && is_set(value))
        *field = value;
}

void gd__nats_options_environment(struct gd__nats_options *o)
{
    set_from(&o->tls_ca, "NATS_CA");
    if (!o->tls_cert && !o->tls_key) {
        set_from(&o->tls_cert, "NATS_CERT");
        set_from(&o->tls_key, "NATS_KEY");
    }
    if (o->creds || o->nkey || o->user || o->token)
        return;
    set_from(&o->creds, "NATS_CREDS");
    set_from(&o->nkey, "NATS_NKEY");
    set_from(&o->user, "NATS_USER");
    set_from(&o->password, "NATS_PASSWORD");
    set_from(&o->token, "NATS_TOKEN");
}

const char *gd__nats_options_kind(const struct gd__nats_options *o)
{
    if (is_set(o->creds))
        return "the credentials file";
    if (is_set(o->nkey))
        return "the nkey";
    if (is_set(o->user))
        return "the user and password";
    return is_set(o->token) ? "the token" : NULL;
}

/* ---- files ---- */

struct file {
    const char *path, *what;
    const char *contains[2]; /* texts that it must have; NULL: none */
    bool is_secret;
};

static bool has_texts(const struct file *f, int fd)
{
    char text[FILE_MOST];
    const ssize_t size = read(fd, text, sizeof text);
    bool found = size > 0;
    for (int i = 0; i < 2 && found && f->contains[i]; i++)
        found = memmem(text, (size_t)size, f->contains[i], strlen(f->contains[i])) != NULL;
    explicit_bzero(text, sizeof text);
    return found;
}

static int check_file(const struct file *f, char *warning, size_t room)
{
    struct stat s;
    if (!is_set(f->path))
        return 0;
    const int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s) < 0) {
        const int rc = gd__error_errno("cannot read %s %s", f->what, f->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    const bool is_file = S_ISREG(s.st_mode), is_right = is_file && has_texts(f, fd);
    close(fd);
    if (!is_file)
        return gd__error(GD_E_INVALID, "%s %s is not a file", f->what, f->path);
    if (!is_right)
        return gd__error(GD_E_INVALID, "%s %s is empty, or a file of another kind%s%s", f->what, f->path,
                         f->contains[0] ? ": it has no line with " : "", f->contains[0] ? f->contains[0] : "");
    if (f->is_secret && s.st_mode & (S_IRGRP | S_IROTH) && !*warning)
        (void)snprintf(warning, room, "other users can read %s %s: chmod 600 %s", f->what, f->path, f->path);
    return 0;
}

int gd__nats_options_check(const struct gd__nats_options *o, char *warning, size_t room)
{
    const struct file files[] = {
        { o->creds, "the credentials file", { "BEGIN NATS USER JWT", "USER NKEY SEED" }, true },
        { o->nkey, "the nkey file", { NULL, NULL }, true },
        { o->tls_ca, "the file of certificate authorities", { "BEGIN ", NULL }, false },
        { o->tls_cert, "the certificate", { "BEGIN ", NULL }, false },
        { o->tls_key, "the key of the certificate", { "PRIVATE KEY", NULL }, true },
    };
    *warning = '\0';
    const int kinds = is_set(o->creds) + is_set(o->nkey) + is_set(o->user) + is_set(o->token);
    if (kinds > 1)
        return gd__error(GD_E_INVALID,
                         "several credentials for the queue: use only one of --creds (NATS_CREDS), --nkey "
                         "(NATS_NKEY), NATS_USER with NATS_PASSWORD, and NATS_TOKEN");
    if (is_set(o->user) != is_set(o->password))
        return gd__error(GD_E_INVALID, "set both NATS_USER and NATS_PASSWORD, or neither");
    if (is_set(o->tls_cert) != is_set(o->tls_key))
        return gd__error(GD_E_INVALID, "a certificate of the client needs its key: use both --tlscert (NATS_CERT) and "
                                       "--tlskey (NATS_KEY)");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const int rc = check_file(&files[i], warning, room);
        if (rc < 0)
            return rc;
    }
    return 0;
}
