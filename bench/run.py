#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmarks and prints one table: each figure beside its bare baseline, and its target.

A measurement follows its baseline at once, since the speed of a (virtual) machine drifts. Every figure is a median of
several. All of them go to BUILD_DIR/bench.json too.

usage: run.py BUILD_DIR [-q]      -q: quicker, for a first look
"""
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).parent

# What it is, the program, its arguments: baselines come right before what is compared with them.
PLAN = [
    ("memory", "dispatch", ["memory"]),
    ("ring pair", "bare", ["ring"]),
    ("throughput", "dispatch", ["throughput"]),
    ("ping-pong", "bare", ["pingpong"]),
    ("latency", "dispatch", ["latency"]),
    ("memcpy", "bare", ["memcpy"]),
    ("payloads", "dispatch", ["payload"]),
    ("process starts", "bare", ["spawn"]),
    ("recovery and deadlines", "dispatch", ["recovery", "lateness", "first"]),
    ("1 to 256 workers", "dispatch", ["scale"]),
    ("Python's pools", "peers", []),
]

# What is printed: label, figure, baseline or None, how they compare, and the target for that.
#   of      figure / baseline, to be at least the target     times   the same
#   within  figure / baseline, to be at most the target      below   the figure itself, to be at most the target
ROWS = [
    ("no-op tasks, one worker / bare rings", "throughput_1_worker", "ring_window_2048", "of", 0.5),
    ("no-op tasks, two workers / bare rings", "throughput_2_workers", "ring_window_2048", "of", None),
    ("no-op tasks / Pool, chunks of 1", "throughput_1_worker", "pool_chunk_1", "times", 300),
    ("no-op tasks / Pool, chunks of 64", "throughput_1_worker", "pool_chunk_64", "times", None),
    ("no-op tasks / pool of Queues", "throughput_1_worker", "queue_pool", "times", None),
    ("round trip, busy / spinning rings", "latency_busy", "round_trip_rings", "within", 1.3),
    ("round trip, blocking / eventfd and epoll", "latency_blocking", "pingpong_epoll", "within", 1.3),
    ("payload in, 1 MB / memcpy", "payload_in_1MB", "memcpy_memfd_1MB", "of", 0.9),
    ("payload in, 100 MB / memcpy", "payload_in_100MB", "memcpy_memfd_100MB", "of", 0.9),
    ("payload in, 1 GB / memcpy", "payload_in_1GB", "memcpy_memfd_1GB", "of", 0.9),
    ("result out, 1 MB / memcpy", "payload_out_1MB", "memcpy_memfd_1MB", "of", 0.9),
    ("result out, 100 MB / memcpy", "payload_out_100MB", "memcpy_memfd_100MB", "of", 0.9),
    ("result out, 1 GB / memcpy", "payload_out_1GB", "memcpy_memfd_1GB", "of", 0.9),
    ("payload in, 1 MB / Pool", "payload_in_1MB", "pool_1MB", "times", None),
    ("payload in, 100 MB / Pool", "payload_in_100MB", "pool_100MB", "times", None),
    ("SIGKILL to task running again", "recovery_from_kill", None, "below", 50),
    ("kill past deadline and grace", "kill_lateness", None, "below", 5),
    ("start to first result", "first_result", None, "below", None),
    ("resident, dispatcher, 10 M items", "memory_dispatcher", None, "below", 64),
    ("CPU per task, 16 workers / 1", "scale_cpu_16", "scale_cpu_1", "within", None),
    ("CPU per task, 256 workers / 1", "scale_cpu_256", "scale_cpu_1", "within", 1.3),
]


def command(build, program, arguments, quick):
    if program == "peers":
        return [sys.executable, BENCH / "peers.py", "--repeats", "1" if quick else "3"]
    repeats = ["-r", "3" if quick else "5"]
    smaller = (["-q"] if program == "dispatch" else ["-n", "1000000"]) if quick else []
    return [build / "bench" / f"bench_{program}", *repeats, *smaller, *arguments]


def measure(build, quick):
    """All figures by name. A program that fails costs its own lines only."""
    figures = {}
    for what, program, arguments in PLAN:
        print(f"measuring: {what}", file=sys.stderr, flush=True)
        done = subprocess.run(command(build, program, arguments, quick), stdout=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            print(f"{program} {' '.join(arguments)} failed with {done.returncode}", file=sys.stderr)
        for line in done.stdout.splitlines():
            figure = json.loads(line)
            if "median" in figure:
                figures[figure["name"]] = figure
    if "ring_window_1" in figures:  # one task out at a time: its rate is a round trip
        figures["round_trip_rings"] = {"unit": "ns", "median": 1e9 / figures["ring_window_1"]["median"]}
    return figures


def words(figure):
    """A figure as people write it."""
    value, unit = figure["median"], figure["unit"]
    for divisor, prefix in ((1e6, " M "), (1e3, " k ")) if unit.endswith("/s") and unit != "GB/s" else ():
        if value >= divisor:
            return f"{value / divisor:.3g}{prefix}{unit}"
    if unit == "ns" and value >= 1000:
        return f"{value / 1000:.3g} µs"
    return f"{value:.3g} {unit}"


def verdict(compared, how, target):
    if target is None:
        return "", ""
    met = compared >= target if how in ("of", "times") else compared <= target
    return ("≥ " if how in ("of", "times") else "≤ ") + f"{target:g}", "met" if met else "MISSED"


def row(figures, label, name, base, how, target):
    figure, baseline = figures.get(name), figures.get(base) if base else None
    if figure is None or (base and baseline is None):
        return [label, "not measured", "", "", "", ""]
    compared = figure["median"] / baseline["median"] if baseline else figure["median"]
    ratio = f"{compared:.3g}" if baseline else ""
    return [label, words(figure), words(baseline) if baseline else "", ratio, *verdict(compared, how, target)]


def print_table(rows):
    head = ["what", "here", "baseline", "ratio", "target", ""]
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    for r in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(r, widths)).rstrip())


def main():
    arguments = [a for a in sys.argv[1:] if a != "-q"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0])
    figures = measure(build, "-q" in sys.argv)
    (build / "bench.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print_table([row(figures, *r) for r in ROWS])


if __name__ == "__main__":
    main()
