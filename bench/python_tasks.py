#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python tasks per second: this package and its peers do the same work, one after the other.

A task is a small int, which is returned, or a NumPy array of 1, 10 or 100 MB, whose size is returned. Each measurement
starts its workers (one by default), waits until they are ready, and measures the time from the request for the first
item to the last result. Names are <kind>_<variant>:

  ints, 1MB, 10MB, 100MB      what kind of task; ints in tasks/s, arrays in GB/s
  ours                        gpu_dispatch.Dispatcher, with on_success
  seed                        a pool on multiprocessing.Queue; its workers also report each start of a task (peers.py)
  pool_chunk_1, _chunk_64     multiprocessing.Pool.imap_unordered
  futures                     concurrent.futures.ProcessPoolExecutor.map
  loky                        joblib's executor. Not joblib.Parallel, which starts no process for one worker
  mpire, mpire_chunk_64       mpire.WorkerPool.imap_unordered
  ray                         an actor, with the number of calls in flight that is fastest for it
  memcpy                      no tasks: one array copied to another, both warm
  memcpy_queue                no tasks: one array copied to several buffers in turn, in warm shared memory; there are as
                              many buffers as our queue has slots

One JSON object per line: name, unit, the median of the repeats, the repeats; or `failed` with an error message.
"""
import argparse
import collections
import concurrent.futures
import importlib
import itertools
import json
import mmap
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time

import numpy
import peers
from gpu_dispatch import BaseWorker, Dispatcher

SIZES = {"1MB": 10**6, "10MB": 10**7, "100MB": 10**8}
# How far to read ahead: enough to keep a worker busy, and not more memory than stays in the caches.
QUEUE = {"ints": 1024, "1MB": 32, "10MB": 4, "100MB": 2}
RAY_CALLS = {"ints": 1000, "1MB": 16, "10MB": 8, "100MB": 2}


class Answer(BaseWorker):
    """Reports through a FIFO that it is ready, then answers."""

    def setup(self, gpu_id, seed, ready):
        with open(ready, "wb", buffering=0) as fifo:
            fifo.write(b"r")

    def process(self, data):
        return peers.answer(data)


class Work:
    """n items of one kind, and the expected answers."""

    def __init__(self, kind, n):
        self.kind, self.n = kind, n
        self.size = SIZES.get(kind, 0)
        self.array = numpy.ones(self.size, dtype=numpy.uint8) if self.size else None

    def items(self):
        return itertools.repeat(self.array, self.n) if self.size else range(self.n)

    def rate(self, seconds):
        return self.n * self.size / 1e9 / seconds if self.size else self.n / seconds

    def timed(self, run):
        """run(items) returns the answers, in any order."""
        begin = time.perf_counter()
        total = sum(run(self.items()))
        seconds = time.perf_counter() - begin
        if total != (self.n * self.size if self.size else self.n * (self.n - 1) // 2):
            raise RuntimeError("answers are wrong or missing")
        return self.rate(seconds)


def wait_for(fifo, n):
    while n > 0:
        n -= len(os.read(fifo, n))


def ours(work, workers):
    """The clock starts when all workers are ready, before the first item."""
    answers, times = [], []
    with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
        ready = os.path.join(directory, "ready")
        os.mkfifo(ready)
        fifo = os.open(ready, os.O_RDWR)  # for reading and writing, so that neither side waits for the other to open it

        def items():
            wait_for(fifo, workers)
            times.append(time.perf_counter())
            yield from work.items()

        def on_success(_task_id, result, _worker_id):
            answers.append(result)
            if len(answers) == work.n:
                times.append(time.perf_counter())

        Dispatcher(Answer, gpu_ids=list(range(workers)), queue_size=QUEUE[work.kind]).run(items(), on_success, ready=ready)
        os.close(fifo)
    if len(times) != 2 or sum(answers) != sum(map(peers.answer, work.items())):
        raise RuntimeError("answers are wrong or missing")
    return work.rate(times[1] - times[0])


def seed(work, workers):
    def run(items):
        answers, errors = [], []
        pool.run(items, lambda _id, data, _worker: answers.append(data),
                 lambda _id, error, _worker: errors.append(error), lambda _id, _worker: None)
        if errors:
            raise RuntimeError(errors[0])
        return answers

    with peers.QueuePool(multiprocessing.get_context("spawn"), workers) as pool:
        return work.timed(run)


def pool(work, workers, chunk=1):
    with multiprocessing.get_context("spawn").Pool(workers) as p:
        p.map(peers.answer, range(workers * 4), chunksize=1)
        return work.timed(lambda items: p.imap_unordered(peers.answer, items, chunksize=chunk))


def pool_chunk_64(work, workers):
    return pool(work, workers, 64)


def futures(work, workers):
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn) as executor:
        list(executor.map(peers.answer, range(workers * 4)))
        return work.timed(lambda items: executor.map(peers.answer, items))


def loky(work, workers):
    executor = importlib.import_module("joblib.externals.loky").ProcessPoolExecutor(workers)
    try:
        list(executor.map(peers.answer, range(workers * 4)))
        return work.timed(lambda items: executor.map(peers.answer, items))
    finally:
        executor.shutdown(kill_workers=True)


def mpire(work, workers, chunk=1):
    pool_class = importlib.import_module("mpire").WorkerPool
    with pool_class(n_jobs=workers, start_method="spawn", keep_alive=True) as p:
        list(p.imap_unordered(peers.answer, range(workers * 4), chunk_size=1))
        return work.timed(lambda items: p.imap_unordered(peers.answer, items, iterable_len=work.n, chunk_size=chunk))


def mpire_chunk_64(work, workers):
    return mpire(work, workers, 64)


def ray_answers(ray, actors, items, calls):
    """Keeps `calls` calls in flight on each actor."""
    under_way = collections.deque()
    for item, actor in zip(items, itertools.cycle(actors)):
        if len(under_way) >= calls * len(actors):
            yield ray.get(under_way.popleft())
        under_way.append(actor.answer.remote(item))
    yield from ray.get(list(under_way))


def ray(work, workers):
    lib = importlib.import_module("ray")
    lib.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        @lib.remote
        class Actor:
            def answer(self, value):
                return value if isinstance(value, int) else value.nbytes

        actors = [Actor.remote() for _ in range(workers)]
        lib.get([actor.answer.remote(0) for actor in actors])
        return work.timed(lambda items: ray_answers(lib, actors, items, RAY_CALLS[work.kind]))
    finally:
        lib.shutdown()


def memcpy(work, _workers):
    room = numpy.empty_like(work.array)
    numpy.copyto(room, work.array)
    begin = time.perf_counter()
    for _ in range(work.n):
        numpy.copyto(room, work.array)
    return work.rate(time.perf_counter() - begin)


def memcpy_queue(work, _workers):
    places = QUEUE[work.kind]
    memory = os.memfd_create("bench")
    try:
        os.ftruncate(memory, places * work.size)
        room = numpy.frombuffer(mmap.mmap(memory, places * work.size), dtype=numpy.uint8).reshape(places, work.size)
    finally:
        os.close(memory)
    room[:] = work.array
    begin = time.perf_counter()
    for i in range(work.n):
        numpy.copyto(room[i % places], work.array)
    return work.rate(time.perf_counter() - begin)


# The variants, and their numbers of tasks: about as many as a fast pool does in a second.
VARIANTS = {
    "ours": (ours, {"ints": 500_000, "1MB": 2000, "10MB": 300, "100MB": 30}),
    "seed": (seed, {"ints": 20_000, "1MB": 200, "10MB": 30, "100MB": 4}),
    "pool_chunk_1": (pool, {"ints": 20_000, "1MB": 200, "10MB": 30, "100MB": 4}),
    "pool_chunk_64": (pool_chunk_64, {"ints": 500_000}),
    "futures": (futures, {"ints": 5000, "1MB": 200, "10MB": 30, "100MB": 4}),
    "loky": (loky, {"ints": 2000, "1MB": 200, "10MB": 30, "100MB": 4}),
    "mpire": (mpire, {"ints": 10_000, "1MB": 200, "10MB": 30, "100MB": 4}),
    "mpire_chunk_64": (mpire_chunk_64, {"ints": 100_000}),
    "ray": (ray, {"ints": 5000, "1MB": 500, "10MB": 60, "100MB": 6}),
    "memcpy": (memcpy, {"1MB": 2000, "10MB": 300, "100MB": 30}),
    "memcpy_queue": (memcpy_queue, {"1MB": 2000, "10MB": 300, "100MB": 30}),
}
NAMES = [f"{kind}_{variant}" for kind in ("ints", *SIZES) for variant, (_, tasks) in VARIANTS.items() if kind in tasks]


def measure(name, args):
    kind, variant = name.split("_", 1)
    function, tasks = VARIANTS[variant]
    line = {"name": name, "unit": "tasks/s" if kind == "ints" else "GB/s"}
    work = Work(kind, max(1, int(tasks[kind] * args.share)))
    try:
        values = [peers.timed(lambda: function(work, args.workers)) for _ in range(args.repeats)]
        return line | {"median": statistics.median(values), "repeats": values}
    except ImportError as error:
        return line | {"failed": f"not installed ({error.name})"}
    except Exception as error:  # the failure of a peer is an entry in the table, not the end of the run
        return line | {"failed": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="which to run; none: all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="part of the usual number of tasks to run (default 1)")
    args = parser.parse_args()
    unknown = set(args.names) - set(NAMES)
    if unknown:
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    signal.signal(signal.SIGALRM, peers.too_long)
    lines = [measure(name, args) for name in NAMES if not args.names or name in args.names]
    print("\n".join(map(json.dumps, lines)))
    return 1 if any("failed" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
