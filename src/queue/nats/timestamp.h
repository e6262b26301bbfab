/* Times as a server writes them: "2026-11-16T19:03:07.123456789Z". */
#ifndef GD_QUEUE_NATS_TIMESTAMP_H
#define GD_QUEUE_NATS_TIMESTAMP_H

#include <stddef.h>
#include <stdint.h>

/* Returns Unix time in microseconds, or 0 if the text is not such a time from 1970 to 9999. Nothing depends on the time
 * but what is shown to people. */
uint64_t gd__js_time_us(const char *text, size_t size);

#endif
