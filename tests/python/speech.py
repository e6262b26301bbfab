"""Helpers for tests that transcribe: whether this build can transcribe, and the clips."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import wave
from pathlib import Path

import gpu_dispatch

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(gpu_dispatch.__file__).parents[2]
CLIPS = ROOT / "tests" / "data" / "speech"

#: The plugin is built only if whisper.cpp was found.
CAN_TRANSCRIBE = (BUILD / "apps" / "transcribe" / "transcribe.so").exists()
WITHOUT = "no transcriber in this build (it needs whisper.cpp, libsndfile, libsoxr)"


def environment(home: Path) -> dict[str, str]:
    """An environment in which only the demo model can be found, no model of the user."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "WHISPER_", "XDG_"))}
    return {**env, "HOME": str(home), "GPU_DISPATCH_MODELS": str(ROOT / "models")}


def spoken() -> dict[str, str]:
    """The text spoken in each clip, by the name of its file."""
    lines = (CLIPS / "transcripts.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {clip: text for clip, text, *_ in (line.split("\t") for line in lines)}


#: A few clips that the demo model transcribes correctly.
SURE = dict(list(spoken().items())[:4])


class _Info(ctypes.Structure):  # libsndfile's SF_INFO
    _fields_ = [
        ("frames", ctypes.c_int64),
        ("samplerate", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("format", ctypes.c_int),
        ("sections", ctypes.c_int),
        ("seekable", ctypes.c_int),
    ]


def make_wav(clip: str, path: Path) -> None:
    """Writes a clip as a WAV file. It uses libsndfile, which every build with a transcriber has."""
    lib = ctypes.CDLL(ctypes.util.find_library("sndfile"))
    lib.sf_open.restype = ctypes.c_void_p
    lib.sf_readf_short.restype = ctypes.c_int64
    info = _Info()
    file = ctypes.c_void_p(lib.sf_open(os.fsencode(CLIPS / clip), 0x10, ctypes.byref(info)))
    assert file, clip
    samples = (ctypes.c_short * (info.frames * info.channels))()
    assert lib.sf_readf_short(file, samples, ctypes.c_int64(info.frames)) == info.frames
    lib.sf_close(file)
    with wave.open(str(path), "wb") as out:
        out.setnchannels(info.channels)
        out.setsampwidth(2)
        out.setframerate(info.samplerate)
        out.writeframes(bytes(samples))
