"""Queues that many machines share: the options of a queue, push(), and the results from all machines."""

from __future__ import annotations

import contextlib
import operator
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from gpu_dispatch import _native
from gpu_dispatch._journal import Versioned, class_name

__all__ = ["Pushed", "Queue", "QueueResult", "push", "queue_available", "queue_results", "queue_status"]

_Path = str | os.PathLike[str]
_MOST_MS = 2**31 - 1
_AHEAD = 256  # results that are read before they are taken


@dataclass(frozen=True)
class Queue:
    """A queue and how to reach it. Where an address is expected, a Queue may be given instead.

        queue = Queue("tls://a,b,c/NAME", creds="user.creds", spill_dir="/shared/spill")
        push(queue, paths)
        Dispatcher(Worker, "auto", queue_url=queue).run(None, done)

    The server is NATS with JetStream, version 2.12.3 or later; see docs/queue.md. Times are in seconds.
    """

    url: str  # "nats://host/NAME", "nats://a,b,c/NAME", "tls://host/NAME"; a user or password in it is refused
    # Files. None: the environment variables of the nats command: NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT, NATS_KEY;
    # NATS_USER with NATS_PASSWORD, or NATS_TOKEN. Workers do not get these variables.
    creds: _Path | None = None  # a user's JWT and seed
    nkey: _Path | None = None  # a seed
    tls_ca: _Path | None = None  # the authorities to trust
    tls_cert: _Path | None = None  # of this client
    tls_key: _Path | None = None
    spill_dir: _Path | None = None  # a directory that all machines share, for items and results above 64 KiB
    connect_timeout: float = 10.0  # how long a server that does not answer is tried, for example while it restarts
    # Of a queue that does not exist yet, for push():
    lease: float = 30.0  # a node that is silent for so long loses its tasks to others
    replicas: int = 1  # 3 in a cluster of three servers or more
    # Of a node, for Dispatcher:
    idle_exit: float | None = 0.0  # 0: stay until the queue is done; seconds without work; None: never leave
    lost_timeout: float = 600.0  # how long a node tries to reach a server that it has lost
    spool: _Path | None = None  # the file for records that the server has not confirmed; None: in the state directory
    force: bool = False  # work even if other nodes run another worker class

    def _options(self) -> dict[str, Any]:
        """For _native."""
        if not isinstance(self.url, str):
            raise TypeError(f"the address of a queue is {self.url!r}: it must be a str such as nats://host/NAME")
        paths = ("creds", "nkey", "tls_ca", "tls_cert", "tls_key", "spill_dir", "spool")
        given = {name: getattr(self, name) for name in paths if getattr(self, name) is not None}
        for name, path in given.items():
            if not isinstance(path, (str, bytes, os.PathLike)) or not os.fspath(path):
                raise TypeError(f"{name} is {path!r}: it must be a path")
        return {
            "url": self.url,
            **given,
            "connect_timeout_ms": _ms("connect_timeout", self.connect_timeout),
            "lease_ms": _ms("lease", self.lease),
            "replicas": _count("replicas", self.replicas),
            "idle_exit_ms": -1 if self.idle_exit is None else _ms("idle_exit", self.idle_exit, least=0),
            "lost_timeout_ms": _ms("lost_timeout", self.lost_timeout),
            "force": bool(self.force),
        }


def queue_of(queue: Any) -> Queue:
    return queue if isinstance(queue, Queue) else Queue(queue)


def node_options(worker_cls: type, queue: Any) -> dict[str, Any] | None:
    """The options of a node for _native.Run. Nodes with another worker class are refused."""
    return None if queue is None else {**queue_of(queue)._options(), "command": f"python {class_name(worker_cls)}"}


def _ms(name: str, seconds: Any, least: int = 1) -> int:
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is {seconds!r}: it must be a number of seconds")
    if not 0 <= seconds <= _MOST_MS / 1000 or (seconds == 0 and least > 0):
        raise ValueError(f"{name} is {seconds!r}: it must be {'more than' if least else 'at least'} 0 seconds")
    return max(least, round(seconds * 1000)) if seconds else 0


def _count(name: str, value: Any) -> int:
    if not 0 <= (number := operator.index(value)) <= _MOST_MS:
        raise ValueError(f"{name} is {value!r}: it must be at least 0")
    return number


def queue_available() -> bool:
    """Whether the client library of NATS (libnats) is installed."""
    return _native.queue_available()


# ---- pushing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pushed:
    """What push() did."""

    added: int  # tasks that are new in the queue
    known: int  # tasks that were in the queue already
    messages: int
    again: int  # of the added tasks: those that had failed, and were added once more
    files: int  # items that are in files of spill_dir
    durable: bool | None  # whether what the server has confirmed survives a power loss; None: it cannot be learned


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[int]:
    """A descriptor that becomes readable when Python gets a signal, so that Ctrl-C ends a wait for the server. 0: none,
    because this is not the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield 0
        return
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(before)
        os.close(readable)
        os.close(writable)


def push(
    queue: str | Queue,
    items: Iterable[Any] = (),
    *,
    key: Callable[[Any], Any] | None = None,
    weight: Callable[[Any], int] | None = None,
    bundle: int | None = None,
    wait: float = 60.0,
    retry_failed: bool = False,
    on_note: Callable[[str], object] | None = None,
) -> Pushed:
    """Adds tasks to a queue, unless it has them already. Creates the queue if it does not exist.

        push("nats://host/NAME", paths)

    It can be repeated: after an error, an interruption or with a longer list, only what is missing is added. A str is the
    same task as a line that `gpu-dispatch push` gets, so commands and Python workers can share a queue. All other items
    are for Python workers. An item may be a Task, with a priority and its own time limit.

    :param queue: the address of the queue, "nats://host/NAME", or a Queue with more options.
    :param items: any iterable. Items may be anything that can be pickled.
    :param key: called with each item. It returns what identifies the item, as for run(): plain values, or a Versioned, whose
        changed version is a new task (file_key does that for paths). None: the item itself. Items that are not made of
        plain values need a key.
    :param weight: called with each item. It returns its size in any unit. Then the heaviest tasks of this push start first,
        and all items are kept in memory until the end.
    :param bundle: how many tasks travel in one message. None: chosen from the recorded durations, 1 if there are none. Use
        hundreds for tasks of milliseconds.
    :param wait: how many seconds to wait while another push is going on.
    :param retry_failed: also add each task whose last record is a failure once more.
    :param on_note: called with a message if another push is going on. None: nothing is said.
    :raises QueueError: the server cannot be reached, or refuses.
    """
    from gpu_dispatch.dispatcher import Task

    for name, call in (("key", key), ("weight", weight), ("on_note", on_note)):
        if call is not None and not callable(call):
            raise TypeError(f"{name} is {call!r}: it must be callable")
    if bundle is not None and bundle < 1:
        raise ValueError(f"bundle is {bundle!r}: it must be at least 1; None: chosen from the recorded durations")
    options: dict[str, Any] = {
        "bundle": 0 if bundle is None else _count("bundle", bundle),
        "wait_ms": _ms("wait", wait, least=0),
        "by_weight": weight is not None,
        "note": on_note or (lambda message: None),
    }
    with _ended_by_signals() as stop_fd:
        opened = _native.Push(queue_of(queue)._options(), **options, stop_fd=stop_fd)
        try:
            for item in items:
                priority, timeout_ms = 0, 0
                if isinstance(item, Task):
                    priority, timeout_ms = item.priority, 0 if item.timeout is None else _ms("timeout", item.timeout)
                    item = item.item
                own, version = _key_of(key, item)
                heaviness = 0 if weight is None else _count("weight(item)", weight(item))
                opened.add(item, own, version, priority, timeout_ms, heaviness)
            if retry_failed:
                opened.retry_failed()
            return Pushed(*opened.finish())
        finally:
            del opened  # an exception keeps this frame, and other pushes would have to wait


def _key_of(key: Callable[[Any], Any] | None, item: Any) -> tuple[Any, str | None]:
    if key is None:
        return None, None
    found = key(item)
    if found is None:
        raise TypeError("key(item) returned None: it must return what identifies the item")
    if not isinstance(found, Versioned):
        return found, None
    return found.key, None if found.version is None else str(found.version)


# ---- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class QueueResult:
    """The record of a task, from any machine."""

    number: int  # position in the list of its push, from 0
    key: bytes  # the hash of the task's key
    repeat: int  # how many tasks with the same key are before it in its list
    again: int  # how many times the task was added once more because it had failed
    done: bool  # False: it failed
    attempts: int
    failure: str | None  # the kind of the failure: "error", "timeout", "crash", ...
    error: str | None  # a traceback or a message
    stderr_end: str | None
    exit_code: int
    signal: int
    host: str
    gpu: str
    started: float  # Unix time
    seconds: float
    input: bytes | None
    input_file: str | None
    output: bytes | None
    output_file: str | None
    output_error: str | None  # why the output cannot be read

    @cached_property
    def item(self) -> Any:
        """The item that was pushed. It is unpickled when it is first asked for: use this only for queues whose writers you
        trust."""
        return _native.read_item(self._bytes(self.input, self.input_file))

    @cached_property
    def result(self) -> Any:
        """What process() returned, unpickled when it is first asked for; the output as bytes if another program than a
        Python worker has run the task.

        :raises RuntimeError: the task failed, or its output cannot be read.
        """
        if not self.done:
            raise RuntimeError(f"the task failed: {self.error or self.failure}")
        if self.output_error:
            raise RuntimeError(self.output_error)
        return _native.read_output(self._bytes(self.output, self.output_file))

    @staticmethod
    def _bytes(data: bytes | None, path: str | None) -> bytes:
        if data is not None or path is None:
            return data or b""
        with open(path, "rb") as file:
            return file.read()

    def __repr__(self) -> str:
        how = "done" if self.done else f"failed ({self.failure})"
        return f"<QueueResult {self.number}: {how} on {self.host}, {self.seconds:.3g} s>"


_NAMES = {field.name for field in fields(QueueResult)}


class _Following:
    """Connects the thread that reads the queue with the one that takes the results."""

    def __init__(self, reader: _native.Reader, follow: bool) -> None:
        self._reader, self._follow = reader, follow
        self._changed = threading.Condition()
        self._ready: deque[QueueResult] = deque()
        self._stopped = self._ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="gpu_dispatch.queue_results", daemon=True)
        self._thread.start()

    # --- the thread that reads ---

    def _read(self) -> None:
        try:
            if self._follow:
                self._reader.follow(self._put, lambda: self._stopped)
            else:
                self._reader.each(self._put)
        except BaseException as error:  # raised in the other thread
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, record: dict[str, Any]) -> bool:
        result = QueueResult(**{name: value for name, value in record.items() if name in _NAMES})
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < _AHEAD or self._stopped)
            self._ready.append(result)
            self._changed.notify_all()
            return self._stopped

    # --- the thread that takes ---

    def take(self) -> QueueResult | None:
        """The next result; None: there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            self._changed.notify_all()
            if self._ready:
                return self._ready.popleft()
        if self._error is not None:
            raise self._error
        return None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()


def queue_results(queue: str | Queue, *, follow: bool = False) -> Iterator[QueueResult]:
    """The results of all machines.

        for r in queue_results("nats://host/NAME", follow=True):
            print(r.item, r.result if r.done else r.error)

    :param queue: the address of the queue, or a Queue.
    :param follow: False: the records that exist now, in the order in which their tasks were pushed. True: also those that
        come later, as they come, until the queue is done. A failed task that is pushed again has another result, with a
        higher `again`.
    :raises QueueError: the queue does not exist, or its server cannot be reached.
    """
    return _results(_native.Reader(queue_of(queue)._options()), follow)


def _results(reader: _native.Reader, follow: bool) -> Iterator[QueueResult]:
    following = _Following(reader, follow)
    try:
        while (result := following.take()) is not None:
            yield result
    finally:
        following.stop()


def queue_status(queue: str | Queue) -> dict[str, Any]:
    """The figures of a queue: tasks, done, failed, waiting, held (by a node), is_done, push_is_open, nodes (alive),
    busy_seconds, command, server_version, durable (1: yes, 0: no, -1: cannot be learned), and node_list with a dict for each
    node. It reads all records, which takes long for a large queue."""
    reader = _native.Reader(queue_of(queue)._options())
    return {**reader.figures(), "node_list": reader.nodes()}
