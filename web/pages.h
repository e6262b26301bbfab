/* SPDX-License-Identifier: MIT
 *
 * The pages that embed.py makes from page/: HTML with its style and script, and their hashes for the
 * Content-Security-Policy.
 */
#ifndef GD_WEB_PAGES_H
#define GD_WEB_PAGES_H

#include <stddef.h>

/* The page of a run that has not ended. */
extern const unsigned char web_live_page[];
extern const size_t web_live_page_size;
extern const char web_live_script_hash[], web_live_style_hash[]; /* "sha256-..." */

/* The page of a run that is over. Its data replace @DATA@. */
extern const unsigned char web_report_page[];
extern const size_t web_report_page_size;
extern const char web_report_script_hash[], web_report_style_hash[];

#endif
