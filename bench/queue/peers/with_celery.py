# SPDX-License-Identifier: MIT
"""Celery with Redis: a task is acknowledged after it has ended, so that it is not lost with its node. It is given to another
node after 30 s, as with our lease; Celery's default is an hour, and tasks that take longer than it run twice. See peer.py."""
import os
import shutil
import socket
import sys
import time

import peer

try:
    import celery
    import redis  # noqa: F401 (Celery uses it)
except ImportError as error:
    celery, missing = None, error


def make_app(path):
    address = f"redis+socket://{path}"
    made = celery.Celery("with_celery", broker=address, backend=address)
    made.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1,
                     broker_transport_options={"visibility_timeout": 30},
                     broker_connection_retry_on_startup=True)
    made.task(peer.nothing, name="nothing")
    made.task(peer.task, name="task")
    return made


if "GD_BENCH_REDIS" in os.environ:  # this process is a node
    app = make_app(os.environ["GD_BENCH_REDIS"])


class Celery(peer.Peer):
    name = "celery"

    def start(self):
        if not celery:
            raise missing
        if not shutil.which("redis-server"):
            raise peer.Skipped("redis-server is not installed")
        self.socket = os.path.join(self.directory, "redis")
        self.spawn("server", ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self.directory,
                              "--save", "", "--appendonly", "yes"])
        self.wait_for_redis()
        self.app = make_app(self.socket)

    def wait_for_redis(self):
        for _ in range(600):
            try:
                with socket.socket(socket.AF_UNIX) as attempt:
                    attempt.connect(self.socket)
                    return
            except OSError:
                time.sleep(0.05)
        raise peer.Skipped("redis-server did not start")

    def start_node(self, name, slots):
        here = os.path.dirname(os.path.abspath(__file__))
        return self.spawn(name, [sys.executable, "-m", "celery", "-A", "with_celery", "worker", "--concurrency", str(slots),
                                 "--hostname", f"{name}@here", "--loglevel", "WARNING"],
                          env={"PYTHONPATH": here, "GD_BENCH_REDIS": self.socket}, cwd=self.directory)

    def submit(self, names):
        for name in names:
            self.app.tasks["task"].delay(self.directory, name)

    def run_nothing(self, count):
        start = time.perf_counter()
        celery.group(self.app.tasks["nothing"].s() for _ in range(count)).apply_async().get()
        return time.perf_counter() - start


if __name__ == "__main__":
    peer.measure(Celery)
