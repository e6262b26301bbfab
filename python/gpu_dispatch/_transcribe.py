"""Transcription: runs `gpu-dispatch transcribe` for a Python program.

The command does the work: it finds the files and the model, keeps every GPU busy, shows the progress and prints the
summary. This module finds the command, builds its command line and waits for it.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, get_type_hints

from . import _native
from ._journal import Shard, shard_option

if TYPE_CHECKING:
    from typing_extensions import Unpack

NAME = "gpu-dispatch"
VARIABLE = "GPU_DISPATCH_COMMAND"

StrPath = str | os.PathLike[str]


# ---- the command -----------------------------------------------------------------------------------------------------


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_the_program_itself(path: Path) -> bool:
    """Whether this is the real program. pip makes a script of the same name, which calls this module."""
    try:
        with path.open("rb") as file:
            return _is_program(path) and file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _places() -> Iterator[Path]:
    """Where the program may be if $GPU_DISPATCH_COMMAND does not name it."""
    package = Path(__file__).parent
    yield Path(str(importlib.resources.files(__package__).joinpath("_prefix", "bin", NAME)))  # a wheel
    yield package.parents[1] / NAME  # a build directory
    yield Path(sys.executable).parent / NAME
    for directory in os.get_exec_path():
        yield Path(directory) / NAME


def find_command() -> Path:
    """Finds the program `gpu-dispatch`: the one that $GPU_DISPATCH_COMMAND names, or else the one in this package, next
    to the running Python, or in the PATH.

    :raises FileNotFoundError: none of these places has it. The message says what to do.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise FileNotFoundError(
                f"{VARIABLE}={named}: no such program; unset it, or set it to the path of gpu-dispatch"
            )
        return Path(found).absolute()
    for place in _places():
        if _is_the_program_itself(place):
            return place.absolute()
    raise FileNotFoundError(
        f"cannot find the command gpu-dispatch, which does the transcription, in this package, next to {sys.executable} "
        "or in the PATH: install the package with `pip install .`, which includes the command, or install the command "
        f"with `make install`, or set the environment variable {VARIABLE} to its path"
    )


def become_command(name: str, *words: str) -> NoReturn:
    """Replaces this process with the command, called by the given name. If the command is not found, prints a message
    and exits with 1."""
    try:
        command = find_command()
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(command, [name, *words])
    except OSError as error:
        print(error, file=sys.stderr)
    sys.exit(1)


def command_main() -> NoReturn:
    """The script `gpu-dispatch` that pip makes."""
    become_command(NAME, *sys.argv[1:])


# ---- its command line ------------------------------------------------------------------------------------------------


class Options(TypedDict, total=False):
    """Options besides the directories, devices, model size, language and pattern. An option that is missing or None has
    its default. The names are those of the command's options, except ``formats``, ``task_timeout``, ``journal_sync``."""

    model: StrPath | None  #: a model file, instead of a size
    model_dir: StrPath | None  #: look for the model in this directory first
    formats: str | Sequence[str] | None  #: "txt" (the default), "srt", "vtt", "json", "tsv", several of them, or "all"
    translate: bool  #: translate into English
    threads: int | None  #: threads of each worker; by default its share of the cores
    beam_size: int | None
    temperature: float | None
    prompt: str | None  #: text that the model should expect: names, spellings, a style
    vad: StrPath | None  #: the file of a model that detects speech
    word_timestamps: bool
    no_gpu: bool  #: compute on the CPU even if there are GPUs
    workers_per_gpu: int | None
    task_timeout: float | None  #: maximum seconds for a file
    retries: int | None  #: how often to try a failed file again
    journal: StrPath | None  #: file that records finished files
    resume: bool  #: skip finished files
    retry_failed: bool  #: transcribe the files again that the journal records as failed
    journal_sync: str | None  #: "normal" or "full"
    force_resume: bool  #: resume even if the journal was made with other options
    shard: Shard | tuple[int, int] | str | None  #: only the files of this shard: (index, count) from 0, "3/16" or "auto"
    skip_done: StrPath | Sequence[StrPath] | None  #: other journals: skip the files that are done there
    #: seconds to wait if another run uses the journal; None: 120 with a shard or in a Slurm job, otherwise 0
    lock_wait: float | None
    recursive: bool  #: also use files in subdirectories
    full_names: bool  #: write talk.wav.txt instead of talk.txt for talk.wav
    quiet: bool  #: show no progress and no summary


def _joined(formats: str | Sequence[str]) -> str:
    return formats if isinstance(formats, str) else ",".join(formats)


def _seconds(task_timeout: float) -> str:
    if not task_timeout > 0:
        raise ValueError(f"task_timeout={task_timeout}: it must be a number of seconds above 0, or None")
    return f"{max(task_timeout, 0.001):.3f}"


def _tries(retries: int) -> int:
    if retries < 0:
        raise ValueError(f"retries={retries}: it must be 0 or more")
    return retries + 1  # the command counts the first attempt as well


def _shard(shard: Shard | tuple[int, int] | str) -> str:
    return shard if isinstance(shard, str) else str(shard_option(shard))


def _wait(seconds: float) -> str:
    return f"{seconds:.3f}"


def _unless_normal(sync: str) -> str | None:
    return None if sync == "normal" else sync


# Options that have another name or another form on the command line.
_TRANSLATED: dict[str, tuple[str, Callable[[Any], object]]] = {
    "formats": ("format", _joined),
    "task_timeout": ("timeout", _seconds),
    "retries": ("retries", _tries),
    "journal_sync": ("sync", _unless_normal),
    "shard": ("shard", _shard),
    "lock_wait": ("lock-wait", _wait),
}
_KINDS = get_type_hints(Options)


def _words(name: str, value: Any) -> list[str]:
    """An option for the command line. The value follows an equals sign, because it may begin with a dash."""
    if name not in _KINDS:
        raise TypeError(f"transcription has no option {name!r}: it has {', '.join(_KINDS)}")
    option, form = _TRANSLATED.get(name, (name.replace("_", "-"), lambda value: value))
    if _KINDS[name] is bool:
        return [f"--{option}"] if value else []
    if name == "skip_done":
        paths = (value,) if isinstance(value, (str, os.PathLike)) else value or ()
        return [f"--{option}={os.fspath(path)}" for path in paths]
    value = None if value is None else form(value)
    return [] if value is None else [f"--{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def _devices(gpus: str | Iterable[int]) -> str:
    if isinstance(gpus, str):
        return gpus
    ids = ",".join(str(int(gpu)) for gpu in gpus)
    if not ids:
        raise ValueError('no GPUs were given: give their numbers, "auto", "sim:2" or "cpu"')
    return ids


def arguments(
    input_dir: StrPath,
    output_dir: StrPath,
    gpus: str | Iterable[int] = "auto",
    model_size: str = "base",
    language: str | None = None,
    pattern: str | Sequence[str] = "*.wav",
    **options: Unpack[Options],
) -> list[str]:
    """The command line of `gpu-dispatch` for these arguments."""
    patterns = (pattern,) if isinstance(pattern, str) else pattern
    words = ["transcribe", f"--input-dir={os.fspath(input_dir)}", f"--output-dir={os.fspath(output_dir)}"]
    if gpus != "auto":  # without --gpus the command chooses; with no_gpu it uses the CPU
        words.append(f"--gpus={_devices(gpus)}")
    if options.get("model") is None:
        words.append(f"--model-size={model_size}")
    words += [f"--language={language}"] if language is not None else []
    words += [f"--pattern={one}" for one in patterns]
    for name, value in options.items():
        words += _words(name, value)
    return words


# ---- running it ------------------------------------------------------------------------------------------------------


def transcribe(
    input_dir: StrPath,
    output_dir: StrPath,
    gpus: str | Iterable[int] = "auto",
    model_size: str = "base",
    language: str | None = None,
    pattern: str | Sequence[str] = "*.wav",
    **options: Unpack[Options],
) -> int:
    """Runs `gpu-dispatch transcribe` with the standard streams of this program. Returns its exit code: 0, 1 (a file
    failed, no file was found, or it could not start), or 130 (interrupted). The command never outlives this process.

    After Ctrl-C, or a SIGINT sent to this process, files that are being transcribed may finish. A second one ends them
    at once. No KeyboardInterrupt is raised; only the exit code is different."""
    words = arguments(input_dir, output_dir, gpus, model_size, language, pattern, **options)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # so that earlier output comes before the output of the command
    try:
        command = os.fspath(find_command())
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    argv = [os.fsencode(word) for word in (command, *words)]
    code = _native.run_program(argv, threading.current_thread() is threading.main_thread())
    if code < 0:
        print(f"{command} cannot be run: {os.strerror(-code)}", file=sys.stderr)
    return code if code >= 0 else 1


def problem(gpus: str | Iterable[int], model_size: str | None = None) -> str | None:
    """Returns an error message if nothing can be transcribed. Returns None if the command, its transcriber, the devices
    and (if its size is given) the model can be used."""
    words = ["transcribe", "--check", f"--gpus={_devices(gpus)}"]
    words += [f"--model-size={model_size}"] if model_size is not None else []
    try:
        argv = [os.fspath(find_command()), *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as error:
        return str(error)
    errors = [line.removeprefix(f"{NAME}: ") for line in done.stderr.splitlines()]
    return None if done.returncode == 0 else "\n".join(errors) or f"{argv[0]} ended with code {done.returncode}"
