# SPDX-License-Identifier: MIT
"""A list whose tasks wait until the test lets them end, and the check of what is left when all shards are done.

A task writes a line to the FIFO `begun`, and reads a line from the FIFO `gate`. So a test knows which tasks run, and
decides how many of them end. Both FIFOs are open in the test for both directions, so nobody waits for the other side.
"""
import glob
import json
import os
import select
import subprocess
import time

LIMIT_S = 60  # for each wait. A wait that takes as long has failed
EVERYTHING = 20000  # more than there are tasks; it fits into a pipe
TASK = """\
#!/bin/sh
echo "$1 ${SLURM_RESTART_COUNT:-0} ${SLURMD_NODENAME:-?}" >begun
read -r line <gate || exit 1
echo "result of $1"
"""


class Work:
    def __init__(self, directory, command, inputs=90):
        self.at, self.command = directory, command
        self.inputs = [f"input {i}" for i in range(inputs)]
        self.unread, self.begun = b"", []  # begun: input, restart count and node of each attempt
        for name in ("begun", "gate"):
            os.mkfifo(f"{directory}/{name}")
        self.begun_fd, self.gate_fd = (os.open(f"{directory}/{name}", os.O_RDWR | os.O_CLOEXEC) for name in ("begun", "gate"))
        self.write("list", "".join(f"{line}\n" for line in self.inputs))
        self.write("task", TASK)

    def write(self, name, text):
        with open(f"{self.at}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f"{self.at}/{name}", 0o755)

    def let_end(self, n=EVERYTHING):
        """This many tasks may end."""
        os.write(self.gate_fd, n * b"\n")

    def wait_begun(self, enough):
        """Waits until enough(attempts) is true for the attempts that have begun."""
        end = time.monotonic() + LIMIT_S
        while not enough(self.begun):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.begun_fd], [], [], left)[0]:
                raise AssertionError(f"only these tasks have begun within {LIMIT_S} s: {self.begun}")
            self.read_begun()
        return self.begun

    def read_begun(self):
        self.unread += os.read(self.begun_fd, 65536)
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            text, restarts, node = line.decode().rsplit(" ", 2)
            self.begun.append((text, int(restarts), node))

    def all_begun(self):
        """All attempts that have begun until now."""
        while select.select([self.begun_fd], [], [], 0)[0]:
            self.read_begun()
        return self.begun

    def begin(self, running, done):
        """Waits until all shards run their first tasks, lets some tasks end, and waits until these are recorded and as many
        run as before."""
        self.wait_begun(lambda begun: len(begun) == running)
        self.let_end(done)
        self.wait_begun(lambda begun: len(begun) == running + done)
        end = time.monotonic() + LIMIT_S  # a journal does not report a new record, so it is read again
        while len(self.records(self.journals())) < done:
            assert time.monotonic() < end, f"{done} tasks have ended, but are not recorded"
            time.sleep(0.05)

    def records(self, journals):
        return [json.loads(line) for name in journals for line in self.run("export", name, "--jsonl").splitlines()]

    def run(self, *words):
        """Runs a subcommand of gpu-dispatch, and returns what it printed."""
        done = subprocess.run([self.command, *words], cwd=self.at, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, f"gpu-dispatch {' '.join(words)}: status {done.returncode}: {done.stderr}"
        return done.stdout

    def journals(self):
        return sorted(os.path.basename(path) for path in glob.glob(f"{self.at}/run.*.db"))

    def check(self, shards):
        """Each input has exactly one record in the journals, and exactly one line in the outputs."""
        names = sorted(f"{k}-of-{shards}" for k in range(1, shards + 1))
        assert self.journals() == [f"run.{name}.db" for name in names], self.journals()
        records, lines = self.records(self.journals()), []
        for name in names:
            with open(f"{self.at}/out.{name}.jsonl", encoding="utf-8") as f:
                lines += [json.loads(line) for line in f]
        for what, found in (("journals", records), ("outputs", lines)):
            inputs = sorted(each["input"] for each in found)
            assert inputs == sorted(self.inputs), f"the {what} have {len(inputs)} records of {len(set(inputs))} inputs"
        assert all(each["output"] == f"result of {each['input']}\n" for each in lines), lines
        self.check_merged(shards)

    def check_merged(self, shards):
        """The same in the merged journal and in the status of all journals together."""
        self.run("merge", *self.journals(), "-o", "all.db")
        records = self.records(["all.db"])
        assert sorted(each["input"] for each in records) == sorted(self.inputs), len(records)
        status = json.loads(self.run("status", "--json", *self.journals()))
        found = [status[name] for name in ("done", "failed", "shards", "missing_shards", "overlaps")]
        assert found == [len(self.inputs), 0, shards, [], 0], status
