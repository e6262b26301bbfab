#!/usr/bin/env python3
"""Speaks a folder of clips with the command espeak-ng, which needs nothing else: 1 to 4 words each, as they come from it
(22050 Hz), by held-out speakers at held-out speeds, in folders ACCENT/SPEAKER/, with a table transcripts.tsv.

The clips of a seed are the same every time. synth.py makes those to train with, in large numbers.

usage: clips.py FOLDER [--count 40] [--seed 0]
"""
import argparse
import pathlib
import random
import subprocess

import words


def speak(rng, folder, number):
    """(path within the folder, what is said) of a new clip"""
    accent, speaker = rng.choice(words.TEST_ACCENTS), rng.choice(words.TEST_VARIANTS)
    speed, pitch = rng.randint(*rng.choice(words.TEST_SPEEDS)), rng.randint(25, 75)
    said = " ".join(rng.choice(words.WORDS) for _ in range(rng.choice([1, 1, 2, 2, 3, 3, 4])))
    path = pathlib.Path(accent) / speaker / f"{number:03d}.wav"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["espeak-ng", "-v", f"{accent}+{speaker}", "-s", str(speed), "-p", str(pitch), "-g", "5",
                    "-w", str(folder / path), said], check=True)
    return path, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    args.folder.mkdir(parents=True, exist_ok=True)
    clips = [speak(rng, args.folder, number) for number in range(args.count)]
    with open(args.folder / "transcripts.tsv", "w", encoding="utf-8") as table:
        table.write("file\ttext\n")
        table.writelines(f"{path}\t{said}\n" for path, said in clips)


if __name__ == "__main__":
    main()
