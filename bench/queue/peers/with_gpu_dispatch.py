# SPDX-License-Identifier: MIT
"""gpu-dispatch with a queue: each task is a process. See peer.py.

The server writes each message to the disk before it confirms it, as docs/queue.md recommends. The rate counts from the start
of `push` to the end of `run`, with the start of the workers.
"""
import itertools
import subprocess
import time

import nats
import peer


class GpuDispatch(peer.Peer):
    name = "gpu_dispatch"
    lease = ()

    def start(self):
        self.server = nats.Server(self.arguments.server, self.directory, durable=True)
        self.queues = itertools.count()

    def url(self, name="recovery"):
        return f"nats://{self.server.host}/{name}"

    def start_node(self, name, slots):
        if not hasattr(self, "slots"):
            self.slots = slots
        if self.arguments.what_now == "rate":
            return None  # run_nothing() has a node of its own
        return self.spawn(name, [self.arguments.command, "run", "--queue", self.url(), "--gpus", f"sim:{slots}", "--idle-exit",
                                 "never", "--progress", "none", "--", "sh", peer.TASK_SH, self.directory, "{}"],
                          env={"XDG_STATE_HOME": f"{self.directory}/{name}"})

    def push(self, url, names, *options):
        subprocess.run([self.arguments.command, "push", "--queue", url, *options], input="".join(n + "\n" for n in names),
                       text=True, stdout=self.log, stderr=self.log, check=True)

    def submit(self, names):
        self.push(self.url(), names, *self.lease)

    def run_nothing(self, count):
        url = self.url(f"rate{next(self.queues)}")
        start = time.perf_counter()
        self.push(url, map(str, range(count)))
        subprocess.run([self.arguments.command, "run", "--queue", url, "--gpus", f"sim:{self.slots}", "--progress", "none",
                        "--", "true"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, check=True,
                       env={**peer.os.environ, "XDG_STATE_HOME": f"{self.directory}/rate", "LC_ALL": "C"})
        return time.perf_counter() - start

    def stop(self):
        super().stop()
        if hasattr(self, "server"):
            self.server.stop()


if __name__ == "__main__":
    peer.measure(GpuDispatch)
