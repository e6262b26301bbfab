"""The dispatching side: a generator of items, a pool of worker processes, and callbacks."""

from __future__ import annotations

import inspect
import logging
import operator
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_dispatch import _native
from gpu_dispatch._imap import Results
from gpu_dispatch._journal import Shard, job_name, journal_options, key_options, shard_option
from gpu_dispatch._queue import Queue, node_options
from gpu_dispatch._spawn import worker_command
from gpu_dispatch.worker import BaseWorker

__all__ = ["Dispatcher", "Task"]

_log = logging.getLogger("gpu_dispatch")
_Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_INHERIT, _DISCARD = 0, 1  # enum gd_worker_output
_PRIORITY_MIN, _PRIORITY_MAX = -4, 3  # GD_PRIORITY_MIN, GD_PRIORITY_MAX
_VISIBLE = {"uuid": 0, "index": 1}  # enum gd_visible_devices
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
    "cancelled": 0,
    "paused": 0,
    "draining": 0,
    "task_timeout_ms": 0,
}


@dataclass(frozen=True)
class Task:
    """An item together with settings of its task. A generator may yield it instead of the item.

        dispatcher.run((Task(path, priority=2 if is_urgent(path) else 0) for path in paths), save)

    The worker and a key function get the item alone.
    """

    item: Any
    priority: int = 0  # -4 to 3; among waiting tasks, those of a higher priority start first
    timeout: float | None = None  # the task's own limit in seconds; None: task_timeout

    def __post_init__(self) -> None:
        if not _PRIORITY_MIN <= _integer("priority", self.priority) <= _PRIORITY_MAX:
            raise ValueError(f"priority is {self.priority!r}: it must be {_PRIORITY_MIN} to {_PRIORITY_MAX}")
        if self.timeout is not None and _in_ms("timeout", self.timeout) == 0:
            raise ValueError(f"timeout is {self.timeout!r}: it must be more than 0 seconds; None for that of the run")


class Control:
    """Requests to running runs. They may be made from any thread and from callbacks. Each returns at once, and is
    carried out a moment later, in the order of the requests; then on_control gets its outcome. A request applies to the
    runs that have begun and not ended. Other processes can make the same requests through the control socket of a job.
    """

    def _request(self, name: str, *args: int) -> None:
        raise NotImplementedError

    def pause(self) -> None:
        """Starts no more tasks until unpause(). Running tasks go on, with their time limits."""
        self._request("pause")

    def unpause(self) -> None:
        """Continues after pause()."""
        self._request("unpause")

    def drain(self) -> None:
        """Like shutdown(), but running tasks may take as long as they need: stop_grace does not apply."""
        self._request("drain")

    def cancel_task(self, task_id: int) -> None:
        """Cancels one task. on_error gets it with the message "cancelled on request", and it is not retried. If it is
        running, a TaskTimeoutError is raised in it, and its worker is killed if it has not stopped after cancel_grace
        seconds. If it returns a result before that, the result counts."""
        self._request("cancel_task", _at_least("task_id", task_id, 0))

    def set_timeout(self, timeout: float | None) -> None:
        """Changes task_timeout, for running tasks too. None: no limit. A Task with its own limit keeps it."""
        if timeout is not None and _in_ms("timeout", timeout) == 0:
            raise ValueError(f"timeout is {timeout!r}: it must be more than 0 seconds; None for no limit")
        self._request("set_timeout", 0 if timeout is None else _in_ms("timeout", timeout))

    def add_workers(self, gpu_id: int, n: int = 1) -> None:
        """Starts n workers on a GPU, or on the group that the GPU belongs to: up to max_workers_per_gpu, or in place of
        removed ones.

        :raises ValueError: the GPU is not part of the run.
        """
        self._request("add_workers", _integer("gpu_id", gpu_id), _at_least("n", n, 1))

    def remove_workers(self, gpu_id: int, n: int = 1) -> None:
        """Removes n workers of a GPU, or of its group. They get no more tasks, finish what they have begun, and clean up.
        The last worker of a run cannot be removed.

        :raises ValueError: the GPU is not part of the run.
        """
        self._request("remove_workers", _integer("gpu_id", gpu_id), _at_least("n", n, 1))


class Dispatcher(Control):
    """Runs a stream of tasks on a pool of worker processes, one or more for each GPU.

        dispatcher = Dispatcher(MyWorker, gpu_ids=[0, 1, 2, 3])
        dispatcher.run(generator=paths(), on_success=save, on_error=complain, model_path="model.pt")

    For each item of the generator exactly one of on_success, on_error and on_timeout is called, whatever happens to the
    workers. Workers that die are replaced, and their tasks are run again. A dispatcher can be used for several runs, one
    after the other, or at the same time from several threads.
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
        gpus_per_worker: int | None = None,
        max_workers_per_gpu: int = 0,
        concurrency: int = 0,
        visible_devices: str = "uuid",
        retries: int = 0,
        retry_delay: float = 0.1,
        retry_timeouts: bool = False,
        crash_limit: int = 3,
        max_tasks_per_worker: int = 0,
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
        ignore_gpu_locks: bool = False,
        env: Mapping[str, str] | None = None,
        job: str | bool | None = True,
        shard: Shard | tuple[int, int] | str | None = None,
        queue_url: str | Queue | None = None,
        on_cleanup_fail: Callable[[int, str], object] | None = None,
        on_worker_exit: Callable[[int, int, str, bool], object] | None = None,
        on_device_out: Callable[[int, str], object] | None = None,
        on_device_idle: Callable[[int, str], object] | None = None,
        on_device_note: Callable[[str], object] | None = None,
        on_control: Callable[[str, bool], object] | None = None,
    ) -> None:
        """
        :param worker_cls: the class of the workers, a subclass of BaseWorker.
        :param gpu_ids: GPU numbers, or a string: "auto" (all GPUs), "0,2", "0+1,2+3" (groups, one per worker),
            "GPU-8d2f" (a UUID or the start of one), "free:2" (wait for two unused GPUs, and lock them until the run
            ends; "free": all unused GPUs), "sim:4" (simulated GPUs), "cpu:8" (no GPU).
        :param queue_size: maximum number of items that are taken from the generator and not yet finished.
        :param suppress_worker_output: whether to discard the output of workers.
        :param workers_per_gpu: worker processes on each GPU; 0: as many as fit into its free memory at model_bytes each.
        :param model_bytes: GPU memory that one worker needs. GPUs without room for one worker are left out.
        :param gpus_per_worker: how many GPUs each worker sees. Groups are formed from the best-connected GPUs. Default:
            one, or the groups that gpu_ids names.
        :param max_workers_per_gpu: how many workers a GPU may have after add_workers(). 0: as many as at the start. If it is
            more than 1, the worker_id of callbacks counts the workers from 0 and is not the number of the GPU.
        :param concurrency: how many tasks a worker may have in flight at once. Only 0 (default) and 1 are accepted: a
            Python worker runs one task at a time. Use batch_size, workers_per_gpu or io_threads instead, or a stream
            program or a plugin, which can have several.
        :param visible_devices: how CUDA_VISIBLE_DEVICES names the GPUs of a worker: "uuid", or "index" for libraries
            that expect numbers, such as some versions of vLLM.
        :param retries: how often to retry a task that raised an exception. The first attempt is not counted (the option
            --retries of the command counts it). The first retry waits retry_delay seconds,
            and each further one twice as long as the one before. With retry_timeouts, tasks that exceeded their time limit are
            retried too.
        :param max_tasks_per_worker: gives a worker a new process after this many tasks, for code that leaks. 0: never.
        :param crash_limit: maximum number of times that a task is started if it kills its worker each time.
        :param ordered: whether callbacks are called in the order of the generator.
        :param batch_size: maximum number of items for one call of process_batch(). batch_wait is how many seconds items
            may wait for a fuller batch.
        :param io_threads: number of threads in each worker that call load(). load_ahead is how many items may be loaded
            and not finished (0: twice io_threads or batch_size).
        :param queue_bytes: maximum size in bytes of the items that are taken and not yet finished.
        :param window: how many tasks a worker gets at once; 0: depends on how long tasks take.
        :param setup_jobs: how many workers are set up at the same time; 0: all.
        :param setup_timeout: maximum seconds for setup().
        :param cancel_grace: when a task exceeds its time limit, seconds between interrupting it and killing its worker.
        :param stop_grace: seconds that running tasks get to finish after shutdown().
        :param cleanup_grace: seconds that a worker gets to clean up and exit.
        :param any_cpu: whether workers may run on any CPU, not only on the CPUs near their GPU.
        :param ignore_gpu_locks: whether to use GPUs even if another run has locked them ("free"), and not to lock any.
        :param env: additional environment variables for the workers.
        :param job: publish runs under this name, for `gpu-dispatch top` and other observers of the same user. True: use
            the script and the class, "script.py: Worker". None or False: publish nothing. A shard is put before the
            name: "[3/16] script.py: Worker".
        :param shard: the shard of all runs that are not given another one; see run().
        :param queue_url: take the tasks from this queue, which other machines share, instead of a generator:
            "nats://host/NAME", or a Queue with more options. run() then gets None instead of a generator, and returns when the
            queue is done. Each task gets one record in the queue, with the result of process(), after its callback. Task ids count
            the tasks that this node has taken. Tasks are added with push(), and queue_results() has the results of all
            nodes. Messages about the connection go to standard error.
        :param on_cleanup_fail: called with (gpu_id, error) when a worker's cleanup() failed.
        :param on_worker_exit: called with (worker_id, gpu_id, why, given_up) when a worker process ended unexpectedly.
            It is replaced unless given_up is true.
        :param on_device_out: called with (gpu_id, why) when a GPU is taken out of use.
        :param on_device_idle: called with (gpu_id, why) for a GPU that was given and works, but is not used: it is left
            over when groups are formed, no worker fits on it, or another GPU of its group is out of use.
        :param on_device_note: called with messages before the run begins. They say which GPUs the run waits for
            ("free"; again whenever this changes), that it waits for its journal (lock_wait), and which GPUs are left
            out. None: the messages are logged as warnings of "gpu_dispatch".
        :param on_control: called with (message, done) when a request to a running run was carried out, or refused (done is
            False): by pause() and the other methods, or by another process through the control socket. None: requests are
            logged with level INFO (refused ones: WARNING) by "gpu_dispatch".
        """
        _check_class(worker_cls)
        self.worker_cls = worker_cls
        self.gpu_ids: list[int] | str = _check_gpus(gpu_ids)
        self.queue_size = _at_least("queue_size", queue_size, 1)
        self.shard: Shard | None = shard_option(shard)
        self._queue = node_options(worker_cls, queue_url)
        self._options: dict[str, Any] = {
            "queue_size": self.queue_size,
            "output": _DISCARD if suppress_worker_output else _INHERIT,
            "workers_per_gpu": _at_least("workers_per_gpu", workers_per_gpu, 0),
            "model_bytes": _at_least("model_bytes", model_bytes, 0),
            "gpus_per_worker": 0 if gpus_per_worker is None else _at_least("gpus_per_worker", gpus_per_worker, 1),
            "max_workers_per_gpu": _at_least("max_workers_per_gpu", max_workers_per_gpu, 0),
            "visible_devices": _check_visible(visible_devices),
            "retries": _at_least("retries", retries, 0),
            "retry_delay_ms": _in_ms("retry_delay", retry_delay),
            "retry_timeouts": bool(retry_timeouts),
            "crash_limit": _at_least("crash_limit", crash_limit, 1),
            "max_tasks_per_worker": _at_least("max_tasks_per_worker", max_tasks_per_worker, 0),
            "ordered": bool(ordered),
            "batch_size": _at_least("batch_size", batch_size, 1),
            "concurrency": _check_concurrency(concurrency, worker_cls),
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
            "ignore_gpu_locks": bool(ignore_gpu_locks),
            "on_device_note": _check_call("on_device_note", on_device_note) or _log_note,
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
            "on_device_idle": _check_call("on_device_idle", on_device_idle),
            "on_control": _check_call("on_control", on_control) or _log_request,
        }
        self._lock = threading.Lock()
        self._active: list[_native.Run] = []
        self._waits: list[int] = []  # a pipe for each run that waits before it begins: writing to it ends the wait
        self._latest: _native.Run | None = None

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
        skip_done: _Paths = (),
        lock_wait: float = 0.0,
        **setup_kwargs: Any,
    ) -> None:
        """Starts the workers, and blocks until the generator is exhausted and every task is finished.

        All callbacks are called on the thread that called run(); the generator runs on another thread. If a callback
        raises, the run ends and run() raises its exception. If the generator raises, the items that it yielded before
        are finished first. Ctrl-C ends the run at once with KeyboardInterrupt.

        :param generator: any iterable of items; None if the dispatcher has a queue_url. Items may be anything that can be pickled. Tasks start in their order. An
            item may be a Task, which has a priority and its own time limit.
        :param on_success: called with (task_id, result, worker_id). Task ids count the items from 0.
        :param on_error: called with (task_id, error, worker_id) for a failed task. error is a traceback, or a message
            about what happened to the worker. worker_id is -1 if the task was never given to a worker.
        :param on_timeout: called with (task_id, timeout, worker_id) for a task that exceeded its limit: task_timeout, or that
            of its Task. If it is not given, on_error is called instead.
        :param on_setup_fail: called with (gpu_id, error) when a worker's setup() failed.
        :param on_task_start: called with (task_id, worker_id) when a worker starts a task.
        :param on_exit: called last, always.
        :param base_seed: a worker's seed is base_seed + its GPU's number.
        :param task_timeout: maximum seconds for a task. After this time an exception is raised in the task. If the task still
            does not end, its worker is killed.
        :param total_tasks: number of items, if it is known; used by get_stats().
        :param on_partial: called with (task_id, value, worker_id, attempt) when a running task has sent a part of its
            result with send_partial(). The task may still fail and be run again; attempt counts its starts from 1.
        :param journal: path of a file that records how each task ended, so that a killed run can be resumed. It is an
            SQLite database that other programs may read during the run; see gpu-dispatch-journal(5). A task is finished
            when its callback has returned. If the callback raised, or the run ended before, the task is not finished.
            When run() returns or raises, everything is on disk. After kill -9 only the last tenth of a second is
            missing.
        :param resume: whether to skip tasks that the journal records as finished, including failed ones. No callback is
            called for skipped tasks, but they keep their task ids. If there is no journal yet, it is created.
        :param retry_failed: whether to run failed tasks again. Without resume, only failed tasks are run.
        :param key: called with each item, on the thread of the generator. It returns what identifies the item: str,
            bytes, int, float, a path, or tuples, lists, dicts or sets of them. If it returns a Versioned, an item whose
            version has changed is run again; file_key does that for paths. The order of items does not matter, and equal
            items are separate tasks. None: the item itself is the key. It is compared by value if it is made of those
            types, otherwise by its pickle. A pickle contains all the data of the item. If that includes sets, times or
            random numbers, the pickle can be different in the next run. So give a key for objects and arrays. An
            exception in key ends the run like an exception in the generator.
        :param journal_sync: "normal": the journal survives the death of every process. "full": it also survives power
            loss, because callbacks never get more than a tenth of a second ahead of what was forced to the disk.
        :param force_resume: resume even if the journal belongs to another worker class.
        :param shard: run only this part of the items: (index, count) with an index from 0, or a str such as "3/16" (the
            third of 16) or "auto"; see find_shard(). The other items are dropped without a callback. The owner of an
            item is found by its key, as the journal identifies it, so the order of the items does not matter. Items that
            are not made of plain values need a key function. Task ids count all items, as without a shard. The journal
            run.db becomes run.3-of-16.db. total_tasks is that of all items.
        :param skip_done: other journals, a path or several. Items that are done there are skipped. The files are only
            read.
        :param lock_wait: how many seconds to wait if another run uses the journal. on_device_note gets a message about the
            wait. Ctrl-C, shutdown() and abort() end it.
        :param setup_kwargs: passed to the workers' setup().
        :raises RuntimeError: "All workers failed during setup", or no worker is left.
        :raises JournalError: the journal is in use, belongs to another class, is not a journal, or cannot be written.
        """
        callbacks = {
            "on_success": _check_call("on_success", on_success, required=True),
            "on_error": _check_call("on_error", on_error),
            "on_timeout": _check_call("on_timeout", on_timeout),
            "on_setup_fail": _check_call("on_setup_fail", on_setup_fail),
            "on_task_start": _check_call("on_task_start", on_task_start),
            "on_partial": _check_call("on_partial", on_partial),
            "on_exit": _check_call("on_exit", on_exit),
            **self._callbacks,
        }
        kept = journal_options(
            self.worker_cls, journal, resume, retry_failed, journal_sync, force_resume, skip_done, lock_wait
        )
        own = self.shard if shard is None else shard_option(shard)
        options = self._run_options(base_seed, task_timeout, total_tasks, key_options(key, kept, own))
        if self._queue is not None:
            _check_node(generator, key, kept, own)
            options["queue"] = self._queue
            generator = ()
        elif generator is None:
            raise TypeError("run() needs a generator of items, or a dispatcher with queue_url=")
        iterator = iter(generator)
        try:
            run = self._open(options, setup_kwargs)
        except Exception:
            if on_exit is not None:  # always called, even if the run could not start
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
        shard: Shard | tuple[int, int] | str | None = None,
        skip_done: _Paths = (),
        lock_wait: float = 0.0,
        **setup_kwargs: Any,
    ) -> Results:
        """Returns the results as an iterator, in the order of the items. `async for` works too.

            for result in dispatcher.imap(paths(), model_path="model.pt"):
                ...

        The run continues in the background, at most queue_size items ahead of the results that you have taken. A failed
        task raises TaskFailed. You can still take the next result. The arguments are those of run().

        With a journal, a task is finished when you ask for the result after it. If you resume the run, results that you
        did not take are computed again. Skipped items yield nothing, because a journal does not store results. Items of
        other shards yield nothing either.
        """
        if self._queue is not None:
            raise ValueError("this dispatcher has a queue_url: use run(), and queue_results() for the results")
        kept = journal_options(
            self.worker_cls, journal, resume, retry_failed, journal_sync, force_resume, skip_done, lock_wait
        )
        own = self.shard if shard is None else shard_option(shard)
        options = self._run_options(base_seed, task_timeout, total_tasks, key_options(key, kept, own))
        options["ordered"] = bool(ordered)
        iterator = iter(iterable)
        run = self._open(options, setup_kwargs)

        def work(items: Iterable[Any], callbacks: dict[str, Any]) -> None:
            self._run(run, items, {**callbacks, **self._callbacks})

        return Results(iterator, self.queue_size, work, run.shutdown, acknowledge=kept is not None or own is not None)

    def imap_unordered(self, iterable: Iterable[Any], **kwargs: Any) -> Results:
        """Like imap(), but yields the results in the order in which they are ready."""
        return self.imap(iterable, ordered=False, **kwargs)

    def shutdown(self) -> None:
        """Ends the runs of this dispatcher. No more items are taken, running tasks may finish (for stop_grace seconds),
        and waiting tasks are reported through on_error. Returns at once; run() returns when all of this is done.

        May be called from any thread, and from callbacks.
        """
        with self._lock:
            active = list(self._active)
            self._end_waits()
        for run in active:
            run.shutdown()

    def abort(self) -> None:
        """Like shutdown(), but kills the workers at once instead of letting tasks finish."""
        with self._lock:
            active = list(self._active)
            self._end_waits()
        for run in active:
            run.abort()

    def _request(self, name: str, *args: int) -> None:
        with self._lock:
            active = list(self._active)
            if name == "drain":
                self._end_waits()
        for run in active:
            getattr(run, name)(*args)

    def set_work(self, done: float, total: float) -> None:
        """Publishes how much of the work is done, for tasks that differ much in size. Use any unit, such as seconds of
        audio or bytes. `gpu-dispatch top` and other observers then compute the progress and the time left from these
        numbers instead of the number of tasks. Do not include skipped tasks. With total 0, observers count tasks again.

        May be called from callbacks and from any thread. It applies to the runs that have not ended.
        """
        with self._lock:
            active = list(self._active)
        for run in active:
            run.set_work(done, total)

    def get_stats(self) -> dict[str, int]:
        """The statistics of the current run, or of the last one. May be called from any thread.

        The keys are pending (taken from the generator, not started), running, completed, failed, timeouts, total
        (total_tasks, or the number of items seen so far; with a shard, those of the shard), taken, skipped (finished according to the journal, not included
        in taken), retried, cancelled, setup_failures, restarts, crashes, n_workers, paused and draining (0 or 1),
        task_timeout_ms (0: no limit), and others.
        """
        latest = self._latest
        if latest is None:
            return dict(_NO_RUN)
        stats = latest.stats()
        stats["total"] = stats["total"] or stats["taken"] + stats["skipped"]
        return stats

    def get_worker_stats(self) -> list[dict[str, Any]]:
        """For each worker: worker_id, gpu_id, gpu_ids (all its GPUs), state ("starting", "idle", "busy", ...), pid,
        current_task (or None), in_flight, completed, failed, timeouts, restarts, last_ns, busy_ns. May be called from any
        thread."""
        latest = self._latest
        return [] if latest is None else latest.worker_stats()

    def task_times(self) -> tuple[int, int]:
        """When the current task started and ended, in nanoseconds of time.monotonic_ns(); (0, 0) if it never started.
        Call this from on_success, on_error or on_timeout. The current task is the one that the callback was called
        for."""
        latest = self._latest
        return (0, 0) if latest is None else latest.task_times()

    def _run_options(
        self, base_seed: int, task_timeout: float | None, total_tasks: int | None, more: dict[str, Any]
    ) -> dict[str, Any]:
        options = {**self._options, **more, "base_seed": _at_least("base_seed", base_seed, 0)}
        if task_timeout is not None:
            options["task_timeout"] = task_timeout
        if total_tasks is not None:
            options["total_tasks"] = _at_least("total_tasks", total_tasks, 0)
        if "job" in options and "shard" in options:  # several shards may run on one machine
            options["job"] = f"[{Shard(*options['shard'])}] {options['job']}"
        return options

    def _open(self, options: dict[str, Any], setup_kwargs: dict[str, Any]) -> _native.Run:
        argv, setup_args = worker_command(self.worker_cls, setup_kwargs)
        options = {**options, "worker_argv": argv, "setup_args": setup_args}
        may_wait = is_free(self.gpu_ids) or options.get("journal", {}).get("lock_wait_ms", 0) > 0
        run = self._wait(options) if may_wait else _native.Run(options)
        with self._lock:
            self._active.append(run)
            self._latest = run
        return run

    def _wait(self, options: dict[str, Any]) -> _native.Run:
        """Opens a run that may have to wait, for free GPUs or a journal. shutdown() and abort() end the wait with a
        RuntimeError."""
        stop, stopper = os.pipe()
        with self._lock:
            self._waits.append(stopper)
        try:
            return _native.Run({**options, "wait_stop_fd": stop})
        finally:
            with self._lock:
                self._waits.remove(stopper)
                os.close(stopper)
            os.close(stop)

    def _end_waits(self) -> None:
        """Ends all waits for free GPUs and journals. Called with the lock held."""
        for stopper in self._waits:
            os.write(stopper, b"x")

    def _run(self, run: _native.Run, items: Iterable[Any], callbacks: dict[str, Any]) -> None:
        try:
            run.run(items, callbacks)  # type: ignore[arg-type]
        finally:
            with self._lock:
                self._active.remove(run)


def _check_class(worker_cls: Any) -> None:
    if not isinstance(worker_cls, type) or not issubclass(worker_cls, BaseWorker):
        raise TypeError(f"worker_cls is {worker_cls!r}: it must be a class derived from BaseWorker")
    if inspect.isabstract(worker_cls):
        missing = ", ".join(f"{name}()" for name in sorted(worker_cls.__abstractmethods__))
        raise TypeError(f"the worker class {worker_cls.__qualname__} lacks {missing}")
    for name in ("process", "process_batch", "load"):
        if inspect.iscoroutinefunction(getattr(worker_cls, name)):
            raise TypeError(
                f"{worker_cls.__qualname__}.{name}() is declared with async def, which is not supported: a Python worker runs "
                f"one task at a time. Call asyncio.run() in {name}(), or use process_batch() for several items at once"
            )


def _check_node(generator: Any, key: Any, journal: Any, shard: Any) -> None:
    """What a node of a queue cannot have."""
    if generator is not None:
        raise ValueError("this dispatcher has a queue_url: add the items with push(), and give run() None for the generator")
    for name, value in (("journal", journal), ("shard", shard), ("key", key)):
        if value is not None:
            raise ValueError(f"{name} cannot be used with a queue: the queue does the same for all machines")


def _log_note(message: str) -> None:
    _log.warning("%s", message)


def _log_request(message: str, done: bool) -> None:
    _log.log(logging.INFO if done else logging.WARNING, "%s%s", "request: " if done else "request refused: ", message)


def is_free(gpus: Any) -> bool:
    """Whether gpus is "free" or "free:2". In this case the GPUs of a run are not known before it begins."""
    return isinstance(gpus, str) and gpus.strip().lower().split(":")[0] == "free"


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


def _check_visible(form: Any) -> int:
    if form not in _VISIBLE:
        raise ValueError(f"visible_devices is {form!r}: it must be 'uuid' or 'index'")
    return _VISIBLE[form]


def _check_concurrency(concurrency: Any, worker_cls: type[BaseWorker]) -> int:
    number = _at_least("concurrency", concurrency, 0)
    if number > 1:
        raise ValueError(
            f"concurrency is {concurrency}, but a Python worker such as {worker_cls.__qualname__} runs one task at a time: "
            "use batch_size with process_batch(), or workers_per_gpu; only C plugins and stream programs can have several "
            "tasks in flight"
        )
    return number


def _check_call(name: str, function: Any, required: bool = False) -> Any:
    if callable(function) or (function is None and not required):
        return function
    raise TypeError(f"{name} is {function!r}: it must be callable")


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be an int") from None


def _at_least(name: str, value: Any, least: int) -> int:
    number = _integer(name, value)
    if number < least:
        raise ValueError(f"{name} is {number}: it must be at least {least}")
    return number


def _in_ms(name: str, seconds: Any, per_second: int = 1000) -> int:
    """Converts seconds to a smaller unit. Rounds up, so that only 0 becomes 0."""
    try:
        exact = float(seconds) * per_second
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {seconds!r}: it must be a number of seconds") from None
    if not 0 <= exact <= 0xFFFFFFFF:
        raise ValueError(f"{name} is {seconds!r}: it must be 0 to {0xFFFFFFFF // per_second} seconds")
    return -int(-exact // 1)
