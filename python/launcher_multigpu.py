"""Transcribes a directory of audio files on all GPUs. This is an older name for `gpu-dispatch transcribe`.

    python -m launcher_multigpu --input-dir data/audio --gpus auto
    python -m launcher_multigpu --input-dir data/audio --gpus 0,1,2 --model-size large-v3

    from launcher_multigpu import run_multi_gpu
    exit_code = run_multi_gpu("data/audio", "data/outputs", gpus=[0, 1], model_size="base")

`python -m launcher_multigpu --help` shows all options. gpu_dispatch.multigpu processes other kinds of files with your own
worker.
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
    """Transcribes the files of a directory. Returns an exit code: 0; 1 if a file failed, no file was found, or the run
    could not start (standard error has the reason); 130 if it was interrupted.

    After Ctrl-C, or a SIGINT sent to this process, files that are being transcribed may finish. A second one ends them
    at once. No KeyboardInterrupt is raised; only the exit code is different.

    :param gpus: numbers, or "auto", "0,1", "sim:2" (simulated, on the CPU), "cpu".
    :param model_size: "tiny", "base", "small", "medium", "large-v3" ..., or "demo", a model of fifty English words that
        comes with this package.
    :param language: such as "en"; None: detected in each file.
    :param pattern: a pattern for the names of the files, or several.
    :param more: options of `gpu_dispatch.multigpu.LauncherOrchestrator.run()`: ``model``, ``model_dir``, ``formats``,
        ``max_line_width``, ``max_line_count``, ``max_words_per_line``, ``highlight_words``, ``translate``, ``threads``,
        ``beam_size``, ``temperature``, ``prompt``, ``vad``, ``word_timestamps``, ``diarize``, ``no_gpu``,
        ``workers_per_gpu``, ``task_timeout``, ``retries``, ``journal``, ``resume``, ``retry_failed``,
        ``shard``, ``skip_done``, ``lock_wait``, ``recursive``, ``full_names``, ``accept_truncated``, ``quiet``.
        Options of the decoding, as for the command: ``decoder``, ``batch_size``, ``split``, ``best_of``,
        ``length_penalty``, ``temperature_increment_on_fallback``, ``entropy_threshold``,
        ``compression_ratio_threshold``, ``logprob_threshold``, ``no_speech_threshold``, ``initial_prompt``,
        ``carry_initial_prompt``, ``hotwords``, ``condition_on_previous_text``, ``suppress_tokens``, ``suppress_blank``,
        ``without_timestamps``, ``max_initial_timestamp``, ``clip_timestamps``, ``vad_threshold``,
        ``vad_min_speech_duration_ms``, ``vad_min_silence_duration_ms``, ``vad_max_speech_duration_s`` and
        ``vad_speech_pad_ms``.
    """
    return _transcribe.transcribe(input_dir, output_dir, gpus, model_size, language, pattern, **more)


def main() -> NoReturn:
    """The command line. Replaces this process with the command, so it does not return."""
    _transcribe.become_command("launcher_multigpu", *sys.argv[1:])


if __name__ == "__main__":
    main()
