/* SPDX-License-Identifier: MIT
 *
 * The pages as embed.c makes them from page/: HTML with style and script in it, and the hashes by which a policy may
 * name these.
 */
#ifndef GD_WEB_PAGES_H
#define GD_WEB_PAGES_H

#include <stddef.h>

/* Of a run that goes on. */
extern const unsigned char web_live_page[];
extern const size_t web_live_page_size;
extern const char web_live_script_hash[], web_live_style_hash[]; /* "sha256-..." */

/* Of one that is over: @DATA@ in it is where its data go. */
extern const unsigned char web_report_page[];
extern const size_t web_report_page_size;
extern const char web_report_script_hash[], web_report_style_hash[];

#endif
