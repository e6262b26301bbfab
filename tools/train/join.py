#!/usr/bin/env python3
"""Joins every N clips of a directory, in the order of its transcripts.tsv, with a pause of one second between them.

The directory OUT gets its own transcripts.tsv. A last group with fewer than N clips is left out.

usage: join.py DIR OUT N        all WAV files must have the same format
"""
import pathlib
import sys
import wave

PAUSE_SECONDS = 1


def read(path):
    with wave.open(str(path)) as file:
        return file.getparams(), file.readframes(file.getnframes())


def join(group, directory, out, name):
    """Joins a group of (file, words) into one file. Returns its text."""
    parts = [read(directory / file) for file, _ in group]
    params = parts[0][0]
    pause = bytes(params.framerate * params.sampwidth * params.nchannels * PAUSE_SECONDS)
    with wave.open(str(out / name), "wb") as file:
        file.setparams(params)
        file.writeframes(pause.join(frames for _, frames in parts))
    return " ".join(words for _, words in group)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    directory, out, n = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    lines = (directory / "transcripts.tsv").read_text(encoding="utf-8").splitlines()[1:]
    clips = [line.split("\t")[:2] for line in lines]
    with open(out / "transcripts.tsv", "w", encoding="utf-8") as table:
        table.write("file\ttext\n")
        for i in range(0, len(clips) - n + 1, n):
            name = f"joined_{i // n:03d}.wav"
            table.write(f"{name}\t{join(clips[i:i + n], directory, out, name)}\n")


if __name__ == "__main__":
    main()
