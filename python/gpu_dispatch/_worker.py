"""The entry of a worker process: main() is called by the program in _spawn.worker_command().

worker.c calls the methods of Host. The user's code is not imported before setup(). So an error during the import
becomes a failed setup with a traceback.
"""

from __future__ import annotations

import atexit
import pickle
import signal
import sys
import threading
import traceback
import types
from multiprocessing import process, spawn
from typing import Any, NoReturn

from gpu_dispatch import _native
from gpu_dispatch._spawn import MainReached
from gpu_dispatch.worker import BaseWorker, TaskTimeoutError

__all__ = ["Host", "main"]

_TEXT_MAX = 60_000  # bytes of an error message; the core cuts messages at 64 KiB, and the error itself is at the end
_TEXT_HEAD = 12_000

# Classes of exceptions, by module and name, so that these modules need not be imported here.
_OUT_OF_MEMORY_CLASSES = {
    "builtins.MemoryError",
    "torch.OutOfMemoryError",
    "torch.cuda.OutOfMemoryError",
    "cupy.cuda.memory.OutOfMemoryError",
    "cupy_backends.cuda.api.runtime.OutOfMemoryError",
    "pycuda._driver.MemoryError",
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError",
}

# Parts of the message of an exception of another class, in lower case.
_OUT_OF_MEMORY_WORDS = (
    "cuda out of memory",
    "hip out of memory",
    "cuda error: out of memory",
    "hip error: out of memory",
    "cuda_error_out_of_memory",
    "cudaerrormemoryallocation",
    "cublas_status_alloc_failed",
    "resource_exhausted: out of memory",
)

# Errors after which every further call to the device fails until the process is replaced.
_DEVICE_LOST_WORDS = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "unspecified launch failure",
    "misaligned address",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "uncorrectable ecc error encountered",
    "uncorrectable nvlink error",
    "the launch timed out and was terminated",
    "all cuda-capable devices are busy or unavailable",
    "no cuda-capable device is detected",
    "gpu is lost",
    "has fallen off the bus",
    "cuda_error_illegal_address",
    "cuda_error_illegal_instruction",
    "cuda_error_assert",
    "cuda_error_launch_failed",
    "cuda_error_launch_timeout",
    "cuda_error_misaligned_address",
    "cuda_error_hardware_stack_error",
    "cuda_error_invalid_pc",
    "cuda_error_invalid_address_space",
    "cuda_error_ecc_uncorrectable",
    "cudaerrorillegaladdress",
    "cudaerrorillegalinstruction",
    "cudaerrorassert",
    "cudaerrorlaunchfailure",
    "cudaerrorlaunchtimeout",
    "cudaerrormisalignedaddress",
    "cudaerrorhardwarestackerror",
    "cudaerrorinvalidpc",
    "cudaerrorinvalidaddressspace",
    "cudaerroreccuncorrectable",
)
_DEVICE_WORDS = ("cuda", "hip", "gpu", "nvlink", "nccl", "cudnn", "cublas", "acceleratorerror")


class Host:
    """The object that worker.c calls. After setup(), process, process_batch and load are methods of the user's
    instance."""

    process: Any
    process_batch: Any
    load: Any
    timeout_error = TaskTimeoutError

    def __init__(self, has_batch: bool, has_load: bool) -> None:
        self.has_batch = has_batch
        self.has_load = has_load
        self._cleanup: Any = None

    def setup(
        self, args: bytes, gpu_id: int, gpu_ids: tuple[int, ...], worker_id: int, seed: int, restarts: int
    ) -> None:
        setup = pickle.loads(args)
        setup["preparation"]["name"] = f"gpu_dispatch-{worker_id}"
        _prepare(setup["preparation"])
        instance: BaseWorker = pickle.loads(setup["class"])()
        vars(instance).setdefault("gpu_ids", gpu_ids)  # not if __init__() has set its own attribute of this name
        kwargs = pickle.loads(setup["kwargs"])
        instance.setup(gpu_id, seed, **kwargs)
        self.process = instance.process
        self.process_batch = instance.process_batch if self.has_batch else None
        self.load = instance.load if self.has_load else None
        self._cleanup = instance.cleanup

    def cleanup(self) -> None:
        self._cleanup()

    def finish(self) -> None:
        """Does what the interpreter does at its normal end, because this process does not end normally."""
        try:
            threading._shutdown()  # type: ignore[attr-defined]
        finally:
            atexit._run_exitfuncs()
            self.flush()

    @staticmethod
    def flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # the stream is missing, closed, or has no reader
                pass

    @staticmethod
    def classify(exception: BaseException) -> str:
        """Returns 'error', 'out_of_memory', 'device_lost' or 'timeout'. An 'error' that has a cause gets the kind of
        its cause."""
        kind, seen = "error", set()
        cause: BaseException | None = exception
        while cause is not None and kind == "error" and id(cause) not in seen:
            seen.add(id(cause))
            kind = _kind(cause)
            cause = cause.__cause__
        return kind

    @staticmethod
    def describe(exception: BaseException, lead: str | None) -> bytes:
        """The traceback as text, starting at the first frame of the user's code. The line lead, if given, comes
        first."""
        tb = exception.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
            tb = tb.tb_next
        text = "".join(traceback.format_exception(type(exception), exception, tb))
        if lead:
            text = f"{lead}\n{text}"
        encoded = text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")
        if len(encoded) <= _TEXT_MAX:
            return encoded
        head = encoded[:_TEXT_HEAD].decode("utf-8", "ignore")
        tail = encoded[_TEXT_HEAD - _TEXT_MAX :].decode("utf-8", "ignore")
        return f"{head}\n... ({len(encoded) - _TEXT_MAX} bytes left out) ...\n{tail}".encode()

    @staticmethod
    def relieve() -> None:
        """Called after memory ran out: frees memory that is only cached."""
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _kind(exception: BaseException) -> str:
    if isinstance(exception, TaskTimeoutError):
        return "timeout"
    if any(f"{c.__module__}.{c.__qualname__}" in _OUT_OF_MEMORY_CLASSES for c in type(exception).__mro__):
        return "out_of_memory"
    if not isinstance(exception, Exception):
        return "error"
    try:
        words = f"{type(exception).__name__}: {exception}".lower()
    except Exception:
        return "error"
    if any(part in words for part in _OUT_OF_MEMORY_WORDS):
        return "out_of_memory"
    if any(part in words for part in _DEVICE_LOST_WORDS) and any(part in words for part in _DEVICE_WORDS):
        return "device_lost"
    return "error"


def _prepare(data: dict[str, Any]) -> None:
    """Gives this process the settings of the dispatcher's process and imports its main module, as multiprocessing's
    start method "spawn" does."""
    current = process.current_process()
    current._inheriting = True  # type: ignore[attr-defined]
    try:
        spawn.prepare(data)
    except MainReached as reached:
        _adopt_main(reached)
    finally:
        del current._inheriting  # type: ignore[attr-defined]
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])


def _adopt_main(reached: MainReached) -> None:
    """Makes a main module of the names that were defined before its import stopped at a dispatcher."""
    for frame, _ in traceback.walk_tb(reached.__traceback__):
        if frame.f_globals.get("__name__") == "__mp_main__":
            break
    else:  # a module that the main module imports has a dispatcher at its top level
        raise RuntimeError(
            "a module that the main module imports starts a dispatcher, so the worker cannot import it: start "
            'dispatchers in a function, or under `if __name__ == "__main__":`'
        ) from None
    main_module = types.ModuleType("__mp_main__")
    main_module.__dict__.update(frame.f_globals)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main_module


def _raise_timeout(signum: int, frame: Any) -> None:
    """The handler of SIGALRM, with which worker.c interrupts a task. If the signal comes too late, nothing happens."""
    if _native.task_cancelled():
        raise TaskTimeoutError("the task exceeded its time limit")


def main() -> NoReturn:
    """Does not return: the process ends with the worker."""
    words = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the dispatcher handles Ctrl-C
    signal.signal(signal.SIGALRM, _raise_timeout)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _native.worker_main(Host("--batch" in words, "--load" in words))
