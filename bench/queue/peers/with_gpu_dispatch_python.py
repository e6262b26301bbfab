# SPDX-License-Identifier: MIT
"""gpu_dispatch with a queue and Python workers: a task is a call of a function, as in Ray, Celery and Dask. Tasks travel in
bundles of 100. See with_gpu_dispatch.py."""
import os
import time

import peer
import with_gpu_dispatch

try:
    import gpu_dispatch
except ImportError as error:
    gpu_dispatch, missing = None, error

if gpu_dispatch:

    class Nothing(gpu_dispatch.BaseWorker):
        def setup(self, gpu_id, seed):
            pass

        def process(self, data):
            return None


class PythonWorkers(with_gpu_dispatch.GpuDispatch):
    name = "gpu_dispatch_python"

    def start(self):
        if not gpu_dispatch:
            raise missing
        super().start()

    def start_node(self, name, slots):
        if self.arguments.what_now != "rate":
            raise peer.Skipped("as gpu_dispatch")
        return super().start_node(name, slots)

    def run_nothing(self, count):
        queue = gpu_dispatch.Queue(self.url(f"rate{next(self.queues)}"), spool=os.path.join(self.directory, "spool"))
        start = time.perf_counter()
        gpu_dispatch.push(queue, range(count), bundle=100)
        gpu_dispatch.Dispatcher(Nothing, f"sim:{self.slots}", queue_url=queue, job=None).run(None, lambda *_: None)
        return time.perf_counter() - start


if __name__ == "__main__":
    peer.measure(PythonWorkers)
