"""Transcription: runs `gpu-dispatch transcribe` for a Python program.

The command does the work: it finds the files and the model, keeps every GPU busy, shows the progress and prints the
summary. This module finds the command, builds its command line and waits for it.
"""

from __future__ import annotations

import importlib.resources
import math
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
    #: "txt" (the default), "srt", "vtt", "json", "tsv", "lrc", "csv", several of them, or "all"
    formats: str | Sequence[str] | None
    max_line_width: int | None  #: most characters in a line of subtitles
    max_line_count: int | None  #: most lines of subtitles at a time; needs max_line_width
    max_words_per_line: int | None  #: most words of subtitles at a time; not with max_line_width
    highlight_words: bool  #: underline each word in subtitles while it is spoken
    translate: bool  #: translate into English
    threads: int | None  #: threads of each worker; by default its share of the cores
    decoder: str | None  #: "auto" (the default), "lanes" or "whisper.cpp"
    batch_size: int | None  #: how many recordings are decoded at once
    split: str | None  #: "auto" (the default) or "never": whether long files are cut into parts
    beam_size: int | None  #: more than 1: a beam search; the default is greedy
    best_of: int | None  #: candidates at temperatures above 0
    length_penalty: float | None
    temperature: float | None
    temperature_increment_on_fallback: float | None  #: 0: no fallback
    entropy_threshold: float | None  #: infinity turns this and the other thresholds off
    compression_ratio_threshold: float | None
    logprob_threshold: float | None
    no_speech_threshold: float | None
    prompt: str | None  #: text that the model should expect: names, spellings, a style
    initial_prompt: str | None  #: another name for prompt
    carry_initial_prompt: bool  #: put the prompt before every window of 30 s
    hotwords: str | None  #: words that are put before every window
    condition_on_previous_text: bool | None  #: True by default
    suppress_tokens: str | Sequence[int] | None  #: -1: symbols that are not speech
    suppress_blank: bool | None  #: True by default
    without_timestamps: bool
    max_initial_timestamp: float | None  #: seconds; infinity: no limit
    clip_timestamps: str | Sequence[float] | None  #: start, end, start, end, ... in seconds
    vad: StrPath | None  #: the file of a model that detects speech
    vad_threshold: float | None
    vad_min_speech_duration_ms: int | None
    vad_min_silence_duration_ms: int | None
    vad_max_speech_duration_s: float | None
    vad_speech_pad_ms: int | None
    word_timestamps: bool
    diarize: str | None  #: "channels": each channel of a file is a speaker
    no_gpu: bool  #: compute on the CPU even if there are GPUs
    workers_per_gpu: int | None
    task_timeout: float | None  #: maximum seconds for a file
    retries: int | None  #: how often to try a failed file again; the option --retries also counts the first attempt
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
    accept_truncated: bool  #: transcribe what there is of a file that ends too early, with a warning
    full_names: bool  #: write talk.wav.txt instead of talk.txt for talk.wav
    quiet: bool  #: show no progress and no summary


def _joined(formats: str | Sequence[str]) -> str:
    return formats if isinstance(formats, str) else ",".join(formats)


def _real(value: float) -> str:
    """A number without an exponent, which the command does not read. Infinity turns something off."""
    return "None" if math.isinf(value) else f"{value:.6f}".rstrip("0").rstrip(".")


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _list(values: str | Sequence[float]) -> str:
    return values if isinstance(values, str) else ",".join(_real(value) for value in values)


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
    "condition_on_previous_text": ("condition-on-previous-text", _yes_or_no),
    "suppress_blank": ("suppress-blank", _yes_or_no),
    "suppress_tokens": ("suppress-tokens", _list),
    "clip_timestamps": ("clip-timestamps", _list),
    "length_penalty": ("length-penalty", _real),
    "temperature_increment_on_fallback": ("temperature-increment-on-fallback", _real),
    "entropy_threshold": ("entropy-threshold", _real),
    "compression_ratio_threshold": ("compression-ratio-threshold", _real),
    "logprob_threshold": ("logprob-threshold", _real),
    "no_speech_threshold": ("no-speech-threshold", _real),
    "max_initial_timestamp": ("max-initial-timestamp", _real),
    "vad_threshold": ("vad-threshold", _real),
    "vad_max_speech_duration_s": ("vad-max-speech-duration-s", _real),
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
