/* The header of a command's result. See output.c. */
#ifndef GD_COMMAND_OUTPUT_H
#define GD_COMMAND_OUTPUT_H

#include <gpu_dispatch/command.h>
#include <stdint.h>

#define GD__COMMAND_MAGIC UINT32_C(0x31646347) /* "Gcd1" */

struct gd__command_head {
    uint32_t magic;
    uint16_t exit_code;
    uint16_t signal;
    uint64_t out_size;
    uint64_t err_size;
};

#endif
