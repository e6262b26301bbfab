"""What a user writes: a subclass of BaseWorker."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

__all__ = ["BaseWorker", "TaskTimeoutError"]


class TaskTimeoutError(TimeoutError):
    """Raised inside process() or load() when the task has passed its time limit.

    The task is reported as timed out and the worker lives on. Catch it to tidy up and raise it again, or in process() to
    return what there is so far, which is then the result. What has not returned a grace period later is killed, and its
    worker replaced.
    """


class BaseWorker(abc.ABC):
    """The work of one GPU, in a process of its own.

    Subclass it, and give the class itself to Dispatcher: each worker process makes one instance, calls setup() once,
    process() for each task, and cleanup() at the end, all on its main thread. The process is a fresh interpreter in
    which CUDA_VISIBLE_DEVICES names the one GPU of this worker, so that inside it the device is number 0.
    """

    def __init__(self) -> None:
        """Called without arguments in the worker process. Keep it light: models are loaded in setup()."""

    @abc.abstractmethod
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        """Called once when the worker process starts: load the model here.

        An exception takes this worker out of the run; on_setup_fail gets its traceback.

        :param gpu_id: the GPU as given to the dispatcher.
        :param seed: base_seed + gpu_id.
        :param kwargs: the further keyword arguments of Dispatcher.run().
        """

    @abc.abstractmethod
    def process(self, data: Any) -> Any:
        """Called for each item of the generator; what it returns goes to on_success. Both may be anything that can
        be pickled.

        Arrays and bytes-like objects inside data that support pickle's out-of-band buffers (those of NumPy do) lie in
        shared memory: they are read-only, and may be kept. An exception is the failure of this task only: on_error
        gets its traceback. Running out of GPU memory and a GPU that has been lost are recognised as such.

        :param data: the item; with load(), what that returned.
        """

    def cleanup(self) -> None:
        """Called once before the worker process ends in good order: release what needs to be released."""

    def process_batch(self, items: list[Any]) -> Sequence[Any]:
        """Optional; used instead of process() if the dispatcher's batch_size is more than 1.

        Returns one result for each item, in the same order; one that is an exception object is the failure of its
        item alone. An exception that is raised fails the whole batch, except that a batch that has run out of memory
        is split and tried again in halves.

        :param items: between 1 and batch_size items.
        """
        return [self.process(item) for item in items]

    def load(self, data: Any) -> Any:
        """Optional; runs ahead of process() on the I/O threads of the worker: read and decode here.

        process() then gets what this returned instead of the item. It must be safe to call from several threads if
        the dispatcher's io_threads is more than 1. An exception is the failure of this task. A time limit counts here
        too: it raises TaskTimeoutError in Python code; a load() that waits or is stuck in C has its worker replaced.

        :param data: the item.
        """
        return data
