/* SPDX-License-Identifier: MIT
 *
 * Finds the properties of the terminal from the environment and the kernel. Terminfo is not used: every terminal of the
 * last thirty years understands the few sequences that are needed, and ignores newer ones that it does not support.
 */
#include "tui/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static bool begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

bool tui_can_draw(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

/* Uses a separate locale object, so that the program's locale does not change. */
static bool locale_is_utf8(void)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    const bool utf8 = l && strcmp(nl_langinfo_l(CODESET, l), "UTF-8") == 0;
    if (l)
        freelocale(l);
    return utf8;
}

void tui_terminal_of(struct tui_terminal *t)
{
    const char *term = getenv("TERM");
    /* When the terminal is made narrower, xterm, the Linux console and screen cut lines. Nearly all others, and tmux in
     * any terminal, wrap them again. */
    const bool cuts = is_set("XTERM_VERSION") || begins(term, "linux") || begins(term, "screen");
    *t = (struct tui_terminal){ .colour = !is_set("NO_COLOR"),
                                .utf8 = locale_is_utf8(),
                                .rewraps = is_set("TMUX") || !cuts };
}

void tui_size(int fd, unsigned *width, unsigned *height)
{
    struct winsize w;
    const bool known = ioctl(fd, TIOCGWINSZ, &w) == 0;
    *width = known && w.ws_col ? w.ws_col : 80;
    *height = known && w.ws_row ? w.ws_row : 24;
}

bool tui_in_foreground(int fd)
{
    const pid_t group = tcgetpgrp(fd);
    return group < 0 || group == getpgrp();
}
