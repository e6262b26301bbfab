#!/usr/bin/env python3
"""Makes a directory of spoken clips. It needs only the command espeak-ng.

Each clip has 1 to 4 words, at 22050 Hz, the rate of espeak-ng. The speakers and speeds are not used for training. The
clips are in directories ACCENT/SPEAKER/, with a table transcripts.tsv. The same seed always gives the same clips.
synth.py makes the clips for training, in large numbers.

usage: clips.py DIR [--count 40] [--seed 0]
"""
import argparse
import pathlib
import random
import subprocess

import words


def speak(rng, directory, number):
    """Makes a clip. Returns its path within the directory, and its text."""
    accent, speaker = rng.choice(words.TEST_ACCENTS), rng.choice(words.TEST_VARIANTS)
    speed, pitch = rng.randint(*rng.choice(words.TEST_SPEEDS)), rng.randint(25, 75)
    said = " ".join(rng.choice(words.WORDS) for _ in range(rng.choice([1, 1, 2, 2, 3, 3, 4])))
    path = pathlib.Path(accent) / speaker / f"{number:03d}.wav"
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["espeak-ng", "-v", f"{accent}+{speaker}", "-s", str(speed), "-p", str(pitch), "-g", "5",
                    "-w", str(directory / path), said], check=True)
    return path, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    args.directory.mkdir(parents=True, exist_ok=True)
    clips = [speak(rng, args.directory, number) for number in range(args.count)]
    with open(args.directory / "transcripts.tsv", "w", encoding="utf-8") as table:
        table.write("file\ttext\n")
        table.writelines(f"{path}\t{said}\n" for path, said in clips)


if __name__ == "__main__":
    main()
