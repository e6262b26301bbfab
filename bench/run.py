#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every benchmark and prints the table of docs/performance.md.

usage: run.py BUILD_DIR [--rounds N] [-q] [--only PART ...]

Machines are noisy. So each number is a ratio of two measurements made one right after the other, in several rounds. The
table shows the median of the ratios, with the smallest and the largest. A missed target is marked, but is not an error.
All numbers are written to BUILD_DIR/bench.json.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MISSED = []


def lines_of(command, env=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=env)
    found = {}
    for line in done.stdout.splitlines():
        record = json.loads(line)
        found[record["name"]] = record
    if done.returncode != 0 and not found:
        sys.exit(f"run.py: {' '.join(command)} failed")
    return found


class Bench:
    """Runs the programs and stores all numbers that they print."""

    def __init__(self, build, rounds, quick):
        self.build = os.path.abspath(build)
        self.bare_program = os.path.join(build, "bench", "bench_bare")
        self.our_program = os.path.join(build, "bench", "bench_dispatch")
        self.command = os.path.join(build, "gpu-dispatch")
        self.discover_program = os.path.join(build, "bench", "bench_discover")
        self.observers_program = os.path.join(build, "bench", "bench_observers")
        self.rounds = rounds
        self.quick = quick
        self.records = {}

    def keep(self, found):
        for name, record in found.items():
            self.records.setdefault(name, []).extend(record.get("repeats", []))
        return {name: record.get("median") for name, record in found.items()}

    def bare(self, *parts):
        return self.keep(lines_of([self.bare_program, "-r", "1", *parts]))

    def ours(self, *parts, repeats=1):
        quick = ["-q"] if self.quick else []
        return self.keep(lines_of([self.our_program, "-r", str(repeats), *quick, *parts]))

    def streams(self):
        directory = os.path.dirname(self.our_program)
        programs = [os.path.join(directory, "..", "src", "gpu-dispatch-host"), os.path.join(directory, "bench_stream_echo"),
                    os.path.join(HERE, "..", "examples", "stream", "upper.py")]
        return self.ours("-s", ":".join(programs), "stream")

    def python_tasks(self, *names):
        """The records by name. A record has a median, or an error message that says why there is none."""
        share = ["--share", "0.2"] if self.quick else []
        found = lines_of([self.bench_python(), os.path.join(HERE, "python_tasks.py"), "--repeats", "1", *share, *names],
                         {**os.environ, "PYTHONPATH": os.path.join(self.build, "python")})
        self.keep(found)
        return found

    def bench_python(self):
        """The Python of BUILD_DIR/bench-venv, which is made once and has the peers. A peer that cannot be installed is left
        out."""
        venv = os.path.join(self.build, "bench-venv")
        python = os.path.join(venv, "bin", "python")
        if not os.path.exists(os.path.join(venv, "made")):
            with open(os.path.join(self.build, "python", "interpreter"), encoding="utf-8") as f:
                subprocess.run([f.read().strip(), "-m", "venv", "--clear", venv], check=True)
            for package in ("numpy", "joblib", "mpire", "ray"):
                subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package], check=False)
            with open(os.path.join(venv, "made"), "w", encoding="utf-8"):
                pass
        return python

    def peers(self, *names):
        return self.keep(lines_of([sys.executable, os.path.join(HERE, "peers.py"), "--repeats", "1", *names]))


def spread(values, scale=1.0):
    def show(value):
        value *= scale
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"

    if len(values) == 1:
        return show(values[0])
    return f"{show(statistics.median(values))} ({show(min(values))} to {show(max(values))})"


def row(what, figure, against="", ratio="", target="", met=None):
    mark = "" if met is None else ("met" if met else "MISSED")
    if met is False:
        MISSED.append(what)
    print(f"| {what} | {figure} | {against} | {ratio} | {target} | {mark} |", flush=True)


def memory(b):
    found = b.ours("memory")
    count = "1" if b.quick else "10"
    row(f"resident, dispatcher, {count} million items", f"{found['memory_dispatcher']:.1f} MB", "", "", "64 MB",
        found["memory_dispatcher"] < 64)
    row("resident, a worker", f"{found['memory_worker']:.1f} MB")


def throughput(b):
    ratios, ours, bare, small, two = [], [], [], [], []
    for _ in range(b.rounds):
        before = b.bare("ring")["ring_window_2048"]
        found = b.ours("throughput")
        after = b.bare("ring")["ring_window_2048"]
        ours.append(found["throughput_1_worker"])
        small.append(found["throughput_1_worker_queue_1024"])
        two.append(found["throughput_2_workers"])
        bare.append((before + after) / 2)
        ratios.append(ours[-1] / bare[-1])
    row("no-op tasks, 1 worker, queue 8192", spread(ours, 1e-6) + " M/s",
        "bare ring pair " + spread(bare, 1e-6) + " M/s", spread(ratios), "0.5", statistics.median(ratios) >= 0.5)
    row("the same, queue 1024 (the default)", spread(small, 1e-6) + " M/s")
    row("the same, 2 workers, queue 8192", spread(two, 1e-6) + " M/s")


def flight(b):
    one, many, ratios = [], [], []
    for _ in range(b.rounds):
        one.append(b.ours("throughput")["throughput_1_worker"])
        many.append(b.ours("flight")["flight_64"])
        ratios.append(many[-1] / one[-1])
    row("no-op tasks, up to 64 in flight, 1 worker", spread(many, 1e-6) + " M/s",
        "one at a time " + spread(one, 1e-6) + " M/s", spread(ratios), "0.5", statistics.median(ratios) >= 0.5)


def python_pools(b):
    names = {"queue_pool": ("a pool on multiprocessing.Queue", None),
             "pool_chunk_1": ("Pool.imap_unordered, chunk 1", 300),
             "pool_chunk_64": ("Pool.imap_unordered, chunk 64", None)}
    found, ours = {name: [] for name in names}, []
    for _ in range(min(b.rounds, 3)):
        ours.append(b.ours("throughput")["throughput_1_worker"])
        for name, value in b.peers(*names).items():
            if value:
                found[name].append(value)
    for name, (words, target) in names.items():
        if not found[name]:
            row("no-op tasks, 1 worker", "", words, "could not be measured")
            continue
        ratio = statistics.median(ours) / statistics.median(found[name])
        row("no-op tasks, 1 worker", spread(ours, 1e-6) + " M/s", f"{words} {spread(found[name], 1e-3)} k/s",
            f"{ratio:.0f}", f"{target}" if target else "", ratio >= target if target else None)


def latency(b):
    yard, ours = [], []
    for _ in range(b.rounds):
        yard.append(b.bare("pingpong"))
        ours.append(b.ours("latency"))
    wakes = ("pingpong_futex", "pingpong_eventfd")  # we wake the worker with a futex, and it wakes us with an eventfd
    for kind, words, bare, target in (
            ("latency_blocking", "the faster of futex and eventfd", [min(y[n] for n in wakes) for y in yard], 1.3),
            ("latency_blocking", "the mean of futex and eventfd", [statistics.mean(y[n] for n in wakes) for y in yard], None),
            ("latency_busy", "spinning", [y["pingpong_spin"] for y in yard], None)):
        mine = [o[kind] for o in ours]
        ratios = [m / y for m, y in zip(mine, bare)]
        row("round trip, " + kind.split("_")[1], spread(mine, 1e-3) + " us", f"ping-pong, {words}, {spread(bare, 1e-3)} us",
            spread(ratios), f"{target}" if target else "", statistics.median(ratios) <= target if target else None)


def payload(b):
    ours, bare, ratios = {}, {}, {}
    for _ in range(min(b.rounds, 3)):
        yard = b.bare("memcpy")
        found = b.ours("payload")
        for label in ("1MB", "100MB", "1GB"):
            limit = yard.get(f"memcpy_memfd_{label}") or yard.get(f"memcpy_anonymous_{label}")
            for key in ((label, "in"), (label, "out")) if limit else ():
                ours.setdefault(key, []).append(found[f"payload_{key[1]}_{label}"])
                bare.setdefault(key, []).append(limit)
                ratios.setdefault(key, []).append(ours[key][-1] / limit)
    for key, figures in ours.items():
        row(f"{key[0]} payloads {key[1]}", spread(figures) + " GB/s", f"memcpy {spread(bare[key])} GB/s",
            spread(ratios[key]), "0.9", statistics.median(ratios[key]) >= 0.9)


def times(b):
    b.ours("recovery", "lateness", "first", repeats=15)
    again, start = b.records["recovery_from_kill"], b.records["start_to_first_task"]
    beyond = [value - statistics.median(start) for value in again]
    row("from SIGKILL to the task running again", spread(again) + " ms", f"a worker's own start {spread(start)} ms",
        f"{spread(beyond)} ms beyond it", "50 ms", statistics.median(beyond) <= 50)
    late = b.records["kill_lateness"]
    row("a kill after deadline plus grace", spread(late) + " ms", "", "", "5 ms", statistics.median(late) <= 5)
    row("from the call to the first result", spread(b.records["first_result"]) + " ms")


def scale(b):
    cpu = {}
    for _ in range(min(b.rounds, 3)):
        found = b.ours("scale")
        for n in (1, 4, 16, 64, 256):
            cpu.setdefault(n, []).append(found[f"scale_cpu_{n}"])
    first = statistics.median(cpu[1])
    for n, values in cpu.items():
        ratio = statistics.median(values) / first
        row(f"dispatcher's time per task, {n} workers", spread(values) + " ns", "1 worker", f"{ratio:.2f}", "1.5 (flat)",
            ratio <= 1.5)


def discovery_once(b, directory):
    """Runs our program and then find. Returns the seconds of both, and how many files ours found and its peak memory."""
    start = time.perf_counter()
    found = b.keep(lines_of([b.discover_program, "-r", "1", directory, "*.wav"]))
    middle = time.perf_counter()
    theirs = subprocess.run(["find", directory, "-type", "f", "-name", "*.wav"], stdout=subprocess.PIPE, check=True)
    end = time.perf_counter()
    count = theirs.stdout.count(b"\n")
    if count != found["discover_files"]:
        sys.exit(f"run.py: find found {count} files, ours {found['discover_files']:.0f}")
    return middle - start, end - middle, found["discover_files"], found["discover_peak"]


def discovery(b):
    peaks, whole = {}, 100_000 if b.quick else 1_000_000
    for count in (whole // 10, whole):
        with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
            tree = os.path.join(directory, "tree")
            subprocess.run([b.discover_program, "-m", "-n", str(count), tree], check=True)
            discovery_once(b, tree)  # the first one warms the cache
            rounds = [discovery_once(b, tree) for _ in range(b.rounds)]
        if any(found != count for _, _, found, _ in rounds):
            sys.exit(f"run.py: {rounds[0][2]:.0f} of {count} files were found")
        peaks[count] = max(peak for _, _, _, peak in rounds)
    ratios = [ours / theirs for ours, theirs, _, _ in rounds]
    row(f"finding {whole:,} files", spread([r[0] for r in rounds], 1e3) + " ms",
        "find " + spread([r[1] for r in rounds], 1e3) + " ms", spread(ratios), "1.5", statistics.median(ratios) <= 1.5)
    growth = peaks[whole] - peaks[whole // 10]
    row(f"peak memory, finding {whole:,} files", f"{peaks[whole]:.2f} MiB", f"{whole // 10:,} files {peaks[whole // 10]:.2f} MiB",
        f"{growth:+.2f} MiB", "1 MiB more", growth <= 1)


def rate_of(b, name, command, count):
    """Tasks per second of a program that gets one input per line, from its start to its end. It runs in the C locale,
    because otherwise /bin/true with an argument reads locale files, which takes longer than everything else."""
    if not shutil.which(command[0]):
        return None
    lines = "".join(f"{i}\n" for i in range(count)).encode()
    start = time.perf_counter()
    done = subprocess.run(command, input=lines, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                          env={**os.environ, "LC_ALL": "C"})
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"run.py: {' '.join(command)} failed: {done.stderr.decode(errors='replace')}")
    b.records.setdefault(name, []).append(count / seconds)
    return count / seconds


def commands(b):
    count = 1000 if b.quick else 5000
    rivals = {"parallel -j2": (["parallel", "--will-cite", "-j2", "true"], 8),
              "xargs -P2 -n1": (["xargs", "-P2", "-n1", "true"], 1), "bare posix_spawn loop": (None, 0.8)}
    ours, found = [], {name: [] for name in rivals}
    for _ in range(min(b.rounds, 3)):
        ours.append(rate_of(b, "commands", [b.command, "run", "--gpus", "sim:2", "--quiet", "--", "true"], count))
        for name, (command, _) in rivals.items():
            value = (rate_of(b, "commands_" + command[0], command, count) if command
                     else b.bare("-s", str(count), "spawn_pairs")["spawn_true_2_slots"])
            found[name].append(value)
    for name, (_, target) in rivals.items():
        if None in found[name]:
            row(f"{count:,} x true on 2 slots", "", name, "not installed")
            continue
        ratios = [mine / theirs for mine, theirs in zip(ours, found[name])]
        row(f"{count:,} x true on 2 slots", spread(ours) + " /s", f"{name} {spread(found[name])} /s", spread(ratios),
            f"{target}", statistics.median(ratios) >= target)


def stream(b):
    found = {}
    for _ in range(min(b.rounds, 3)):
        for name, value in b.streams().items():
            found.setdefault(name, []).append(value)
    for name, program, target in (("c", "a C program that returns its input", 100000), ("python", "upper.py", None)):
        for workers in (1, 2):
            values = found[f"stream_{name}_{workers}"]
            met = statistics.median(values) >= target if target and workers == 1 else None
            row(f"small tasks, {program}, {workers} worker{'s' * (workers > 1)}", spread(values, 1e-3) + " k/s", "", "",
                f"{target // 1000} k/s" if met is not None else "", met)


OBSERVERS = {"page": "a page that is not read", "stopped": "an observer that is stopped",
             "killed": "an observer that is killed", "500": "500 observers, each reading once a second",
             "500_tasks": "500 observers that also read the tasks", "500_floor": "as many wake-ups without reading"}


def observers(b):
    """Compares each kind with the run without a page in the same round."""
    quick = ["-q"] if b.quick else []
    rounds = [b.keep(lines_of([b.observers_program, "-r", "1", *quick])) for _ in range(b.rounds)]
    bare = [found["observers_none"] for found in rounds]
    for kind, words in OBSERVERS.items():
        ours = [found["observers_" + kind] for found in rounds]
        cost = [1 - mine / theirs for mine, theirs in zip(ours, bare)]
        row(f"no-op tasks, {words}", spread(ours, 1e-6) + " M/s", f"no page {spread(bare, 1e-6)} M/s",
            spread(cost, 100) + " % slower", "2 %", statistics.median(cost) < 0.02)
    for kind in ("500", "500_tasks", "500_floor"):
        times = [found[f"observers_{kind}_us"] for found in rounds]
        row(f"processor time for a read and its wake-up, {OBSERVERS[kind]}", spread(times) + " us")


PYTHON_PEERS = {"seed": "a pool on multiprocessing.Queue", "pool_chunk_1": "Pool.imap_unordered, chunk 1",
                "pool_chunk_64": "Pool.imap_unordered, chunk 64", "futures": "ProcessPoolExecutor", "loky": "joblib's loky",
                "mpire": "mpire, chunk 1", "mpire_chunk_64": "mpire, chunk 64", "ray": "Ray", "memcpy": "memcpy",
                "memcpy_queue": "memcpy to the places of a queue in turn"}
# The targets: how many times faster ours must be than the named peers, and than all others (None: no target).
PYTHON_TARGETS = {"ints": ({"seed": 20, "pool_chunk_1": 15, "pool_chunk_64": 1}, None), "1MB": ({}, None),
                  "10MB": ({"memcpy": 0.8, "memcpy_queue": None, "pool_chunk_1": 25}, 1), "100MB": ({}, None)}


def python_row(kind, mine, words, theirs, target):
    """Prints the row for one peer, from our records and theirs in all rounds."""
    what = "Python tasks, " + ("small ints" if kind == "ints" else f"{kind} arrays")
    unit, scale = (" k/s", 1e-3) if kind == "ints" else (" GB/s", 1)
    lacking = next((record["failed"] for record in mine + theirs if "failed" in record), None)
    if lacking:
        row(what, "", words, lacking)
        return
    a, b = ([record["median"] for record in records] for records in (mine, theirs))
    ratios = [x / y for x, y in zip(a, b)]
    row(what, spread(a, scale) + unit, f"{words} {spread(b, scale)}{unit}", spread(ratios), f"{target}" if target else "",
        statistics.median(ratios) >= target if target else None)


def python(b):
    if not os.path.exists(os.path.join(b.build, "python", "interpreter")):
        row("Python tasks", "", "", "no Python package in this build")
        return
    rounds = [b.python_tasks() for _ in range(min(b.rounds, 3))]
    for kind, (targets, of_others) in PYTHON_TARGETS.items():
        for who, words in PYTHON_PEERS.items():
            if f"{kind}_{who}" in rounds[0]:
                python_row(kind, [found[f"{kind}_ours"] for found in rounds], words,
                           [found[f"{kind}_{who}"] for found in rounds], targets.get(who, of_others))


def journal(b):
    program = os.path.join(b.build, "bench", "bench_journal")
    if not os.path.exists(program):
        row("journals", "not measured: built without SQLite")
        return
    with tempfile.TemporaryDirectory(dir=b.build) as directory:
        size = ["-n", "100000", "-m", "1000000"] if b.quick else []
        found = lines_of([program, "-r", str(b.rounds), "-d", directory, *size, "rate", "resume"])
    b.keep(found)
    ratio = found["journal_ratio"]["repeats"]
    row("tasks of 8 us with a journal, 1 worker", spread(found["journal_kept"]["repeats"], 1e-3) + " k/s",
        "without " + spread(found["journal_plain"]["repeats"], 1e-3) + " k/s", spread(ratio), "0.9",
        statistics.median(ratio) >= 0.9)
    row("the same, each writing a line to a followed file", spread(found["journal_followed"]["repeats"], 1e-3) + " k/s",
        "without " + spread(found["journal_written"]["repeats"], 1e-3) + " k/s",
        spread(found["journal_followed_ratio"]["repeats"]))
    row("processor time of the dispatching process for a task, with a journal",
        spread(found["journal_kept_cpu"]["repeats"]) + " us",
        "without " + spread(found["journal_plain_cpu"]["repeats"]) + " us")
    for name, what in (("same", "and a new line at the end"), ("new_first", "a new line first"),
                       ("shuffled", "in another order, and a new line at the end")):
        first, everything = found[f"resume_{name}_first"]["median"], found[f"resume_{name}_all"]["median"]
        row(f"resuming {'1' if b.quick else '10'} million records, {what}", f"new task done after {first:.2g} s",
            f"opened in {found[f'resume_{name}_open']['median']:.2g} s, all in {everything:.3g} s",
            f"peak {found[f'resume_{name}_peak']['median']:.0f} MB", "")


SPEECH = os.path.join(HERE, "..", "tests", "data", "speech")
DEMO_MODEL = os.path.join(HERE, "..", "models", "ggml-demo.bin")


class Recordings:
    """A directory of short clips (the forty clips of the tests under new names), and both ways to transcribe them."""

    def __init__(self, b, directory):
        self.bench, self.directory, self.runs = b, directory, 0
        self.audio = os.path.join(directory, "audio")
        os.mkdir(self.audio)
        clips = sorted(name for name in os.listdir(SPEECH) if name.endswith(".flac"))
        for i in range(1 if b.quick else 5):
            for name in clips:
                shutil.copy(os.path.join(SPEECH, name), os.path.join(self.audio, f"{i}_{name}"))
        self.names = sorted(os.listdir(self.audio))

    def timed(self, name, command, out, lines=None):
        """Runs a program. Returns the seconds from its start to its end, and the texts that it wrote."""
        start = time.perf_counter()
        done = subprocess.run(command, input=lines, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"run.py: {' '.join(command)} failed: {done.stderr.decode(errors='replace')}")
        self.bench.records.setdefault(name, []).append(seconds)
        texts = {}
        for each in os.listdir(out):
            with open(os.path.join(out, each), encoding="utf-8") as file:
                texts[each] = file.read()
        return seconds, texts

    def out(self):
        self.runs += 1
        path = os.path.join(self.directory, f"out{self.runs}")
        os.mkdir(path)
        return path

    def ours(self, workers):
        out = self.out()
        return self.timed(f"transcribe_{workers}_workers",
                          [self.bench.command, "transcribe", "--input-dir", self.audio, "--pattern", "*.flac", "--output-dir",
                           out, "--gpus", f"sim:{workers}", "--threads", "1", "--model", DEMO_MODEL, "--language", "en",
                           "--progress", "none"], out)

    def whisper(self):
        out = self.out()
        paths = "".join(os.path.join(self.audio, name) + "\n" for name in self.names).encode()
        program = os.path.join(self.bench.build, "bench", "bench_whisper_loop")
        return self.timed("transcribe_whisper_alone", [program, "-t", "1", DEMO_MODEL, out], out, paths)


def merge(b):
    program = os.path.join(b.build, "bench", "bench_merge")
    if not os.path.exists(program):
        row("merging journals", "not measured: built without SQLite")
        return
    journals, records = (20, 20_000) if b.quick else (100, 100_000)
    with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
        size = ["-j", str(journals), "-m", str(records), "-d", directory]
        subprocess.run([program, *size, "make"], check=True)
        found = lines_of([program, *size, "-r", str(b.rounds), "merge"])
        b.keep(found)
    ratio = found["merge_ratio"]["repeats"]
    row(f"merging {journals} journals of {records:,} records", spread(found["merge_ours"]["repeats"], 1e-3) + " k records/s",
        "INSERT ... SELECT " + spread(found["merge_sqlite"]["repeats"], 1e-3) + " k records/s", spread(ratio), "0.5",
        statistics.median(ratio) >= 0.5)
    row("processor time for a record", spread(found["merge_ours_cpu"]["repeats"]) + " us",
        "INSERT ... SELECT " + spread(found["merge_sqlite_cpu"]["repeats"]) + " us")
    peak = max(found["merge_peak"]["repeats"])
    row("peak resident memory", f"{peak:.0f} MB", "", "", "300 MB", peak <= 300)
    many_journals(b, program)


def many_journals(b, program):
    """How long `status` takes for many journals."""
    journals = 200 if b.quick else 1000
    seconds = []
    with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
        subprocess.run([program, "-j", str(journals), "-m", "1000", "-d", directory, "make"], check=True)
        paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
        for _ in range(b.rounds):
            start = time.perf_counter()
            subprocess.run([b.command, "status", *paths], stdout=subprocess.DEVNULL, check=True)
            seconds.append(time.perf_counter() - start)
    b.records.setdefault("status_journals", []).extend(seconds)
    row(f"status of {journals:,} journals of 1,000 records", spread(seconds) + " s", "", "", "5 s",
        statistics.median(seconds) <= 5)


def transcribe(b):
    """Compares whole programs, including loading the model, with one thread each. The two programs take turns in going
    first."""
    if not os.path.exists(os.path.join(b.build, "bench", "bench_whisper_loop")):
        row("transcription", "not measured: no transcription worker in this build (make transcribe)")
        return
    ours, theirs, two = [], [], []
    with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
        r = Recordings(b, directory)
        for i in range(min(b.rounds, 3)):
            order = (r.whisper, lambda: r.ours(1))[:: 1 if i % 2 else -1]
            found = [each() for each in order][:: 1 if i % 2 else -1]
            pair = r.ours(2)
            if len({tuple(sorted(texts.items())) for _, texts in (*found, pair)}) != 1:
                sys.exit("run.py: the texts are not the same")
            theirs.append(found[0][0])
            ours.append(found[1][0])
            two.append(pair[0])
    what = f"{len(r.names)} short clips"
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    row(f"{what}, 1 worker", spread(ours) + " s", f"whisper.cpp in one process {spread(theirs)} s", spread(ratios), "1.05",
        statistics.median(ratios) <= 1.05)
    ratios = [one / both for one, both in zip(ours, two)]
    row(f"{what}, 2 workers", spread(two) + " s", f"1 worker {spread(ours)} s", spread(ratios), "1.7",
        statistics.median(ratios) >= 1.7)


PARTS = {part.__name__: part for part in (memory, throughput, flight, python_pools, latency, payload, times, scale, discovery,
                                           commands, stream, observers, python, journal, merge, transcribe)}


def machine():
    model = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), model)
    except OSError:
        pass
    cpus = len(os.sched_getaffinity(0))
    return f"{model}, {cpus} CPUs, Linux {platform.release()}, Python {platform.python_version()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-q", "--quick", action="store_true", help="fewer tasks and rounds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    b = Bench(args.build, 2 if args.quick else args.rounds, args.quick)
    print(machine())
    print(f"{b.rounds} rounds; median (least to greatest)\n")
    print("| what | ours | against | ratio | target | |\n|---|---|---|---|---|---|")
    for part in args.only:
        PARTS[part](b)
    with open(os.path.join(args.build, "bench.json"), "w", encoding="utf-8") as f:
        json.dump({"machine": machine(), "records": b.records}, f, indent=1)
    print("\n" + (f"Missed: {'; '.join(MISSED)}." if MISSED else "Every target met."))


if __name__ == "__main__":
    main()
