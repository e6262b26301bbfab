"""The Python part of journals: options, keys with versions, names, and items as text."""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_dispatch import _native

__all__ = ["Versioned", "file_key"]

_RESUMES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # enum gd_journal_resume
_SYNCS = {"normal": 0, "full": 1}  # enum gd_journal_sync
_TEXT_MOST = 1000


@dataclass(frozen=True)
class Versioned:
    """A key together with a version. If the journal has the key with another version, the task is run again.

    dispatcher.run(paths, save, journal="run.db", resume=True, key=lambda path: Versioned(path, digest(path)))

    The version may be anything. It is compared as str(version); None means no version.
    """

    key: Any
    version: Any = None


def file_key(path: str | os.PathLike[str]) -> Versioned:
    """A key for items that are paths of files. The version is the size and the modification time, so that a file that
    has changed is processed again."""
    try:
        status = os.stat(path)
    except OSError:  # the worker will report the error
        return Versioned(os.fspath(path), "missing")
    return Versioned(os.fspath(path), f"{status.st_size}:{status.st_mtime_ns}")


def journal_options(
    worker_cls: type,
    journal: Any,
    resume: Any,
    retry_failed: Any,
    key: Callable[[Any], Any] | None,
    sync: Any,
    force: Any,
) -> dict[str, Any] | None:
    """The options for _native.Run; None: no journal."""
    if key is not None and not callable(key):
        raise TypeError(f"key is {key!r}: it must be callable, and return what identifies an item")
    if sync not in _SYNCS:
        raise ValueError(f'journal_sync is {sync!r}: it must be "normal" or "full"')
    if journal is None:
        given = {"resume": resume, "retry_failed": retry_failed, "key": key, "force_resume": force}
        for name, value in given.items():
            if value:
                raise ValueError(
                    f"{name} needs a journal: give journal= too (an argument of setup() must have another name)"
                )
        return None
    if not isinstance(journal, (str, bytes, os.PathLike)):
        raise TypeError(f"journal is {journal!r}: it must be the path of a file")
    if not os.fspath(journal):
        raise ValueError("journal is empty: it must be the path of a file")
    return {
        "path": journal,
        "command": class_name(worker_cls),
        "resume": _RESUMES[bool(resume), bool(retry_failed)],
        "force": bool(force),
        "sync": _SYNCS[sync],
        "key": key,
    }


# ---- names -----------------------------------------------------------------------------------------------------------


def _main_name() -> str:
    """The name of the main module when another program imports it."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name:
        return str(name).removesuffix(".__main__")
    path = getattr(main, "__file__", None)
    return os.path.splitext(os.path.basename(path))[0] if path else "__main__"


def class_name(cls: type) -> str:
    """Module and name of a worker class, for a journal. For a script, the module name that it has when it is
    imported."""
    module = _main_name() if cls.__module__ == "__main__" else cls.__module__
    return f"{module}.{cls.__qualname__}"


def job_name(cls: type, job: str | bool | None) -> str | None:
    """The name that observers see; None: the run is not published."""
    if job is None or job is False:
        return None
    if job is not True:
        if not isinstance(job, str):
            raise TypeError(f"job is {job!r}: it must be a name, or None")
        if not job or "\0" in job:
            raise ValueError(f"job is {job!r}: it must be a name, or None")
        return job
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    program = os.path.basename(path) if path else "python"
    if program == "__main__.py":
        program = _main_name()
    return f"{program}: {cls.__name__}"


# ---- items as text ---------------------------------------------------------------------------------------------------


class _Repr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 16
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_instance(self, x: Any, level: int) -> str:
        shape = getattr(x, "shape", None)  # an array: its repr() may take longer than the task
        if isinstance(shape, tuple):
            kind = getattr(x, "dtype", "")
            return f"<{type(x).__name__} {'x'.join(map(str, shape)) or 'scalar'}{f' {kind}' if kind != '' else ''}>"
        return super().repr_instance(x, level)


_repr = _Repr()


def describe(item: Any) -> str:
    """How a journal shows an item that is not a scalar."""
    try:
        text = _repr.repr(item)
    except Exception:
        text = f"<{type(item).__name__}>"
    return text if len(text) <= _TEXT_MOST else text[: _TEXT_MOST - 3] + "..."


def available() -> bool:
    """Whether this package was built with support for journals, which needs the headers of SQLite."""
    return _native.journal_available()
