# SPDX-License-Identifier: MIT
"""HyperQueue: each task is a process. See peer.py.

PyPI has HyperQueue as a library for Python, whose server and nodes are threads of one process. That is enough for the rate.
A node that can be killed needs the program hq, from the project's releases, on the PATH.
"""
import os
import shutil
import subprocess
import time

import peer


class Program(peer.Peer):
    """With the program."""
    name = "hyperqueue"

    def start(self):
        self.state, self.submitted = os.path.join(self.directory, "state"), 0
        self.spawn("server", ["hq", "server", "start", "--server-dir", self.state])
        self.ask("server", "wait", "--timeout", "30s")

    def ask(self, *words):
        subprocess.run(["hq", *words], env={**os.environ, "HQ_SERVER_DIR": self.state}, stdout=self.log, stderr=self.log,
                       check=True)

    def start_node(self, name, slots):
        return self.spawn(name, ["hq", "worker", "start", "--cpus", str(slots), "--server-dir", self.state])

    def submit(self, names):
        self.submitted += 1
        path = os.path.join(self.directory, f"list-{self.submitted}")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(name + "\n" for name in names))
        self.ask("submit", "--stdout", "none", "--stderr", "none", "--each-line", path, "--", "sh", "-c",
                 f'exec sh {peer.TASK_SH} {self.directory} "$HQ_ENTRY"')

    def run_nothing(self, count):
        start = time.perf_counter()
        self.ask("submit", "--wait", "--stdout", "none", "--stderr", "none", "--array", f"1-{count}", "--", "true")
        return time.perf_counter() - start


class Library(peer.Peer):
    """With the library alone."""
    name = "hyperqueue"

    def start(self):
        import hyperqueue
        self.hyperqueue = hyperqueue
        self.cluster = hyperqueue.LocalCluster(server_dir=os.path.join(self.directory, "state"))
        self.client = self.cluster.client()

    def start_node(self, name, slots):
        self.cluster.start_worker(self.hyperqueue.cluster.WorkerConfig(cores=slots))

    def submit(self, names):
        raise peer.Skipped("PyPI has no program hq, so no node can be killed; put hq on the PATH")

    def run_nothing(self, count):
        job = self.hyperqueue.Job(default_workdir=self.directory)
        for _ in range(count):
            job.program(["true"], stdout=None, stderr=None)
        start = time.perf_counter()
        self.client.connection.wait_for_jobs((self.client.submit(job).id,), lambda *_: None)
        return time.perf_counter() - start

    def stop(self):
        if hasattr(self, "cluster"):
            self.cluster.stop()
        super().stop()


if __name__ == "__main__":
    peer.measure(Program if shutil.which("hq") else Library)
