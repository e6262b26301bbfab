#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures queues, and prints the table of docs/performance.md: against the bare client of NATS, and against other systems.

usage: run.py BUILD_DIR [--rounds N] [-q] [--only client|systems ...] [--limit SECONDS]

Machines are noisy. So what is compared is measured one right after the other on the same server, in several rounds. The table
shows the median, with the smallest and the largest. A missed target is marked, but is not an error. A system that cannot be
installed here is left out, with the reason. All numbers are written to BUILD_DIR/bench-queue.json.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")
sys.path[:0] = [PEERS, os.path.dirname(HERE)]

import nats  # noqa: E402
from run import machine, spread  # noqa: E402 (bench/run.py)

# Name of the program, and the package on PyPI.
SYSTEMS = {"gpu_dispatch": None, "gpu_dispatch_lease_5s": None, "gpu_dispatch_python": None, "hyperqueue": "hyperqueue==0.27.0",
           "ray": "ray", "celery": "celery[redis]", "dask": "distributed"}


class Bench:
    def __init__(self, arguments, server):
        self.build, self.server = os.path.abspath(arguments.build), server
        self.rounds, self.quick, self.limit = arguments.rounds, arguments.quick, arguments.limit
        self.records, self.missed = {}, []

    def program(self, name):
        return os.path.join(self.build, "bench", name)

    def lines(self, command):
        """Runs a program that prints a line of JSON for each measurement. Returns the lines by name."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.join(self.build, "python")})
        found = {}
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                record = json.loads(line)
                found[record["name"]] = record
                self.records.setdefault(record["name"], []).extend(record.get("repeats", []))
        if done.returncode != 0 or not found:
            sys.exit(f"run.py: {' '.join(command)} failed with status {done.returncode}")
        return found

    def row(self, what, ours, against="", ratio="", target="", met=None):
        if met is False:
            self.missed.append(what)
        print(f"| {what} | {ours} | {against} | {ratio} | {target} | {'' if met is None else 'met' if met else 'MISSED'} |",
              flush=True)

    def python(self):
        """The Python of BUILD_DIR/bench-queue-venv, which is made once."""
        venv = os.path.join(self.build, "bench-queue-venv")
        python = os.path.join(venv, "bin", "python")
        if not os.path.exists(os.path.join(venv, "made")):
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
            for package in filter(None, SYSTEMS.values()):
                subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package], check=False)
            with open(os.path.join(venv, "made"), "w", encoding="utf-8"):
                pass
        return python


def client_round(b, durable, count):
    """One round: the bare client, ours, and the bare client again, on one server."""
    with tempfile.TemporaryDirectory(prefix="gd-bench-", dir=b.build) as directory:
        server = nats.Server(b.server, directory, durable)
        try:
            url = f"nats://{server.host}"
            bare = [b.program("bench_queue_bare"), "-r", "1", "-n", str(count), url]
            before = b.lines(bare)
            ours = b.lines([b.program("bench_queue_ours"), "-n", str(count), url])
            after = b.lines(bare)
        finally:
            server.stop()
    both = {name: (before[name]["median"] + after[name]["median"]) / 2 for name in before}
    return {**both, **{name: record["median"] for name, record in ours.items()}}


def client(b):
    for name in ("bench_queue_bare", "bench_queue_ours"):
        if not os.path.exists(b.program(name)):
            b.row("the bare client", "", "", f"{name} was not built: libnats-dev is missing")
            return
    for durable in (True, False):
        words = "each message on the disk" if durable else "written later"
        count = 2000 if b.quick else 5000 if durable else 50000  # a disk takes a few hundred messages a second
        rounds = [client_round(b, durable, count) for _ in range(b.rounds)]

        def compare(what, ours, bare, target):
            mine, theirs = [r[ours] for r in rounds], [r[bare] for r in rounds]
            ratios = [a / c for a, c in zip(mine, theirs)]
            b.row(f"{what}, {words}", spread(mine) + " /s", f"bare client {spread(theirs)} /s", spread(ratios),
                  f"{target}" if target else "", statistics.median(ratios) >= target if target else None)

        compare("pushing tasks of 100 B", "queue_ours_push", "queue_bare_push", None)
        compare("tasks of 100 B without bundles", "queue_ours_work", "queue_bare_steps", 0.7)
        compare("the same, against a client that waits for nothing", "queue_ours_work", "queue_bare_pipelined", None)
        bundled = [r["queue_ours_bundled"] for r in rounds]
        b.row(f"bundled tasks of 100 B, {words}", spread(bundled) + " /s", "", "", "100,000 /s",
              statistics.median(bundled) >= 100000)


def shown(record, unit):
    return record["failed"] if "failed" in record else spread(record["repeats"]) + unit


def systems(b):
    python = b.python()
    print("\n| system | tasks/s, no-op | tasks run elsewhere after kill -9 of their node | after the node falls silent |\n"
          "|---|---|---|---|")
    for name in SYSTEMS:
        count = 500 if b.quick else 10000
        found = b.lines([python, os.path.join(PEERS, f"with_{name}.py"), "--tasks", str(count), "--repeats", str(b.rounds),
                         "--limit", str(b.limit), "--command", os.path.join(b.build, "gpu-dispatch"), "--server", b.server,
                         "rate", "kill", "silence"])
        cells = [shown(found[f"queue_{name}_{what}"], unit) for what, unit in (("rate", ""), ("kill", " s"), ("silence", " s"))]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


PARTS = {"client": client, "systems": systems}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-q", "--quick", action="store_true", help="fewer tasks and rounds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit", type=float, default=120, help="seconds to wait for a recovery")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1
    server = subprocess.run([os.path.join(HERE, "..", "..", "tools", "nats_server.sh"), "new"], stdout=subprocess.PIPE,
                            text=True, check=True).stdout.strip()
    b = Bench(arguments, server)
    print(machine())
    print(f"{b.rounds} rounds; median (least to greatest)\n")
    print("| what | ours | against | ratio | target | |\n|---|---|---|---|---|---|")
    for part in arguments.only:
        PARTS[part](b)
    with open(os.path.join(b.build, "bench-queue.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": machine(), "records": b.records}, file, indent=1)
    print("\n" + (f"Missed: {'; '.join(b.missed)}." if b.missed else "No target missed."))


if __name__ == "__main__":
    main()
