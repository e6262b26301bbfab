"""`run_multi_gpu()` of gpu_dispatch.multigpu: processes records in memory, in batches, on several GPUs."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _native
from .dispatcher import Dispatcher, is_free
from .worker import BaseWorker

__all__ = ["distribute_to_gpus", "run_multi_gpu"]

log = logging.getLogger("gpu_dispatch.multigpu")


def distribute_to_gpus(records: Sequence[Any], n_gpus: int) -> list[tuple[Sequence[Any], int, int]]:
    """Splits records into equal parts, one per GPU: (records, gpu_id, position). A GPU without records has no entry."""
    if n_gpus < 1:
        raise ValueError(f"n_gpus must be >= 1, got {n_gpus}")
    each = -(-len(records) // n_gpus)
    starts = range(0, len(records), each) if each else ()
    return [(records[start : start + each], gpu, gpu) for gpu, start in enumerate(starts)]


def _traceback_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _ends_batch(error: Exception) -> bool:
    """Whether this worker must stop processing the batch: the time limit is exceeded, or the device is lost."""
    from ._worker import Host

    return Host.classify(error) in ("device_lost", "timeout")


class _BatchWorker(BaseWorker):
    """Processes lists of records with the user's function or worker. The outcome of a record is (True, result) or
    (False, error message)."""

    _worker: BaseWorker | None = None

    def setup(
        self, gpu_id: int, seed: int, process: Any, init: Callable[[int], object] | None, kwargs: dict[str, Any]
    ) -> None:
        if isinstance(process, type):
            self._worker = process()
            self._worker.setup(gpu_id, seed, **kwargs)
            process = self._load_and_process
        elif init is not None:
            init(gpu_id)
        self._process = process

    def _load_and_process(self, records: list[Any]) -> Sequence[Any]:
        assert self._worker is not None
        return self._worker.process_batch([self._worker.load(record) for record in records])

    def process(self, data: list[Any]) -> list[tuple[bool, Any]]:
        try:
            return self._whole(data)
        except Exception as error:
            # One bad record must not fail the others, so each is tried alone. If there is only one record, or this
            # worker must stop, the dispatcher handles the exception.
            if len(data) == 1 or _ends_batch(error):
                raise
        return [self._alone(record) for record in data]

    def _whole(self, data: list[Any]) -> list[tuple[bool, Any]]:
        results = list(self._process(data))
        if len(results) != len(data):
            raise ValueError(f"process_batch got {len(data)} records and returned {len(results)} results")
        return [(False, _traceback_text(item)) if isinstance(item, BaseException) else (True, item) for item in results]

    def _alone(self, record: Any) -> tuple[bool, Any]:
        try:
            return self._whole([record])[0]
        except Exception as error:
            if _ends_batch(error):
                raise
            return False, _traceback_text(error)

    def cleanup(self) -> None:
        if self._worker is not None:
            self._worker.cleanup()


def _failed(record: Any, error: str) -> dict[str, Any]:
    return {**(record if isinstance(record, Mapping) else {"record": record}), "_error": error}


def _of_caller(name: str) -> Any:
    """A global of the module that called run_multi_gpu()."""
    return sys._getframe(2).f_globals.get(name)


def run_multi_gpu(
    records: Iterable[Any],
    n_gpus: int = 4,
    batch_size: int = 128,
    process_batch: Callable[[list[Any]], Sequence[Any]] | type[BaseWorker] | None = None,
    *,
    init: Callable[[int], object] | None = None,
    gpu_ids: Sequence[int] | str | None = None,
    task_timeout: float | None = None,
    base_seed: int = 42,
    options: Mapping[str, Any] | None = None,
    **setup_kwargs: Any,
) -> list[Any]:
    """Processes records in batches on several GPUs and returns the results, in the order of the records.

    No record is lost. A failed record is returned with an additional member ``"_error"``; if the record is not a
    mapping, ``{"record": ..., "_error": ...}`` is returned instead. If a batch fails, each of its records is tried
    alone. If every GPU fails, the remaining records are marked as failed.

    :param records: usually mappings, but anything that can be pickled is allowed.
    :param n_gpus: use GPUs 0 to n_gpus - 1, unless `gpu_ids` names others.
    :param batch_size: maximum size of a batch. Batches are smaller if that keeps every GPU busy.
    :param process_batch: a function that takes a list of records and returns a list of the same length, or a
        `BaseWorker` class. Its ``process_batch(list)`` is used, or else its ``process(record)``; its ``setup()`` gets
        `setup_kwargs`. None: use the function ``process_batch`` of the calling module, and its
        ``_worker_init_with_gpu(gpu_id)``, if it has one, as `init`.
    :param init: called once in each worker with the number of its GPU, before anything is processed.
    :param task_timeout: maximum seconds for a batch.
    :param options: keyword options for `Dispatcher`, except shard.
    """
    if process_batch is None:
        process_batch = _of_caller("process_batch")
        init = init or _of_caller("_worker_init_with_gpu")
    if process_batch is None:
        raise TypeError(
            "nothing to process the records with: pass process_batch (a function of a list of records, or a BaseWorker "
            "class), or define a function process_batch in the calling module"
        )
    if (options or {}).get("shard") is not None:
        raise ValueError(
            "run_multi_gpu() makes batches, which would be different in each shard: choose the records before, with "
            "[record for record in records if find_shard().owns(record)], and give no shard"
        )
    if n_gpus < 1:
        raise ValueError(f"n_gpus must be >= 1, got {n_gpus}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    all_records = list(records)
    if not all_records:
        return []
    job = _Job(all_records, batch_size, list(range(n_gpus)) if gpu_ids is None else gpu_ids)
    setup = {"process": process_batch, "init": init, "kwargs": setup_kwargs}
    job.run(setup, options or {}, base_seed=base_seed, task_timeout=task_timeout)
    return job.results


class _Job:
    """The state of one run_multi_gpu(): which records have a result, and which are tried again alone."""

    def __init__(self, records: list[Any], batch_size: int, gpu_ids: Sequence[int] | str) -> None:
        self.records = records
        self.gpu_ids = gpu_ids
        spec = "auto" if is_free(gpu_ids) else gpu_ids  # the most GPUs that there can be, so that batches are small enough
        n_gpus = max(1, len(_native.devices(spec) if isinstance(spec, str) else spec))
        each = min(batch_size, -(-len(records) // n_gpus))
        self.batches = [range(at, min(at + each, len(records))) for at in range(0, len(records), each)]
        self.results: list[Any] = [_failed(record, "it was not processed") for record in records]
        self.crashed: list[int] = []

    def run(self, setup: dict[str, Any], options: Mapping[str, Any], **numbers: Any) -> None:
        log.info("distributing %d records in %d batches", len(self.records), len(self.batches))
        self._pass(setup, options, numbers)
        if self.crashed:
            # The worker that processed these records died. Perhaps only one of them caused that, so each is tried
            # alone.
            self.batches, self.crashed = [range(at, at + 1) for at in self.crashed], []
            self._pass(setup, options, numbers)

    def _pass(self, setup: dict[str, Any], options: Mapping[str, Any], numbers: dict[str, Any]) -> None:
        gpus = self.gpu_ids if isinstance(self.gpu_ids, str) else list(self.gpu_ids)[: len(self.batches)]
        source = ([self.records[at] for at in batch] for batch in self.batches)
        callbacks: dict[str, Any] = {"on_success": self._done, "on_error": self._error, "on_timeout": self._timeout}
        setup_errors: list[str] = []

        def on_setup_fail(gpu_id: int, error: str) -> None:
            log.warning("GPU %d failed in setup: %s", gpu_id, error)
            setup_errors.append(f"GPU {gpu_id} failed in setup: {error}")

        try:
            Dispatcher(_BatchWorker, gpus, **options).run(
                source, **callbacks, on_setup_fail=on_setup_fail, **numbers, **setup
            )
        except RuntimeError as error:  # no worker is left, or none could start; the records are marked as failed
            log.error("%s", error)
            self._mark_rest("; ".join([str(error), *setup_errors[:1]]))

    def _mark_rest(self, message: str) -> None:
        self.crashed = []
        for at, result in enumerate(self.results):
            if isinstance(result, dict) and result.get("_error") == "it was not processed":
                self.results[at] = _failed(self.records[at], message)

    def _done(self, task_id: int, outcomes: list[tuple[bool, Any]], worker_id: int) -> None:
        for at, (is_good, value) in zip(self.batches[task_id], outcomes):
            self.results[at] = value if is_good else _failed(self.records[at], value)

    def _error(self, task_id: int, error: str, worker_id: int) -> None:
        self._fail(task_id, error)
        if len(self.batches[task_id]) > 1:
            self.crashed.extend(self.batches[task_id])

    def _timeout(self, task_id: int, seconds: float, worker_id: int) -> None:
        self._fail(task_id, f"timed out after {seconds} s")

    def _fail(self, task_id: int, message: str) -> None:
        for at in self.batches[task_id]:
            self.results[at] = _failed(self.records[at], message)
