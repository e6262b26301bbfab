"""Transcribes a folder of audio on all GPUs: the program that `gpu-dispatch transcribe` is, under its older name.

    python -m launcher_multigpu --input-dir data/audio --gpus auto
    python -m launcher_multigpu --input-dir data/audio --gpus 0,1,2 --model-size large-v3

    from launcher_multigpu import run_multi_gpu
    exit_code = run_multi_gpu("data/audio", "data/outputs", gpus=[0, 1], model_size="base")

`python -m launcher_multigpu --help` has all options. For files of another kind, with a worker of your own, see
gpu_dispatch.multigpu.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from gpu_dispatch import _transcribe

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["main", "run_multi_gpu"]


def run_multi_gpu(
    input_dir: _transcribe.StrPath,
    output_dir: _transcribe.StrPath = "data/outputs",
    gpus: str | Iterable[int] = "auto",
    model_size: str = "base",
    language: str | None = None,
    pattern: str | Sequence[str] = "*.wav",
    **more: Unpack[_transcribe.Options],
) -> int:
    """Transcribes the files of a folder; returns an exit code: 0, or 1 if anything failed, there was nothing to do or
    it could not start (standard error says what); 130 if it was interrupted.

    Ctrl-C, or a SIGINT sent to this process, lets the files that are being transcribed finish; a second one ends them
    at once. There is no KeyboardInterrupt then: the exit code says it.

    :param gpus: numbers, or "auto", "0,1", "sim:2" (simulated, on the CPU), "cpu".
    :param model_size: "tiny", "base", "small", "medium", "large-v3" ..., or "demo": a model of fifty words that comes
        with this package.
    :param language: as in "en"; None: detected.
    :param pattern: of the files' names, or several.
    :param more: as `gpu_dispatch.multigpu.LauncherOrchestrator.run()` has them: ``model``, ``model_dir``, ``formats``,
        ``translate``, ``threads``, ``beam_size``, ``temperature``, ``prompt``, ``vad``, ``word_timestamps``,
        ``no_gpu``, ``workers_per_gpu``, ``task_timeout``, ``retries``, ``journal``, ``resume``, ``retry_failed``,
        ``recursive``, ``full_names``, ``quiet``.
    """
    return _transcribe.transcribe(input_dir, output_dir, gpus, model_size, language, pattern, **more)


def main() -> NoReturn:
    """The command line. This process becomes the command: it does not return."""
    _transcribe.become_command("launcher_multigpu", *sys.argv[1:])


if __name__ == "__main__":
    main()
