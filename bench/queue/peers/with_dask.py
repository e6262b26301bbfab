# SPDX-License-Identifier: MIT
"""Dask distributed: a scheduler, and nodes with a process for each slot. See peer.py."""
import os
import sys
import time

import peer

HERE = os.path.dirname(os.path.abspath(__file__))


class Dask(peer.Peer):
    name = "dask"

    def start(self):
        import distributed
        contact = os.path.join(self.directory, "contact")
        self.spawn("server", [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                              "--no-dashboard", "--scheduler-file", contact], env={"PYTHONPATH": HERE})
        self.contact, self.kept = contact, []
        self.client = distributed.Client(scheduler_file=contact, timeout=60)

    def start_node(self, name, slots):
        return self.spawn(name, [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", self.contact,
                                 "--nworkers", str(slots), "--nthreads", "1", "--no-dashboard", "--local-directory",
                                 os.path.join(self.directory, name)], env={"PYTHONPATH": HERE})

    def submit(self, names):
        self.kept += self.client.map(peer.task, [self.directory] * len(names), names, pure=False)

    def run_nothing(self, count):
        start = time.perf_counter()
        self.client.gather(self.client.map(peer.nothing, range(count), pure=False))
        return time.perf_counter() - start

    def stop(self):
        if hasattr(self, "client"):
            self.client.close(timeout=1)
        super().stop()


if __name__ == "__main__":
    peer.measure(Dask)
