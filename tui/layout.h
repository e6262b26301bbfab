/* SPDX-License-Identifier: MIT
 *
 * The live view as lines of text. They depend only on a snapshot, on earlier samples and on the size of the terminal.
 *
 *     450 of 1,000 tasks, 45.0 %                              ./transcribe {} {.}.txt
 *     ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━────────────────────────────────────────────
 *     446 done  3 failed  1 timeout  2 retried  1 running
 *     0:02:05 elapsed  0:02:26 ETA  4.0 tasks/s now  3.6 tasks/s mean
 *     3:12:05 of 40:10:00 audio  66x real time                  (if the work is audio)
 *
 *     GPU Status     Task                       For  Done Failed    Last Util  Memory
 *       0 processing songs/long.wav          12.3 s   200      0   1.0 s  90%  68/80G
 *       1 idle       no input                 3.2 s   201      1   1.1 s  91%  68/80G
 */
#ifndef GD_TUI_LAYOUT_H
#define GD_TUI_LAYOUT_H

#include <stdbool.h>

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"
#include "view/figures.h"

struct tui_view {
    unsigned width, height; /* of the terminal: at most height - 1 lines of width - 1 columns are made */
    bool colour, utf8;
    bool last_events;  /* show the last failure and the last request to the job, if there is room */
    const char *hint;  /* a last line; NULL: none */
    const char *media; /* "audio": the run's work is counted in seconds of audio; NULL: in another unit */
};

/* Adds the lines, each with its newline. A colour never reaches beyond its line. */
void tui_layout(struct gd__buffer *out, const struct gd_snapshot *s, const struct view_history *h,
                const struct tui_view *v);

#endif
