"""Results as an iterator. The run has its own thread. A stream connects it to the thread that takes the results."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

__all__ = ["Results", "TaskFailed"]

_CANCELLED = "cancelled on request"  # the message of a task that Dispatcher.cancel_task() ended
_FAIR = 64  # results that an `async for` takes in a row before other tasks of the event loop get a turn


class TaskFailed(Exception):
    """A task of imap() failed. The iterator is still valid: you can take the next result.

    task_id is the position of the item in the iterable. error is the traceback as text, or a message about what
    happened to the worker. worker_id is the worker that had the task, or -1 if it was never given to a worker. timeout
    is the limit in seconds if the task exceeded it, otherwise None.
    """

    def __init__(self, task_id: int, error: str, worker_id: int, timeout: float | None = None) -> None:
        super().__init__(task_id, error, worker_id, timeout)
        self.task_id = task_id
        self.error = error
        self.worker_id = worker_id
        self.timeout = timeout

    def __str__(self) -> str:
        return f"task {self.task_id} failed: {self.error}"


class _NotTaken(Exception):
    """Raised in a callback to end the run after the iterator was closed. The task of the current result stays
    unfinished."""


class _Stream:
    """Connects three threads: the thread of the run, the thread of the generator, and the thread that takes the results
    (the taker).

    Only the generator's thread writes taken, and only the taker writes given. A thread that is about to wait first sets
    a flag, then checks its condition again, and then waits for a token in a queue. So no lock is needed.

    If acknowledge is set (the run has a journal or a shard), the run's thread waits in the callback of each result until
    the taker asks for the next result. Then the task is finished. In this case limit is not used, because skipped items
    and items of other shards have no result to count. The queue of the library is the only limit.
    """

    def __init__(self, iterable: Iterable[Any], limit: int, acknowledge: bool) -> None:
        self.iterator = iter(iterable)
        self.limit = limit
        self.wake_room = max(1, limit // 4)  # so that the generator is not woken for every result
        self.results: SimpleQueue[tuple[bool, Any] | None] = SimpleQueue()
        self.taken = 0
        self.given = 0
        self.closed = False
        self.error: BaseException | None = None
        self.setup_error: str | None = None
        self.left_over: list[tuple[bool, Any]] = []
        self.end: Callable[[], None] | None = None  # shuts the run down
        self.thread: threading.Thread | None = None
        self.acknowledge = acknowledge
        self.is_taken = False  # the last result is taken, but not acknowledged yet
        self._answers: SimpleQueue[bool] = SimpleQueue()
        self._feed_waits = False
        self._room: SimpleQueue[None] = SimpleQueue()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    # --- the generator's thread ---

    def items(self) -> Iterator[Any]:
        if self.acknowledge:
            for item in self.iterator:
                yield item
                if self.closed:
                    return
            return
        for item in self.iterator:
            self.taken += 1
            yield item
            while self.taken - self.given >= self.limit and not self.closed:
                self._feed_waits = True
                if self.taken - self.given < self.limit or self.closed:
                    self._feed_waits = False
                    break
                self._room.get()
            if self.closed:
                return

    # --- the run's thread ---

    def put(self, entry: tuple[bool, Any] | None) -> None:
        self.results.put(entry)
        if self._waiter is not None:
            self._notify()
        if self.acknowledge and entry is not None and not (self._answers.get() and not self.closed):
            raise _NotTaken

    def on_success(self, task_id: int, value: Any, worker_id: int) -> None:
        if self.acknowledge:
            self.put((True, value))
            return
        self.results.put((True, value))
        if self._waiter is not None:
            self._notify()

    def on_error(self, task_id: int, error: str, worker_id: int) -> None:
        entry = (False, TaskFailed(task_id, error, worker_id))
        # A task that was never given to a worker: usually the run is ending, perhaps with a more useful exception.
        if worker_id < 0 and error != _CANCELLED:
            self.left_over.append(entry)
        else:
            self.put(entry)

    def on_timeout(self, task_id: int, timeout: float, worker_id: int) -> None:
        self.put((False, TaskFailed(task_id, f"timed out after {timeout:g} s", worker_id, timeout)))

    def on_setup_fail(self, gpu_id: int, error: str) -> None:
        self.setup_error = f"setup failed on GPU {gpu_id}: {error}"

    def finish(self, error: BaseException | None) -> None:
        """The run is over."""
        if isinstance(error, RuntimeError) and error.__cause__ is None and self.setup_error is not None:
            error.__cause__ = RuntimeError(self.setup_error)
        self.error = None if isinstance(error, _NotTaken) else error
        self.acknowledge = False  # do not wait for the taker; tasks whose result it has not taken stay unfinished
        if error is None:
            for entry in self.left_over:
                self.put(entry)
        self.put(None)

    def _notify(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        loop, future = waiter
        try:
            loop.call_soon_threadsafe(_wake, future)
        except RuntimeError:  # the loop is closed, so nothing waits any more
            pass

    # --- the taker ---

    def settle(self) -> None:
        """Called when the taker asks for the next result, which means that it is done with the last one."""
        if self.is_taken:
            self.is_taken = False
            self._answers.put(True)

    def took(self) -> None:
        self.given += 1
        self.is_taken = self.acknowledge
        if self._feed_waits and self.limit - (self.taken - self.given) >= self.wake_room:
            self._feed_waits = False
            self._room.put(None)

    async def wait(self) -> None:
        """Waits until there may be something in results."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiter = (loop, future)
        if not self.results.empty():
            self._waiter = None
            return
        try:
            await future
        finally:
            self._waiter = None

    def stop(self) -> None:
        self.closed = True
        self._feed_waits = False
        self._room.put(None)
        self._answers.put(False)
        if self.end is not None:
            self.end()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_live: weakref.WeakSet[_Stream] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Ends all runs at exit. A run must not outlive the interpreter, because its callbacks need it."""
    streams = list(_live)
    for stream in streams:
        stream.stop()
    for stream in streams:
        if stream.thread is not None:
            stream.thread.join()


class Results:
    """The results of imap() and imap_unordered(): an iterator, and an async iterator.

    A failed task raises TaskFailed. You can still take the next result. The run ends early when you call close(), at
    the end of a `with` or `async with` block, or when the last reference is gone.
    """

    def __init__(
        self,
        iterable: Iterable[Any],
        limit: int,
        run: Callable[..., None],
        end: Callable[[], None],
        acknowledge: bool = False,
    ) -> None:
        """run(generator, callbacks) does the whole run, and end() makes it return early. If acknowledge is set, the
        callback of a result returns when the next result is requested, or raises if the iterator is closed."""
        stream = self._stream = _Stream(iterable, limit, acknowledge)
        stream.end = end
        stream.thread = threading.Thread(target=_work, args=(stream, run), name="gpu_dispatch-imap", daemon=True)
        self._done = False
        self._row = 0
        self._finalizer = weakref.finalize(self, stream.stop)
        self._finalizer.atexit = False
        _live.add(stream)
        stream.thread.start()

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        self._stream.settle()
        try:
            entry = self._stream.results.get()
        except BaseException:  # Ctrl-C while waiting
            self._stream.stop()
            raise
        if entry is None:
            self._end()
            raise StopIteration
        return self._take(entry)

    def __aiter__(self) -> Results:
        return self

    async def __anext__(self) -> Any:
        self._stream.settle()
        self._row += 1
        if self._row % _FAIR == 0:
            await asyncio.sleep(0)
        while not self._done:
            try:
                entry = self._stream.results.get_nowait()
            except Empty:
                await self._stream.wait()
                continue
            if entry is None:
                self._end()
                break
            return self._take(entry)
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the run. Running tasks may finish, but their results are dropped. Returns when the run has ended."""
        self._done = True
        self._stream.stop()
        if self._stream.thread is not None and self._stream.thread is not threading.current_thread():
            self._stream.thread.join()

    async def aclose(self) -> None:
        """The same as close(), without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Results:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def _take(self, entry: tuple[bool, Any]) -> Any:
        self._stream.took()
        ok, value = entry
        if ok:
            return value
        raise value

    def _end(self) -> None:
        self._done = True
        error, self._stream.error = self._stream.error, None
        if error is not None:
            raise error


def _work(stream: _Stream, run: Callable[..., None]) -> None:
    callbacks = {name: getattr(stream, name) for name in ("on_success", "on_error", "on_timeout", "on_setup_fail")}
    raised: BaseException | None = None
    try:
        run(stream.items(), callbacks)
    except BaseException as error:  # raised again in the taker, after the last result
        raised = error
    _live.discard(stream)
    stream.finish(raised)
