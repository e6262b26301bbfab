# SPDX-License-Identifier: MIT
"""Control of a running job: pause, drain, cancel one task, change the time limit, add and remove workers. Also partial
results.

Tasks wait at FIFOs, so that a test knows how far a run is.
"""
import io
import logging
import os
import threading

import pytest
from gpu_dispatch import BaseWorker, Dispatcher, TaskFailed, observe
from gpu_dispatch.ui import RichDispatcher, RunState, dashboard

PATIENT = {"suppress_worker_output": True, "cancel_grace": 60, "cleanup_grace": 60}  # for busy machines


class Worker(BaseWorker):
    """An item is a list of words. "gate PATH" reads a byte from a FIFO, "spin" does not end, "part X" sends a part."""

    def setup(self, gpu_id, seed, **kwargs):
        self.gpu_id = gpu_id

    def process(self, item):
        for word in item:
            if word.startswith("gate "):
                with open(word[5:], "rb", buffering=0) as gate:
                    gate.read(1)
            elif word.startswith("part "):
                self.send_partial({"word": word[5:]})
            elif word == "raise":
                raise ValueError("no")
            while word == "spin":
                pass
        return (item, os.getpid())


class Batches(Worker):
    def process_batch(self, items):
        try:
            self.send_partial(1)
        except RuntimeError as error:
            return [str(error)] * len(items)
        return [None] * len(items)


class Threads(Worker):
    def process(self, item):
        said = []

        def send():
            try:
                self.send_partial(1)
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
        return said


@pytest.fixture
def gate(tmp_path):
    """A FIFO. It stays open, so that neither side waits for the other to open it."""
    path = str(tmp_path / "gate")
    os.mkfifo(path)
    kept = os.open(path, os.O_RDWR)

    class Gate:
        word = "gate " + path

        @staticmethod
        def let(n=1):
            os.write(kept, b"x" * n)

    yield Gate
    os.close(kept)


class Run:
    """A run on a thread of its own. Callbacks are collected, and wait() waits for one of them."""

    def __init__(self, items, n_gpus=1, cls=Dispatcher, **options):
        self.events, self.changed, self.error = [], threading.Condition(), None
        in_run = {name: options.pop(name) for name in ("task_timeout", "total_tasks") if name in options}
        self.dispatcher = cls(Worker, list(range(n_gpus)), on_control=lambda message, done: self.put("control", message, done),
                              **PATIENT, **options)
        self.thread = threading.Thread(target=self._work, args=(items, in_run))
        self.thread.start()

    def _work(self, items, in_run):
        try:
            self.dispatcher.run(
                items, lambda task_id, result, worker_id: self.put("success", task_id, worker_id),
                on_error=lambda task_id, error, worker_id: self.put("error", task_id, error, worker_id),
                on_timeout=lambda task_id, seconds, worker_id: self.put("timeout", task_id, seconds),
                on_task_start=lambda task_id, worker_id: self.put("start", task_id, worker_id), **in_run)
        except BaseException as error:
            self.error = error
        self.put("end")

    def put(self, *event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait(self, kind, n=1):
        """Waits for the n-th event of this kind, and returns it."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.of(kind)) >= n, timeout=120), (kind, n, self.events)
            return self.of(kind)[n - 1][1:]

    def of(self, kind):
        return [event for event in self.events if event[0] == kind]

    def finish(self):
        self.thread.join()
        if self.error is not None:
            raise self.error


def test_pause_and_unpause_from_another_thread(gate):
    run = Run([[gate.word]] + [[]] * 20)
    run.wait("start")
    run.dispatcher.pause()
    assert run.wait("control") == ("paused: 1 running task goes on, nothing new starts", True)
    assert run.dispatcher.get_stats()["paused"] == 1
    gate.let()
    run.wait("success")
    run.dispatcher.unpause()
    assert run.wait("control", 2) == ("resumed", True)
    run.finish()
    assert len(run.of("success")) == 21 and run.dispatcher.get_stats()["paused"] == 0
    kinds = [event[0] for event in run.events]
    assert kinds.index("success") > kinds.index("control")
    # between the two requests, only the running task ended, and none began
    between = run.events[kinds.index("control") + 1:run.events.index(("control", "resumed", True))]
    assert [event[0] for event in between] == ["success"], between


def test_requests_are_logged_without_a_callback():
    lines, both = [], threading.Event()

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage().split(": no place")[0]))
            if len(lines) == 2:
                both.set()

    def items():
        yield []
        dispatcher.set_timeout(3600)
        dispatcher.add_workers(0)
        assert both.wait(120)

    logger, handler = logging.getLogger("gpu_dispatch"), Handler()
    before = logger.level
    logger.setLevel("INFO")
    logger.addHandler(handler)
    try:
        dispatcher = Dispatcher(Worker, [0], **PATIENT)
        dispatcher.run(items(), lambda *end: None)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    assert lines == [("INFO", "request: time limit of a task set to 3600 s"),
                     ("WARNING", "request refused: 0 of 1 workers added to GPU 0")]


def test_requests_from_callbacks():
    """A callback pauses the run, and on_control continues it."""
    said, done = [], []
    dispatcher = None

    def on_control(message, is_done):
        said.append(message)
        assert is_done
        if message.startswith("paused"):
            dispatcher.unpause()

    def on_success(task_id, result, worker_id):
        done.append(task_id)
        if len(done) == 3:
            dispatcher.pause()

    dispatcher = Dispatcher(Worker, [0, 1], on_control=on_control, **PATIENT)
    dispatcher.run(([] for _ in range(50)), on_success)
    assert sorted(done) == list(range(50))
    assert [message.split(":")[0] for message in said] == ["paused", "resumed"]


def test_drain(gate):
    run = Run([[gate.word]] * 2 + [[]] * 100, n_gpus=2, stop_grace=0)
    run.wait("start", 2)
    run.dispatcher.drain()
    assert run.wait("control")[0] == "draining: the run ends after 2 running tasks"
    assert run.dispatcher.get_stats()["draining"] == 1
    gate.let(2)
    run.finish()
    assert len(run.of("success")) == 2 and len(run.of("error")) == run.dispatcher.get_stats()["cancelled"]


def test_cancel_a_waiting_and_a_running_task(gate):
    run = Run([["spin"]] + [[gate.word]] + [[]] * 5, n_gpus=2)
    run.wait("start", 2)
    run.dispatcher.cancel_task(5)
    assert run.wait("control") == ("task 5 cancelled before it began", True)
    assert run.wait("error") == (5, "cancelled on request", -1)
    run.dispatcher.cancel_task(5)
    assert run.wait("control", 2)[1] is False
    run.dispatcher.cancel_task(0)
    assert run.wait("control", 3) == ("task 0 asked to stop", True)
    assert run.wait("error", 2)[:2] == (0, "cancelled on request")
    gate.let()
    run.finish()
    assert sorted(event[1] for event in run.of("success")) == [1, 2, 3, 4, 6]
    assert run.dispatcher.get_stats()["restarts"] == 0  # the exception has ended the task


def test_set_timeout():
    run = Run([["spin"]])
    run.wait("start")
    run.dispatcher.set_timeout(0.2)
    assert run.wait("control") == ("time limit of a task set to 0.2 s", True)
    assert run.wait("timeout") == (0, 0.2)
    run.finish()
    for wrong in (0, -1, "x", float("nan"), 1e9):
        with pytest.raises((TypeError, ValueError)):
            run.dispatcher.set_timeout(wrong)


def test_remove_the_time_limit(gate):
    run = Run([[gate.word]], task_timeout=3600)
    run.wait("start")
    assert run.dispatcher.get_stats()["task_timeout_ms"] == 3600000
    run.dispatcher.set_timeout(None)
    assert run.wait("control") == ("time limit of a task removed", True)
    assert run.dispatcher.get_stats()["task_timeout_ms"] == 0
    gate.let()
    run.finish()


def test_add_and_remove_workers(gate):
    run = Run([[gate.word]] * 4, n_gpus=2, max_workers_per_gpu=2, window=1)
    run.wait("start", 2)
    assert len(run.dispatcher.get_worker_stats()) == 4  # two of them are not in use yet
    run.dispatcher.add_workers(1)
    assert run.wait("control") == ("1 worker added to GPU 1", True)
    assert run.wait("start", 3)[1] == 3  # each worker has its own id, although the GPU has another worker
    assert {w["gpu_id"] for w in run.dispatcher.get_worker_stats() if w["state"] == "busy"} == {0, 1}
    run.dispatcher.add_workers(1, 2)
    message, done = run.wait("control", 2)
    assert not done and message.startswith("0 of 2 workers added to GPU 1: no place")
    run.dispatcher.remove_workers(0)
    assert run.wait("control", 3) == ("1 worker removed from GPU 0", True)
    gate.let(4)
    run.finish()
    assert len(run.of("success")) == 4
    assert run.of("start")[3][2] != 0  # the removed worker got no other task


def test_wrong_requests(gate):
    run = Run([[gate.word]])
    run.wait("start")
    for request in (lambda d: d.add_workers(7), lambda d: d.remove_workers(7), lambda d: d.add_workers(0, 0),
                    lambda d: d.cancel_task(-1)):
        with pytest.raises(ValueError):
            request(run.dispatcher)
    for request in (lambda d: d.add_workers("0"), lambda d: d.cancel_task("0"), lambda d: d.remove_workers(0, 1.5)):
        with pytest.raises(TypeError):
            request(run.dispatcher)
    assert run.of("control") == []
    gate.let()
    run.finish()
    for name in ("pause", "unpause", "drain"):  # nothing is running
        getattr(run.dispatcher, name)()


def test_a_cancelled_task_of_imap_keeps_its_place(gate):
    dispatcher = Dispatcher(Worker, [0], queue_size=5, window=1, **PATIENT)
    four_are_taken = threading.Event()

    def items():
        yield [gate.word]
        yield from [[]] * 3
        four_are_taken.set()  # the other three wait behind the first
        yield from [[]] * 17

    with dispatcher.imap(items()) as results:
        assert four_are_taken.wait(120)
        for task_id in (1, 2, 3):
            dispatcher.cancel_task(task_id)
        gate.let()
        assert next(results)[0] == [gate.word]
        for task_id in (1, 2, 3):
            with pytest.raises(TaskFailed, match="cancelled on request") as failed:
                next(results)
            assert failed.value.task_id == task_id and failed.value.worker_id == -1
        assert len(list(results)) == 17


def test_observers_see_requests(gate, monkeypatch, tmp_path):
    monkeypatch.setenv("GPU_DISPATCH_JOBS", str(tmp_path / "jobs"))
    run = Run([[gate.word]], n_gpus=1, job="controlled")
    run.wait("start")
    run.dispatcher.pause()
    run.dispatcher.add_workers(0)
    run.wait("control", 2)
    with observe.Observer("controlled") as observer:
        now = observer.read()
    assert now.stats["paused"] == 1 and now.stats["draining"] == 0 and now.stats["task_timeout_ms"] == 0
    assert [(r.done, r.message.split(":")[0]) for r in now.requests] == [(True, "paused"), (False, "0 of 1 workers added to GPU 0")]
    assert now.requests_missed == 0 and all(now.stats["start_ns"] <= r.at_ns <= now.read_ns for r in now.requests)
    assert now.devices[0].group == 0 and now.workers[0].in_flight == 0
    run.dispatcher.unpause()
    gate.let()
    run.finish()


def test_a_display(gate):
    """RichDispatcher has the same methods, and its state says what the run is doing."""
    run = Run([[gate.word]] + [[]] * 9, cls=RichDispatcher, show_ui=False)
    run.wait("start")
    run.dispatcher.pause()
    run.wait("control")
    gate.let()
    run.wait("success")
    run.dispatcher._read_core()
    assert run.dispatcher.state.held == "paused"
    run.dispatcher.unpause()
    run.finish()
    assert run.dispatcher.state.held is None


@pytest.mark.parametrize("held", ["paused", "draining", None])
def test_the_display_of_a_state(held):
    rich = pytest.importorskip("rich.console")
    state = RunState({}, expected_total=10, completed=4, began=0.0, first_end=1.0, held=held)
    console = rich.Console(file=io.StringIO(), width=100)
    console.print(dashboard(state, now=5.0))
    text = console.file.getvalue()
    assert (f"4 of 10 tasks, 40.0 %, {held}" in text) == (held is not None)
    assert ("- ETA" in text) == (held is not None)


def test_the_display_of_groups():
    rich = pytest.importorskip("rich.console")
    dispatcher = RichDispatcher(Worker, "sim:4", show_ui=False, gpus_per_worker=2, **PATIENT)
    dispatcher.run([[]] * 4, lambda *args: None)
    console = rich.Console(file=io.StringIO(), width=100)
    console.print(dashboard(dispatcher.state))
    text = console.file.getvalue()
    assert "0+1" in text and "2+3" in text, text


def test_concurrency_is_refused_with_advice():
    for concurrency in (2, 64):
        with pytest.raises(ValueError, match=rf"concurrency is {concurrency}, but a Python worker such as Worker runs one task") as e:
            Dispatcher(Worker, [0], concurrency=concurrency)
        assert "batch_size" in str(e.value) and "workers_per_gpu" in str(e.value)
    with pytest.raises(ValueError, match="concurrency is -1: it must be at least 0"):
        Dispatcher(Worker, [0], concurrency=-1)
    done = []
    Dispatcher(Worker, [0], concurrency=1, **PATIENT).run([[]] * 3, lambda *end: done.append(end))
    assert len(done) == 3


@pytest.mark.parametrize("name", ["process", "process_batch", "load"])
def test_coroutines_are_refused_with_advice(name):
    async def method(self, item):
        return item

    cls = type("Async", (Worker,), {name: method})
    with pytest.raises(TypeError, match=rf"Async\.{name}\(\) is declared with async def, which is not supported.*asyncio\.run\(\)"):
        Dispatcher(cls, [0])


def test_partial_results():
    parts, results = [], []
    Dispatcher(Worker, [0, 1], retries=1, retry_delay=0, **PATIENT).run(
        [["part a", "part b"], [], ["part c", "raise"]],
        lambda task_id, result, worker_id: results.append((task_id, len(parts))),
        on_partial=lambda task_id, value, worker_id, attempt: parts.append((task_id, value["word"], attempt)))
    assert [part for part in parts if part[0] == 0] == [(0, "a", 1), (0, "b", 1)]
    assert [part for part in parts if part[0] == 2] == [(2, "c", 1), (2, "c", 2)]
    assert sorted(task_id for task_id, _ in results) == [0, 1]
    assert dict(results)[0] >= 2  # its parts came before its result


def test_partial_results_without_a_callback():
    done = []
    Dispatcher(Worker, [0], **PATIENT).run([["part x"] * 10] * 10, lambda *end: done.append(end))
    assert len(done) == 10


def test_many_large_parts_wait_for_room():
    parts = []

    class Sender(Worker):
        def process(self, item):
            for number in range(item):
                self.send_partial((number, bytes([number % 256]) * 300000))

    Dispatcher(Sender, [0], **PATIENT).run([200], lambda *end: None,
                                           on_partial=lambda task_id, value, worker_id, attempt: parts.append(value))
    assert [number for number, _ in parts] == list(range(200))
    assert all(data == bytes([number % 256]) * 300000 for number, data in parts)


@pytest.mark.parametrize("cls, options", [(Batches, {"batch_size": 4}), (Threads, {})])
def test_partial_results_only_in_process(cls, options):
    results = []
    Dispatcher(cls, [0], **PATIENT, **options).run(
        [[]] * 4, lambda task_id, result, worker_id: results.append(result), on_partial=lambda *args: pytest.fail("no part"))
    for result in results:
        assert "only by process(), on the main thread" in (result if isinstance(result, str) else result[0])
    with pytest.raises(RuntimeError, match="only by process"):
        Worker().send_partial(1)


def test_an_exception_of_on_partial_or_on_control_ends_the_run(gate):
    def refuse(*args):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Dispatcher(Worker, [0], **PATIENT).run([["part a"]] * 5, lambda *end: None, on_partial=refuse)
    dispatcher = Dispatcher(Worker, [0], on_control=refuse, **PATIENT)
    with pytest.raises(KeyError, match="mine"):
        dispatcher.run([[]] * 5, lambda *end: dispatcher.pause())
    with pytest.raises(TypeError, match="on_control"):
        Dispatcher(Worker, [0], on_control=1)
    with pytest.raises(TypeError, match="on_partial"):
        Dispatcher(Worker, [0]).run([], print, on_partial=1)
