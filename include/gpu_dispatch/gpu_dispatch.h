/* SPDX-License-Identifier: MIT
 *
 * Includes all public headers of the library.
 */
#ifndef GPU_DISPATCH_GPU_DISPATCH_H
#define GPU_DISPATCH_GPU_DISPATCH_H

#include <gpu_dispatch/command.h>
#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>
#include <gpu_dispatch/journal.h>
#include <gpu_dispatch/launch.h>
#include <gpu_dispatch/observe.h>
#include <gpu_dispatch/queue.h>
#include <gpu_dispatch/shard.h>
#include <gpu_dispatch/worker.h>

#endif
