"""Keeps every GPU of a machine busy with a stream of tasks, and never loses a task.

    from gpu_dispatch import BaseWorker, Dispatcher

    class Worker(BaseWorker):
        def setup(self, gpu_id, seed, model_path):
            self.model = load(model_path)

        def process(self, item):
            return self.model(item)

    if __name__ == "__main__":
        Dispatcher(Worker, gpu_ids=[0, 1]).run(items(), on_success=print, model_path="model.pt")

See help(Dispatcher) and help(BaseWorker). gpu_dispatch.multigpu processes the files of a directory, gpu_dispatch.ui
shows a live table, and gpu_dispatch.observe reads the state of runs in other processes.
"""

from gpu_dispatch._imap import Results, TaskFailed
from gpu_dispatch._journal import Shard, Versioned, file_key, find_shard
from gpu_dispatch._native import JournalError, QueueError
from gpu_dispatch._native import version as __version__
from gpu_dispatch._queue import Pushed, Queue, QueueResult, push, queue_available, queue_results, queue_status
from gpu_dispatch.dispatcher import Dispatcher, Task
from gpu_dispatch.protocol import CleanupFailed, SetupFailed, TaskError, TaskStarted, TaskSuccess, TaskTimeout
from gpu_dispatch.worker import BaseWorker, TaskTimeoutError

__all__ = [
    "BaseWorker",
    "CleanupFailed",
    "Dispatcher",
    "JournalError",
    "Pushed",
    "Queue",
    "QueueError",
    "QueueResult",
    "Results",
    "SetupFailed",
    "Shard",
    "Task",
    "TaskError",
    "TaskFailed",
    "TaskStarted",
    "TaskSuccess",
    "TaskTimeout",
    "TaskTimeoutError",
    "Versioned",
    "__version__",
    "file_key",
    "find_shard",
    "push",
    "queue_available",
    "queue_results",
    "queue_status",
]
