"""Results as an iterator: imap() and imap_unordered()."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from gpu_dispatch import BaseWorker, Dispatcher, TaskFailed

LONG = 250  # seconds: for events that come at once, except on a busy machine; a test that hangs is ended a little later


class Square(BaseWorker):
    def setup(self, gpu_id, seed, add=0):
        if add < 0:
            raise ValueError("add is negative")
        self.add = add

    def process(self, n):
        if n == "fail":
            raise KeyError("words")
        while n == "spin":
            pass
        return n * n + self.add


@pytest.fixture
def dispatcher():
    return Dispatcher(Square, [0, 1], queue_size=64)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "gpu_dispatch-imap"]


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test():
    """A thread that has reported its end may need a moment to exit."""
    yield
    gc.collect()
    for thread in threads():
        thread.join(LONG)
    assert not threads()


def test_imap_keeps_the_order(dispatcher):
    assert list(dispatcher.imap(range(5000), add=1)) == [n * n + 1 for n in range(5000)]


def test_imap_unordered_returns_every_result(dispatcher):
    assert sorted(dispatcher.imap_unordered(range(5000))) == [n * n for n in range(5000)]


def test_empty_iterable(dispatcher):
    assert list(dispatcher.imap([])) == []


def test_failed_task_raises_and_the_next_result_follows(dispatcher):
    results = dispatcher.imap([1, "fail", 3])
    assert next(results) == 1
    with pytest.raises(TaskFailed, match="KeyError: 'words'") as caught:
        next(results)
    assert caught.value.task_id == 1 and caught.value.timeout is None
    assert list(results) == [9]


def test_timeout(dispatcher):
    results = dispatcher.imap(["spin"], task_timeout=0.2)
    with pytest.raises(TaskFailed, match="timed out") as caught:
        next(results)
    assert caught.value.timeout == 0.2
    assert list(results) == []


def test_iterable_that_raises(dispatcher):
    def items():
        yield 2
        raise ArithmeticError("no more")

    results = dispatcher.imap(items())
    assert next(results) == 4
    with pytest.raises(ArithmeticError, match="no more"):
        next(results)
    assert list(results) == []


def test_setup_failure_is_raised_in_the_iterator(dispatcher):
    with pytest.raises(RuntimeError, match="All workers failed during setup") as caught:
        list(dispatcher.imap(range(100), add=-1))
    assert "add is negative" in str(caught.value.__cause__)


def test_wrong_arguments(dispatcher):
    with pytest.raises(TypeError):
        dispatcher.imap(3)
    with pytest.raises(ValueError):
        dispatcher.imap([1], task_timeout=-1)


@pytest.mark.parametrize("ordered", [True, False])
def test_run_is_at_most_queue_size_ahead(dispatcher, ordered):
    taken = 0

    def items():
        nonlocal taken
        for n in range(1000):
            taken += 1
            yield n

    for i, _ in enumerate(dispatcher.imap(items(), ordered=ordered)):
        assert taken - i <= dispatcher.queue_size + 1
    assert taken == 1000


def test_closing_ends_the_run(dispatcher):
    with dispatcher.imap(iter(int, 1)) as results:
        assert next(results) == 0
    assert not threads() and list(results) == []


def test_dropping_the_last_reference_ends_the_run(dispatcher):
    for result in dispatcher.imap(iter(int, 1)):
        assert result == 0
        break
    gc.collect()
    for thread in threads():
        thread.join(LONG)
    assert not threads()


def test_closing_while_the_iterable_is_blocked(dispatcher):
    never = threading.Event()

    def items():
        yield 3
        never.wait()

    with dispatcher.imap(items()) as results:
        assert next(results) == 9
    never.set()


def test_two_iterators_at_the_same_time(dispatcher):
    one, two = dispatcher.imap(range(500)), dispatcher.imap(range(500), add=1)
    assert [b - a for a, b in zip(one, two)] == [1] * 500


def test_async(dispatcher):
    async def collect():
        return [result async for result in dispatcher.imap(range(3000))]

    assert asyncio.run(collect()) == [n * n for n in range(3000)]


def test_async_does_not_block_the_loop(dispatcher):
    """The event loop itself supplies the items, one after each result. So the loop must never be blocked."""
    items, ready = [1], threading.Semaphore(1)

    def source():
        for _ in range(50):
            ready.acquire()
            yield items.pop()

    async def take():
        total = 0
        async for result in dispatcher.imap(source()):
            total += result
            await asyncio.sleep(0)
            items.append(1)
            asyncio.get_running_loop().call_soon(ready.release)
        return total

    assert asyncio.run(asyncio.wait_for(take(), LONG)) == 50


def test_async_failure_and_end(dispatcher):
    async def take():
        results = dispatcher.imap(["fail", 2])
        with pytest.raises(TaskFailed):
            await anext(results)
        rest = [result async for result in results]
        with pytest.raises(StopAsyncIteration):
            await anext(results)
        return rest

    assert asyncio.run(take()) == [4]


def test_async_closing_and_cancelling(dispatcher):
    never = threading.Event()

    def items():
        yield 5
        never.wait()

    async def take():
        async with dispatcher.imap(items()) as results:
            assert await anext(results) == 25
            waiting = asyncio.ensure_future(anext(results))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(take())
    never.set()
    assert not threads()
