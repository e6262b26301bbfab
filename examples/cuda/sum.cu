// SPDX-License-Identifier: MIT
//
// A worker on a real GPU, with a kernel that processes payloads directly from the arena.
//
//     example_cuda [-u] [tasks [mebibytes per task [gpu id ...]]]        -u: do not pin the arena
//
// The worker pins the payload arena once, in setup. Each payload is then copied to the device directly from the arena,
// at the speed of the bus, without another copy on the host. The kernel adds up the 32-bit words of the payload. The
// driver checks the sum. Copy and kernel are timed on the device.
#include <cuda_runtime.h>
#include <gpu_dispatch/gpu_dispatch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace {

struct answer { // the result of a task
    unsigned long long sum;
    float copy_ms, kernel_ms;
};

// --- the worker ---

struct model { // what a worker keeps between tasks
    uint32_t *device;
    size_t capacity;
    unsigned long long *sum;
    cudaStream_t stream;
    cudaEvent_t begun, copied, added;
};

__global__ void add_up(const uint32_t *words, size_t n, unsigned long long *sum)
{
    unsigned long long mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        mine += words[i];
    for (int lane = 16; lane > 0; lane /= 2)
        mine += __shfl_down_sync(0xffffffffu, mine, lane);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, mine);
}

int cuda_failed(gd_worker *w, const char *what, cudaError_t e)
{
    return e == cudaSuccess ? 0 : gd_worker_error(w, "%s: %s", what, cudaGetErrorString(e));
}

int setup(gd_worker *w, const gd_setup *s)
{
    static model m;
    const void *arena;
    size_t size;
    gd_worker_set_user(w, &m);
    // Because of CUDA_VISIBLE_DEVICES this process sees only its own device, as number 0.
    int rc = cuda_failed(w, "no CUDA device", cudaStreamCreate(&m.stream));
    if (rc == 0)
        rc = cuda_failed(w, "no device memory", cudaMalloc(&m.sum, sizeof *m.sum));
    for (cudaEvent_t *event : { &m.begun, &m.copied, &m.added })
        if (rc == 0)
            rc = cuda_failed(w, "no event", cudaEventCreate(event));
    const bool pin = *static_cast<const char *>(s->args) != 'u';
    gd_worker_arena(w, &arena, &size);
    if (rc == 0 && pin) // the arena is mapped read-only here, so it must be registered as such
        rc = cuda_failed(w, "the arena can't be pinned",
                         cudaHostRegister(const_cast<void *>(arena), size, cudaHostRegisterReadOnly));
    return rc;
}

cudaError_t make_room(model *m, size_t size)
{
    if (size <= m->capacity)
        return cudaSuccess;
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
    answer a = {};
    if (make_room(m, task->size) != cudaSuccess) {
        cudaGetLastError();
        return gd_result_out_of_memory(result, "no device memory for %zu bytes", task->size);
    }
    cudaMemsetAsync(m->sum, 0, sizeof *m->sum, m->stream);
    cudaEventRecord(m->begun, m->stream);
    cudaMemcpyAsync(m->device, task->data, task->size, cudaMemcpyHostToDevice, m->stream);
    cudaEventRecord(m->copied, m->stream);
    add_up<<<1024, 256, 0, m->stream>>>(m->device, task->size / sizeof(uint32_t), m->sum);
    cudaEventRecord(m->added, m->stream);
    cudaMemcpyAsync(&a.sum, m->sum, sizeof a.sum, cudaMemcpyDeviceToHost, m->stream);
    cudaError_t e = cudaStreamSynchronize(m->stream);
    if (e == cudaSuccess)
        e = cudaGetLastError();
    if (e != cudaSuccess) // after a CUDA error the process cannot use the device any more: have it replaced
        return gd_result_device_lost(result, "%s", cudaGetErrorString(e));
    cudaEventElapsedTime(&a.copy_ms, m->begun, m->copied);
    cudaEventElapsedTime(&a.kernel_ms, m->copied, m->added);
    return gd_result_set(result, &a, sizeof a);
}

int cleanup(gd_worker *w)
{
    model *m = static_cast<model *>(gd_worker_user(w));
    cudaFree(m->device);
    cudaFree(m->sum);
    return cuda_failed(w, "at the end", cudaStreamDestroy(m->stream));
}

// --- the driver ---

struct job {
    unsigned long n_tasks = 400, next = 0, wrong = 0, failed = 0;
    size_t size = 16 << 20;
    double start = 0, first = 0, last = 0;
    std::vector<float> copy_ms, kernel_ms;
};

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint32_t word_of(unsigned long task)
{
    return (uint32_t)(task % 251) * 0x01010101u;
}

int next_task(void *user, gd_item *item)
{
    job *j = static_cast<job *>(user);
    if (j->next == j->n_tasks)
        return 0;
    void *p = gd_item_alloc(item, j->size); // written in place: the worker reads it here
    if (!p)
        return gd_item_error(item, "%s", gd_error_text());
    memset(p, (int)(j->next++ % 251), j->size);
    return 1;
}

void on_success(void *user, const gd_report *r)
{
    job *j = static_cast<job *>(user);
    answer a;
    memcpy(&a, r->data, sizeof a);
    j->wrong += r->size != sizeof a || a.sum != (unsigned long long)word_of(r->task_id) * (j->size / sizeof(uint32_t));
    if (j->copy_ms.empty())
        j->first = now();
    j->last = now();
    j->copy_ms.push_back(a.copy_ms);
    j->kernel_ms.push_back(a.kernel_ms);
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

double median(std::vector<float> v)
{
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[v.size() / 2];
}

void print_summary(const job &j, bool pinned)
{
    if (j.copy_ms.empty())
        return;
    const double seconds = j.last - j.first, bytes = (double)j.size;
    const double copy = median(j.copy_ms) / 1e3, kernel = median(j.kernel_ms) / 1e3;
    printf("%zu of %lu tasks of %zu MiB, %lu failed, %lu wrong; arena %s; first result after %.2f s, then %.1f GB/s\n",
           j.copy_ms.size(), j.n_tasks, j.size >> 20, j.failed, j.wrong, pinned ? "pinned" : "not pinned",
           j.first - j.start, seconds > 0 ? (double)(j.copy_ms.size() - 1) * bytes / seconds / 1e9 : 0.0);
    printf("on the device, median: copy from the arena %.1f GB/s, kernel %.0f GB/s\n", copy > 0 ? bytes / copy / 1e9 : 0.0,
           kernel > 0 ? bytes / kernel / 1e9 : 0.0);
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
    job j;
    int at = 1;
    const bool pinned = !(argc > at && strcmp(argv[at], "-u") == 0);
    at += !pinned;
    if (argc > at)
        j.n_tasks = strtoul(argv[at++], nullptr, 10);
    if (argc > at)
        j.size = strtoul(argv[at++], nullptr, 10) << 20;
    std::vector<int> gpus;
    for (; at < argc; at++)
        gpus.push_back(atoi(argv[at]));
    if (gpus.empty())
        gpus.push_back(0);
    if (j.n_tasks == 0 || j.size == 0) {
        fprintf(stderr, "usage: %s [-u] [tasks [mebibytes per task [gpu id ...]]]\n", argv[0]);
        return 2;
    }

    gd_options o;
    gd_options_init(&o, sizeof o);
    o.handle_signals = true;
    o.gpu_ids = gpus.data();
    o.n_gpus = gpus.size();
    o.setup_args = pinned ? "p" : "u";
    o.setup_args_size = 2;
    o.queue_size = 4;
    o.queue_bytes = 8 * j.size;
    o.arena_bytes = 10 * j.size;
    o.task_timeout_ms = 30000;
    o.user = &j;
    o.source = next_task;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_setup_fail = on_setup_fail;
    j.start = now();
    const int rc = gd_run(&o);
    if (rc < 0)
        fprintf(stderr, "example_cuda: %s\n", gd_error_text());
    print_summary(j, pinned);
    return rc < 0 || j.wrong > 0 || j.copy_ms.size() != j.n_tasks;
}
