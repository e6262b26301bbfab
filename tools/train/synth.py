#!/usr/bin/env python3
"""Makes spoken clips with espeak-ng: 16 kHz, mono, 1 to 4 words each, with many voices, speeds, pitches and gaps.

Each worker process loads the library of espeak-ng through ctypes, because starting the command for every clip would
take most of the time. The same seed gives the same clips with any number of processes.

usage: synth.py OUT.npz --set train|validation|heldout [--count N] [--seed N] [--jobs N]
       synth.py DIR --set heldout --count 60 --wav          clips as WAV files, with noise, and transcripts.tsv
"""

import argparse
import ctypes
import multiprocessing
import os
import pathlib
import random
import wave

import numpy as np

import words

RATE = 16000
LONGEST = int(3.6 * RATE)
SYNCHRONOUS, UTF8 = 2, 1
PARAMETERS = {"speed": 1, "pitch": 3, "range": 4, "gap": 7}
SEEDS = {"train": 1, "validation": 2, "heldout": 3}

chunks = []
engine = None


def open_engine():
    """Loads espeak-ng. If it is not in the usual places, set ESPEAK_LIBRARY and ESPEAK_DATA."""
    global engine, on_samples
    engine = ctypes.CDLL(os.environ.get("ESPEAK_LIBRARY", "libespeak-ng.so.1"))
    data = os.environ.get("ESPEAK_DATA")
    rate = engine.espeak_Initialize(SYNCHRONOUS, 1000, data.encode() if data else None, 0)
    if rate != 22050:
        raise SystemExit("synth: espeak-ng does not start or has another rate than 22050 Hz")

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def on_samples(samples, count, _events):
        if samples and count > 0:
            chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    engine.espeak_SetSynthCallback(on_samples)


def speak(text):
    chunks.clear()
    data = text.encode()
    if engine.espeak_Synth(data, len(data) + 1, 0, 1, 0, UTF8, None, None) != 0:
        raise RuntimeError(f"synth: espeak-ng could not speak {text!r}")
    engine.espeak_Synchronize()
    return trim(resample(np.concatenate(chunks).astype(np.float32)))


def resample(samples):
    """22050 Hz to 16000 Hz by cutting the spectrum: 441 samples become 320."""
    blocks = -(-len(samples) // 441) + 2
    padded = np.zeros(blocks * 441, np.float32)
    padded[441 : 441 + len(samples)] = samples
    spectrum = np.fft.rfft(padded)[: blocks * 160 + 1]
    return (np.fft.irfft(spectrum, blocks * 320) * (320 / 441)).astype(np.float32)


def trim(samples):
    """Removes silence at both ends, so that the start and the end of a clip are known."""
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max())
    return samples[max(loud[0] - 80, 0) : loud[-1] + 80]


def set_voice(rng, held_out):
    accents = words.TEST_ACCENTS if held_out else words.TRAIN_ACCENTS
    variants = words.TEST_VARIANTS if held_out else words.TRAIN_VARIANTS
    speeds = words.TEST_SPEEDS if held_out else words.TRAIN_SPEEDS
    voice = rng.choice(accents) + "+" + rng.choice(variants)
    if engine.espeak_SetVoiceByName(voice.encode()) != 0:
        raise RuntimeError(f"synth: espeak-ng has no voice {voice}")
    chosen = {
        "speed": rng.randint(*rng.choice(speeds)),
        "pitch": rng.randint(25, 75),
        "range": rng.randint(20, 80),
        "gap": rng.choice([0, 0, 2, 5, 10]),
    }
    for name, value in chosen.items():
        engine.espeak_SetParameter(PARAMETERS[name], value, 0)
    return voice, chosen["speed"]


def one_by_one(rng, said):
    """Speaks each word as a separate sentence, and joins them with gaps."""
    parts = []
    for word in said:
        parts += [speak(word), np.zeros(int(rng.uniform(0.04, 0.3) * RATE), np.float32)]
    return np.concatenate(parts[:-1])


def clip(seed, index, held_out):
    """Clip `index`: (numbers of the words, samples as int16 with the peak at 0.9, voice, speed)."""
    rng = random.Random(seed * 1_000_003 + index)
    while True:
        voice, speed = set_voice(rng, held_out)
        said = [rng.choice(words.WORDS) for _ in range(rng.choice([1, 1, 2, 2, 3, 3, 4]))]
        samples = one_by_one(rng, said) if rng.random() < 0.35 else speak(" ".join(said))
        if len(samples) <= LONGEST:
            break
    samples *= 0.9 * 32767 / np.abs(samples).max()
    return [words.WORDS.index(w) for w in said], samples.astype(np.int16), voice, speed


def share(job):
    seed, indices, held_out = job
    if engine is None:
        open_engine()
    return [clip(seed, index, held_out) for index in indices]


def make(which, count, seed, jobs):
    held_out = which == "heldout"
    seed = seed * 10 + SEEDS[which]
    work = [(seed, range(i, min(i + 50, count)), held_out) for i in range(0, count, 50)]
    # A fresh process for each share, because espeak-ng's noise depends on what the process has spoken before.
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as pool:
        return [made for part in pool.imap(share, work) for made in part]


def write_npz(path, clips):
    """All samples one after the other, with the end of each clip. Words are padded with -1."""
    text = np.full((len(clips), 4), -1, np.int8)
    for row, made in zip(text, clips):
        row[: len(made[0])] = made[0]
    ends = np.cumsum([len(made[1]) for made in clips])
    np.savez(path, samples=np.concatenate([made[1] for made in clips]), ends=ends, words=text)


def add_noise(samples, rng):
    """Makes a clip like a recording: quieter, with silence around it, and perhaps hiss 15 to 35 dB below the speech."""
    gain = 10 ** (-rng.uniform(0, 15) / 20)
    lead, tail = (np.zeros(int(rng.uniform(0.1, 0.6) * RATE)) for _ in range(2))
    power = np.mean(samples.astype(np.float64) ** 2)
    out = np.concatenate([lead, samples.astype(np.float64), tail])
    if rng.random() < 0.7:
        noise = np.random.default_rng(rng.getrandbits(32)).normal(size=len(out))
        out += noise * np.sqrt(power * 10 ** (-rng.uniform(15, 35) / 10))
    return np.clip(out * gain, -32768, 32767).astype(np.int16)


def write_wavs(directory, clips, seed):
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "transcripts.tsv", "w", encoding="utf-8") as table:
        table.write("file\ttext\tvoice\tspeed\n")
        for i, (said, samples, voice, speed) in enumerate(clips):
            name = f"clip_{i:03d}.wav"
            with wave.open(str(directory / name), "wb") as out:
                out.setparams((1, 2, RATE, 0, "NONE", ""))
                out.writeframes(add_noise(samples, random.Random(seed * 7919 + i)).tobytes())
            table.write(f"{name}\t{' '.join(words.WORDS[w] for w in said)}\t{voice}\t{speed}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--set", choices=SEEDS, default="train")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--wav", action="store_true")
    args = parser.parse_args()
    clips = make(args.set, args.count, args.seed, args.jobs)
    write_wavs(args.out, clips, args.seed) if args.wav else write_npz(args.out, clips)
    seconds = sum(len(made[1]) for made in clips) / RATE
    print(f"synth: {len(clips)} clips, {seconds:.0f} s, {args.out}")


if __name__ == "__main__":
    main()
