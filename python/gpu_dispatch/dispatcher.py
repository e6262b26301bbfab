"""The dispatching side: a generator of items, a pool of worker processes, and callbacks."""

from __future__ import annotations

import inspect
import operator
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpu_dispatch import _native
from gpu_dispatch._imap import Results
from gpu_dispatch._journal import job_name, journal_options
from gpu_dispatch._spawn import worker_command
from gpu_dispatch.worker import BaseWorker

__all__ = ["Dispatcher"]

_INHERIT, _DISCARD = 0, 1  # enum gd_worker_output
_NO_RUN = {
    "total": 0,
    "taken": 0,
    "pending": 0,
    "running": 0,
    "completed": 0,
    "failed": 0,
    "timeouts": 0,
    "retried": 0,
    "setup_failures": 0,
    "restarts": 0,
    "crashes": 0,
    "start_ns": 0,
    "now_ns": 0,
    "source_done": 0,
    "n_workers": 0,
    "skipped": 0,
}


class Dispatcher:
    """Runs a stream of tasks on a pool of worker processes, one or more for each GPU.

        dispatcher = Dispatcher(MyWorker, gpu_ids=[0, 1, 2, 3])
        dispatcher.run(generator=paths(), on_success=save, on_error=complain, model_path="model.pt")

    Each item of the generator gets exactly one of on_success, on_error and on_timeout, whatever happens to the workers:
    those that die are replaced, and their tasks run again. A dispatcher can be used for several runs, one after the
    other or at once from several threads.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: Sequence[int] | str,
        queue_size: int = 1024,
        suppress_worker_output: bool = False,
        *,
        workers_per_gpu: int = 1,
        model_bytes: int = 0,
        retries: int = 0,
        retry_delay: float = 0.1,
        retry_timeouts: bool = False,
        crash_limit: int = 3,
        ordered: bool = False,
        batch_size: int = 1,
        batch_wait: float = 0.0,
        io_threads: int = 1,
        load_ahead: int = 0,
        queue_bytes: int = 1 << 30,
        window: int = 0,
        setup_jobs: int = 0,
        setup_timeout: float | None = None,
        cancel_grace: float = 1.0,
        stop_grace: float = 10.0,
        cleanup_grace: float = 10.0,
        any_cpu: bool = False,
        env: Mapping[str, str] | None = None,
        job: str | bool | None = True,
        on_cleanup_fail: Callable[[int, str], object] | None = None,
        on_worker_exit: Callable[[int, int, str, bool], object] | None = None,
        on_device_out: Callable[[int, str], object] | None = None,
    ) -> None:
        """
        :param worker_cls: the class of the workers, a subclass of BaseWorker.
        :param gpu_ids: the GPUs by number; or as a string "auto" (all that are free), "0,2", "GPU-8d2f", "sim:4",
            "cpu:8".
        :param queue_size: how many items may be taken from the generator and not done.
        :param suppress_worker_output: whether what workers print is dropped.
        :param workers_per_gpu: processes for each GPU; 0: as many as fit its free memory, at model_bytes each.
        :param model_bytes: GPU memory that a worker needs.
        :param retries: how often a task that failed with an exception is run again, after retry_delay seconds (which
            double each time); with retry_timeouts also one that passed its time limit.
        :param crash_limit: how often a task that kills its worker is started.
        :param ordered: whether callbacks come in the order of the generator.
        :param batch_size: how many items process_batch() may be given at once, and batch_wait how many seconds they may
            be held back for a fuller batch.
        :param io_threads: threads of each worker that call load(), and load_ahead how many items may be loaded and not
            done (0: twice io_threads or batch_size).
        :param queue_bytes: how many bytes of items may be taken and not done.
        :param window: how many tasks a worker is handed at once; 0: as many as their length asks for.
        :param setup_jobs: how many workers are set up at the same time; 0: all.
        :param setup_timeout: seconds that setup() may take.
        :param cancel_grace: seconds from interrupting a task that has passed its time limit to killing its worker.
        :param stop_grace: seconds that running tasks have after shutdown().
        :param cleanup_grace: seconds that a worker has to clean up and exit.
        :param any_cpu: whether workers may run on any CPU, instead of those near their GPU.
        :param env: further environment variables of the workers.
        :param job: the name under which runs are published, for `gpu-dispatch top` and other observers of the same user.
            True: the script and the class, "script.py: Worker"; None or False: they are not.
        :param on_cleanup_fail: called with (gpu_id, error) when a worker's cleanup() failed.
        :param on_worker_exit: called with (worker_id, gpu_id, why, given_up) when a worker process ended before it
            should have.
        :param on_device_out: called with (gpu_id, why) when a GPU is taken out of use.
        """
        _check_class(worker_cls)
        self.worker_cls = worker_cls
        self.gpu_ids: list[int] | str = _check_gpus(gpu_ids)
        self.queue_size = _at_least("queue_size", queue_size, 1)
        self._options: dict[str, Any] = {
            "queue_size": self.queue_size,
            "output": _DISCARD if suppress_worker_output else _INHERIT,
            "workers_per_gpu": _at_least("workers_per_gpu", workers_per_gpu, 0),
            "model_bytes": _at_least("model_bytes", model_bytes, 0),
            "retries": _at_least("retries", retries, 0),
            "retry_delay_ms": _in_ms("retry_delay", retry_delay),
            "retry_timeouts": bool(retry_timeouts),
            "crash_limit": _at_least("crash_limit", crash_limit, 1),
            "ordered": bool(ordered),
            "batch_size": _at_least("batch_size", batch_size, 1),
            "batch_wait_us": _in_ms("batch_wait", batch_wait, 1_000_000),
            "io_threads": _at_least("io_threads", io_threads, 1),
            "load_ahead": _at_least("load_ahead", load_ahead, 0),
            "queue_bytes": _at_least("queue_bytes", queue_bytes, 1),
            "window": _at_least("window", window, 0),
            "setup_jobs": _at_least("setup_jobs", setup_jobs, 0),
            "setup_timeout_ms": 0 if setup_timeout is None else _in_ms("setup_timeout", setup_timeout),
            "cancel_grace_ms": _in_ms("cancel_grace", cancel_grace),
            "stop_grace_ms": _in_ms("stop_grace", stop_grace),
            "cleanup_grace_ms": _in_ms("cleanup_grace", cleanup_grace),
            "any_cpu": bool(any_cpu),
            "env": [f"{name}={value}" for name, value in (env or {}).items()],
        }
        name = job_name(worker_cls, job)
        if name is not None:
            self._options["job"] = name
        if isinstance(self.gpu_ids, str):
            self._options["gpus"] = self.gpu_ids
        else:
            self._options["gpu_ids"] = self.gpu_ids
        self._callbacks: dict[str, Any] = {
            "on_cleanup_fail": _check_call("on_cleanup_fail", on_cleanup_fail),
            "on_worker_exit": _check_call("on_worker_exit", on_worker_exit),
            "on_device_out": _check_call("on_device_out", on_device_out),
        }
        self._lock = threading.Lock()
        self._active: list[_native.Run] = []
        self._latest: _native.Run | None = None

    def run(
        self,
        generator: Iterable[Any],
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
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        key: Callable[[Any], Any] | None = None,
        journal_sync: str = "normal",
        force_resume: bool = False,
        **setup_kwargs: Any,
    ) -> None:
        """Starts the workers, and blocks until the generator is exhausted and every task is done.

        All callbacks are called on the thread that called run(), the generator on another. A callback that raises ends
        the run, and run() raises its exception; so does a generator that raises, when what it gave before is done.
        Ctrl-C ends the run at once with KeyboardInterrupt.

        :param generator: yields the items; any iterable will do. Items may be anything that can be pickled.
        :param on_success: called with (task_id, result, worker_id). Task ids count the items from 0.
        :param on_error: called with (task_id, error, worker_id) for a task that failed; error is a traceback, or says
            what became of the worker. worker_id is -1 for a task that no worker ever had.
        :param on_timeout: called with (task_id, timeout, worker_id) for a task that has passed task_timeout; if
            there is none, on_error is.
        :param on_setup_fail: called with (gpu_id, error) when a worker's setup() failed.
        :param on_task_start: called with (task_id, worker_id) when a worker begins with a task.
        :param on_exit: called last, always.
        :param base_seed: a worker's seed is base_seed + its GPU's number.
        :param task_timeout: seconds that a task may take. It is interrupted by an exception, or if that does not help,
            by killing its worker.
        :param total_tasks: how many items there will be, if that is known: for get_stats().
        :param journal: the path of a file that holds what became of each task, so that a run that was killed can be
            resumed. It is an SQLite database, and may be read by others while the run goes on; see
            gpu-dispatch-journal(5). A task is final when its callback has returned: not if that raised, nor if the run
            was ended before. All is on disk when run() returns or raises; after kill -9, all but the last tenth of a
            second.
        :param resume: whether tasks that are final in the journal are skipped, those that failed too. They get no
            callback, but have their numbers: task ids are those of the generator. A journal that is not there is begun.
        :param retry_failed: whether those that failed are run again; without resume, those and nothing else.
        :param key: called with each item, where the generator is; returns what identifies it: str, bytes, int, float, a
            path, or tuples, lists, dicts or sets of them. With a Versioned, items of another version are run again;
            file_key does that for paths. The order of items does not matter, and of equal ones each is a task. None: the
            item itself, by its value if it is made of those types, else by its pickle. A pickle is the same again only
            as far as the class sees to that (one with a set in it is not; nor with a time or a random number), and is
            made of all the data: for objects and arrays, give a key. An exception in it ends the run, as one of the
            generator would.
        :param journal_sync: "full": the journal is forced to the disk before more than a tenth of a second's tasks are
            told, and survives power loss. "normal": the death of every process.
        :param force_resume: resume though the journal is of another worker class.
        :param setup_kwargs: passed to the workers' setup().
        :raises RuntimeError: "All workers failed during setup", or no worker is left.
        :raises JournalError: the journal is in use, of another class, not one, or cannot be written; see there.
        """
        callbacks = {
            "on_success": _check_call("on_success", on_success, required=True),
            "on_error": _check_call("on_error", on_error),
            "on_timeout": _check_call("on_timeout", on_timeout),
            "on_setup_fail": _check_call("on_setup_fail", on_setup_fail),
            "on_task_start": _check_call("on_task_start", on_task_start),
            "on_exit": _check_call("on_exit", on_exit),
            **self._callbacks,
        }
        kept = journal_options(self.worker_cls, journal, resume, retry_failed, key, journal_sync, force_resume)
        options = self._run_options(base_seed, task_timeout, total_tasks, kept)
        iterator = iter(generator)
        try:
            run = self._open(options, setup_kwargs)
        except Exception:
            if on_exit is not None:  # guaranteed, even if there is nothing to exit from
                on_exit()
            raise
        self._run(run, iterator, callbacks)

    def imap(
        self,
        iterable: Iterable[Any],
        *,
        ordered: bool = True,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        key: Callable[[Any], Any] | None = None,
        journal_sync: str = "normal",
        force_resume: bool = False,
        **setup_kwargs: Any,
    ) -> Results:
        """The results as an iterator, in the order of the items. `async for` works too.

            for result in dispatcher.imap(paths(), model_path="model.pt"):
                ...

        The run goes on in the background, at most queue_size items ahead of what has been taken. A task that failed
        raises TaskFailed; the next result can be asked for all the same. Arguments as for run().

        With a journal, a result is final when the next one is asked for: what the taker did not come to is run again.
        Items that are skipped yield nothing, since a journal does not hold results.
        """
        kept = journal_options(self.worker_cls, journal, resume, retry_failed, key, journal_sync, force_resume)
        options = self._run_options(base_seed, task_timeout, total_tasks, kept)
        options["ordered"] = bool(ordered)
        iterator = iter(iterable)
        run = self._open(options, setup_kwargs)

        def work(items: Iterable[Any], callbacks: dict[str, Any]) -> None:
            self._run(run, items, {**callbacks, **self._callbacks})

        return Results(iterator, self.queue_size, work, run.shutdown, acknowledge=kept is not None)

    def imap_unordered(self, iterable: Iterable[Any], **kwargs: Any) -> Results:
        """imap(), with the results as they come."""
        return self.imap(iterable, ordered=False, **kwargs)

    def shutdown(self) -> None:
        """Ends the runs of this dispatcher: no more items are taken, running tasks may finish (for stop_grace seconds),
        waiting ones are reported through on_error. Returns at once; run() returns when that is done.

        May be called from any thread, and from callbacks.
        """
        with self._lock:
            active = list(self._active)
        for run in active:
            run.shutdown()

    def abort(self) -> None:
        """shutdown() without waiting for anything: workers are killed."""
        with self._lock:
            active = list(self._active)
        for run in active:
            run.abort()

    def set_work(self, done: float, total: float) -> None:
        """Where tasks differ much in size: how much of the whole is done, in whatever unit you count (seconds of audio,
        bytes). What shows the run (`gpu-dispatch top`, observers) takes how far it is, and how long it will last, from
        this instead of from the number of tasks. What is skipped belongs to neither; total 0: tasks are counted.

        From callbacks and from any thread, for the runs that are going on.
        """
        with self._lock:
            active = list(self._active)
        for run in active:
            run.set_work(done, total)

    def get_stats(self) -> dict[str, int]:
        """The figures of the present run, or of the last one. From any thread.

        pending (taken from the generator, not begun), running, completed, failed, timeouts, total (total_tasks, or if
        that was not given, how many items have been seen), taken, skipped (final in the journal already, and not in
        taken), retried, setup_failures, restarts, crashes, n_workers, and others.
        """
        latest = self._latest
        if latest is None:
            return dict(_NO_RUN)
        stats = latest.stats()
        stats["total"] = stats["total"] or stats["taken"] + stats["skipped"]
        return stats

    def get_worker_stats(self) -> list[dict[str, Any]]:
        """For each worker: worker_id, gpu_id, state ("starting", "idle", "busy", ...), pid, current_task (or None),
        completed, failed, timeouts, restarts, last_ns, busy_ns. From any thread."""
        latest = self._latest
        return [] if latest is None else latest.worker_stats()

    def task_times(self) -> tuple[int, int]:
        """When the task began and ended whose on_success, on_error or on_timeout this is called from: nanoseconds of
        time.monotonic_ns(), (0, 0) if it never began."""
        latest = self._latest
        return (0, 0) if latest is None else latest.task_times()

    def _run_options(
        self, base_seed: int, task_timeout: float | None, total_tasks: int | None, journal: dict[str, Any] | None
    ) -> dict[str, Any]:
        options = {**self._options, "base_seed": _at_least("base_seed", base_seed, 0)}
        if task_timeout is not None:
            options["task_timeout"] = task_timeout
        if total_tasks is not None:
            options["total_tasks"] = _at_least("total_tasks", total_tasks, 0)
        if journal is not None:
            options["journal"] = journal
        return options

    def _open(self, options: dict[str, Any], setup_kwargs: dict[str, Any]) -> _native.Run:
        argv, setup_args = worker_command(self.worker_cls, setup_kwargs)
        run = _native.Run({**options, "worker_argv": argv, "setup_args": setup_args})
        with self._lock:
            self._active.append(run)
            self._latest = run
        return run

    def _run(self, run: _native.Run, items: Iterable[Any], callbacks: dict[str, Any]) -> None:
        try:
            run.run(items, callbacks)  # type: ignore[arg-type]
        finally:
            with self._lock:
                self._active.remove(run)


def _check_class(worker_cls: Any) -> None:
    if not isinstance(worker_cls, type) or not issubclass(worker_cls, BaseWorker):
        raise TypeError(f"worker_cls is {worker_cls!r}: it must be a subclass of BaseWorker, the class itself")
    if inspect.isabstract(worker_cls):
        missing = ", ".join(f"{name}()" for name in sorted(worker_cls.__abstractmethods__))
        raise TypeError(f"the worker class {worker_cls.__qualname__} lacks {missing}")


def _check_gpus(gpu_ids: Any) -> list[int] | str:
    if isinstance(gpu_ids, str):
        if not gpu_ids.strip():
            raise ValueError('no GPUs: gpu_ids is empty; give a list of numbers, or "auto"')
        return gpu_ids
    try:
        ids = [operator.index(gpu_id) for gpu_id in gpu_ids]
    except TypeError:
        raise TypeError(f"gpu_ids is {gpu_ids!r}: it must be a list of int, or a string such as 'auto'") from None
    if not ids:
        raise ValueError('no GPUs: gpu_ids is empty; give a list of numbers, or "auto"')
    if min(ids) < 0:
        raise ValueError(f"gpu_ids has {min(ids)}: GPUs are numbered from 0")
    return ids


def _check_call(name: str, function: Any, required: bool = False) -> Any:
    if callable(function) or (function is None and not required):
        return function
    raise TypeError(f"{name} is {function!r}: it must be callable")


def _at_least(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be an int") from None
    if number < least:
        raise ValueError(f"{name} is {number}: it must be at least {least}")
    return number


def _in_ms(name: str, seconds: Any, per_second: int = 1000) -> int:
    """Rounded up, so that only 0 is 0."""
    try:
        exact = float(seconds) * per_second
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {seconds!r}: it must be a number of seconds") from None
    if not 0 <= exact <= 0xFFFFFFFF:
        raise ValueError(f"{name} is {seconds!r}: it must be 0 to {0xFFFFFFFF // per_second} seconds")
    return -int(-exact // 1)
