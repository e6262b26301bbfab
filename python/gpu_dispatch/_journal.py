"""The Python part of journals and shards: options, keys with versions, names, and items as text."""

from __future__ import annotations

import operator
import os
import reprlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpu_dispatch import _native

__all__ = ["Shard", "Versioned", "file_key", "find_shard"]

_RESUMES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # enum gd_journal_resume
_SYNCS = {"normal": 0, "full": 1}  # enum gd_journal_sync
_TEXT_MOST = 1000
_SHARDS_MOST = 1_000_000  # GD__SHARD_MOST
_LOCK_WAIT_MOST = 0xFFFFFFFF // 1000  # seconds


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
    sync: Any,
    force: Any,
    skip_done: Any,
    lock_wait: Any,
) -> dict[str, Any] | None:
    """The options for _native.Run; None: no journal."""
    if sync not in _SYNCS:
        raise ValueError(f'journal_sync is {sync!r}: it must be "normal" or "full"')
    others = _paths("skip_done", skip_done)
    if journal is None:
        given = {
            "resume": resume,
            "retry_failed": retry_failed,
            "force_resume": force,
            "skip_done": others,
            "lock_wait": lock_wait,
        }
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
        "skip_done": others,
        "lock_wait_ms": _wait_ms(lock_wait),
    }


def key_options(
    key: Callable[[Any], Any] | None, journal: dict[str, Any] | None, shard: Shard | None
) -> dict[str, Any]:
    """The options for _native.Run that journals and shards share."""
    if key is not None and not callable(key):
        raise TypeError(f"key is {key!r}: it must be callable, and return what identifies an item")
    if key is not None and journal is None and shard is None:
        raise ValueError(
            "key needs a journal or a shard: give journal= or shard= too (an argument of setup() must have another name)"
        )
    given = {"key": key, "journal": journal, "shard": None if shard is None else tuple(shard)}
    return {name: value for name, value in given.items() if value is not None}


def _paths(name: str, paths: Any) -> tuple[bytes, ...]:
    """One path or several, as bytes."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = (paths,)
    try:
        return tuple(os.fsencode(path) for path in paths or ())
    except TypeError:
        raise TypeError(f"{name} is {paths!r}: it must be the path of a journal, or a list of paths") from None


def _wait_ms(seconds: Any) -> int:
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"lock_wait is {seconds!r}: it must be a number of seconds")
    if not 0 <= seconds <= _LOCK_WAIT_MOST:
        raise ValueError(f"lock_wait is {seconds!r}: it must be 0 to {_LOCK_WAIT_MOST} seconds")
    return -int(-seconds * 1000 // 1)


# ---- shards ------------------------------------------------------------------------------------------------------------



@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a list. index counts from 0; people and file names count from 1: str() is "3/16". It can be
    unpacked: index, count = shard."""

    index: int
    count: int

    def __post_init__(self) -> None:
        index, count = operator.index(self.index), operator.index(self.count)
        if not 1 <= count <= _SHARDS_MOST:
            raise ValueError(f"shard: {count} shards: the number of shards must be 1 to {_SHARDS_MOST}")
        if not 0 <= index < count:
            raise ValueError(
                f"shard: shard {index} of {count}: the index of a shard is counted from 0, so it must be 0 to {count - 1}"
            )

    def __iter__(self) -> Iterator[int]:
        return iter((self.index, self.count))

    def owns(self, key: Any) -> bool:
        """Whether the item with this key belongs to the shard. Call it if the program reads or prepares only its own
        part of the list. `run(..., shard=shard)` asks the same about each item, or about its key if there is a key
        function. The answer is the same in every process and on every machine."""
        return _native.shard_owns(self.index, self.count, key.key if isinstance(key, Versioned) else key)

    def __str__(self) -> str:
        return f"{self.index + 1}/{self.count}"


def find_shard(text: str = "auto") -> Shard:
    """The shard that a text means: "3/16" (the third of 16), "auto" (as the environment says: Slurm, PMI, Open MPI,
    torchrun), or "auto/16" (the same, and there must be 16; Kubernetes has no variable for their number).

    :raises ValueError: there is no such shard, or the environment does not say which one this process is. The message
        names the variables that were seen, and says what to do.
    """
    if not isinstance(text, str):
        raise TypeError(f'shard is {text!r}: it must be a str such as "3/16" or "auto"')
    index, count, _ = _native.find_shard(text)
    return Shard(index, count)


def shard_option(shard: Any) -> Shard | None:
    """A shard from what users give: a pair, a text or None."""
    if shard is None or isinstance(shard, str):
        return None if shard is None else find_shard(shard)
    try:
        index, count = map(operator.index, shard)
    except (TypeError, ValueError):
        raise TypeError(
            f'shard is {shard!r}: it must be (index, count) with an index from 0, or a str such as "3/16" or "auto"'
        ) from None
    return Shard(index, count)


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
