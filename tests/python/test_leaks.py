# SPDX-License-Identifier: MIT
"""Memory does not grow with the number of tasks, neither in the dispatching process nor in the worker.

One worker runs many tasks. Both processes are measured before and after the tasks: private resident memory, Python's
blocks and objects, malloc's bytes. The growth per task must be smaller than the smallest leak. Shared memory is not
measured. It belongs to the queue, and how much of it is used depends on which side is faster.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpu_dispatch import BaseWorker, Dispatcher

SANITIZED = "LD_PRELOAD" in os.environ
pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps freed memory, and Python's blocks are not counted")

ENOUGH = 250  # seconds: the time limit of a run


class Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def malloced() -> int:
    """Bytes that malloc has allocated; 0 if this C library does not report them."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        return 0
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


class Size(NamedTuple):
    rss: int  # bytes
    malloc: int  # bytes
    blocks: int
    objects: int

    @staticmethod
    def now() -> Size:
        gc.collect()
        with open("/proc/self/statm") as file:
            resident, shared = map(int, file.read().split()[1:3])
        rss = (resident - shared) * os.sysconf("SC_PAGE_SIZE")
        return Size(rss, malloced(), sys.getallocatedblocks(), len(gc.get_objects()))


class Unreadable:
    def __reduce__(self) -> Any:
        return int, ("not a number",)


class Unsendable:
    def __reduce__(self) -> Any:
        raise ValueError("not for sending")


class Deep(Exception):
    """An exception that keeps much memory alive until it is released."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.more = [object() for _ in range(20)]

    def __reduce__(self) -> Any:
        raise TypeError("and can't be pickled")


class Measured(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        if data == "measure":
            return Size.now()
        return self.work(data)

    def work(self, data: Any) -> Any:
        return data


class Raises(Measured):
    def work(self, data: Any) -> Any:
        raise Deep(data)


class CannotReturn(Measured):
    def work(self, data: Any) -> Any:
        return Unsendable()


class Halves(Measured):
    def process(self, data: Any) -> Any:
        if isinstance(data, str):
            return Size.now()
        return data[: len(data) // 2] * 2


class InBatches(Measured):
    def process_batch(self, items: list[Any]) -> list[Any]:
        return [self.process(item) for item in items]


class Loads(Measured):
    def load(self, data: Any) -> Any:
        if data == 7:
            raise Deep(data)
        return [data] if isinstance(data, int) else data

    def work(self, data: Any) -> Any:
        return {"loaded": data}


class Growth(NamedTuple):
    here: Size
    there: Size


def grow(worker_cls: type[BaseWorker], item: Callable[[int], Any], n: int, warm: int, **options: Any) -> Growth:
    """How much both processes grow during n tasks, after `warm` other tasks."""
    sizes: list[tuple[Size, Size]] = []
    measured = threading.Semaphore(0)
    reported = 0

    def items() -> Iterator[Any]:
        for count in (warm, n):
            for i in range(count):
                yield item(i)
            yield "measure"
            assert measured.acquire(timeout=ENOUGH)

    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        nonlocal reported
        reported += 1
        if type(result) is Size:
            sizes.append((Size.now(), result))
            measured.release()

    def on_error(task_id: int, error: str, worker_id: int) -> None:
        nonlocal reported
        reported += 1

    Dispatcher(worker_cls, [0], ordered=True, **options).run(items(), on_success, on_error=on_error)
    assert reported == warm + n + 2 and len(sizes) == 2
    (here, there), (here_after, there_after) = sizes
    difference = [Size(*(b - a for a, b in zip(*pair))) for pair in ((here, here_after), (there, there_after))]
    return Growth(*difference)


def check(growth: Growth, n: int) -> None:
    """The smallest possible leak is one block, or 16 bytes, per task. Over n tasks, that is more than the noise."""
    for where, size in growth._asdict().items():
        print(f"{where}, for each of {n} tasks: {', '.join(f'{k} {v / n:.4f}' for k, v in size._asdict().items())}")
        assert size.blocks < n / 10, (where, size)
        assert size.objects < n / 50, (where, size)
        assert size.malloc < 4 * n + 50_000, (where, size)
        assert size.rss < 8 * n + (4 << 20), (where, size)


def test_a_million_tasks() -> None:
    n = 1_000_000
    growth = grow(Measured, lambda i: 1000 + i, n, 100_000)
    check(growth, n)
    # There must be less than one leaked block per thousand tasks.
    assert max(growth.here.blocks, growth.there.blocks) < n / 1000
    assert max(growth.here.malloc, growth.there.malloc) < n


def text_and_numbers(i: int) -> Any:
    return {"name": f"item {i}", "numbers": [i, i + 0.5, -(1 << 70)], "text": "x" * 500, "raw": b"y" * 500}


def array(i: int) -> Any:
    return np.full(8192, float(i))


@pytest.mark.parametrize(
    "worker_cls, item, n, options",
    [
        (Measured, text_and_numbers, 100_000, {}),
        (Measured, lambda i: "z" * 5000, 50_000, {}),
        (Halves, array, 10_000, {}),
        (InBatches, text_and_numbers, 50_000, {"batch_size": 8}),
        (Loads, lambda i: i % 1000, 50_000, {"io_threads": 2}),
    ],
    ids=["objects", "strings", "arrays", "batches", "loads"],
)
def test_objects(worker_cls: type[BaseWorker], item: Callable[[int], Any], n: int, options: dict[str, Any]) -> None:
    check(grow(worker_cls, item, n, n // 5, **options), n)


@pytest.mark.parametrize(
    "worker_cls, item, options",
    [
        (Raises, lambda i: 1000 + i, {}),
        (Raises, lambda i: 1000 + i, {"retries": 1, "retry_delay": 0}),
        (CannotReturn, lambda i: 1000 + i, {}),
        (Measured, lambda i: Unsendable(), {}),
        (Measured, lambda i: Unreadable(), {}),
        (Measured, lambda i: None if i % 2 else Unsendable(), {"on_worker_exit": print}),
    ],
    ids=["exceptions", "retries", "unsendable-results", "unsendable-items", "unreadable-items", "some"],
)
def test_failures(worker_cls: type[BaseWorker], item: Callable[[int], Any], options: dict[str, Any]) -> None:
    n = 6_000
    check(grow(worker_cls, item, n, n // 2, **options), n)
