"""A dispatcher with a display: the methods of `Dispatcher`, and a live panel and a table of GPUs in the terminal.

    from gpu_dispatch.ui import RichDispatcher

    stats = RichDispatcher(MyWorker, gpu_ids=[0, 1]).run(paths, on_success=save, total_tasks=len(paths))
    print(stats["completed"], stats["gpu_status"][0]["last_duration"])

There are three parts that also work alone: `RunState` counts, `dashboard()` draws a state, and `RichDispatcher` combines the
two with a `Dispatcher`. Rich is imported only if there is a display (`pip install gpu_dispatch[ui]`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from operator import length_hint
from typing import TYPE_CHECKING, Any

from . import _native
from ._journal import Shard
from .dispatcher import Control, Dispatcher, is_free
from .worker import BaseWorker

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["GpuState", "RichDispatcher", "RunState", "dashboard"]

#: The statuses of a GPU, and the Rich style of each.
STATUS_STYLES = {
    "initializing": "cyan",
    "processing": "yellow",
    "idle": "green",
    "finished": "bold green",
    "error": "bold red",
}

# Worker states of the core that callbacks do not report, and the status of the GPU for each.
_WORKER_STATUS = {
    "off": "initializing",
    "starting": "initializing",
    "resting": "initializing",
    "idle": "idle",
    "failed": "error",
    "lost": "error",
}


# ---- the state -------------------------------------------------------------------------------------------------------


@dataclass
class GpuState:
    """One GPU: what its workers are doing and what they have done."""

    status: str = "initializing"
    completed: int = 0
    failed: int = 0
    timeouts: int = 0
    restarts: int = 0
    last_duration: float | None = None  #: seconds that its last task took
    last_task: int | None = None  #: the task that it started last
    last_error: str | None = None  #: the last line of the error message
    running: dict[int, tuple[int, float]] = field(default_factory=dict)  #: worker -> (task, start time)
    broken: set[int] = field(default_factory=set)  #: workers that will do nothing more
    group: tuple[int, ...] = ()  #: all GPUs of its workers, if these have several

    @property
    def current_task(self) -> int | None:
        """The running task; with several workers, the one that has been running longest."""
        return min(self.running.values(), key=lambda task: task[1])[0] if self.running else None

    def settle(self) -> None:
        """Sets the status from the running tasks."""
        if self.running:
            self.status = "processing"
        elif self.status == "processing":
            self.status = "idle"


@dataclass
class RunState:
    """The state of a run. Times are `time.monotonic()`, except `start_time`, which is `time.time()`."""

    gpus: dict[int, GpuState]
    expected_total: int | None = None
    completed: int = 0
    failed: int = 0
    timeouts: int = 0
    setup_failures: int = 0
    skipped: int = 0  #: already finished in an earlier run, according to the journal
    start_time: float | None = None
    began: float | None = None
    ended: float | None = None
    first_end: float | None = None  #: when the first task ended; the ETA ignores the time before, which includes setup
    held: str | None = None  #: "paused" or "draining"

    @property
    def total(self) -> int:
        """Number of tasks that have ended, successfully or not."""
        return self.completed + self.failed + self.timeouts

    def elapsed(self, now: float) -> float:
        """Seconds since the start of the run; if it is over, its duration."""
        return 0.0 if self.began is None else max(0.0, (now if self.ended is None else self.ended) - self.began)

    def throughput(self, now: float) -> float | None:
        """Tasks per second; None while no task has ended."""
        elapsed = self.elapsed(now)
        return self.total / elapsed if self.total and elapsed > 0 else None

    def eta(self, now: float) -> float | None:
        """Seconds until `expected_total` is reached at the speed since the first task ended; None: unknown."""
        if self.expected_total is None or self.ended is not None or self.held is not None:
            return None
        left = self.expected_total - self.total - self.skipped
        if left <= 0:
            return 0.0
        if self.first_end is None or self.total < 2 or now <= self.first_end:
            return None
        return left * (now - self.first_end) / (self.total - 1)

    def as_dict(self) -> dict[str, Any]:
        """What `RichDispatcher.run()` returns."""
        elapsed = self.elapsed(time.monotonic())
        over = self.ended is not None and self.start_time is not None
        return {
            "total": self.total,
            "completed": self.completed,
            "failed": self.failed,
            "timeouts": self.timeouts,
            "setup_failures": self.setup_failures,
            "skipped": self.skipped,
            "start_time": self.start_time,
            "end_time": self.start_time + elapsed if over and self.start_time is not None else None,
            "elapsed": elapsed,
            "expected_total": self.expected_total,
            "gpu_status": {gpu_id: _gpu_dict(gpu) for gpu_id, gpu in self.gpus.items()},
        }


def _gpu_dict(gpu: GpuState) -> dict[str, Any]:
    names = ("status", "completed", "failed", "timeouts", "restarts", "last_duration", "current_task", "last_task")
    return {name: getattr(gpu, name) for name in (*names, "last_error")}


# ---- the display -----------------------------------------------------------------------------------------------------


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"


def _duration(seconds: float | None) -> str:
    """A duration with three digits and a unit."""
    if seconds is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            break
    if unit == "s" and value >= 600:
        return _clock(value)
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _rate(per_second: float | None) -> str:
    if per_second is None:
        return "- tasks/s"
    return f"{per_second:,.0f} tasks/s" if per_second >= 100 else f"{per_second:.2g} tasks/s"


def plain(text: str) -> str:
    """Makes untrusted text safe for a terminal: replaces control characters and invisible characters."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _task(gpu: GpuState) -> str:
    task = gpu.current_task if gpu.running else gpu.last_task
    return "-" if task is None else f"#{task}"


@dataclass(frozen=True)
class _Column:
    """A column of the table. It is shown if the display has at least a certain width."""

    title: str
    least_width: int
    justify: str
    cell: Callable[[GpuState], str]


_COLUMNS = (
    _Column("Task", 64, "right", _task),
    _Column("Done", 0, "right", lambda gpu: f"{gpu.completed:,}"),
    _Column("Failed", 0, "right", lambda gpu: f"{gpu.failed:,}"),
    _Column("Timeouts", 64, "right", lambda gpu: f"{gpu.timeouts:,}"),
    _Column("Last", 48, "right", lambda gpu: _duration(gpu.last_duration)),
    _Column("Restarts", 100, "right", lambda gpu: f"{gpu.restarts:,}"),
    _Column("Last error", 120, "left", lambda gpu: plain(gpu.last_error or "-")),
)


def _with_state(headline: Any, state: RunState) -> Any:
    return headline.append(f", {state.held}", style="yellow") if state.held and state.ended is None else headline


def _panel(state: RunState, now: float) -> Any:
    from rich.columns import Columns
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    known = state.expected_total is not None
    counts = [
        Text(f"{state.completed:,} done", style="green"),
        Text(f"{state.failed:,} failed", style="red" if state.failed else ""),
        Text(_plural(state.timeouts, "timeout"), style="red" if state.timeouts else ""),
    ]
    if state.skipped:
        counts.append(Text(f"{state.skipped:,} skipped"))
    if state.setup_failures:
        counts.append(Text(_plural(state.setup_failures, "setup failure"), style="bold red"))
    times = [Text(f"{_clock(state.elapsed(now))} elapsed"), Text(_rate(state.throughput(now)))]
    if known and state.ended is None:
        times.append(Text(f"{_clock(state.eta(now))} ETA"))
    lines = Table.grid(expand=True)
    if state.expected_total:
        over = state.total + state.skipped
        percent = 100.0 * over / state.expected_total
        headline = Text(f"{over:,} of {state.expected_total:,} tasks, {percent:.1f} %", style="bold")
        lines.add_row(_with_state(headline, state))
        lines.add_row(ProgressBar(total=state.expected_total, completed=min(over, state.expected_total)))
    else:
        lines.add_row(_with_state(Text(_plural(state.total, "task"), style="bold"), state))
    lines.add_row(Columns(counts, padding=(0, 2)))
    lines.add_row(Columns(times, padding=(0, 2)))
    return Panel(lines, title="gpu_dispatch", border_style="red" if state.setup_failures else "cyan")


def _table(state: RunState, width: int) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns = [column for column in _COLUMNS if width >= column.least_width]
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    table.add_column("GPU", justify="right", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify=column.justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for gpu_id, gpu in state.gpus.items():
        status = Text(gpu.status, style=STATUS_STYLES.get(gpu.status, ""))
        table.add_row("+".join(map(str, gpu.group or (gpu_id,))), status, *(Text(column.cell(gpu)) for column in columns))
    return table


@dataclass(frozen=True)
class _Dashboard:
    state: RunState
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _panel(self.state, self.now)
        yield _table(self.state, options.max_width)


def dashboard(state: RunState, now: float | None = None) -> Any:
    """The panel and the table for a state, as an object that Rich can print. It adapts to the width of the display."""
    return _Dashboard(state, time.monotonic() if now is None else now)


def _need_rich() -> None:
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "RichDispatcher shows its display with Rich, which is not installed: "
            "pip install gpu_dispatch[ui], or pass show_ui=False for the statistics alone"
        ) from error


# ---- the dispatcher --------------------------------------------------------------------------------------------------


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _as_error(on_error: Callable[[int, str, int], object] | None) -> Callable[[int, float, int], object] | None:
    """Returns an on_timeout that calls on_error. `Dispatcher` also calls on_error if no on_timeout is given."""
    if on_error is None:
        return None
    return lambda task_id, seconds, worker_id: on_error(task_id, f"timed out after {seconds} s", worker_id)


def _device_ids(gpu_ids: Iterable[int] | str) -> list[int]:
    """The device numbers for a specification. A group has only the number of its first device. A list is returned
    unchanged."""
    if isinstance(gpu_ids, str):
        # It is not known yet which GPUs will be free, so the display has all usable GPUs.
        return [group[0] for group in _native.device_groups("auto" if is_free(gpu_ids) else gpu_ids)]
    return list(gpu_ids)


class RichDispatcher(Control):
    """`Dispatcher` with a live display, and statistics as the result of `run()`.

    :param worker_cls, gpu_ids, queue_size: the same as for `Dispatcher`. So are all other keyword options.
    :param suppress_worker_output: whether to discard the output of workers. None: discard it if there is a live
        display, because it would disturb the display.
    :param refresh_rate: how often the display is drawn per second.
    :param show_ui: False: no display, only statistics. Rich is not needed then.
    :param console: the `rich.console.Console` to draw on. None: a console for standard output. If the console is not a
        terminal, only the final state is drawn.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: list[int] | str,
        queue_size: int = 1024,
        suppress_worker_output: bool | None = None,
        *,
        refresh_rate: float = 4.0,
        show_ui: bool = True,
        console: Console | None = None,
        **options: Any,
    ) -> None:
        if not refresh_rate > 0:
            raise ValueError(f"refresh_rate is {refresh_rate}: it must be above 0")
        if show_ui:
            _need_rich()
        self._refresh_seconds = 1.0 / refresh_rate
        self._console = self._open_console(console) if show_ui else None
        self._is_live = self._console is not None and self._console.is_terminal and not self._console.is_dumb_terminal
        quiet = self._is_live if suppress_worker_output is None else suppress_worker_output
        self._dispatcher = Dispatcher(worker_cls, gpu_ids, queue_size, quiet, **options)
        # It is not known yet which groups will be formed. Their rows are added when the workers are known.
        self._gpu_ids = [] if options.get("gpus_per_worker") else _device_ids(gpu_ids)
        self._workers_per_gpu = int(options.get("workers_per_gpu", 1))
        self._lock = threading.Lock()
        self._gpu_of: dict[int, int] = {}
        self._state = self._new_state(None)

    @staticmethod
    def _open_console(console: Console | None) -> Console:
        from rich.console import Console as RichConsole

        return RichConsole() if console is None else console

    # -- methods of Dispatcher --

    def shutdown(self) -> None:
        """Ends the run. Running tasks may finish. May be called from any thread."""
        self._dispatcher.shutdown()

    def abort(self) -> None:
        """Ends the run at once and kills the workers. May be called from any thread."""
        self._dispatcher.abort()

    def _request(self, name: str, *args: int) -> None:
        self._dispatcher._request(name, *args)

    def get_stats(self) -> dict[str, Any]:
        """The statistics of `Dispatcher.get_stats()`."""
        return self._dispatcher.get_stats()

    @property
    def state(self) -> RunState:
        """A copy of the current state. May be called from any thread."""
        with self._lock:
            return deepcopy(self._state)

    def run(
        self,
        generator: Iterable[Any] | None,
        on_success: Callable[[int, Any, int], object],
        on_error: Callable[[int, str, int], object] | None = None,
        on_timeout: Callable[[int, float, int], object] | None = None,
        on_setup_fail: Callable[[int, str], object] | None = None,
        on_task_start: Callable[[int, int], object] | None = None,
        on_exit: Callable[[], object] | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        *,
        on_partial: Callable[[int, Any, int, int], object] | None = None,
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        key: Callable[[Any], Any] | None = None,
        journal_sync: str = "normal",
        force_resume: bool = False,
        shard: Shard | tuple[int, int] | str | None = None,
        skip_done: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        lock_wait: float = 0.0,
        **setup_kwargs: Any,
    ) -> dict[str, Any]:
        """Runs like `Dispatcher.run()` and returns the statistics of the run.

        If there is a live display, the caller's thread draws it, and the run and its callbacks are on another thread.
        The statistics are updated before each callback is called. An exception of a callback or of the generator, or a
        KeyboardInterrupt, ends the run and is raised here. In a resumed run, tasks that are already finished are
        counted as ``skipped``. With a shard, how many tasks there will be is not known, so ``expected_total`` is None.

        :return: ``total`` (tasks that have ended), ``completed``, ``failed``, ``timeouts``, ``setup_failures``,
            ``skipped``, ``start_time`` and ``end_time`` (as time.time()), ``elapsed``, ``expected_total`` and
            ``gpu_status``, which has for each GPU ``status``, ``completed``, ``failed``, ``timeouts``, ``restarts``,
            ``last_duration``, ``current_task``, ``last_task``, ``last_error``.
        """
        expected = total_tasks if total_tasks is not None else length_hint(generator, -1)
        if shard is not None or self._dispatcher.shard is not None:
            expected = -1  # this is the total of all shards
        self._state = self._new_state(None if expected < 0 else expected)
        self._gpu_of = {}
        callbacks: dict[str, Any] = {
            "on_success": self._task_end("completed", on_success),
            "on_error": self._task_end("failed", on_error),
            "on_timeout": self._task_end("timeouts", on_timeout or _as_error(on_error)),
            "on_setup_fail": self._setup_fail(on_setup_fail),
            "on_task_start": self._task_start(on_task_start),
            "on_partial": on_partial,
            "on_exit": self._exit(on_exit),
        }
        numbers: dict[str, Any] = {"base_seed": base_seed, "task_timeout": task_timeout, "total_tasks": total_tasks}
        kept: dict[str, Any] = {
            "journal": journal,
            "resume": resume,
            "retry_failed": retry_failed,
            "key": key,
            "journal_sync": journal_sync,
            "force_resume": force_resume,
            "shard": shard,
            "skip_done": skip_done,
            "lock_wait": lock_wait,
        }

        def work() -> None:
            self._dispatcher.run(generator, **callbacks, **numbers, **kept, **setup_kwargs)

        self._state.start_time, self._state.began = time.time(), time.monotonic()
        try:
            if self._is_live:
                self._run_live(work)
            else:
                work()
        finally:
            self._finish()
            if self._console is not None and not self._is_live:
                self._console.print(dashboard(self._state))
        return self.state.as_dict()

    # -- the two threads --

    def _run_live(self, work: Callable[[], None]) -> None:
        from rich.live import Live

        over = threading.Event()
        raised: list[BaseException] = []

        def background() -> None:
            try:
                work()
            except BaseException as error:  # the caller's thread raises it
                raised.append(error)
            finally:
                over.set()

        # A daemon thread, so that a second Ctrl-C ends the program at once, without waiting for it.
        thread = threading.Thread(target=background, name="gpu_dispatch", daemon=True)
        with Live(self._frame(), console=self._console, auto_refresh=False) as live:
            thread.start()
            try:
                while not over.wait(self._refresh_seconds):
                    live.update(self._frame(), refresh=True)
            except BaseException:
                self._dispatcher.abort()
                thread.join()
                raise
            finally:
                self._finish()
                live.update(self._frame(), refresh=True)
        thread.join()
        if raised:
            raise raised.pop()

    def _frame(self) -> Any:
        with self._lock:
            self._read_core()
            return dashboard(deepcopy(self._state))

    # -- changes of the state, made while holding the lock --

    def _new_state(self, expected: int | None) -> RunState:
        return RunState({gpu_id: GpuState() for gpu_id in self._gpu_ids}, expected_total=expected)

    def _gpu(self, worker_id: int) -> GpuState | None:
        """The GPU of a worker; None if the task was never on a GPU."""
        gpu_id = self._gpu_of.get(worker_id)
        if gpu_id is None and worker_id >= 0:
            self._read_core()
            gpu_id = self._gpu_of.get(worker_id, worker_id)
        return None if gpu_id is None else self._state.gpus.setdefault(gpu_id, GpuState())

    def _read_core(self) -> None:
        """Reads from the core what callbacks do not report: the GPU of each worker, and which workers do not run."""
        workers = self._dispatcher.get_worker_stats()
        stats = self._dispatcher.get_stats()
        self._state.skipped = stats["skipped"]
        self._state.held = "draining" if stats["draining"] else "paused" if stats["paused"] else None
        restarts: dict[int, int] = {}
        for worker in workers:
            gpu_id, worker_id = worker["gpu_id"], worker["worker_id"]
            self._gpu_of[worker_id] = gpu_id
            gpu = self._state.gpus.setdefault(gpu_id, GpuState())
            if len(worker["gpu_ids"]) > 1:
                gpu.group = tuple(worker["gpu_ids"])
            restarts[gpu_id] = restarts.get(gpu_id, 0) + worker["restarts"]
            status = _WORKER_STATUS.get(worker["state"])
            if status == "error":
                gpu.broken.add(worker_id)
                gpu.running.pop(worker_id, None)
            elif status == "idle" and gpu.status == "initializing" and self._state.ended is None:
                gpu.status = "idle"
        for gpu_id, count in restarts.items():
            gpu = self._state.gpus[gpu_id]
            gpu.restarts = count
            if gpu.broken and len(gpu.broken) == sum(w["gpu_id"] == gpu_id for w in workers):
                gpu.status = "error"

    def _finish(self) -> None:
        with self._lock:
            self._read_core()
            if self._state.ended is None:
                self._state.ended = time.monotonic()
            for gpu in self._state.gpus.values():
                gpu.running.clear()
                if gpu.status != "error":
                    gpu.status = "finished"

    # -- the callbacks: update the state, then call the user's callback --

    def _task_start(self, user: Callable[[int, int], object] | None) -> Callable[[int, int], None]:
        def on_task_start(task_id: int, worker_id: int) -> None:
            with self._lock:
                gpu = self._gpu(worker_id)
                if gpu is not None:
                    gpu.running[worker_id] = (task_id, time.monotonic())
                    gpu.last_task = task_id
                    gpu.status = "processing"
            if user is not None:
                user(task_id, worker_id)

        return on_task_start

    def _task_end(
        self, counter: str, user: Callable[[int, Any, int], object] | None
    ) -> Callable[[int, Any, int], None]:
        def on_end(task_id: int, what: Any, worker_id: int) -> None:
            with self._lock:
                state, now = self._state, time.monotonic()
                setattr(state, counter, getattr(state, counter) + 1)
                if state.first_end is None:
                    state.first_end = now
                gpu = self._gpu(worker_id)
                if gpu is not None:
                    setattr(gpu, counter, getattr(gpu, counter) + 1)
                    if counter == "failed":
                        gpu.last_error = _last_line(str(what))
                    elif counter == "timeouts":
                        gpu.last_error = f"timed out after {what} s"
                    if gpu.running.get(worker_id, (None,))[0] == task_id:
                        del gpu.running[worker_id]
                    start_ns, end_ns = self._dispatcher.task_times()
                    if start_ns:
                        gpu.last_duration = (end_ns - start_ns) / 1e9
                    gpu.settle()
            if user is not None:
                user(task_id, what, worker_id)

        return on_end

    def _setup_fail(self, user: Callable[[int, str], object] | None) -> Callable[[int, str], None]:
        def on_setup_fail(gpu_id: int, error: str) -> None:
            with self._lock:
                self._state.setup_failures += 1
                gpu = self._state.gpus.setdefault(gpu_id, GpuState())
                gpu.last_error = _last_line(error)
                if self._workers_per_gpu == 1:
                    gpu.status = "error"  # with several workers, _read_core() sets it when the last one is gone
            if user is not None:
                user(gpu_id, error)

        return on_setup_fail

    def _exit(self, user: Callable[[], object] | None) -> Callable[[], None]:
        def on_exit() -> None:
            self._finish()
            if user is not None:
                user()

        return on_exit
