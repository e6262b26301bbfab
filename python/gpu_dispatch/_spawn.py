"""How a worker process is started: its command line, and the data for its setup.

The process is a fresh interpreter. It imports the main module with the code of multiprocessing's start method "spawn",
so everything that works there works here in the same way.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing import process, spawn
from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from gpu_dispatch.worker import BaseWorker

__all__ = ["MainReached", "worker_command"]

_PROGRAM = "import sys; sys.path.insert(0, {parent!r})\nfrom gpu_dispatch._worker import main; main()"


class MainReached(BaseException):
    """Raised when a worker process imports the main module and reaches a dispatcher outside `if __name__ == "__main__"`.

    Usually the worker class is defined by then. So the import stops here, and the worker uses what is defined so far.
    """


def worker_command(worker_cls: type[BaseWorker], setup_kwargs: dict[str, Any]) -> tuple[list[str], bytes]:
    """Returns the command line of a worker process, and the bytes for its setup.

    Raises TypeError if the class or an argument cannot be sent to another process.
    """
    if getattr(process.current_process(), "_inheriting", False):
        raise MainReached
    preparation = _preparation()
    flags = {"batch": _overrides(worker_cls, "process_batch"), "load": _overrides(worker_cls, "load")}
    argv = [
        _text(spawn.get_executable() or sys.executable),
        *_args_from_interpreter_flags(),
        "-c",
        _PROGRAM.format(parent=str(Path(__file__).resolve().parent.parent)),
        *(f"--{name}" for name, wanted in flags.items() if wanted),
    ]
    setup = {
        "preparation": preparation,
        "class": _dump_class(worker_cls, preparation),
        "kwargs": _dump(setup_kwargs, "an argument for setup()"),
        "flags": flags,
    }
    return argv, pickle.dumps(setup, protocol=5)


def _text(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode(sys.getfilesystemencoding(), "surrogateescape")


def _preparation() -> dict[str, Any]:
    """The data about this process that multiprocessing sends to a new process. get_preparation_data() also chooses the
    start method of this program if none was chosen, so this is undone."""
    method = multiprocessing.get_start_method(allow_none=True)
    try:
        data = spawn.get_preparation_data("gpu_dispatch")
    finally:
        if method is None:
            multiprocessing.set_start_method(None, force=True)
    if method is None:
        data.pop("start_method", None)
    if not os.path.exists(data.get("init_main_from_path", os.curdir)):  # a script that was read from a pipe
        del data["init_main_from_path"]
    data["authkey"] = bytes(data["authkey"])  # the type of authkey refuses to be pickled; the worker restores it
    return data


def _overrides(worker_cls: type[BaseWorker], name: str) -> bool:
    """Whether the class overrides this optional method. A method of that name that does not take one argument does not
    count."""
    method = getattr(worker_cls, name, None)
    if method is None or method is getattr(BaseWorker, name):
        return False
    as_static = isinstance(inspect.getattr_static(worker_cls, name), (staticmethod, classmethod))
    try:
        inspect.signature(method).bind(*((None,) if as_static else (None, None)))
    except TypeError:
        return False
    except ValueError:  # the signature is not available
        pass
    return True


def _imports_main(preparation: dict[str, Any]) -> bool:
    """Whether worker processes will import the main module. multiprocessing does not import a __main__.py."""
    name = preparation.get("init_main_from_name", "__main__")
    return "init_main_from_path" in preparation or name.rpartition(".")[2] != "__main__"


def _dump_class(worker_cls: type[BaseWorker], preparation: dict[str, Any]) -> bytes:
    if worker_cls.__module__ != "__main__" or _imports_main(preparation):
        return _dump(worker_cls, f"the worker class {worker_cls.__qualname__}")
    dumps = _cloudpickle_dumps()
    if dumps is None:
        raise TypeError(
            f"the worker class {worker_cls.__qualname__} is defined where worker processes can't import it (an interactive "
            "session, or the __main__.py of a package): put it into a module, or install cloudpickle"
        )
    return dumps(worker_cls)


def _dump(value: Any, what: str) -> bytes:
    """A pickle of value. If pickle fails (lambdas, local classes), cloudpickle is used if it is installed."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        dumps = _cloudpickle_dumps()
        if dumps is None:
            raise TypeError(
                f"{what} can't be pickled: {error}. Use names defined at the top level of a module, or install "
                "cloudpickle"
            ) from error
        try:
            return dumps(value)
        except Exception as still:
            raise TypeError(f"{what} can't be pickled: {still}") from still


def _cloudpickle_dumps() -> Callable[[Any], bytes] | None:
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    return lambda value: cloudpickle.dumps(value, protocol=5)
