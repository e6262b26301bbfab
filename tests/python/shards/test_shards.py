"""Shards: which items of a list a run takes, and how its journals and figures look."""

from __future__ import annotations

import os
import pathlib
import random
import sqlite3
from collections import Counter

import pytest

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, JournalError, Shard, Task, Versioned, _native, _transcribe, find_shard
from gpu_dispatch.multigpu import LauncherOrchestrator, run_multi_gpu
from gpu_dispatch.ui import RichDispatcher

needs_journal = pytest.mark.skipif(not _native.journal_available(), reason="built without SQLite")

ITEMS = [f"clip {i}.wav" for i in range(90)]
VARIABLES = ("SLURM_", "PMI_", "OMPI_", "RANK", "WORLD_SIZE", "JOB_COMPLETION_INDEX")


class Echo(BaseWorker):
    def setup(self, gpu_id, seed, **kwargs):
        pass

    def process(self, data):
        return data


class Thing:
    """An object that has no value of its own."""

    def __init__(self, number: int) -> None:
        self.number = number


class FileName(BaseWorker):
    def setup(self, gpu_id, seed):
        pass

    def process(self, data):
        return os.path.basename(data)


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    for name in list(os.environ):
        if name.startswith(VARIABLES):
            monkeypatch.delenv(name)


def collect(items, workers=1, **options) -> tuple[dict[int, object], Dispatcher]:
    """The result of each task id."""
    dispatcher = Dispatcher(Echo, gpu_ids=list(range(workers)), job=None)
    results: dict[int, object] = {}

    def save(task_id, result, worker_id):
        assert task_id not in results
        results[task_id] = result

    dispatcher.run(items, save, **options)
    return results, dispatcher


# ---- which items ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_all_shards_together_run_each_item_once(count):
    ran: Counter[object] = Counter()
    for index in range(count):
        items = list(ITEMS)
        random.Random(index).shuffle(items)
        results, dispatcher = collect(items, shard=(index, count), total_tasks=len(items))
        ran.update(results.values())
        assert all(items[task_id] == value for task_id, value in results.items())  # positions in the whole list
        assert all(Shard(index, count).owns(value) for value in results.values())
        stats = dispatcher.get_stats()
        assert stats["taken"] == stats["completed"] == stats["total"] == len(results)
        assert stats["skipped"] == 0
    assert ran == Counter(ITEMS)


def test_items_of_all_plain_types():
    items = [1, 2.5, None, True, b"x", "y", ("a", 1), ["b", {"c": 2}], {3, 4}, pathlib.PurePosixPath("d/e"), 10**30]
    ran = [repr(value) for index in range(3) for value in collect(items, shard=(index, 3))[0].values()]
    assert sorted(ran) == sorted(map(repr, items))


def test_keys_decide_without_a_journal():
    things = [Thing(i) for i in range(40)]
    ran: Counter[int] = Counter()
    for index in range(3):
        results, _ = collect(things, shard=(index, 3), key=lambda thing: Versioned(("thing", thing.number), "v1"))
        assert all(Shard(index, 3).owns(("thing", thing.number)) for thing in results.values())
        ran.update(thing.number for thing in results.values())
    assert ran == Counter(range(40))


def test_an_item_without_a_key_is_refused():
    with pytest.raises(TypeError, match="shard: an item is a Thing.*give key="):
        collect([Thing(1)], shard=(0, 2))
    results, _ = collect([Thing(1)], shard=Shard(0, 1))  # this shard is the whole list
    assert results[0].number == 1


def test_tasks_with_settings_are_dealt_by_their_items():
    plain, _ = collect(ITEMS, shard=(1, 3))
    settings, _ = collect([Task(item, priority=i % 3, timeout=600) for i, item in enumerate(ITEMS)], shard=(1, 3))
    assert plain == settings


def test_the_shard_of_the_dispatcher():
    dispatcher = Dispatcher(Echo, gpu_ids=[0], job=None, shard="2/3")
    assert dispatcher.shard == Shard(1, 3)
    ran: list[object] = []
    for _ in range(2):  # all its runs
        ran.clear()
        dispatcher.run(ITEMS, lambda task_id, result, worker_id: ran.append(result))
        assert sorted(ran) == sorted(item for item in ITEMS if Shard(1, 3).owns(item))
    ran.clear()
    dispatcher.run(ITEMS, lambda task_id, result, worker_id: ran.append(result), shard=(0, 3))
    assert sorted(ran) == sorted(item for item in ITEMS if Shard(0, 3).owns(item))


@pytest.mark.parametrize("ordered", [True, False])
def test_imap(ordered):
    # More items of other shards than the queue has room for: they must not count there.
    dispatcher = Dispatcher(Echo, gpu_ids=[0, 1], queue_size=4, job=None)
    results = list(dispatcher.imap(ITEMS, ordered=ordered, shard="3/3"))
    wanted = [item for item in ITEMS if Shard(2, 3).owns(item)]
    assert results == wanted if ordered else sorted(results) == sorted(wanted)


def test_an_endless_list_of_other_shards_can_be_stopped():
    foreign = next(item for item in ITEMS if not Shard(0, 2).owns(item))
    dispatcher = Dispatcher(Echo, gpu_ids=[0], job=None)

    def items():
        for i in range(10**12):
            if i == 5000:
                dispatcher.shutdown()
            yield foreign

    dispatcher.run(items(), print, shard=(0, 2))
    assert dispatcher.get_stats()["taken"] == 0


# ---- find_shard() ---------------------------------------------------------------------------------------------------


def test_find_shard(monkeypatch):
    assert find_shard("3/16") == Shard(2, 16)
    index, count = find_shard("3/16")
    assert (index, count) == (2, 16)
    assert str(find_shard("3/16")) == "3/16"
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert find_shard() == find_shard("auto") == find_shard("auto/8") == Shard(3, 8)
    assert gpu_dispatch.find_shard is find_shard


@pytest.mark.parametrize(
    ("text", "words"),
    [("0/3", "counted from 1"), ("4/3", "no such shard"), ("1/0", "number of shards"), ("some", "some"), ("auto", "environment")],
)
def test_texts_that_are_no_shard(text, words):
    with pytest.raises(ValueError, match=words):
        find_shard(text)
    with pytest.raises(ValueError, match=words):
        Dispatcher(Echo, gpu_ids=[0], shard=text)


@pytest.mark.parametrize(
    ("shard", "error", "words"),
    [
        ((3, 3), ValueError, "must be 0 to 2"),
        ((-1, 3), ValueError, "must be 0 to 2"),
        ((0, 0), ValueError, "1 to 1000000"),
        ((0, 10**7), ValueError, "1 to 1000000"),
        ((1,), TypeError, r"\(index, count\)"),
        (3, TypeError, r"\(index, count\)"),
        (("a", "b"), TypeError, r"\(index, count\)"),
    ],
)
def test_pairs_that_are_no_shard(shard, error, words):
    with pytest.raises(error, match=words):
        collect(ITEMS, shard=shard)


def test_find_shard_takes_text_only():
    with pytest.raises(TypeError, match="3/16"):
        find_shard((2, 16))


# ---- journals -------------------------------------------------------------------------------------------------------


def rows(path, query="SELECT number, input, state FROM task"):
    with sqlite3.connect(path) as db:
        found = db.execute(query).fetchall()
    db.close()
    return found


@needs_journal
def test_each_shard_has_its_own_journal(tmp_path):
    journal = tmp_path / "run.db"
    for index in range(3):
        items = list(ITEMS)
        if index == 1:  # the order does not matter, nor do more items in one process
            items.reverse()
        collect(items, shard=(index, 3), journal=journal, total_tasks=len(items))
    assert sorted(path.name for path in tmp_path.glob("*.db")) == [f"run.{k}-of-3.db" for k in (1, 2, 3)]
    done: Counter[str] = Counter()
    for k in (1, 2, 3):
        path = tmp_path / f"run.{k}-of-3.db"
        records = rows(path)
        done.update(text for _, text, _ in records)
        in_order = ITEMS[::-1] if k == 2 else ITEMS
        assert all(text == repr(in_order[number]) and state == "done" for number, text, state in records)
        assert rows(path, "SELECT shard, total, taken, skipped FROM run") == [(f"{k}/3", len(records), len(records), 0)]
    assert done == Counter(map(repr, ITEMS))


@needs_journal
def test_a_shard_is_resumed(tmp_path):
    journal = tmp_path / "run.db"
    first, _ = collect(ITEMS[:50], shard="2/3", journal=journal)
    second, dispatcher = collect(ITEMS, shard="2/3", journal=journal, resume=True)
    assert not set(first.values()) & set(second.values())
    assert {*first.values(), *second.values()} == {item for item in ITEMS if Shard(1, 3).owns(item)}
    assert dispatcher.get_stats()["skipped"] == len(first)
    results = list(Dispatcher(Echo, [0], job=None).imap(ITEMS, shard="3/3", journal=journal, resume=True))
    assert results == [item for item in ITEMS if Shard(2, 3).owns(item)]


@needs_journal
def test_another_number_of_shards_needs_skip_done(tmp_path):
    journal = tmp_path / "run.db"
    done = {value for index in range(3) for value in collect(ITEMS[:60], shard=(index, 3), journal=journal)[0].values()}
    assert done == set(ITEMS[:60])
    with pytest.raises(JournalError, match="skip_done") as error:
        collect(ITEMS, shard=(0, 2), journal=journal, resume=True)
    assert error.value.reason == "mismatch"
    others = [tmp_path / f"run.{k}-of-3.db" for k in (1, 2, 3)]
    ran: Counter[object] = Counter()
    for index in range(2):
        results, _ = collect(ITEMS, shard=(index, 2), journal=journal, resume=True, skip_done=others)
        ran.update(results.values())
    assert ran == Counter(ITEMS[60:])


@needs_journal
def test_one_journal_may_be_skipped_without_a_list(tmp_path):
    collect(ITEMS[:30], journal=tmp_path / "old.db")
    results, dispatcher = collect(ITEMS, journal=tmp_path / "new.db", skip_done=tmp_path / "old.db")
    assert list(results.values()) == ITEMS[30:]
    assert dispatcher.get_stats()["skipped"] == 30


@needs_journal
def test_a_journal_in_use(tmp_path):
    journal = tmp_path / "run.db"
    dispatcher = Dispatcher(Echo, gpu_ids=[0], job=None)

    def twin(task_id, result, worker_id):
        with pytest.raises(JournalError) as error:
            collect(ITEMS, shard=(0, 2), journal=journal, resume=True, lock_wait=0.01)
        assert error.value.reason == "busy"
        collect(ITEMS[:3], shard=(1, 2), journal=journal)  # the other shard is another file

    dispatcher.run([item for item in ITEMS if Shard(0, 2).owns(item)][:1], twin, shard=(0, 2), journal=journal)


@needs_journal
def test_shutdown_ends_the_wait_for_a_journal(tmp_path):
    journal = tmp_path / "run.db"
    notes: list[str] = []

    def note(message):
        notes.append(message)
        waiting.shutdown()

    waiting = Dispatcher(Echo, gpu_ids=[0], job=None, on_device_note=note)

    def twin(task_id, result, worker_id):
        with pytest.raises(RuntimeError, match="interrupted"):
            waiting.run(ITEMS, print, journal=journal, resume=True, lock_wait=3600)

    Dispatcher(Echo, gpu_ids=[0], job=None).run(ITEMS[:1], twin, journal=journal)
    assert "run.db" in notes[0]


@needs_journal
def test_an_exception_ends_the_wait_for_a_journal(tmp_path):
    def note(message):
        raise KeyboardInterrupt  # as Ctrl-C does

    waiting = Dispatcher(Echo, gpu_ids=[0], job=None, on_device_note=note)

    def twin(task_id, result, worker_id):
        with pytest.raises(KeyboardInterrupt):
            waiting.run(ITEMS, print, journal=tmp_path / "run.db", resume=True, lock_wait=3600)

    Dispatcher(Echo, gpu_ids=[0], job=None).run(ITEMS[:1], twin, journal=tmp_path / "run.db")


@pytest.mark.parametrize("option", [{"skip_done": "a.db"}, {"lock_wait": 1.0}, {"key": str}])
def test_options_that_need_a_journal(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} needs a journal"):
        collect(ITEMS, **option)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"lock_wait": -1}, ValueError),
        ({"lock_wait": 1e9}, ValueError),
        ({"lock_wait": "soon"}, TypeError),
        ({"skip_done": [3]}, TypeError),
        ({"skip_done": 3}, TypeError),
    ],
)
def test_wrong_options_of_a_journal(option, error, tmp_path):
    with pytest.raises(error, match=next(iter(option))):
        collect(ITEMS, journal=tmp_path / "run.db", **option)


# ---- views and files ------------------------------------------------------------------------------------------------


def test_a_view_does_not_expect_the_whole_list():
    view = RichDispatcher(Echo, gpu_ids=[0], show_ui=False)
    figures = view.run(ITEMS, lambda *args: None, shard=(0, 3), total_tasks=len(ITEMS))
    assert figures["expected_total"] is None
    assert figures["completed"] == sum(map(Shard(0, 3).owns, ITEMS))


def make_files(directory, n):
    (directory / "sub").mkdir(parents=True)
    names = [f"{'sub/' if i % 2 else ''}{i}.wav" for i in range(n)]
    for name in names:
        (directory / name).write_text(name)
    return names


@pytest.mark.parametrize("with_journal", [False, pytest.param(True, marks=needs_journal)])
def test_the_files_of_a_directory(tmp_path, capsys, with_journal):
    """The directory has another name on each machine."""
    found: Counter[str] = Counter()
    for index in range(3):
        names = make_files(tmp_path / f"mount {index}", 20)
        kept = {"journal": tmp_path / "run.db", "resume": True} if with_journal else {}
        code = LauncherOrchestrator(FileName).run(
            tmp_path / f"mount {index}", tmp_path / "out", "sim:1", recursive=True, shard=(index, 3), **kept
        )
        assert code == 0
        own = [name for name in names if Shard(index, 3).owns(name)]
        assert f"{len(own)} of {len(own)} files, 0 failed" in capsys.readouterr().err
        found.update(own)
        if with_journal:
            inputs = rows(tmp_path / f"run.{index + 1}-of-3.db", "SELECT input FROM task")
            assert len(inputs) == len(own)
    assert found == Counter(names)


def test_a_shard_without_files(tmp_path):
    names = make_files(tmp_path / "in", 1)
    index = next(index for index in range(5) if not Shard(index, 5).owns(names[0]))
    launcher = LauncherOrchestrator(FileName)
    assert launcher.run(tmp_path / "in", tmp_path / "out", "sim:1", recursive=True, shard=(index, 5)) == 0


def test_records_in_batches_are_refused():
    with pytest.raises(ValueError, match="owns"):
        run_multi_gpu([{"a": 1}], 1, 1, list, options={"shard": (0, 2)})


def test_the_name_of_the_job_has_the_shard():
    dispatcher = Dispatcher(Echo, gpu_ids=[0], job="resize")
    names: list[str] = []

    def look(task_id, result, worker_id):
        names.extend(job["name"] for job in _native.jobs() if job["pid"] == os.getpid())
        dispatcher.shutdown()

    dispatcher.run(ITEMS, look, shard="2/3")
    assert names[0] == "[2/3] resize"


@pytest.mark.parametrize(
    "index, count, kind", [(2, 2, ValueError), (-1, 2, ValueError), (0, 0, ValueError), ("0", 2, TypeError)]
)
def test_a_shard_that_does_not_exist_cannot_be_made(index, count, kind):
    """It would own nothing, so a program that counts from 1 would silently leave out a shard."""
    with pytest.raises(kind):
        Shard(index, count)


def test_the_command_line_of_a_transcription():
    words = _transcribe.arguments("in", "out", shard=(2, 16), skip_done=["a.db", pathlib.Path("b.db")], lock_wait=1.5)
    assert words[-4:] == ["--shard=3/16", "--skip-done=a.db", "--skip-done=b.db", "--lock-wait=1.500"]
    assert _transcribe.arguments("in", "out", shard="auto/4", skip_done="c.db")[-2:] == [
        "--shard=auto/4",
        "--skip-done=c.db",
    ]
    plain = _transcribe.arguments("in", "out")
    assert _transcribe.arguments("in", "out", shard=None, skip_done=(), lock_wait=None) == plain
    assert "--lock-wait=0.000" in _transcribe.arguments("in", "out", shard="1/2", lock_wait=0)  # its default is not 0
