"""Observing runs from another process: the list of runs, their state, and how they end."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import pydoc
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc

import pytest

from gpu_dispatch import BaseWorker, Dispatcher, observe

# A run of three items: one succeeds, one fails, and one waits until something is written to its FIFO. Prints a line
# when a task ends.
SCRIPT = """
    import sys
    from gpu_dispatch import BaseWorker, Dispatcher

    class Waits(BaseWorker):
        def setup(self, gpu_id, seed):
            pass

        def process(self, item):
            if item == "bad":
                raise KeyError("nothing there")
            if item != "good":
                open(item).read()
            return item

    def ended(task_id, *rest):
        dispatcher.set_work(task_id + 1.5, 4)
        print("ended", task_id, flush=True)

    if __name__ == "__main__":
        items = ["good", "bad", sys.argv[1]]
        dispatcher = Dispatcher(Waits, "sim:1", job="the waiting one")
        dispatcher.run(items, ended, ended)
"""


@contextlib.contextmanager
def running(directory):
    """The process and its FIFO. Two tasks have ended, and the third one is running."""
    (directory / "program.py").write_text(textwrap.dedent(SCRIPT))
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, directory / "program.py", str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert [child.stdout.readline() for _ in range(2)] == ["ended 0\n", "ended 1\n"]
            yield child, fifo
        finally:
            child.kill()


def settled(run):
    """The first snapshot in which the last task runs, and all tasks and failures seen until then."""
    tasks, failures = [], []
    for now in run.watch(0.01):
        tasks += now.tasks
        failures += now.failures
        both = now.stats["completed"] == 1 and now.stats["failed"] == 1 and now.work_done == 2.5
        if now.workers[0].current_task == 2 and both:
            return now, tasks, failures
    raise AssertionError("the run has ended")


class Echo(BaseWorker):
    def setup(self, gpu_id, seed):
        pass

    def process(self, data):
        return data


def test_no_running_jobs():
    assert observe.jobs() == []
    with pytest.raises(observe.NoJobError, match="no running jobs"):
        observe.Observer()
    with pytest.raises(LookupError, match="nobody"):
        observe.Observer("nobody")


def test_snapshot_of_a_run(tmp_path):
    before = time.time()
    with running(tmp_path) as (child, fifo), observe.Observer() as run:
        (job,) = observe.jobs()
        assert (job.pid, job.id, job.name) == (child.pid, str(child.pid), "the waiting one")
        assert before - 1 < job.started < time.time() + 1
        now, tasks, failures = settled(run)
        assert (now.job, now.id, now.pid, now.started) == (job.name, job.id, job.pid, job.started)
        assert not now.ended and now.read_ns <= time.monotonic_ns()
        assert now.stats["running"] == 1 and now.stats["n_workers"] == 1
        (worker,) = now.workers
        assert (worker.worker_id, worker.gpu_id, worker.state, worker.idle) == (0, 0, "busy", None)
        assert str(fifo)[-20:] in worker.task and worker.since_ns <= now.read_ns
        assert (worker.completed, worker.failed, worker.restarts, worker.device_out) == (1, 1, 0, False)
        assert worker.pid and worker.last_ns
        (device,) = now.devices
        assert (device.gpu_id, device.vendor, device.name) == (0, "simulated", "Simulated GPU")
        assert device.memory_total > device.memory_free > 0
        assert [(t.task_id, t.failure, t.attempt, t.again) for t in tasks] == [(0, None, 1, False), (1, "error", 1, False)]
        assert all(0 < t.start_ns <= t.end_ns for t in tasks)
        (failure,) = failures
        assert (failure.task_id, failure.failure, failure.input) == (1, "error", "bad")
        assert "nothing there" in failure.error


def test_set_work_is_visible_to_observers(tmp_path):
    Dispatcher(Echo, "sim:1").set_work(1, 2)  # nothing runs, so nothing is reported
    with running(tmp_path) as (child, fifo), observe.Observer() as run:
        now, _, _ = settled(run)
        assert (now.work_done, now.work_total) == (2.5, 4.0)
        fifo.write_text("go")
        last = list(run.watch(0.01))[-1]
        assert (last.ended, last.work_done, last.work_total) == (True, 3.5, 4.0)


def test_watching_ends_with_the_run(tmp_path):
    with running(tmp_path) as (child, fifo), observe.Observer(child.pid) as run:
        settled(run)
        fifo.write_text("go")
        seen = list(run.watch(0.01))
        assert [now.ended for now in seen] == [False] * (len(seen) - 1) + [True]
        assert seen[-1].stats["completed"] == 2 and seen[-1].stats["failed"] == 1
        assert sum((now.tasks for now in seen), [])[-1].task_id == 2
        assert list(run)[-1].ended  # another read gives the same state
        assert child.wait() == 0
    assert observe.jobs() == []


def test_watching_ends_when_the_run_is_killed(tmp_path):
    """Watching ends at once, however long the interval is."""
    with running(tmp_path) as (child, _), observe.Observer("the waiting") as run:
        assert run.fileno() >= 0
        seen = []
        for now in run.watch(3600):
            seen.append(now.ended)
            child.send_signal(signal.SIGKILL)
        assert seen == [False]
        with pytest.raises(observe.NoJobError, match="killed"):
            run.read()


def test_choosing_one_of_several_jobs(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with running(tmp_path / "a") as (first, _), running(tmp_path / "b") as (second, _):
        assert [job.pid for job in observe.jobs()] == [first.pid, second.pid]
        with pytest.raises(observe.NoJobError, match=str(second.pid)):
            observe.Observer()
        with observe.Observer(second.pid) as run:
            assert run.read().pid == second.pid


def test_observing_from_the_same_process():
    pids = []

    def look(task_id, result, worker_id):
        with observe.Observer(os.getpid()) as run:
            pids.append((run.read().pid, run.read().job))

    Dispatcher(Echo, "sim:1", job="own").run([1], look)
    assert pids == [(os.getpid(), "own")]


def test_read_dict_gives_plain_values(tmp_path):
    with running(tmp_path) as (_, _fifo), observe.Observer() as run:
        now, _, _ = settled(run)
        plain = json.loads(json.dumps(run.read_dict()))
        assert set(plain) == {field.name for field in dataclasses.fields(observe.Snapshot)}
        assert plain["workers"][0]["task"] == now.workers[0].task
        assert dataclasses.asdict(now)["workers"][0]["state"] == "busy"


def test_many_reads_leak_nothing(tmp_path):
    with running(tmp_path) as (_, _fifo), observe.Observer() as run:
        settled(run)
        run.read()
        tracemalloc.start()
        for _ in range(100):
            run.read()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            run.read()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
        tracemalloc.stop()


def test_closed_observer_raises(tmp_path):
    with running(tmp_path):
        run = observe.Observer()
        run.close()
        run.close()
        for use in (run.read, run.read_dict, run.fileno):
            with pytest.raises(ValueError, match="closed"):
                use()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="since Python 3.12 the collector does not run during a call")
def test_use_during_a_read_is_an_error(tmp_path):
    """The garbage collector runs code during a read. That code must not use the observer, like another thread."""
    messages = []

    def use_observer(phase, info):
        for use in (run.read_dict, run.close):
            try:
                use()
            except RuntimeError as error:
                messages.append(str(error))

    with running(tmp_path), observe.Observer() as run:
        settled(run)
        before, read = gc.get_threshold(), run._native.read
        kept = [({}, []) for _ in range(1000)]  # uses up freed objects; reusing them would not trigger a collection
        gc.callbacks.append(use_observer)
        gc.set_threshold(1)
        try:
            now = read()
        finally:
            gc.callbacks.remove(use_observer)
            gc.set_threshold(*before)
        assert kept and messages and all("being read" in message for message in messages)
        assert now["job"] == "the waiting one" and run.read().job == now["job"]


@pytest.mark.parametrize("which", [1.5, True, b"1"])
def test_job_must_be_named_by_str_or_int(which):
    with pytest.raises(TypeError, match="a job is named by"):
        observe.Observer(which)


def test_interval_must_be_above_zero(tmp_path):
    with running(tmp_path), observe.Observer() as run, pytest.raises(ValueError, match="interval"):
        next(run.watch(0))


def test_help_shows_how_to_use_it():
    text = pydoc.plain(pydoc.render_doc(observe))
    assert "observe.jobs()" in text and "class Observer" in text and "watch(self, interval" in text
    assert all(getattr(observe, name).__doc__ for name in observe.__all__)
