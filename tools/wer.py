#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Word error rate: compares a directory of transcripts with the spoken words.

The table has a header line and a line for each recording: its path, a tab, its words. The transcript of a/b.wav is
DIR/a/b.txt. If a transcript is missing, all spoken words count as errors. Words are compared without case and
punctuation. The rate is the smallest number of words to insert, remove or change, divided by the number of spoken
words.

usage: wer.py TABLE.tsv DIR [--show all|wrong|none] [--limit PERCENT]     exit 1: the rate is not below the limit
"""
import argparse
import os
import re
import sys


def words_of(text):
    return re.findall(r"[\w']+", text.lower())


def distance(said, heard):
    """The smallest number of words to insert, remove or change."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def read_table(path):
    """[(path of a recording, what was said)]"""
    with open(path, encoding="utf-8") as table:
        next(table)
        return [tuple(line.rstrip("\n").split("\t")[:2]) for line in table]


def read_transcript(directory, recording):
    try:
        with open(os.path.join(directory, os.path.splitext(recording)[0] + ".txt"), encoding="utf-8") as file:
            return " ".join(file.read().split())
    except FileNotFoundError:
        return None


def compare(table, directory):
    """[(recording, said, heard or None, words, errors)]"""
    found = []
    for recording, said in read_table(table):
        heard, wanted = read_transcript(directory, recording), words_of(said)
        errors = len(wanted) if heard is None else distance(wanted, words_of(heard))
        found.append((recording, said, heard, len(wanted), errors))
    return found


def show(found, which):
    shown = [each for each in found if which == "all" or (which == "wrong" and each[4])]
    wide, long = (max((len(each[column]) for each in shown), default=0) for column in (0, 1))
    for recording, said, heard, _, errors in shown:
        mark = f"   <- {errors} wrong" if errors else ""
        print(f"{recording:{wide}}  said {said:{long}}  heard {'(no transcript)' if heard is None else heard}{mark}")


def total(found):
    """(the rate, a sentence with the rate)"""
    words, errors = sum(each[3] for each in found), sum(each[4] for each in found)
    exact = sum(not each[4] and each[2] is not None for each in found)
    rate = errors / words if words else 1.0
    return rate, f"{len(found)} recordings, {exact} exactly right; word error rate {rate:.1%} ({errors} of {words} words)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("directory")
    parser.add_argument("--show", choices=("all", "wrong", "none"), default="wrong")
    parser.add_argument("--limit", type=float, help="fail if the rate is not below this many percent")
    args = parser.parse_args()
    found = compare(args.table, args.directory)
    show(found, args.show)
    rate, said = total(found)
    print(said)
    if args.limit is not None and rate * 100 >= args.limit:
        print(f"wer.py: the rate is not below {args.limit:g} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
