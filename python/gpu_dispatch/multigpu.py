"""Processes a directory of files, or a list of records, on all GPUs. The launcher has five parts that also work alone:

    GPUDetector           finds the devices
    ResourceAllocator     finds files, estimates them, distributes them
    ProcessSpawner        runs a dispatcher on its own thread, from a queue of files to a queue of results
    LoadBalancer          counts the results, per GPU and overall, and prints them
    LauncherOrchestrator  combines the other four

    LauncherOrchestrator().run("data/audio", "data/outputs", gpus="auto", pattern="*.wav")  # transcribes audio

    class Resizer(BaseWorker): ...
    LauncherOrchestrator(Resizer).run("data/images", "data/small", gpus="auto", pattern="*.png")  # your own work

`run_multi_gpu()` processes records in memory, in batches. The C library finds devices and files and computes the
statistics. gpu-dispatch(1) does the same from the command line.
"""

from __future__ import annotations

import inspect
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native, _transcribe
from ._journal import Shard, Versioned, file_key, shard_option
from ._records import distribute_to_gpus, run_multi_gpu
from .dispatcher import Dispatcher, is_free
from .ui import plain
from .worker import BaseWorker

__all__ = [
    "FileResult",
    "GPUDetector",
    "LauncherOrchestrator",
    "LoadBalancer",
    "ProcessSpawner",
    "ResourceAllocator",
    "WorkerProcess",
    "distribute_to_gpus",
    "run_multi_gpu",
]

log = logging.getLogger(__name__)

NO_WORKER = (
    "no worker class: pass a subclass of gpu_dispatch.BaseWorker whose process(path) processes one file, as in "
    "ProcessSpawner(worker_cls=MyWorker). Only LauncherOrchestrator().run() works without one: it transcribes audio"
)
NOT_FREE = (
    'gpus="free" is not possible with a worker class here, because the GPUs must be known before the run begins: use '
    'gpu_dispatch.Dispatcher(MyWorker, gpu_ids="free"), or name the GPUs'
)


# ---- devices ---------------------------------------------------------------------------------------------------------


class GPUDetector:
    """Finds the devices, and checks whether requested devices exist."""

    def get_available_gpus(self) -> list[int]:
        """The numbers of the devices that this process may use. The list may be empty."""
        return [device["id"] for device in _native.devices(None)]

    def is_cuda_available(self) -> bool:
        """Whether there is an NVIDIA device that CUDA could use. CUDA itself is not loaded."""
        return _native.cuda_available()

    def validate_gpus(self, gpu_ids: Sequence[int]) -> tuple[bool, str | None]:
        """(True, None), or (False, message): which devices are missing, and which exist."""
        if not gpu_ids:
            return False, 'no GPUs were given: give their numbers, or "auto"'
        try:
            _native.validate_devices(list(gpu_ids))
        except (OSError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            return False, str(error)
        return True, None

    def parse_gpu_list(self, spec: str | Iterable[int] | None) -> list[int]:
        """The GPU numbers for "auto" (or None), "0,1,2", "0-3", or a UUID.

        Does not check that the numbers exist; `validate_gpus()` does. Raises ValueError if spec is malformed.
        """
        if spec is None or isinstance(spec, str) and spec.strip().lower() in ("auto", "all"):
            return self.get_available_gpus()
        if not isinstance(spec, str):
            return [int(gpu_id) for gpu_id in spec]
        numbers = _native.parse_devices(spec)
        return [device["id"] for device in _native.devices(spec)] if numbers is None else numbers

    def get_gpu_info(self, gpu_id: int) -> dict[str, Any]:
        """Properties of a device: ``name``, ``total_memory``, ``free_memory`` (bytes), ``uuid``, ``vendor``,
        ``utilization``, ``temperature`` ...; unknown ones are None. Raises ValueError if there is no such device."""
        for device in _native.devices(None):
            if device["id"] == gpu_id:
                return {
                    "gpu_id": gpu_id,
                    "total_memory": device["memory_total"],
                    "free_memory": device["memory_free"],
                    **device,
                }
        raise ValueError(self.validate_gpus([gpu_id])[1] or f"no GPU {gpu_id}")


# ---- files -----------------------------------------------------------------------------------------------------------


_DEALS = {"round_robin": 0, "chunks": 1, "balanced": 2}
_ORDERS = {"size": 0, "name": 1, "none": 2}


def _choose(table: Mapping[str, int], what: str, name: str) -> int:
    if name not in table:
        raise ValueError(f"{what}={name!r}: it must be one of {', '.join(table)}")
    return table[name]


def _sizes(files: Iterable[str | os.PathLike[str]]) -> list[tuple[str, int]]:
    """Paths with their sizes. An unknown size counts as 0; the worker will report the error."""
    out = []
    for path in files:
        try:
            size = os.stat(path).st_size
        except OSError:
            size = 0
        out.append((os.fspath(path), size))
    return out


class ResourceAllocator:
    """Finds files and distributes them."""

    def discover_files(
        self,
        input_dir: str | os.PathLike[str],
        pattern: str | Sequence[str] = "*.wav",
        *,
        recursive: bool = False,
        hidden: bool = False,
        order: str = "size",
    ) -> list[Path]:
        """The files whose names match a shell pattern (or one of several).

        :param order: "size" (largest first, so that the run ends soonest), "name" or "none" (as they are found).
        :raises ValueError: the directory does not exist or cannot be read. If a subdirectory cannot be read, that is
            logged and the subdirectory is skipped.
        """
        patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern)
        files, problems = _native.discover_files(
            os.fsencode(input_dir),
            tuple(os.fsencode(word) for word in patterns),
            recursive,
            False,
            hidden,
            _choose(_ORDERS, "order", order),
        )
        for problem in problems:
            log.warning("%s", problem)
        return [Path(path) for path, _ in files]

    def distribute_workload(self, files: Sequence[Path], num_gpus: int, how: str = "round_robin") -> list[list[Path]]:
        """Distributes the files to GPUs in advance. how: "round_robin" (one after the other), "chunks" (equal parts of
        the list), "balanced" (by size). A run does not do this: it gives each file to the next free worker."""
        shares = _native.distribute_workload(_sizes(files), num_gpus, _choose(_DEALS, "how", how))
        return [[files[place] for place in share] for share in shares]

    def create_task_queue(self, files: Iterable[Path], num_workers: int) -> queue.Queue[Path | None]:
        """A queue with the files in their order, followed by one None for each worker."""
        if num_workers < 1:
            raise ValueError(f"num_workers is {num_workers}: it must be at least 1")
        tasks: queue.Queue[Path | None] = queue.Queue()
        for path in files:
            tasks.put(path)
        for _ in range(num_workers):
            tasks.put(None)
        return tasks

    def estimate_workload(self, files: Iterable[Path]) -> dict[str, Any]:
        """``file_count``, ``total_size``, ``average_size``, ``mean_size``, ``median_size``, ``largest_size``,
        ``smallest_size``, ``size_deviation``: bytes."""
        stats = _native.estimate_workload(_sizes(files))
        return {**stats, "average_size": stats["mean_size"]}


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclass
class FileResult:
    """How a file ended, as an entry of the result queue."""

    task_id: int
    path: Path | None
    gpu_id: int  #: -1: it was never on a GPU
    result: Any = None
    error: str | None = None  #: None: it succeeded
    failure: str | None = None  #: "error", "timeout"
    start_ns: int = 0  #: time.monotonic_ns(); 0: unknown
    end_ns: int = 0
    media_seconds: float = 0.0  #: duration of the audio or video, if the worker returns it

    @property
    def success(self) -> bool:
        return self.failure is None


def _media_seconds(result: Any) -> float:
    """The duration: ``media_seconds`` or ``audio_duration`` in the worker's result, as a key or an attribute."""
    for name in ("media_seconds", "audio_duration"):
        value = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
    return 0.0


class WorkerProcess:
    """One worker of a run. Each call returns the current state."""

    def __init__(self, spawner: ProcessSpawner, gpu_id: int, place: int) -> None:
        self._spawner = spawner
        self._place = place
        self._gpu_id = gpu_id

    @property
    def gpu_id(self) -> int:
        """The number of its GPU, or of the first GPU of its group."""
        return self.status["gpu_id"]

    @property
    def status(self) -> dict[str, Any]:
        """Its entry in `ProcessSpawner.get_process_status()`."""
        status = self._spawner.get_process_status()
        return status[self._place] if self._place < len(status) else {"gpu_id": self._gpu_id, "state": "off", "pid": 0}

    @property
    def pid(self) -> int | None:
        """The process id; None: there is no process at the moment."""
        return self.status["pid"] or None

    def is_alive(self) -> bool:
        return self._spawner.is_running and self.pid is not None

    def __repr__(self) -> str:
        status = self.status
        return f"<WorkerProcess GPU {status['gpu_id']}, {status['state']}, pid {status['pid'] or '-'}>"


def _accepted(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that the function accepts."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in parameters}


def _first_gpus(numbers: list[int], spec: Sequence[int] | str, gpus_per_worker: int | None) -> list[int]:
    """The first GPU of each group. With gpus_per_worker the groups are not known yet: only their number is right."""
    if isinstance(spec, str) and "+" in spec:
        return [group[0] for group in _native.device_groups(spec)]
    size = gpus_per_worker or 1
    return numbers[: len(numbers) // size * size : size]


class ProcessSpawner:
    """Worker processes that take paths from one queue and put a `FileResult` for each into another."""

    def __init__(self, worker_cls: type[BaseWorker] | None = None) -> None:
        self._worker_cls = worker_cls
        self._dispatcher: Dispatcher | None = None
        self._thread: threading.Thread | None = None
        self._tasks: Any = None
        self._raised: BaseException | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def spawn_workers(
        self,
        gpu_ids: Sequence[int] | str,
        task_queue: Any,
        result_queue: Any,
        model_size: str | None = None,
        language: str | None = None,
        output_dir: Path | None = None,
        *,
        worker_cls: type[BaseWorker] | None = None,
        workers_per_gpu: int = 1,
        gpus_per_worker: int | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        options: Mapping[str, Any] | None = None,
        run_options: Mapping[str, Any] | None = None,
        **setup_kwargs: Any,
    ) -> list[WorkerProcess]:
        """Starts the run and returns its workers.

        Tasks are taken from ``task_queue.get()`` until it returns None. Results go to ``result_queue.put()``, followed by
        a None at the end of the run. Worker processes are replaced if they die, so they are not objects of
        multiprocessing.

        :param model_size, language, output_dir: passed to the worker's ``setup()`` if it accepts them. Other keywords
            are always passed.
        :param gpus_per_worker: how many GPUs each worker sees; see `Dispatcher`.
        :param options: keyword options for `Dispatcher`.
        :param run_options: keyword options for `Dispatcher.run()`: journal, resume, key ...
        :raises TypeError: there is no worker class.
        """
        worker_cls = worker_cls or self._worker_cls
        if worker_cls is None:
            raise TypeError(NO_WORKER)
        if is_free(gpu_ids):
            raise ValueError(NOT_FREE)
        if self.is_running:
            raise RuntimeError(
                "the workers of this ProcessSpawner are still running: call wait_for_completion() first, or use another "
                "ProcessSpawner"
            )
        offered = {"model_size": model_size, "language": language, "output_dir": output_dir}
        kwargs = {**_accepted(worker_cls.setup, offered), **setup_kwargs}
        ids = gpu_ids if isinstance(gpu_ids, str) else list(gpu_ids)
        self._dispatcher = Dispatcher(
            worker_cls, ids, workers_per_gpu=workers_per_gpu, gpus_per_worker=gpus_per_worker, **(options or {})
        )
        self._tasks, self._raised = task_queue, None
        feed = _Feed(self._dispatcher, task_queue, result_queue)
        numbers: dict[str, Any] = {"base_seed": base_seed, "task_timeout": task_timeout, **(run_options or {})}
        self._thread = threading.Thread(target=self._run, args=(feed, numbers, kwargs), name="spawner", daemon=True)
        self._thread.start()
        firsts = _first_gpus(GPUDetector().parse_gpu_list(ids), gpu_ids, gpus_per_worker)
        return [
            WorkerProcess(self, gpu, at) for at, gpu in enumerate(g for g in firsts for _ in range(workers_per_gpu))
        ]

    def _run(self, feed: _Feed, numbers: dict[str, Any], setup_kwargs: dict[str, Any]) -> None:
        assert self._dispatcher is not None
        try:
            self._dispatcher.run(feed.tasks(), **feed.callbacks(), **numbers, **setup_kwargs)
        except BaseException as error:  # wait_for_completion() raises it
            self._raised = error
        finally:
            feed.results.put(None)

    def wait_for_completion(self, timeout: float | None = None) -> bool:
        """Waits for the end of the run, at most `timeout` seconds. Returns False if it is still running. If an exception
        ended the run, raises it."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error
        return True

    def terminate_all(self) -> None:
        """Kills every process and waits for the end of the run. Unfinished files are reported as failed."""
        if self._dispatcher is None or self._thread is None:
            return
        self._dispatcher.abort()
        self._tasks.put(None)  # the feeder may be waiting for a task
        self._thread.join()

    @property
    def skipped(self) -> int:
        """How many tasks were already finished according to the journal. They have no result."""
        return 0 if self._dispatcher is None else self._dispatcher.get_stats()["skipped"]

    def get_process_status(self) -> list[dict[str, Any]]:
        """For each worker ``gpu_id``, ``worker_id``, ``pid`` (0: none), ``state``, ``completed``, ``failed`` ..."""
        return [] if self._dispatcher is None else self._dispatcher.get_worker_stats()


class _Feed:
    """Connects a run with the two queues. The feeder thread of the run calls tasks(). Another thread calls the
    callbacks."""

    def __init__(self, dispatcher: Dispatcher, tasks: Any, results: Any) -> None:
        self._dispatcher = dispatcher
        self._queue = tasks
        self.results = results
        self._paths: dict[int, Path] = {}
        self._gpu_of: dict[int, int] = {}

    def tasks(self) -> Iterator[Path]:
        for task_id, path in enumerate(iter(self._queue.get, None)):
            self._paths[task_id] = path
            yield path

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_success": lambda task, result, worker: self._put(task, worker, result=result),
            "on_error": lambda task, error, worker: self._put(task, worker, failure="error", error=error),
            "on_timeout": lambda task, seconds, worker: self._put(
                task, worker, failure="timeout", error=f"timed out after {seconds} s"
            ),
        }

    def _gpu(self, worker_id: int) -> int:
        if worker_id >= 0 and worker_id not in self._gpu_of:
            self._gpu_of = {w["worker_id"]: w["gpu_id"] for w in self._dispatcher.get_worker_stats()}
        return self._gpu_of.get(worker_id, worker_id)

    def _put(self, task_id: int, worker_id: int, *, result: Any = None, **failure: str) -> None:
        start_ns, end_ns = self._dispatcher.task_times()
        self.results.put(
            FileResult(
                task_id,
                self._paths.pop(task_id, None),
                self._gpu(worker_id),
                result,
                start_ns=start_ns,
                end_ns=end_ns,
                media_seconds=0.0 if failure else _media_seconds(result),
                **failure,
            )
        )


# ---- results ---------------------------------------------------------------------------------------------------------


class LoadBalancer:
    """Counts results and computes statistics."""

    def __init__(self, gpu_ids: Sequence[int], workers_per_gpu: int = 1) -> None:
        self.gpu_ids = list(gpu_ids)
        self._figures = _native.Balancer(self.gpu_ids, workers_per_gpu)
        self._printed = 0.0

    def add(self, result: FileResult | Mapping[str, Any]) -> None:
        """Counts one result: a `FileResult`, or a mapping with the same names."""
        if isinstance(result, Mapping):
            result = FileResult(**{"task_id": 0, "path": None, "gpu_id": -1, **result})
        name = os.fsencode(result.path) if result.path is not None else b""
        times = result.start_ns, result.end_ns
        self._figures.add(
            result.task_id, result.gpu_id, *times, result.failure, result.error, name, result.media_seconds
        )

    def monitor_progress(
        self,
        result_queue: Any,
        total_files: int,
        progress_callback: Callable[[int, int], object] | None = None,
    ) -> list[FileResult]:
        """Takes results until there are `total_files` of them, or until a None marks the end. Returns the results.

        :param progress_callback: called with (number of results, total_files) after every result.
        """
        self._figures.set_total(total_files)
        results: list[FileResult] = []
        while len(results) < total_files:
            result = result_queue.get()
            if result is None:
                break
            self.add(result)
            results.append(result)
            if progress_callback is not None:
                progress_callback(len(results), total_files)
        return results

    def get_overall_rtf(self) -> float:
        """Real-time factor: elapsed time divided by the duration of the media. 0.0 while it is unknown."""
        return float(self._figures.overall()["rtf"])

    def get_speedup(self) -> float:
        """How many GPUs were working at the same time, on average. 0.0 at the start."""
        return float(self._figures.overall()["speedup"])

    def get_overall_stats(self) -> dict[str, Any]:
        """``done``, ``failed``, ``seconds``, ``tasks_per_second``, ``eta_seconds`` (below 0: unknown) ..."""
        return self._figures.overall()

    def get_per_gpu_stats(self) -> dict[int, dict[str, Any]]:
        """For each GPU ``done``, ``failed``, ``timeouts``, ``busy_seconds``, ``mean_seconds``, ``rtf`` ..."""
        return {figures["gpu_id"]: figures for figures in self._figures.gpus()}

    def get_errors(self) -> list[str]:
        """The first errors, at most 100, as "file: message"."""
        return self._figures.errors()

    def print_progress(self, completed: int, total: int) -> None:
        """Prints a line on standard error. A terminal shows one line that changes in place. Elsewhere at most one line
        is printed per second."""
        now, in_place = time.monotonic(), sys.stderr.isatty()
        if completed < total and now - self._printed < (0.1 if in_place else 1.0):
            return
        self._printed = now
        overall = self._figures.overall()
        eta = f", {overall['eta_seconds']:.0f} s left" if overall["eta_seconds"] > 0 else ""
        line = (
            f"{completed} of {total} files, {overall['failed']} failed, {overall['tasks_per_second']:.1f} files/s{eta}"
        )
        end = "\n" if completed >= total or not in_place else ""
        print(f"\r\x1b[K{line}" if in_place else line, end=end, file=sys.stderr, flush=True)

    def print_summary(self, total_files: int) -> None:
        """Prints a table of GPUs, the overall statistics and the first errors, on standard output."""
        self._figures.set_total(total_files)
        print(self._figures.text("files"), end="", flush=True)


# ---- the launcher ----------------------------------------------------------------------------------------------------


class _FileWithin:
    """Like file_key, but the key is the path within a directory, which is the same on all machines."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def within(self, path: str | os.PathLike[str]) -> str:
        return os.path.relpath(path, self._directory)

    def __call__(self, path: str | os.PathLike[str]) -> Versioned:
        return Versioned(self.within(path), file_key(path).version)


class LauncherOrchestrator:
    """Finds devices and files, processes every file, prints a summary.

    :param worker_cls: a worker class whose ``process(path)`` processes a file. Its ``setup()`` gets ``model_size``,
        ``language`` and ``output_dir`` if it accepts them. None: the files are audio, and the command gpu-dispatch, which
        comes with this package, transcribes them ($GPU_DISPATCH_COMMAND names another command).
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker] | None = None,
        *,
        detector: GPUDetector | None = None,
        allocator: ResourceAllocator | None = None,
        spawner: ProcessSpawner | None = None,
    ) -> None:
        self._worker_cls = worker_cls
        self.detector = detector or GPUDetector()
        self.allocator = allocator or ResourceAllocator()
        self.spawner = spawner or ProcessSpawner(worker_cls)

    def run(
        self,
        input_dir: str | os.PathLike[str],
        output_dir: str | os.PathLike[str],
        gpus: Sequence[int] | str = "auto",
        model_size: str = "base",
        language: str | None = None,
        pattern: str | Sequence[str] = "*.wav",
        *,
        recursive: bool = False,
        workers_per_gpu: int = 1,
        gpus_per_worker: int | None = None,
        task_timeout: float | None = None,
        progress_callback: Callable[[int, int], object] | None = None,
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        journal_sync: str = "normal",
        force_resume: bool = False,
        shard: Shard | tuple[int, int] | str | None = None,
        skip_done: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        lock_wait: float | None = None,
        **setup_kwargs: Any,
    ) -> int:
        """Returns an exit code: 0; 1 if a file failed, no file was found, or the run could not start (standard error has
        the reason); 130 if it was interrupted.

        With a journal (see `Dispatcher.run()`) a file is identified by its path, size and modification time, so a file
        that has changed is processed again.

        With a shard (see `Dispatcher.run()`) only the files of this shard are processed. The owner of a file is found by
        its path within input_dir, so the directory may have another name on each machine. A worker class gets about the
        same number of files in each shard. Without a worker class, the shards get about the same amount of audio, and with
        lock_wait=None the command waits for two minutes if another run uses the journal.

        :param gpus: numbers, or "auto", "0,1", "sim:2" (simulated, on the CPU), "cpu". Without a worker class also
            "free:2": wait for two unused GPUs.
        :param gpus_per_worker: how many GPUs each worker sees; see `Dispatcher`. Only for worker classes.
        :param progress_callback: only for worker classes; the transcription command shows its own progress.
        :param setup_kwargs: additional keywords for the ``setup()`` of the worker class. Without a worker class, options
            of the transcription: ``model`` (a file, instead of a size), ``model_dir``, ``formats`` ("txt", "srt", "vtt",
            "json", "tsv", "lrc", "csv", several of them, or "all"), ``max_line_width``, ``max_line_count``,
            ``max_words_per_line``, ``highlight_words``, ``translate``, ``threads``, ``beam_size``, ``temperature``,
            ``prompt``, ``vad`` (a model file), ``word_timestamps``, ``diarize`` ("channels"), ``no_gpu``, ``retries``
            (the first attempt is not counted, unlike in the command), ``full_names``, ``accept_truncated``, ``quiet``.
            Options of the decoding, as for the command: ``decoder``, ``batch_size``, ``split``, ``best_of``,
            ``length_penalty``, ``temperature_increment_on_fallback``, ``entropy_threshold``,
            ``compression_ratio_threshold``, ``logprob_threshold``, ``no_speech_threshold``, ``initial_prompt``,
            ``carry_initial_prompt``, ``hotwords``, ``condition_on_previous_text``, ``suppress_tokens``,
            ``suppress_blank``, ``without_timestamps``, ``max_initial_timestamp``, ``clip_timestamps``,
            ``vad_threshold``, ``vad_min_speech_duration_ms``, ``vad_min_silence_duration_ms``,
            ``vad_max_speech_duration_s`` and ``vad_speech_pad_ms``.
        """
        if self._transcribes():
            if progress_callback is not None:
                raise TypeError("progress_callback needs a worker class: a transcription shows its own progress")
            if gpus_per_worker is not None:
                raise TypeError("gpus_per_worker needs a worker class: a worker of a transcription uses one GPU")
            return _transcribe.transcribe(
                input_dir,
                output_dir,
                gpus,
                model_size,
                language,
                pattern,
                recursive=recursive,
                workers_per_gpu=workers_per_gpu,
                task_timeout=task_timeout,
                journal=journal,
                resume=resume,
                retry_failed=retry_failed,
                journal_sync=journal_sync,
                force_resume=force_resume,
                shard=shard,
                skip_done=skip_done,
                lock_wait=lock_wait,
                **setup_kwargs,
            )
        own = shard_option(shard)
        problem = self._problem(input_dir, gpus)
        files = [] if problem else self.allocator.discover_files(input_dir, pattern, recursive=recursive)
        if not problem and not files:
            problem = f"nothing to do: no file in {os.fspath(input_dir)} matches {pattern!r}"
        if problem:
            print(problem, file=sys.stderr)
            return 1
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        ids = self._ids(gpus)
        firsts = _first_gpus(ids, gpus, gpus_per_worker)
        balancer = LoadBalancer([] if gpus_per_worker else firsts, workers_per_gpu)  # groups are added with their results
        results: queue.Queue[FileResult | None] = queue.Queue()
        kept: dict[str, Any] = {}
        inside = _FileWithin(os.fspath(input_dir))
        key = file_key if own is None else inside
        if journal is not None:
            kept["run_options"] = {
                "journal": journal,
                "resume": resume,
                "retry_failed": retry_failed,
                "key": key,
                "journal_sync": journal_sync,
                "force_resume": force_resume,
                "skip_done": skip_done,
                "lock_wait": lock_wait or 0.0,
                "shard": own,
            }
        elif own is not None:
            kept["run_options"] = {"key": key, "shard": own}
        self.spawner.spawn_workers(
            gpus if isinstance(gpus, str) else ids,
            self.allocator.create_task_queue(files, max(len(firsts), 1)),
            results,
            model_size,
            language,
            Path(output_dir),
            workers_per_gpu=workers_per_gpu,
            gpus_per_worker=gpus_per_worker,
            task_timeout=task_timeout,
            **kept,
            **setup_kwargs,
        )
        total = len(files) if own is None else sum(own.owns(inside.within(path)) for path in files)
        return self._watch(balancer, results, total, progress_callback)

    def _watch(
        self,
        balancer: LoadBalancer,
        results: queue.Queue[FileResult | None],
        total: int,
        progress_callback: Callable[[int, int], object] | None,
    ) -> int:
        code = 0
        try:
            balancer.monitor_progress(results, total, progress_callback or balancer.print_progress)
            self.spawner.wait_for_completion()
        except KeyboardInterrupt:
            self.spawner.terminate_all()
            print("interrupted", file=sys.stderr)
            code = 130
        except RuntimeError as error:
            for line in str(error).splitlines():
                print(plain(line), file=sys.stderr)
            code = 1
        except BaseException:
            self.spawner.terminate_all()
            raise
        skipped = getattr(self.spawner, "skipped", 0)
        if skipped:
            print(f"{skipped} of {total} files were done before", flush=True)
        total -= skipped
        balancer.print_summary(total)
        overall = balancer.get_overall_stats()
        return code or int(overall["done"] < total)

    def _transcribes(self) -> bool:
        return self._worker_cls is None and getattr(self.spawner, "_worker_cls", None) is None

    def _ids(self, gpus: Sequence[int] | str) -> list[int]:
        return [device["id"] for device in _native.devices(gpus)] if isinstance(gpus, str) else list(gpus)

    def _problem(
        self, input_dir: str | os.PathLike[str], gpus: Sequence[int] | str, model_size: str | None = None
    ) -> str | None:
        if is_free(gpus) and not self._transcribes():
            return NOT_FREE
        try:
            if isinstance(gpus, str):
                self._ids(gpus)
            else:
                is_valid, problem = self.detector.validate_gpus(gpus)
                if not is_valid:
                    return problem
            with os.scandir(input_dir):
                pass
            return _transcribe.problem(gpus, model_size) if self._transcribes() else None
        except (OSError, RuntimeError, ValueError) as error:
            return str(error)

    def validate_setup(
        self, input_dir: str | os.PathLike[str], gpus: Sequence[int] | str, model_size: str | None = None
    ) -> tuple[bool, str | None]:
        """(True, None) if a run could start, otherwise (False, error message). Checks the devices, the input directory
        and the worker. For a transcription, the worker is the command with its transcriber and (if given) model."""
        problem = self._problem(input_dir, gpus, model_size)
        return problem is None, problem

    def get_workload_info(
        self, input_dir: str | os.PathLike[str], pattern: str | Sequence[str] = "*.wav"
    ) -> dict[str, Any]:
        """How much work there is; see `ResourceAllocator.estimate_workload()`."""
        return self.allocator.estimate_workload(self.allocator.discover_files(input_dir, pattern))

    def get_gpu_info(self) -> dict[str, Any]:
        """``cuda_available``, ``gpu_count`` and ``gpus``: the properties of each GPU."""
        gpus = [self.detector.get_gpu_info(gpu_id) for gpu_id in self.detector.get_available_gpus()]
        return {"cuda_available": self.detector.is_cuda_available(), "gpu_count": len(gpus), "gpus": gpus}
