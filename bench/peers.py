#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast Python's own pools run the same no-op tasks, for comparison.

  queue_pool       a simple pool with multiprocessing.Queue: spawned workers, one queue for tasks and one for results, a
                   feeder thread, dataclass messages, a monitor loop that calls callbacks
  pool_chunk_1     multiprocessing.Pool.imap_unordered with chunks of 1
  pool_chunk_64    the same with chunks of 64
  pool_1MB, ...    bytes payloads through Pool.imap_unordered, in GB/s, one way (the result is a length)

One JSON object per line: name, unit, the median of the repeats, and the repeats. Start-up is not counted.
"""
import argparse
import itertools
import json
import multiprocessing
import signal
import statistics
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

LIMIT_S = 60  # for one measurement; a pool that takes longer has lost a task, and that is reported as a failure


@dataclass
class WorkerReady:
    worker_id: int


@dataclass
class TaskStarted:
    task_id: int
    worker_id: int


@dataclass
class TaskSuccess:
    task_id: int
    data: Any
    worker_id: int


@dataclass
class TaskError:
    task_id: int
    error: str
    worker_id: int


@dataclass
class WorkerDone:
    worker_id: int


def answer(value):
    """Returns a number unchanged, and the size of bytes and arrays."""
    if isinstance(value, int):
        return value
    return len(value) if isinstance(value, bytes) else value.nbytes


def queue_worker(worker_id, tasks, results):
    """Takes (task id, data) until it gets None."""
    results.put(WorkerReady(worker_id))
    while (task := tasks.get()) is not None:
        task_id, data = task
        results.put(TaskStarted(task_id, worker_id))
        try:
            results.put(TaskSuccess(task_id, answer(data), worker_id))
        except Exception:
            results.put(TaskError(task_id, traceback.format_exc(), worker_id))
    results.put(WorkerDone(worker_id))


class QueuePool:
    """The pool that the first Python version of this library had."""

    def __init__(self, context, n_workers, queue_size=1024):
        self.tasks = context.Queue(maxsize=queue_size)
        self.results = context.Queue()
        self.workers = [
            context.Process(target=queue_worker, args=(i, self.tasks, self.results), daemon=True)
            for i in range(n_workers)
        ]

    def __enter__(self):
        for worker in self.workers:
            worker.start()
        for _ in self.workers:
            assert isinstance(self.results.get(), WorkerReady)
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
            worker.join()

    def _feed(self, source):
        for task in enumerate(source):
            self.tasks.put(task)
        for _ in self.workers:
            self.tasks.put(None)

    def run(self, source, on_success, on_error, on_task_start):
        feeder = threading.Thread(target=self._feed, args=(source,), daemon=True)
        feeder.start()
        working = len(self.workers)
        while working:
            message = self.results.get()
            if isinstance(message, TaskStarted):
                on_task_start(message.task_id, message.worker_id)
            elif isinstance(message, TaskSuccess):
                on_success(message.task_id, message.data, message.worker_id)
            elif isinstance(message, TaskError):
                on_error(message.task_id, message.error, message.worker_id)
            elif isinstance(message, WorkerDone):
                working -= 1
        feeder.join()


class Counter:
    """Callbacks that count, as the simplest user code would do."""

    def __init__(self):
        self.started = self.done = self.failed = 0

    def on_task_start(self, _task_id, _worker_id):
        self.started += 1

    def on_success(self, _task_id, _data, _worker_id):
        self.done += 1

    def on_error(self, _task_id, _error, _worker_id):
        self.failed += 1


def rate_of_queue_pool(context, args):
    counter = Counter()
    with QueuePool(context, args.workers) as pool:
        begin = time.perf_counter()
        pool.run(range(args.queue_tasks), counter.on_success, counter.on_error, counter.on_task_start)
        seconds = time.perf_counter() - begin
    if counter.done != args.queue_tasks:
        raise RuntimeError(f"{counter.done} of {args.queue_tasks} tasks done")
    return args.queue_tasks / seconds


def rate_of_pool(context, workers, items, n, chunksize):
    """Items per second. The clock starts after each worker of the pool has run a first task."""
    with context.Pool(workers) as pool:
        pool.map(answer, range(workers * 4), chunksize=1)
        begin = time.perf_counter()
        results = pool.imap_unordered(answer, items, chunksize=chunksize)
        for _ in results:
            pass
        return n / (time.perf_counter() - begin)


def rate_of_bytes(context, workers, size, n):
    """GB/s, with few enough items that everything imap reads ahead fits into memory."""
    payload = bytes(size)
    return rate_of_pool(context, workers, itertools.repeat(payload, n), n, 1) * size / 1e9


def benches(args):
    spawn = multiprocessing.get_context("spawn")
    yield "queue_pool", "tasks/s", lambda: rate_of_queue_pool(spawn, args)
    yield "pool_chunk_1", "tasks/s", lambda: rate_of_pool(
        spawn, args.workers, range(args.pool_tasks), args.pool_tasks, 1)
    yield "pool_chunk_64", "tasks/s", lambda: rate_of_pool(
        spawn, args.workers, range(args.chunk_tasks), args.chunk_tasks, 64)
    yield "pool_1MB", "GB/s", lambda: rate_of_bytes(spawn, args.workers, 10**6, args.mb_tasks)
    yield "pool_100MB", "GB/s", lambda: rate_of_bytes(spawn, args.workers, 10**8, args.mb100_tasks)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="which to run; none: all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queue-tasks", type=int, default=20_000)
    parser.add_argument("--pool-tasks", type=int, default=20_000)
    parser.add_argument("--chunk-tasks", type=int, default=500_000)
    parser.add_argument("--mb-tasks", type=int, default=200)
    parser.add_argument("--mb100-tasks", type=int, default=4)
    return parser.parse_args()


def too_long(_signal, _frame):
    raise RuntimeError(f"not done after {LIMIT_S} s")


def timed(once):
    signal.alarm(LIMIT_S)
    try:
        return once()
    finally:
        signal.alarm(0)


def main():
    signal.signal(signal.SIGALRM, too_long)
    args = arguments()
    failed = False
    for name, unit, once in benches(args):
        if args.names and name not in args.names:
            continue
        line = {"name": name, "unit": unit}
        try:
            values = [timed(once) for _ in range(args.repeats)]
            line |= {"median": statistics.median(values), "repeats": values}
        except (RuntimeError, MemoryError, OSError) as error:
            line |= {"failed": f"{type(error).__name__}: {error}"}
            failed = True
        print(json.dumps(line), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
