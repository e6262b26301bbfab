"""Watches running jobs, for example from another process, another terminal or a notebook.

    from gpu_dispatch import observe

    for job in observe.jobs():
        print(job.id, job.name)

    with observe.Observer() as run:             # the only job; or name one by its id, process id or name
        for now in run:                         # once a second, and once more at the end
            print(now.stats["completed"], "done,", [w.task for w in now.workers])

Observers only read what `gpu-dispatch run` and `Dispatcher(job=...)` publish. There is no lock, and no observer can
disturb the run or slow it down. `gpu-dispatch top` is such an observer.

Names that end in ``_ns`` are times in nanoseconds of `time.monotonic_ns()`, or durations in nanoseconds. Unknown values
are None.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from gpu_dispatch import _native
from gpu_dispatch._native import NoJobError

__all__ = ["Device", "Failure", "Job", "NoJobError", "Observer", "Request", "Snapshot", "Task", "Worker", "jobs"]


@dataclass(frozen=True)
class Job:
    """A running job."""

    id: str  #: "4711", or "4711.2" for the second run of a process. `Observer` accepts it
    pid: int
    name: str  #: the command, or the name given to `Dispatcher(job=...)`
    started: float  #: Unix time


@dataclass(frozen=True)
class Worker:
    """A worker, and what it is doing."""

    worker_id: int
    gpu_id: int
    state: str  #: "starting", "idle", "busy", ... as in `Dispatcher.get_worker_stats()`
    idle: str | None  #: why it is idle: "no input", "loading", ...; None: it is not idle
    since_ns: int | None  #: when its task was started, or when it became idle
    current_task: int | None
    task: str | None  #: the start of its task's input, as text; if a path is too long, "…" and the end of the path
    handed: int  #: tasks that were given to it and are not finished
    in_flight: int  #: tasks begun and not finished, of a worker that can have several. task is the oldest of them
    completed: int
    failed: int
    timeouts: int
    restarts: int
    last_ns: int | None  #: how long its last task took
    busy_ns: int  #: how long all of its tasks took
    pid: int | None
    device_out: bool  #: its device is out of use


@dataclass(frozen=True)
class Device:
    """A device, and what its driver reports about once a second."""

    gpu_id: int
    vendor: str
    name: str
    uuid: str
    group: int  #: the first GPU of its group, which is the gpu_id of the group's workers; without a group, gpu_id
    memory_total: int | None  #: bytes
    memory_free: int | None
    utilization: int | None  #: percent
    temperature: int | None
    power_mw: int | None


@dataclass(frozen=True)
class Task:
    """An attempt that ended. A task that was retried has several attempts."""

    task_id: int
    worker_id: int
    gpu_id: int
    start_ns: int
    end_ns: int
    attempt: int
    again: bool  #: it will be tried again
    failure: str | None  #: "error", "timeout", "crash", ...; None: it succeeded


@dataclass(frozen=True)
class Failure(Task):
    """A failed attempt, with its error message."""

    input: str
    error: str


@dataclass(frozen=True)
class Request:
    """A request to the running job, such as `Dispatcher.pause()`."""

    at_ns: int  #: when it was carried out or refused
    done: bool  #: False: it was refused
    message: str


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment."""

    job: str
    id: str
    pid: int
    started: float  #: Unix time
    read_ns: int
    ended: bool  #: the run has ended, and this is its last state
    stale: bool  #: the run has not published for a while because a callback takes long
    #: total (0: unknown), taken, pending, running, completed, failed, timeouts, retried, skipped, cancelled, restarts,
    #: setup_failures, crashes, n_workers, source_done, start_ns, now_ns, paused, draining, task_timeout_ms (0: no limit)
    stats: dict[str, int]
    workers: list[Worker]
    devices: list[Device]
    #: tasks that ended since this observer's last read. If there were many, only some; tasks_missed counts the others
    tasks: list[Task]
    tasks_missed: int
    failures: list[Failure]
    failures_missed: int
    requests: list[Request]  #: like tasks
    requests_missed: int
    #: numbers from `Dispatcher.set_work()`, or seconds of audio for `gpu-dispatch transcribe`; total 0: not used
    work_done: float
    work_total: float


def jobs() -> list[Job]:
    """The running jobs of this user, oldest first."""
    return [Job(**job) for job in _native.jobs()]


def _snapshot(raw: dict[str, Any]) -> Snapshot:
    made: dict[str, Any] = {
        "workers": [Worker(**w) for w in raw["workers"]],
        "devices": [Device(**d) for d in raw["devices"]],
        "tasks": [Task(**t) for t in raw["tasks"]],
        "failures": [Failure(**f) for f in raw["failures"]],
        "requests": [Request(**r) for r in raw["requests"]],
    }
    return Snapshot(**{**raw, **made})


class Observer:
    """Reads what a run publishes. Only one thread may use it at a time; a second one gets a RuntimeError.

    Iterating gives a snapshot now, one every second, and a last one when the run has ended. It also stops if the run was
    killed. `watch()` can use another interval.

    :param which: the id of a job, its process id, its name or the start of its name; None: the only job.
    :raises NoJobError: there is no such job, or there are several and none was named. The message lists them.
    """

    def __init__(self, which: str | int | None = None) -> None:
        if which is not None and (isinstance(which, bool) or not isinstance(which, (str, int))):
            raise TypeError(f"which is {which!r}: a job is named by a str or an int")
        self._native = _native.Observer(None if which is None else str(which))

    def read(self) -> Snapshot:
        """The current state of the run. Does not wait.

        :raises NoJobError: the run was killed.
        """
        return _snapshot(self._native.read())

    def read_dict(self) -> dict[str, Any]:
        """The same as `read()`, as plain dicts and lists, for `json.dumps()`."""
        return self._native.read()

    def fileno(self) -> int:
        """A file descriptor that becomes readable when the observed process is gone; -1: not available."""
        return self._native.fileno()

    def watch(self, interval: float = 1.0) -> Iterator[Snapshot]:
        """Yields snapshots, `interval` seconds apart. In the last snapshot the run has ended. But if the run was
        killed, iteration just stops, and the last snapshot has the last known state."""
        if not interval > 0:
            raise ValueError(f"interval must be > 0 seconds, got {interval}")
        next_at = time.monotonic()
        while True:
            try:
                now = self.read()
            except NoJobError:
                return
            yield now
            if now.ended:
                return
            next_at = max(next_at + interval, time.monotonic())
            self._wait(next_at - time.monotonic())

    def _wait(self, seconds: float) -> None:
        """Waits for this many seconds, or until the process is gone."""
        poll = select.poll()
        if self.fileno() >= 0:
            poll.register(self.fileno(), select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)

    def __iter__(self) -> Iterator[Snapshot]:
        return self.watch()

    def close(self) -> None:
        """Stops observing. May be called several times."""
        self._native.close()

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
