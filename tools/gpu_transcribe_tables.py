#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the tables of tools/gpu_transcribe.sh from its logs: what was measured, and whether the targets are met.

usage: gpu_transcribe_tables.py LOG_DIR "SIZE..." "VARIANT..."

The time of a run has two parts. The start is everything before the first file is begun. Both real-time factors are shown:
of the whole program, and without its start. Runs on different amounts of sound can only be compared without the start, so
whisper.cpp alone is shown in this column. A part that failed or was left out has "-".
"""
import datetime
import json
import os
import statistics
import sys
import wave

# For each size: how many times faster than whisper.cpp alone, real-time factor, load of the GPU, share of PyTorch's speed.
TARGETS = {"base": (40, 0.0003, None, 0.5), "large-v3": (20, 0.0014, 90, 0.8)}


class Run:
    """What the logs of one part say. `whole` and `inner` are seconds; inner is without the start."""

    def __init__(self, what, sound, whole, inner, done, busy=None, memory=None):
        self.what, self.sound, self.whole, self.inner, self.done = what, sound, whole, inner, done
        self.busy, self.memory = busy, memory

    def factors(self):
        """(the real-time factor, the one without the start)"""
        return self.whole / self.sound, self.inner / self.sound


def duration(path):
    with wave.open(path) as file:
        return file.getnframes() / file.getframerate()


def load(path, began, ended):
    """(mean load of the GPU in percent, most MiB) between two times."""
    rows = []
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                cells = [cell.strip() for cell in line.split(",")]
                if len(cells) == 3 and cells[1].isdigit() and cells[2].isdigit():
                    when = datetime.datetime.strptime(cells[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
                    rows.append((when, int(cells[1]), int(cells[2])))
    except (OSError, ValueError):
        pass
    used = [busy for when, busy, _ in rows if began <= when <= ended]
    return statistics.mean(used) if used else None, max((memory for _, _, memory in rows), default=None)


def times(logs, name):
    """(start, end) of a part that succeeded, or None."""
    try:
        with open(f"{logs}/{name}.times", encoding="utf-8") as file:
            start, end, status = file.read().split()
    except (OSError, ValueError):
        return None
    return (float(start), float(end)) if status == "0" else None


def ours(logs, size, variant, sound):
    name = f"ours_{size}_{variant}"
    around = times(logs, name)
    if not around:
        return None
    with open(f"{logs}/{name}.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    good = [line for line in lines if line["status"] == "ok"]
    began = min(line["started"] for line in good)
    ended = max(line["started"] + line["seconds"] for line in good)
    busy, memory = load(f"{logs}/{name}.gpu", began, ended)
    slots = f"{variant.rstrip('f')} slots" + (", sums in 32 bits" if variant.endswith("f") else "")
    return Run(f"{size}, {slots}", sound, around[1] - around[0], around[1] - began, f"{len(good)} of {len(lines)}", busy, memory)


def other(logs, name, what, prefix, start):
    """A program that prints records: whisper.cpp alone, or PyTorch."""
    around = times(logs, name)
    if not around:
        return None
    with open(f"{logs}/{name}.out", encoding="utf-8") as file:
        found = {record["name"]: record["median"] for record in map(json.loads, file)}
    whole = around[1] - around[0]
    # What happens before its first line is part of the start.
    inner = found[f"{prefix}_seconds"] - found[f"{prefix}_{start}_seconds"]
    busy, memory = load(f"{logs}/{name}.gpu", around[1] - inner, around[1])
    return Run(what, found[f"{prefix}_audio_seconds"], whole, inner, f"{found[f'{prefix}_files']:.0f}", busy, memory)


def attempt(function, *arguments):
    """A part with logs that cannot be understood does not spoil the others."""
    try:
        return function(*arguments)
    except (OSError, KeyError, ValueError, ZeroDivisionError) as error:
        print(f"gpu_transcribe_tables.py: {arguments[1:]}: {error!r}", file=sys.stderr)
        return None


def collect(logs, sizes, variants):
    """{(size, kind): Run or None}, where the kind is a variant, "alone" or "torch"."""
    audio = f"{logs}/audio"
    sound = sum(duration(os.path.join(audio, name)) for name in sorted(os.listdir(audio)))
    runs = {}
    for size in sizes:
        for variant in variants:
            runs[size, variant] = attempt(ours, logs, size, variant, sound)
        runs[size, "alone"] = attempt(other, logs, f"alone_{size}", f"{size}, whisper.cpp alone", "whisper", "load")
        runs[size, "torch"] = attempt(other, logs, f"torch_{size}", f"{size}, batched PyTorch", "torch_whisper", "start")
    return runs


def show_runs(runs):
    print("| what | files | sound | whole program | of that, the start | RTF | RTF without the start | GPU busy | GPU memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (size, kind), run in runs.items():
        if not run:
            print(f"| {size}, {kind} | - | - | - | - | - | - | - | - |")
            continue
        whole, inner = run.factors()
        print(f"| {run.what} | {run.done} | {run.sound / 60:.1f} min | {run.whole:.2f} s | {run.whole - run.inner:.2f} s | "
              f"{whole:.6f} | {inner:.6f} | " + ("-" if run.busy is None else f"{run.busy:.0f} %") + " | "
              + ("-" if run.memory is None else f"{run.memory:,} MiB") + " |")


def verdict(value, target, at_least, form):
    if value is None:
        return "-"
    met = value >= target if at_least else value <= target
    return f"{form.format(value)} {'met' if met else 'MISSED'}"


def show_targets(runs, sizes, first):
    print("\n| target | wanted | whole program | without the start |\n|---|---|---|---|")
    for size in sizes:
        if size not in TARGETS:
            continue
        faster, factor, busy, share = TARGETS[size]
        run, alone, torch = (runs.get((size, kind)) for kind in (first, "alone", "torch"))
        whole, inner = run.factors() if run else (None, None)

        def against(peer, column):
            return peer.factors()[column] / run.factors()[column] if run and peer else None

        print(f"| {size}: times as fast as whisper.cpp alone | {faster} | - | {verdict(against(alone, 1), faster, True, '{:.1f}')} |")
        print(f"| {size}: real-time factor | {factor} | {verdict(whole, factor, False, '{:.6f}')} | "
              f"{verdict(inner, factor, False, '{:.6f}')} |")
        if busy:
            print(f"| {size}: GPU busy, percent | {busy} | - | {verdict(run.busy if run else None, busy, True, '{:.0f}')} |")
        print(f"| {size}: speed compared with PyTorch | {share} | {verdict(against(torch, 0), share, True, '{:.2f}')} | "
              f"{verdict(against(torch, 1), share, True, '{:.2f}')} |")


def same_texts(logs, size, variant):
    """(files with the same text as with whisper.cpp alone, files), or None."""
    directories = [f"{logs}/{name}.text" for name in (f"alone_{size}", f"ours_{size}_{variant}")]
    if not all(map(os.path.isdir, directories)):
        return None

    def text(directory, name):
        try:
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
                return file.read().split()
        except OSError:
            return None

    names = sorted(os.listdir(directories[0]))
    return sum(text(directories[0], name) == text(directories[1], name) for name in names), len(names)


def main():
    logs, sizes, variants = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
    runs = collect(logs, sizes, variants)
    show_runs(runs)
    show_targets(runs, sizes, variants[0])
    print()
    for size in sizes:
        for variant in variants:
            same = same_texts(logs, size, variant)
            if same:
                print(f"{size}, {variant}: {same[0]} of {same[1]} texts are those of whisper.cpp alone")


if __name__ == "__main__":
    main()
