"""What a user writes: a subclass of BaseWorker."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

__all__ = ["BaseWorker", "TaskTimeoutError"]


class TaskTimeoutError(TimeoutError):
    """Raised inside process() or load() when the task exceeds its time limit.

    The task is reported as timed out, and the worker stays alive. You may catch the exception to clean up, and raise it
    again. In process() you may also return what you have so far, and that becomes the result. If the method has not
    returned after a grace period, the worker is killed and replaced.
    """


class BaseWorker(abc.ABC):
    """Base class of workers. A worker is a process that uses one GPU, or a group of GPUs (gpus_per_worker).

    Write a subclass, and give the class itself to Dispatcher. Each worker process makes one instance, calls setup()
    once, process() for each task, and cleanup() at the end, all on its main thread. The process is a fresh interpreter
    in which CUDA_VISIBLE_DEVICES names only the GPU of this worker, so inside it the device has the number 0. The GPUs
    of a group have the numbers 0, 1, ...
    """

    #: The numbers of all GPUs of this worker, as given to the dispatcher. Set before setup() is called.
    gpu_ids: tuple[int, ...] = ()

    def __init__(self) -> None:
        """Called without arguments in the worker process. Keep it light, and load models in setup()."""

    @abc.abstractmethod
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        """Called once when the worker process starts. Load the model here.

        If it raises, this worker is taken out of the run, and on_setup_fail gets the traceback.

        :param gpu_id: the number of the GPU, as given to the dispatcher. If the worker has a group of GPUs, the number
            of the first one; `self.gpu_ids` has all of them.
        :param seed: base_seed + gpu_id.
        :param kwargs: the additional keyword arguments of Dispatcher.run().
        """

    @abc.abstractmethod
    def process(self, data: Any) -> Any:
        """Called for each item of the generator. on_success gets its return value. Items and return values may be
        anything that can be pickled.

        Arrays and bytes-like objects inside data are in shared memory if they support pickle's out-of-band buffers, as
        NumPy arrays do. They are read-only. You may keep references to them. If process() raises, only this task fails,
        and on_error gets the traceback. Errors are recognised if they mean a lack of GPU memory or a lost GPU.

        :param data: the item, or the return value of load().
        """

    def send_partial(self, value: Any) -> None:
        """Sends a part of the result while process() is running: on_partial of Dispatcher.run() gets it. The task goes on,
        and its result is what process() returns. Waits if the dispatcher has no room for the part.

        Call it in process(), on its thread. It is not available in process_batch() and load().

        :param value: anything that can be pickled.
        """
        from gpu_dispatch import _native

        _native.send_partial(value)

    def cleanup(self) -> None:
        """Called once before the worker process ends normally. Release resources here."""

    def process_batch(self, items: list[Any]) -> Sequence[Any]:
        """Optional. Used instead of process() if the dispatcher's batch_size is more than 1.

        Returns one result for each item, in the same order. If a result is an exception object, only that item fails.
        If process_batch() raises, the whole batch fails. If it raised because memory ran out, the batch is split and
        the halves are tried again.

        :param items: between 1 and batch_size items.
        """
        return [self.process(item) for item in items]

    def load(self, data: Any) -> Any:
        """Optional. Runs ahead of process(), on the I/O threads of the worker. Read and decode here.

        process() then gets the return value of load() instead of the item. If the dispatcher's io_threads is more than
        1, load() must be safe to call from several threads. If it raises, the task fails. The time limit of the task
        includes load(). Python code gets a TaskTimeoutError; if load() waits or is stuck in C, the worker is replaced.

        :param data: the item.
        """
        return data
