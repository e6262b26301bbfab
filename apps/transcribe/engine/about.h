/* SPDX-License-Identifier: MIT
 *
 * What the worker was built with. `gpu-dispatch transcribe --check` finds this function in the plugin by its name.
 */
#ifndef GD_TRANSCRIBE_ENGINE_ABOUT_H
#define GD_TRANSCRIBE_ENGINE_ABOUT_H

#define TR_ABOUT "tr_transcriber_about"

/* Returns lines of a name, a tab and a text: "whisper.cpp\t1.8.5\n". The caller frees them. NULL: no memory. Uses no
 * device. */
typedef char *tr_about_fn(void);

#endif
