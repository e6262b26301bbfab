# SPDX-License-Identifier: MIT
"""Makes 80 recordings from the 40 clips of tests/data/speech, the same ones on every machine: the clips themselves, and
40 others that are joined, cut, faster or slower, quieter or noisy. Two are longer than a window of 30 s."""
import array
import ctypes
import ctypes.util
import random
import sys
import wave

RATE = 16000
PAUSE = RATE // 4
READ = 0x10  # SFM_READ of libsndfile


class Info(ctypes.Structure):
    """SF_INFO of libsndfile."""
    _fields_ = [("frames", ctypes.c_int64)] + [(name, ctypes.c_int) for name in
                                               ("samplerate", "channels", "format", "sections", "seekable")]


def read(path):
    """The samples of a recording, read with libsndfile, which the worker needs too."""
    library = ctypes.CDLL(ctypes.util.find_library("sndfile") or "libsndfile.so.1")
    library.sf_open.restype = ctypes.c_void_p
    library.sf_readf_short.restype = ctypes.c_int64
    library.sf_readf_short.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    library.sf_close.argtypes = [ctypes.c_void_p]
    info = Info()
    file = library.sf_open(str(path).encode(), READ, ctypes.byref(info))
    assert file and (info.samplerate, info.channels) == (RATE, 1), f"{path} cannot be read, or is not 16 kHz mono"
    samples = (ctypes.c_int16 * info.frames)()
    count = library.sf_readf_short(file, samples, info.frames)
    library.sf_close(file)
    assert count == info.frames, path
    return array.array("h", samples)


def write(path, samples):
    if sys.byteorder == "big":
        samples = array.array("h", samples)
        samples.byteswap()
    with wave.open(str(path), "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(samples.tobytes())


def joined(*clips):
    """The clips, with a pause after each."""
    all_of_them = array.array("h")
    for clip in clips:
        all_of_them += clip + array.array("h", bytes(2 * PAUSE))
    return all_of_them


def cut(clip, percent):
    """The first part of a clip. Words may be cut too."""
    return clip[:len(clip) * percent // 100]


def faster(clip, percent):
    """The clip at another speed, and so at another pitch: each sample lies between two others."""
    made = array.array("h")
    for at in range(0, (len(clip) - 1) * 100, percent):
        whole, part = divmod(at, 100)
        made.append((clip[whole] * (100 - part) + clip[whole + 1] * part) // 100)
    return made


def quieter(clip, percent):
    return array.array("h", (sample * percent // 100 for sample in clip))


def noisy(clip, loudness, seed):
    rng = random.Random(seed)
    return array.array("h", (max(-32768, min(32767, sample + rng.randint(-loudness, loudness))) for sample in clip))


def others(clips):
    """40 more recordings."""
    yield from (joined(clips[i], clips[39 - i]) for i in range(8))
    yield from (cut(clips[i], 30 + 5 * (i - 8)) for i in range(8, 16))
    yield from (faster(clips[i], 80 + 6 * (i - 16)) for i in range(16, 24))
    yield from (quieter(clips[i], 50 >> (i - 24)) for i in range(24, 30))
    yield from (noisy(clips[i], 200 * (i - 29), i) for i in range(30, 38))
    yield from (joined(*clips[i:i + 16]) for i in (0, 20))


def make(source, directory):
    """Writes the recordings as WAV files into an empty directory, and returns their paths."""
    clips = [read(path) for path in sorted(source.glob("*.flac"))]
    made = clips + list(others(clips))
    assert len(clips) == 40 and len(made) == 80
    paths = [directory / f"clip_{i:02d}.wav" for i in range(len(made))]
    for path, samples in zip(paths, made):
        write(path, samples)
    return paths
