"""Runs that are going on, looked at from anywhere: another process, another terminal, a notebook.

    from gpu_dispatch import observe

    for job in observe.jobs():
        print(job.id, job.name)

    with observe.Observer() as run:             # the only one there is; or by id, process id or name
        for now in run:                         # once a second, and once more at its end
            print(now.stats["completed"], "done,", [w.task for w in now.workers])

What `gpu-dispatch run` and `Dispatcher(job=...)` publish is only read: there is no lock, and nothing that an observer
does, or fails to do, is felt by the run. `gpu-dispatch top` is such an observer.

Times whose names end in ``_ns`` are nanoseconds of `time.monotonic_ns()`; durations are too. What is not known is None.
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

__all__ = ["Device", "Failure", "Job", "NoJobError", "Observer", "Snapshot", "Task", "Worker", "jobs"]


@dataclass(frozen=True)
class Job:
    """A run that is going on."""

    id: str  #: "4711", or "4711.2" for the second run of a process: for `Observer`
    pid: int
    name: str  #: the command, or what `Dispatcher(job=...)` was given
    started: float  #: Unix time


@dataclass(frozen=True)
class Worker:
    """A worker, and what it is at."""

    worker_id: int
    gpu_id: int
    state: str  #: "starting", "idle", "busy", ... as in `Dispatcher`'s figures
    idle: str | None  #: why it has nothing to do: "no input", "loading", ...; None: it has
    since_ns: int | None  #: its task was started, or it became idle
    current_task: int | None
    task: str | None  #: the beginning of its task's input, as text; of a path that is too long the end, after "…"
    handed: int  #: tasks it has been handed and not finished
    completed: int
    failed: int
    timeouts: int
    restarts: int
    last_ns: int | None  #: how long its last task took
    busy_ns: int  #: how long all of them took
    pid: int | None
    device_out: bool  #: its device is out of use


@dataclass(frozen=True)
class Device:
    """A device, and what its driver says; asked about once a second."""

    gpu_id: int
    vendor: str
    name: str
    uuid: str
    memory_total: int | None  #: bytes
    memory_free: int | None
    utilization: int | None  #: percent
    temperature: int | None
    power_mw: int | None


@dataclass(frozen=True)
class Task:
    """An attempt that ended: of a task that is retried there are several."""

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
    """One that failed, with its words."""

    input: str
    error: str


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment."""

    job: str
    id: str
    pid: int
    started: float  #: Unix time
    read_ns: int
    ended: bool  #: these are its last figures
    stale: bool  #: not published for a while, though the run is not asleep: a callback takes its time
    #: total (0: not known), taken, pending, running, completed, failed, timeouts, retried, skipped, cancelled, restarts,
    #: setup_failures, crashes, n_workers, source_done, start_ns, now_ns
    stats: dict[str, int]
    workers: list[Worker]
    devices: list[Device]
    #: those that ended since this observer's last read; of a fast run a sample, the others are counted as missed
    tasks: list[Task]
    tasks_missed: int
    failures: list[Failure]
    failures_missed: int
    #: what `Dispatcher.set_work()` was told, seconds of audio for `gpu-dispatch transcribe`; total 0: tasks are counted
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
    }
    return Snapshot(**{**raw, **made})


class Observer:
    """Reads what a run publishes. For one thread at a time: another that comes in between gets a RuntimeError.

    Iterating gives a snapshot now, one every second, and the last when the run has ended; a run that was killed ends it
    too. `watch()` has another pace.

    :param which: a job's id, its process id, its name or the beginning of that; None: the only one there is.
    :raises NoJobError: there is none, or several and which one was not said. Its words list them.
    """

    def __init__(self, which: str | int | None = None) -> None:
        if which is not None and (isinstance(which, bool) or not isinstance(which, (str, int))):
            raise TypeError(f"which is {which!r}: a job is named by a str or an int")
        self._native = _native.Observer(None if which is None else str(which))

    def read(self) -> Snapshot:
        """What the run is at now. Waits for nothing.

        :raises NoJobError: the run was killed.
        """
        return _snapshot(self._native.read())

    def read_dict(self) -> dict[str, Any]:
        """The same as `read()` gives, as plain dicts and lists: for `json.dumps()`."""
        return self._native.read()

    def fileno(self) -> int:
        """A descriptor that becomes readable when the observed process is gone; -1: there is none."""
        return self._native.fileno()

    def watch(self, interval: float = 1.0) -> Iterator[Snapshot]:
        """Snapshots, `interval` seconds apart, up to the one in which the run has ended. Ends without that one if it was
        killed; what was read before is then the last that is known."""
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
        """Until then, or until the process is gone."""
        poll = select.poll()
        if self.fileno() >= 0:
            poll.register(self.fileno(), select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)

    def __iter__(self) -> Iterator[Snapshot]:
        return self.watch()

    def close(self) -> None:
        """Lets go of it; once or often."""
        self._native.close()

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
