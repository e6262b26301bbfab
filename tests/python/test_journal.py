"""Runs with a journal: which tasks are final, skipped and run again."""

from __future__ import annotations

import asyncio
import enum
import gc
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from typing import NamedTuple

import pytest

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, JournalError, TaskFailed, Versioned, _journal, _native, file_key
from gpu_dispatch.multigpu import LauncherOrchestrator
from gpu_dispatch.ui import RichDispatcher

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not _native.journal_available(), reason="built without SQLite")


class Echo(BaseWorker):
    def setup(self, gpu_id, seed, fails=()):
        self.fails = fails

    def process(self, data):
        if data in self.fails:
            raise KeyError(f"no {data}")
        return data


class Plain(BaseWorker):
    def setup(self, gpu_id, seed):
        pass


class Sizes(Plain):
    def process(self, data):
        return len(data)


class Other(Echo):
    pass


class Spins(Plain):
    def process(self, data):
        while data == "spin":
            pass
        return data


class Unreadable:
    def __reduce__(self):
        return unreadable, (os.getpid(),)


def unreadable(pid):
    if os.getpid() != pid:
        raise ImportError("not known here")


class GivesUnreadable(Plain):
    def process(self, data):
        return Unreadable() if data == 1 else data


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not for sending")


class Color(enum.IntEnum):
    RED = 7


class Pair(NamedTuple):
    one: int
    two: int


class BadRepr:
    def __init__(self, n):
        self.n = n

    def __repr__(self):
        raise ArithmeticError("no words")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


def rows(path, columns="number, state, input", where="1", order="number"):
    with sqlite3.connect(path) as db:
        out = db.execute(f"SELECT {columns} FROM task WHERE {where} ORDER BY {order}").fetchall()
    db.close()
    return out


def run(items, path, worker=Echo, gpus=(0,), **options):
    """The results by task id; the errors; the statistics."""
    done, failed = {}, {}
    dispatcher = Dispatcher(worker, list(gpus))
    dispatcher.run(
        items,
        lambda task, result, _: done.__setitem__(task, result),
        lambda task, error, _: failed.__setitem__(task, error),
        journal=path,
        **options,
    )
    return done, failed, dispatcher.get_stats()


# ---- what is written -------------------------------------------------------------------------------------------------


def test_records(path):
    done, failed, stats = run(["a", "b", "c"], path, fails=("b",))
    assert done == {0: "a", 2: "c"} and list(failed) == [1]
    assert rows(path) == [(0, "done", "'a'"), (1, "failed", "'b'"), (2, "done", "'c'")]
    [(failure, error, attempts, gpu)] = rows(path, "failure, error, attempts, gpu", "state = 'failed'")
    assert failure == "error" and attempts == 1 and gpu == 0
    assert "Traceback" in error and error.rstrip().endswith("KeyError: 'no b'")
    assert stats["skipped"] == 0 and stats["total"] == 3


def test_run_row(path):
    run(range(5), path, total_tasks=5)
    with sqlite3.connect(path) as db:
        row = db.execute("SELECT command, outcome, pid, total, taken, skipped, done, failed FROM run").fetchone()
    db.close()
    assert row == (f"{Echo.__module__}.Echo", "finished", os.getpid(), 5, 5, 0, 5, 0)


def test_timeout_is_final(path):
    dispatcher = Dispatcher(Spins, [0])
    dispatcher.run(["spin", "spin"], lambda *a: None, task_timeout=0.2, journal=path)
    assert rows(path, "number, state, failure") == [(0, "failed", "timeout"), (1, "failed", "timeout")]
    dispatcher.run(["spin", "a", "spin"], lambda *a: None, journal=path, resume=True)
    assert rows(path, "number, state, failure", "state = 'done'") == [(1, "done", None)]
    assert dispatcher.get_stats()["skipped"] == 2


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-5, "-5"),
        (2**80, str(2**80)),
        (0.1, "0.1"),
        ("it's", '"it\'s"'),
        ("ü" * 40, repr("ü" * 40)),
        ("lone \ud800", "'lone \\ud800'"),
        (b"\0\xff", "b'\\x00\\xff'"),
        (bytearray(b"ab"), "bytearray(b'ab')"),
        ((1, "x"), "(1, 'x')"),
        ({"a": [1, 2]}, "{'a': [1, 2]}"),
        (pathlib.PurePosixPath("/a/b"), "PurePosixPath('/a/b')"),
        (np.zeros((3, 4), "float32"), "<ndarray 3x4 float32>"),
        ([np.zeros(3), 1], "[<ndarray 3 float64>, 1]"),
        ([], "[]"),
    ],
)
def test_input_is_readable(path, item, text):
    Dispatcher(Sized, [0]).run([item], lambda *a: None, journal=path)
    assert rows(path, "input") == [(text,)]


class Sized(Plain):
    def process(self, data):
        return None


def test_long_inputs_are_shortened(path):
    long = "ä" * 100_000
    Dispatcher(Sized, [0]).run(
        [long, b"\0" * 100_000, list(range(1000)), ["x" * 1000] * 10], lambda *a: None, journal=path
    )
    texts = [text for (text,) in rows(path, "input")]
    assert texts[0].startswith("'ää") and texts[0].endswith("(200000 bytes)") and len(texts[0]) < 5000
    assert texts[1].endswith("(100000 bytes)") and len(texts[1]) < 20_000
    assert texts[2].startswith("[0, 1, 2") and len(texts[2]) < 200
    assert len(texts[3]) <= 1000


def test_repr_that_raises(path):
    Dispatcher(Sized, [0]).run([BadRepr(1)], lambda *a: None, journal=path)
    [(text,)] = rows(path, "input")
    assert "BadRepr" in text


def test_unpicklable_item_is_failed(path):
    done, failed, _ = run([1, Unpicklable(), 2], path, key=lambda item: str(type(item)) + repr(item)[:3])
    assert done == {0: 1, 2: 2} and "not for sending" in failed[1]
    assert [state for (state,) in rows(path, "state")] == ["done", "failed", "done"]
    assert run([1, Unpicklable()], path, resume=True, key=lambda item: str(type(item)) + repr(item)[:3])[2]["taken"] == 0


def test_unreadable_result_is_failed(path):
    done, failed, stats = run([0, 1, 2], path, worker=GivesUnreadable)
    assert done == {0: 0, 2: 2} and "not known here" in failed[1] and stats["failed"] == 1
    [(number, failure, error)] = rows(path, "number, failure, error", "state = 'failed'")
    assert (number, failure) == (1, "error") and "not known here" in error
    dispatcher = Dispatcher(GivesUnreadable, [0])
    dispatcher.run([0, 1, 2], lambda *a: None, journal=path, retry_failed=True)
    assert dispatcher.get_stats()["taken"] == 1
    assert rows(path, "attempts", "number = 1") == [(2,)]


def test_journal_can_be_read_during_the_run(path):
    held = threading.Event()
    seen, given = [], []

    def items():
        yield from range(10)
        assert held.wait(200)
        with sqlite3.connect(path, timeout=60) as db:
            while not (count := db.execute("SELECT count(*) FROM task").fetchone()[0]):
                given.append(0)
                yield 10  # more items until the first group of records is on disk
            seen.append(count)
        db.close()

    def on_success(task_id, result, worker_id):
        held.set()

    Dispatcher(Echo, [0]).run(items(), on_success, journal=path)
    assert seen and 1 <= seen[0] <= 10 + len(given)
    assert len(rows(path)) == 10 + len(given)


# ---- resuming --------------------------------------------------------------------------------------------------------


def test_existing_journal_is_refused_without_resume(path):
    run([1], path)
    with pytest.raises(JournalError, match="resume it, or give another file") as caught:
        run([1], path)
    assert caught.value.reason == "exists" and isinstance(caught.value, RuntimeError)


def test_resume_creates_a_missing_journal(path):
    assert run([1, 2], path, resume=True)[0] == {0: 1, 1: 2}


def test_resume_skips_finished_tasks_and_counts_them(path):
    run(range(10), path)
    done, _, stats = run(range(15), path, resume=True)
    assert done == {n: n for n in range(10, 15)}
    assert (stats["skipped"], stats["taken"], stats["total"], stats["completed"]) == (10, 5, 15, 5)
    assert len(rows(path)) == 15


def test_resume_when_all_is_done(path):
    run(range(10), path)
    done, _, stats = run(range(10), path, resume=True)
    assert done == {} and stats["skipped"] == stats["total"] == 10


@pytest.mark.parametrize("kind", ["int", "str", "tuple", "dict", "array", "object"])
def test_resume_with_reordered_new_and_repeated_items(path, kind):
    make = {
        "int": lambda n: n,
        "str": lambda n: f"item {n} " * (n % 7),
        "tuple": lambda n: (n, str(n), (n, None)),
        "dict": lambda n: {"n": n, "text": str(n)},
        "array": lambda n: np.full(n % 50 + 1, n),
        "object": lambda n: pathlib.PurePosixPath(f"/data/{n}"),
    }[kind]
    first = [n % 80 for n in range(100)]  # 20 of them twice
    Dispatcher(Sized, [0, 1]).run(map(make, first), lambda *a: None, journal=path)
    second = [*range(110), *range(20), *range(5)]  # 30 new ones, 5 a third time
    random.Random(7).shuffle(second)
    ids = []
    dispatcher = Dispatcher(Sized, [0, 1])
    dispatcher.run(map(make, second), lambda task, *_: ids.append(task), journal=path, resume=True)
    if kind == "str":  # for n % 7 == 0 the text is empty, so these items are equal
        assert dispatcher.get_stats()["skipped"] + len(ids) == len(second)
        return
    again = Counter(second[task] for task in ids)
    assert again == Counter(second) - Counter(first)
    assert dispatcher.get_stats()["skipped"] == 100


def test_task_ids_are_those_of_the_source(path):
    run(range(0, 100, 2), path)
    done, _, _ = run(range(100), path, resume=True)
    assert done == {n: n for n in range(1, 100, 2)}


def test_failed_tasks_are_skipped_without_retry_failed(path):
    run(range(10), path, fails=(3, 4))
    assert run(range(10), path, resume=True)[2]["taken"] == 0
    done, failed, stats = run(range(12), path, retry_failed=True, fails=(4,))
    assert done == {3: 3} and list(failed) == [4] and stats["skipped"] == 10
    done, failed, _ = run(range(12), path, resume=True, retry_failed=True)
    assert done == {4: 4, 10: 10, 11: 11} and not failed
    assert rows(path, "attempts", "input = '4'") == [(3,)]
    assert len(rows(path)) == 12


def test_cancelled_tasks_are_not_final(path):
    dispatcher = Dispatcher(Echo, [0], queue_size=64)  # at most this many tasks after the 101st may be done
    dispatcher.run(range(500), lambda task, *_: task == 100 and dispatcher.shutdown(), journal=path)
    count = len(rows(path))
    assert 101 <= count < 500
    done, _, stats = run(range(500), path, resume=True)
    assert stats["skipped"] == count and len(done) == 500 - count


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_key_function_identifies_the_task(path):
    run(["a1", "b1"], path, key=lambda item: item[0])
    done, _, _ = run(["b2", "c2", "a2"], path, resume=True, key=lambda item: item[0])
    assert done == {1: "c2"}


def test_kinds_of_keys(path):
    keys = ["text", "ü" * 50, b"bytes", 5, 2**100, 2.5, Color.RED, ("a", 1, ("b",)), ["x"], {"a": 1}, {1, 2}]
    keys += [(None, True), pathlib.PurePosixPath("/a"), np.int64(6), np.str_("s"), Versioned(8, 1)]
    run(range(len(keys)), path, key=keys.__getitem__)
    plain = {6: 7, 12: "/a", 13: 6, 14: "s"}  # the plain values of these keys
    again = [plain.get(n, key) for n, key in enumerate(keys)]
    assert run(range(100, 100 + len(keys)), path, resume=True, key=lambda n: again[n - 100])[2]["skipped"] == len(keys)
    assert run([0], path, resume=True, key=lambda item: ("another", 1))[2]["skipped"] == 0


def test_keys_of_different_types_differ(path):
    keys = [1, "1", b"1", 1.0, True, ("1",), ["1"], ("1", ""), {"1"}, {"1": 1}, "", (), [], ((),), ("", ())]
    run(range(len(keys)), path, key=keys.__getitem__)
    assert len({key for (key,) in rows(path, "hex(key)")}) == len(keys)


def test_key_function_that_returns_the_item_changes_nothing(path):
    items = [1, "x", b"y", "long " * 20, (1, "2"), {"a": [1.5]}]
    run(items, path)
    assert run(items, path, resume=True, key=lambda item: item)[2]["skipped"] == len(items)


def test_plain_values_are_compared_by_value(path):
    one = "".join(["te", "xt"])
    run([(one, one), {"a": 1, "b": 2}, {"x", "y", "z"}], path)
    other = ["".join(["t", "ext"]), "".join(["tex", "t"])]
    assert other[0] is not other[1]  # the pickle of two equal objects is not that of one object twice
    assert run([tuple(other), {"b": 2, "a": 1}, {"z", "y", "x"}], path, resume=True)[2]["skipped"] == 3


def test_items_of_different_types_in_one_run(path):
    items = [{"a": 1}, 5, ("b",), "six", np.zeros(3), 7, [Pair(1, 2)], [(1, 2)], b"8"]
    Dispatcher(Sized, [0]).run(items, lambda *a: None, journal=path)
    assert len({key for (key,) in rows(path, "hex(key)")}) == len(items)


def test_sets_are_recognised_in_another_process(path, tmp_path):
    """The order of a set of strings is different in each process."""
    script = tmp_path / "sets.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from gpu_dispatch import BaseWorker, Dispatcher
            class Worker(BaseWorker):
                def setup(self, gpu_id, seed):
                    pass
                def process(self, item):
                    return len(item)
            if __name__ == "__main__":
                d = Dispatcher(Worker, [0])
                d.run([frozenset("abcdefgh"), {"k": set("xyz")}], lambda *a: None, journal=sys.argv[1], resume=True)
                print(d.get_stats()["skipped"])
            """
        )
    )
    out = []
    for seed in "12":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        out.append(subprocess.run([sys.executable, script, path], env=env, capture_output=True, text=True, check=True))
    assert [o.stdout for o in out] == ["0\n", "2\n"]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT DISTINCT command FROM run").fetchall() == [("sets.Worker",)]
    db.close()


def test_every_element_of_an_array_is_compared(path):
    array = np.zeros(300_000)  # large enough for the lock to be released while it is hashed
    run([array], path, worker=Sizes)
    array[-1] = 1
    assert run([array], path, worker=Sizes, resume=True)[2]["skipped"] == 0
    assert run([array.copy()], path, worker=Sizes, resume=True)[2]["skipped"] == 1


def test_cyclic_item(path):
    cycle: list = [1]
    cycle.append(cycle)
    Dispatcher(Sized, [0]).run([cycle], lambda *a: None, journal=path)
    dispatcher = Dispatcher(Sized, [0])
    dispatcher.run([cycle], lambda *a: None, journal=path, resume=True)
    assert dispatcher.get_stats()["skipped"] == 1


def test_skipped_items_are_not_pickled(path):
    run([1], path, key=lambda item: "k")
    assert run([Unpicklable()], path, resume=True, key=lambda item: "k")[2]["skipped"] == 1


def test_versions(path):
    version = dict.fromkeys(range(5), "1")

    def key(item):
        return Versioned(item, version[item])

    run(range(5), path, key=key)
    assert run(range(5), path, resume=True, key=key)[2]["skipped"] == 5
    version[2] = "2"
    assert run(range(5), path, resume=True, key=key)[0] == {2: 2}
    assert run(range(5), path, resume=True, key=key)[2]["skipped"] == 5
    assert len(rows(path)) == 5 and rows(path, "version", "input = '2'") == [("2",)]


def test_file_key(path, tmp_path):
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_text("first")
    run(files, path, key=file_key)
    files[1].write_text("longer than before")
    assert run(files, path, resume=True, key=file_key)[0] == {1: files[1]}
    assert file_key(tmp_path / "none") == Versioned(str(tmp_path / "none"), "missing")


@pytest.mark.parametrize("bad", [None, object(), Versioned(None), ("a", object())])
def test_invalid_key_is_an_error(path, bad):
    with pytest.raises(TypeError, match=r"key\(item\)"):
        run([1, 2], path, key=lambda item: bad)
    assert rows(path) == []


def test_key_that_raises(path):
    def key(item):
        if item == 5:
            raise LookupError("no key for five")
        return item

    done = {}
    with pytest.raises(LookupError, match="no key for five"):
        Dispatcher(Echo, [0]).run(range(10), lambda task, *_: done.__setitem__(task, 1), journal=path, key=key)
    assert sorted(done) == [0, 1, 2, 3, 4] and len(rows(path)) == 5


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_journal_of_another_worker_class_is_refused(path):
    run([1], path)
    with pytest.raises(JournalError, match=r"another command: .*\.Echo") as caught:
        run([1, 2], path, worker=Other, resume=True)
    assert caught.value.reason == "mismatch"
    assert run([1, 2], path, worker=Other, resume=True, force_resume=True)[0] == {1: 2}


def test_two_runs_cannot_use_one_journal(path):
    refused = []

    def on_success(task_id, result, worker_id):
        if not refused:
            with pytest.raises(JournalError, match="in use") as caught:
                run([1], path, resume=True)
            refused.append(caught.value.reason)

    dispatcher = Dispatcher(Echo, [0])
    dispatcher.run(range(3), on_success, journal=path)
    assert refused == ["busy"]
    assert run(range(3), path, resume=True)[2]["skipped"] == 3


def test_not_a_journal(path):
    path.write_text("something else\n" * 100)
    with pytest.raises(JournalError) as caught:
        run([1], path, resume=True)
    assert caught.value.reason == "corrupt" and path.read_text().startswith("something else")


def test_journal_path_that_cannot_be_used(tmp_path):
    with pytest.raises(JournalError, match="missing does not exist") as caught:
        run([1], tmp_path / "missing/run.db")
    assert caught.value.reason == "system"
    with pytest.raises(ValueError, match="is not a regular file"):
        run([1], tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_directory(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(JournalError, match="ermission"):
            run([1], tmp_path / "run.db")
    finally:
        tmp_path.chmod(0o700)


def test_on_exit_is_called_even_if_the_journal_is_refused(path):
    run([1], path)
    called = []
    with pytest.raises(JournalError):
        Dispatcher(Echo, [0]).run([1], lambda *a: None, on_exit=lambda: called.append(1), journal=path)
    assert called == [1]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"journal": ""}, ValueError, "journal is empty"),
        ({"journal": 5}, TypeError, "journal is 5"),
        ({"journal": "a\0b"}, ValueError, "null"),
        ({"key": 5, "journal": "x"}, TypeError, "key is 5"),
        ({"journal_sync": "often", "journal": "x"}, ValueError, "journal_sync is 'often'"),
        ({"resume": True}, ValueError, "give journal= too"),
        ({"retry_failed": True}, ValueError, "give journal= too"),
        ({"force_resume": True}, ValueError, "give journal= too"),
        ({"key": str}, ValueError, "give journal= or shard= too"),
    ],
)
def test_bad_options(options, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        Dispatcher(Echo, [0]).run([1], lambda *a: None, **options)
    with pytest.raises(error, match=words):
        Dispatcher(Echo, [0]).imap([1], **options)
    assert not list(tmp_path.iterdir())


def test_built_without_sqlite(monkeypatch, path):
    """The caller gets the error of the library. (The library's own tests check the message.)"""

    def refuse(options):
        raise type("", (JournalError,), {"reason": "unsupported"})("built without SQLite")

    monkeypatch.setattr(_native, "journal_available", lambda: False)
    monkeypatch.setattr(_native, "Run", refuse)
    assert not _journal.available()
    with pytest.raises(JournalError, match="built without SQLite"):
        run([1], path)


def test_full_sync(path):
    assert len(run(range(200), path, journal_sync="full")[0]) == 200
    assert len(rows(path)) == 200


# ---- how a run ends --------------------------------------------------------------------------------------------------


def test_task_whose_callback_raised_is_run_again(path):
    seen = []

    def on_success(task_id, result, worker_id):
        seen.append(task_id)
        if len(seen) == 50:
            raise OSError("the disk of the results is full")

    with pytest.raises(OSError, match="results is full"):
        Dispatcher(Echo, [0, 1]).run(range(1000), on_success, journal=path)
    saved = set(seen[:-1])  # the callback of the last one raised
    assert {number for (number,) in rows(path, "number")} == saved
    done, _, stats = run(range(1000), path, resume=True)
    assert set(done) == set(range(1000)) - saved and stats["skipped"] == 49


def test_generator_that_raises(path):
    def items():
        yield from range(20)
        raise ArithmeticError("no more")

    with pytest.raises(ArithmeticError):
        run(items(), path)
    assert len(rows(path)) == 20
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT outcome FROM run").fetchall() == [("source failed",)]
    db.close()


def test_ctrl_c(path):
    def on_success(task_id, result, worker_id):
        if task_id == 30:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Dispatcher(Echo, [0], ordered=True).run(range(10_000), on_success, journal=path)
    numbers = sorted(number for (number,) in rows(path, "number"))
    assert numbers == list(range(len(numbers))) and 30 <= len(numbers) < 10_000
    assert run(range(10_000), path, resume=True)[2]["skipped"] == len(numbers)


def test_disk_full(path, monkeypatch):
    """A limit on the size of files has the same effect as a full disk."""
    script = path.with_name("full.py")
    script.write_text(
        textwrap.dedent(
            """
            import resource, signal, sys
            from gpu_dispatch import BaseWorker, Dispatcher, JournalError
            class Worker(BaseWorker):
                def setup(self, gpu_id, seed):
                    pass
                def process(self, item):
                    return item
            def on_success(task_id, result, worker_id):
                if task_id == 0:  # the shared memory of the worker exists by now
                    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
            if __name__ == "__main__":
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                try:
                    items = (f"{n:>200}" for n in range(1_000_000))
                    Dispatcher(Worker, [0], job=None).run(items, on_success, journal=sys.argv[1])
                except JournalError as error:
                    print(error.reason, error)
            """
        )
    )
    out = subprocess.run([sys.executable, script, path], capture_output=True, text=True)
    assert out.stdout.startswith("write "), out
    assert "runs the tasks without a record on disk again" in out.stdout.replace("\n", " ")


def test_kill_and_resume(path, tmp_path):
    """Kills the dispatcher three times with kill -9, then lets the run end. No task is missing. Only tasks whose result
    was reported after the last group of records was seen on disk are done twice."""
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sqlite3, sys
            from gpu_dispatch import BaseWorker, Dispatcher
            class Worker(BaseWorker):
                def setup(self, gpu_id, seed):
                    pass
                def process(self, item):
                    return item
            def count():
                with sqlite3.connect(sys.argv[1], timeout=60) as db:
                    return db.execute("SELECT count(*) FROM task").fetchone()[0]
            if __name__ == "__main__":
                stop_at, before, reported = int(sys.argv[2]), count() if os.path.exists(sys.argv[1]) else 0, 0
                def on_success(task_id, result, worker_id):
                    global reported
                    reported += 1
                    os.write(1, b"%d\\n" % result)
                    if reported == stop_at:
                        while count() < before + 399:
                            pass  # a thread writes the records in groups, at intervals
                        os.write(1, b"stop\\n")
                        sys.stdin.read()
                Dispatcher(Worker, [0, 1]).run(range(20_000), on_success, journal=sys.argv[1], resume=True)
            """
        )
    )
    seen: Counter[int] = Counter()
    stops = (450, 600, 5000)
    for stop_at in (*stops, 0):
        child = subprocess.Popen(
            [sys.executable, script, path, str(stop_at)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None and child.stdin is not None
        for line in child.stdout:
            if line == "stop\n":
                child.kill()
            else:
                seen[int(line)] += 1
        assert child.wait() == (-signal.SIGKILL if stop_at else 0)
        child.stdin.close()
        child.stdout.close()
    assert set(seen) == set(range(20_000)) and max(seen.values()) <= len(stops) + 1
    assert sum(seen.values()) - 20_000 <= sum(stop_at - 399 for stop_at in stops)
    assert rows(path, "count(*), count(DISTINCT key)", "state = 'done'") == [(20_000, 20_000)]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="Python then uses malloc, whose blocks are not counted")
def test_runs_leak_nothing(tmp_path):
    items = [{"n": n, "text": [str(n)]} for n in range(1000)]
    dispatcher = Dispatcher(Sized, [0])
    blocks = []
    for n in range(6):
        for options in ({}, {"resume": True}, {"resume": True, "key": lambda item: Versioned(item["n"], item["text"])}):
            dispatcher.run(items, lambda *a: None, journal=tmp_path / f"{n}.db", **options)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    # The smallest growth counts. A leak is in every round. Other work of this process (pytest receives the names of the
    # next tests) is in one round only.
    assert min(b - a for a, b in zip(blocks[2:], blocks[3:])) < 100, blocks
    assert not list(tmp_path.glob("*-lock"))


def test_many_small_tasks(path, capsys):
    n = 100_000
    rates = {}
    for name, options in (("none", {}), ("journal", {"journal": path}), ("resume", {"journal": path, "resume": True})):
        start = time.monotonic()
        Dispatcher(Echo, [0]).run(range(n), lambda *a: None, **options)
        rates[name] = n / (time.monotonic() - start)
    assert rows(path, "count(*), count(DISTINCT key)") == [(n, n)]
    with capsys.disabled():
        print("  tasks/s with the start of a worker:", {name: f"{rate:,.0f}" for name, rate in rates.items()})


# ---- the others ------------------------------------------------------------------------------------------------------


def test_imap(path):
    dispatcher = Dispatcher(Echo, [0, 1], queue_size=16)
    assert list(dispatcher.imap(range(100), journal=path)) == list(range(100))
    assert len(rows(path)) == 100
    # more are skipped than the queue holds
    assert list(dispatcher.imap(range(200), journal=path, resume=True)) == list(range(100, 200))
    assert dispatcher.get_stats()["skipped"] == 100
    assert list(dispatcher.imap(range(200), journal=path, resume=True)) == []


def test_imap_task_is_final_when_the_next_result_is_requested(path):
    dispatcher = Dispatcher(Echo, [0, 1], queue_size=16)
    with dispatcher.imap(range(100), journal=path) as results:
        for result in results:
            if result == 10:
                break
    assert sorted(n for (n,) in rows(path, "number")) == list(range(10))
    assert list(dispatcher.imap(range(100), journal=path, resume=True)) == list(range(10, 100))


def test_imap_failures(path):
    dispatcher = Dispatcher(Echo, [0])
    results = dispatcher.imap(range(3), journal=path, fails=(1,))
    assert next(results) == 0
    with pytest.raises(TaskFailed) as caught:
        next(results)
    assert caught.value.task_id == 1
    assert list(results) == [2]
    assert [state for (state,) in rows(path, "state")] == ["done", "failed", "done"]
    assert list(dispatcher.imap_unordered(range(3), journal=path, retry_failed=True)) == [1]


def test_imap_closed_after_one_result_records_nothing(path):
    results = Dispatcher(Echo, [0], queue_size=4).imap(range(1000), journal=path)
    assert next(results) == 0
    results.close()
    assert rows(path) == []
    assert list(results) == []


def test_async(path):
    async def take(**options):
        out = []
        async for result in Dispatcher(Echo, [0, 1]).imap(range(300), journal=path, **options):
            out.append(result)
            if len(out) == options.get("stop_at", 1000):
                break
        return out

    assert asyncio.run(take()) == list(range(300))
    assert asyncio.run(take(resume=True)) == []


def test_rich_dispatcher_counts_skipped_tasks(path):
    run(range(30), path)
    dispatcher = RichDispatcher(Echo, [0], show_ui=False)
    stats = dispatcher.run(list(range(50)), lambda *a: None, journal=path, resume=True)
    assert (stats["skipped"], stats["completed"], stats["total"], stats["expected_total"]) == (30, 20, 20, 50)
    state = dispatcher.state
    state.ended, state.first_end, state.expected_total = None, 1.0, 60
    assert state.eta(1.0 + 19) == pytest.approx(10)  # 20 tasks in 19 seconds after the first; 10 are left of 60


def test_orchestrator(tmp_path, path, capsys):
    directory = tmp_path / "in"
    directory.mkdir()
    for name in "abcd":
        (directory / f"{name}.wav").write_text(name)
    launcher = LauncherOrchestrator(Sized)
    launcher.detector.validate_gpus = lambda ids: (True, None)
    assert launcher.run(directory, tmp_path / "out", [0], journal=path) == 0
    (directory / "b.wav").write_text("changed")
    (directory / "e.wav").write_text("new")
    assert launcher.run(directory, tmp_path / "out", [0], journal=path, resume=True) == 0
    assert "3 of 5 files were done before" in capsys.readouterr().out
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT taken, skipped FROM run").fetchall() == [(4, 0), (2, 3)]
    db.close()


# ---- names -----------------------------------------------------------------------------------------------------------


def test_job_names():
    assert _journal.job_name(Echo, "mine") == "mine"
    assert _journal.job_name(Echo, None) is None and _journal.job_name(Echo, False) is None
    assert str(_journal.job_name(Echo, True)).endswith(": Echo")
    for bad, error in ((5, TypeError), ("", ValueError), ("a\0b", ValueError)):
        with pytest.raises(error, match="job is"):
            Dispatcher(Echo, [0], job=bad)


def test_observers_see_the_name_and_the_items(tmp_path, monkeypatch):
    """While a run lasts, it has a page with its name and its items as text. With job=None there is no page."""
    monkeypatch.setenv("GPU_DISPATCH_JOBS", str(tmp_path / "jobs"))
    pages = []

    def look(task_id, error, worker_id):
        pages.append([file.read_bytes() for file in (tmp_path / "jobs").glob("*") if file.is_file()])

    dispatcher = Dispatcher(Echo, [0], job="a name")
    dispatcher.run(["an item to see"], print, look, fails=("an item to see",))
    assert len(pages[0]) == 1 and b"a name" in pages[0][0] and b"\0an item to see\0" in pages[0][0]
    Dispatcher(Echo, [0]).run([12345678], print, look, fails=(12345678,))
    assert b": Echo\0" in pages[1][0] and b"\00012345678\0" in pages[1][0]
    Dispatcher(Echo, [0]).run([(1, 2)], print, look, fails=((1, 2),))
    assert b"an object of" in pages[2][0]
    del dispatcher
    Dispatcher(Echo, [0], job=None).run([1], print, look, fails=(1,))
    assert pages[3] == []


def test_exports():
    for name in ("JournalError", "Versioned", "file_key"):
        assert name in gpu_dispatch.__all__ and hasattr(gpu_dispatch, name)
    assert JournalError.__module__ == "gpu_dispatch" and JournalError("x").reason == ""
