// SPDX-License-Identifier: MIT
//
// The demo on a real GPU: a kernel that processes a payload straight from the arena.
//
//     example_cuda [tasks [mebibytes per task [gpu id ...]]]
//
// The worker pins the payload arena once, in setup. A payload is then copied to the device from where the dispatcher
// put it, at the speed of the bus, and the result is copied back into the memory the dispatcher reads: the host never
// copies it.
#include <cuda_runtime.h>
#include <gpu_dispatch/gpu_dispatch.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

// --- the worker ---

struct model { // what a worker keeps between tasks
    unsigned char *device;
    size_t capacity;
    cudaStream_t stream;
};

__global__ void invert(unsigned char *pixels, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        pixels[i] = 255 - pixels[i];
}

int setup(gd_worker *w, const gd_setup *s)
{
    static model m;
    const void *arena;
    size_t size;
    (void)s;
    gd_worker_set_user(w, &m);
    cudaError_t e = cudaStreamCreate(&m.stream); // CUDA_VISIBLE_DEVICES shows this process its device alone
    if (e != cudaSuccess)
        return gd_worker_error(w, "no CUDA device: %s", cudaGetErrorString(e));
    gd_worker_arena(w, &arena, &size);
    e = cudaHostRegister(const_cast<void *>(arena), size, cudaHostRegisterReadOnly);
    if (e != cudaSuccess) { // slower, not wrong
        fprintf(stderr, "the arena can't be pinned: %s\n", cudaGetErrorString(e));
        cudaGetLastError();
    }
    return 0;
}

int room_for(model *m, size_t size)
{
    if (size <= m->capacity)
        return 0;
    cudaFree(m->device);
    m->device = nullptr;
    m->capacity = 0;
    const cudaError_t e = cudaMalloc(&m->device, size);
    m->capacity = e == cudaSuccess ? size : 0;
    return e;
}

int process(gd_worker *w, const gd_task *task, gd_result *result)
{
    model *m = static_cast<model *>(gd_worker_user(w));
    if (room_for(m, task->size) != 0)
        return gd_result_out_of_memory(result, "no device memory for %zu bytes", task->size);
    void *out = gd_result_alloc(result, task->size);
    if (!out)
        return GD_E_NO_MEMORY;
    cudaMemcpyAsync(m->device, task->data, task->size, cudaMemcpyHostToDevice, m->stream);
    invert<<<1024, 256, 0, m->stream>>>(m->device, task->size);
    cudaMemcpyAsync(out, m->device, task->size, cudaMemcpyDeviceToHost, m->stream);
    const cudaError_t e = cudaStreamSynchronize(m->stream);
    if (e != cudaSuccess) // a CUDA error sticks to its process: have the process replaced
        return gd_result_device_lost(result, "%s", cudaGetErrorString(e));
    return 0;
}

int cleanup(gd_worker *w)
{
    model *m = static_cast<model *>(gd_worker_user(w));
    cudaFree(m->device);
    cudaStreamDestroy(m->stream);
    return 0;
}

// --- the driver ---

struct job {
    unsigned long n_tasks, next, done, wrong, failed;
    size_t size;
    double first, last;
};

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int next_task(void *user, gd_item *item)
{
    job *j = static_cast<job *>(user);
    if (j->next == j->n_tasks)
        return 0;
    void *p = gd_item_alloc(item, j->size);
    if (!p)
        return gd_item_error(item, "%s", gd_error_text());
    memset(p, (int)(j->next++ % 251), j->size);
    return 1;
}

void on_success(void *user, const gd_report *r)
{
    job *j = static_cast<job *>(user);
    const unsigned char *out = static_cast<const unsigned char *>(r->data);
    const unsigned char expected = (unsigned char)(255 - r->task_id % 251);
    const bool right = r->size == j->size && out[0] == expected && memcmp(out, out + 1, r->size - 1) == 0;
    j->wrong += !right;
    if (j->done++ == 0)
        j->first = now();
    j->last = now();
}

void on_error(void *user, const gd_report *r)
{
    fprintf(stderr, "task %llu: %s: %s\n", (unsigned long long)r->task_id, gd_failure_name(r->failure), r->error);
    static_cast<job *>(user)->failed++;
}

void on_setup_fail(void *, int worker_id, int gpu_id, const char *error)
{
    fprintf(stderr, "worker %d on GPU %d: %s\n", worker_id, gpu_id, error);
}

} // namespace

int main(int argc, char **argv)
{
    static gd_worker_ops ops;
    ops.size = sizeof ops;
    ops.setup = setup;
    ops.process = process;
    ops.cleanup = cleanup;
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    job j = {};
    j.n_tasks = argc > 1 ? strtoul(argv[1], nullptr, 10) : 200;
    j.size = (argc > 2 ? strtoul(argv[2], nullptr, 10) : 16) << 20;
    int gpus[64] = { 0 };
    size_t n_gpus = 0;
    for (int i = 3; i < argc && n_gpus < 64; i++)
        gpus[n_gpus++] = atoi(argv[i]);

    gd_options o;
    gd_options_init(&o, sizeof o);
    o.gpu_ids = gpus;
    o.n_gpus = n_gpus > 0 ? n_gpus : 1;
    o.queue_size = 8;
    o.arena_bytes = 12 * j.size + (64 << 20);
    o.queue_bytes = 12 * j.size;
    o.task_timeout_ms = 30000;
    o.user = &j;
    o.source = next_task;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_setup_fail = on_setup_fail;
    const double start = now();
    const int rc = gd_run(&o);
    if (rc < 0)
        fprintf(stderr, "example_cuda: %s\n", gd_error_text());
    const double seconds = j.last - j.first;
    printf("%lu of %lu tasks of %zu MiB done, %lu failed, %lu wrong; first result after %.2f s, then %.1f GB/s each way\n",
           j.done, j.n_tasks, j.size >> 20, j.failed, j.wrong, j.first - start,
           seconds > 0 ? (double)(j.done - 1) * (double)j.size / seconds / 1e9 : 0.0);
    return rc < 0 || j.wrong > 0 || j.done != j.n_tasks;
}
