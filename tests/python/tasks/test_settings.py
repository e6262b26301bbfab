# SPDX-License-Identifier: MIT
"""Settings of single tasks: a generator may yield a Task, which has a priority and a time limit."""
import math
import os
import threading

import pytest
from gpu_dispatch import BaseWorker, Dispatcher, Task, _native

PATIENT = {"suppress_worker_output": True, "cancel_grace": 60, "cleanup_grace": 60}  # for busy machines


class Worker(BaseWorker):
    """Returns its item. An item that begins with "gate " is the path of a FIFO, from which it reads first."""

    def setup(self, gpu_id, seed, **kwargs):
        pass

    def process(self, item):
        if isinstance(item, str) and item.startswith("gate "):
            with open(item[5:], "rb", buffering=0) as gate:
                gate.read(1)
        while item == "spin":
            pass
        return item


@pytest.fixture
def gate(tmp_path):
    """The path of a FIFO. It stays open, so that neither side waits for the other to open it."""
    path = str(tmp_path / "gate")
    os.mkfifo(path)
    kept = os.open(path, os.O_RDWR)
    yield path
    os.close(kept)


def open_gate(path):
    with open(path, "wb") as gate:
        gate.write(b"x")


def run(items, n_gpus=1, task_timeout=None, dispatcher=None, **options):
    """The ends of all tasks, in the order of the callbacks."""
    ends = []
    (dispatcher or Dispatcher(Worker, list(range(n_gpus)), **PATIENT, **options)).run(
        items, lambda task_id, result, worker_id: ends.append((task_id, result)),
        on_timeout=lambda task_id, timeout, worker_id: ends.append((task_id, timeout)),
        task_timeout=task_timeout)
    return ends


def run_when_all_wait(path, items, **options):
    """The ends of the items. A task before them keeps the only worker busy until the run has sorted all of them. This
    is a little later than the end of the generator."""
    dispatcher = Dispatcher(Worker, [0], **PATIENT, **options)

    def open_when_sorted():
        while not dispatcher.get_stats()["source_done"]:
            os.sched_yield()
        open_gate(path)

    opener = threading.Thread(target=open_when_sorted, daemon=True)
    opener.start()
    ends = run(iter([Task("gate " + path, priority=3), *items]), dispatcher=dispatcher)
    opener.join()
    return ends[1:]


def test_tasks_start_in_the_order_of_the_generator(gate):
    assert run_when_all_wait(gate, range(100)) == [(number + 1, number) for number in range(100)]


def test_a_higher_priority_starts_first(gate):
    items = [Task(number, priority=number % 8 - 4) for number in range(200)] + ["plain", Task("last", -4)]
    results = [result for _, result in run_when_all_wait(gate, items)]
    levels = {task.item: task.priority for task in items if isinstance(task, Task)} | {"plain": 0}
    assert results == sorted(results, key=lambda item: -levels[item])
    assert [item for item in results if levels[item] == 2] == list(range(6, 200, 8))
    assert results[-1] == "last"


def test_results_of_an_ordered_run_keep_their_order(gate):
    items = [Task(number, priority=number % 8 - 4) for number in range(100)]
    assert [result for _, result in run_when_all_wait(gate, items, ordered=True)] == list(range(100))


def test_the_time_limit_of_one_task(gate):
    def items():
        yield Task("spin", timeout=0.25)
        yield "gate " + gate
        yield Task(3, timeout=1000)

    dispatcher = Dispatcher(Worker, [0, 1], **PATIENT)
    ends = {}

    def on_timeout(task_id, timeout, worker_id):
        ends[task_id] = timeout
        open_gate(gate)

    dispatcher.run(items(), lambda task_id, result, worker_id: ends.update({task_id: result}), on_timeout=on_timeout)
    assert ends == {0: 0.25, 1: "gate " + gate, 2: 3}


def test_the_time_limit_of_the_run_is_that_of_the_other_tasks():
    assert sorted(run([Task("spin", timeout=0.2), Task("spin")], task_timeout=0.3)) == [(0, 0.2), (1, 0.3)]


def test_results_as_an_iterator():
    items = (Task(number, priority=number % 3, timeout=1000) for number in range(50))
    with Dispatcher(Worker, [0, 1], **PATIENT).imap(items) as results:
        assert list(results) == list(range(50))


@pytest.mark.skipif(not _native.journal_available(), reason="built without SQLite")
def test_a_key_function_gets_the_item(tmp_path):
    keys, ends = [], []
    options = {"journal": tmp_path / "run.db", "resume": True, "key": lambda item: keys.append(item) or item}
    for priority in (1, 2):  # the priority is not part of what identifies a task
        Dispatcher(Worker, [0], **PATIENT).run((Task(number, priority) for number in range(5)),
                                               lambda task_id, result, worker_id: ends.append(result), **options)
    assert keys == [*range(5), *range(5)]
    assert sorted(ends) == [*range(5)]


def test_the_worker_gets_the_item_alone():
    assert run([Task((1, {"a": None})), Task(None), Task(b"x" * 100000)]) == [
        (0, (1, {"a": None})), (1, None), (2, b"x" * 100000)]


@pytest.mark.parametrize("settings, error, words", [
    ({"priority": 4}, ValueError, "priority is 4: it must be -4 to 3"),
    ({"priority": -5}, ValueError, "priority is -5: it must be -4 to 3"),
    ({"priority": 1.5}, TypeError, "priority is 1.5: it must be an int"),
    ({"priority": "high"}, TypeError, "priority is 'high': it must be an int"),
    ({"timeout": 0}, ValueError, "timeout is 0: it must be more than 0 seconds"),
    ({"timeout": -1}, ValueError, "timeout is -1"),
    ({"timeout": math.nan}, ValueError, "timeout is nan"),
    ({"timeout": math.inf}, ValueError, "timeout is inf"),
    ({"timeout": "soon"}, TypeError, "timeout is 'soon': it must be a number of seconds"),
])
def test_wrong_settings(settings, error, words):
    with pytest.raises(error, match=words):
        Task(1, **settings)


def test_wrong_settings_end_the_run_after_the_earlier_items():
    ends = []
    with pytest.raises(ValueError, match="priority is 9"):
        Dispatcher(Worker, [0], **PATIENT).run(
            (Task(number, priority=9 if number == 5 else 0) for number in range(10)),
            lambda task_id, result, worker_id: ends.append(result))
    assert sorted(ends) == [*range(5)]


class Broken(Task):
    """A task that became wrong after it was checked."""

    @property
    def priority(self):
        raise LookupError("no priority")


def test_an_exception_while_settings_are_read_ends_the_run():
    task = Task.__new__(Broken)
    with pytest.raises(LookupError, match="no priority"):
        run([1, task])
