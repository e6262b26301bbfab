"""Queues: pushing, nodes and results, on a real server."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import pytest

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, Queue, QueueError, Task, Versioned, _native, push, queue_results, queue_status
from gpu_dispatch._queue import _AHEAD

ROOT = pathlib.Path(__file__).resolve().parents[3]


def server_program() -> str | None:
    found = subprocess.run([ROOT / "tools" / "nats_server.sh", "new", "--path"], capture_output=True, text=True, check=True)
    path = os.environ.get("GD_TEST_NATS_SERVER") or found.stdout.strip()
    return path if os.path.exists(path) else None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server, without the name of a queue."""
    program = server_program()
    if program is None:
        pytest.skip("there is no NATS server: tools/nats_server.sh new")
    if not gpu_dispatch.queue_available():
        pytest.skip("libnats is not installed")
    directory = tmp_path_factory.mktemp("nats")
    config = directory / "nats.conf"
    config.write_text(f'listen: "127.0.0.1:-1"\njetstream {{ store_dir: "{directory}" }}\n', encoding="ascii")
    process = subprocess.Popen([program, "-c", config], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    address = None
    for line in process.stderr:
        if found := re.search(r"Listening for client connections on (\S+)", line):
            address = f"nats://{found[1]}"
        if "Server is ready" in line:
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    yield address
    process.kill()
    process.wait()


@pytest.fixture
def queue(server, tmp_path, request):
    """A queue that no other test uses."""
    name = re.sub(r"\W", "_", request.node.name)[:64]
    return Queue(f"{server}/{name}", spool=tmp_path / "spool")


class Echo(BaseWorker):
    def setup(self, gpu_id, seed):
        pass

    def process(self, data):
        if data == "bad":
            raise ValueError("a bad item")
        return type(data).__name__, data


class Other(Echo):
    pass


class Large(BaseWorker):
    def setup(self, gpu_id, seed):
        pass

    def process(self, data):
        return data + data


def work(queue, cls=Echo, **kwargs) -> tuple[list[object], list[str]]:
    """Runs a node until the queue is done. Returns the results and errors of its callbacks."""
    results: list[object] = []
    errors: list[str] = []
    dispatcher = Dispatcher(cls, "sim:2", queue_url=queue, job=None, **kwargs)
    dispatcher.run(None, on_success=lambda task, result, worker: results.append(result),
                   on_error=lambda task, error, worker: errors.append(error))
    return results, errors


# ---- whole runs ----


def test_items_come_back_with_their_types(queue):
    items = ["a.wav", "ä", "\x11control", "", 3, 2.5, None, True, b"\x10bytes", (1, "x"), {"k": [1]}, "name \udcff"]
    assert push(queue, items).added == len(items)
    results, errors = work(queue)
    assert errors == []
    assert sorted(map(repr, results)) == sorted(repr((type(item).__name__, item)) for item in items)
    found = list(queue_results(queue))
    assert [r.item for r in found] == items
    assert [r.result for r in found] == [(type(item).__name__, item) for item in items]
    assert [r.number for r in found] == list(range(len(items)))


def test_a_second_push_adds_only_what_is_new(queue):
    assert push(queue, ["a", "b", "a", (1, 2)]).added == 4
    again = push(queue, ["b", "a", "a", (1, 2), "c"])
    assert (again.added, again.known) == (1, 4)


def test_a_failed_task_is_recorded_and_can_be_added_again(queue):
    push(queue, ["bad", "good"])
    results, errors = work(queue)
    assert results == [("str", "good")]
    assert len(errors) == 1 and "a bad item" in errors[0]
    bad = next(r for r in queue_results(queue) if not r.done)
    assert bad.item == "bad" and bad.failure == "error" and "a bad item" in bad.error
    with pytest.raises(RuntimeError, match="a bad item"):
        bad.result  # noqa: B018
    assert push(queue, retry_failed=True).again == 1
    assert not queue_status(queue)["is_done"]
    assert len(work(queue)[1]) == 1
    assert [r.again for r in queue_results(queue)] == [1, 0]


def test_a_callback_that_raises_gives_its_task_back(queue):
    push(queue, ["one"])

    def fail(task, result, worker):
        raise KeyError("callback")

    with pytest.raises(KeyError):
        Dispatcher(Echo, "sim:1", queue_url=queue, job=None).run(None, on_success=fail)
    assert list(queue_results(queue)) == []
    assert work(queue)[0] == [("str", "one")]


def test_bundles_priorities_and_keys(queue):
    items = [Task(i, priority=i % 3, timeout=30) for i in range(100)]
    pushed = push(queue, items, bundle=10)
    assert pushed.added == 100 and pushed.messages < 20
    assert sorted(r[1] for r in work(queue)[0]) == list(range(100))
    assert push(queue, [object()], key=lambda item: "an object").added == 1
    assert push(queue, [object()], key=lambda item: Versioned("an object", 2)).added == 1
    assert push(queue, [object()], key=lambda item: Versioned("an object", 2)).known == 1


def test_the_heaviest_first(queue):
    push(queue, [1, 5, 3], weight=lambda item: item)
    order: list[object] = []
    Dispatcher(Echo, "sim:1", queue_url=queue, job=None, window=1).run(None, on_success=lambda t, r, w: order.append(r[1]))
    assert order == [5, 3, 1]


def test_large_items_and_results_need_a_directory(queue, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    large = bytes(200_000)
    queue = Queue(queue.url, spool=queue.spool, spill_dir=shared)
    assert push(queue, [large]).files == 1
    assert work(queue, Large)[0] == [large + large]
    only = next(queue_results(queue))
    assert only.item == large and only.result == large + large
    assert only.output_file is not None
    without = next(queue_results(queue.url))
    with pytest.raises((RuntimeError, OSError)):
        without.result  # noqa: B018


def test_a_node_with_a_live_view(queue):
    pytest.importorskip("rich")
    from gpu_dispatch.ui import RichDispatcher

    push(queue, range(5))
    state = RichDispatcher(Echo, "sim:1", queue_url=queue, job=None).run(None, lambda *_: None)
    assert (state["completed"], state["failed"]) == (5, 0)


def test_after_a_shutdown_another_node_does_the_rest(queue):
    push(queue, range(200), bundle=1)
    dispatcher = Dispatcher(Echo, "sim:1", queue_url=queue, job=None)
    dispatcher.run(None, lambda *_: dispatcher.shutdown(), lambda *_: None)
    status = queue_status(queue)
    assert status["done"] > 0 and status["failed"] == 0  # cancelled tasks have no record
    work(queue)
    status = queue_status(queue)
    assert status["is_done"] and status["done"] == 200


# ---- following ----


def test_results_are_followed_until_the_queue_is_done(queue):
    n = _AHEAD + 50  # more than is read ahead
    push(queue, range(n))
    node = threading.Thread(target=work, args=(queue,))
    node.start()
    items = [r.item for r in queue_results(queue, follow=True)]
    node.join()
    assert sorted(items) == list(range(n))


def test_following_can_be_ended_early(queue):
    push(queue, range(_AHEAD + 50))
    work(queue)
    push(queue, ["never run"])
    following = queue_results(queue, follow=True)
    assert next(following).done
    following.close()
    assert not [t for t in threading.enumerate() if t.name == "gpu_dispatch.queue_results"]


# ---- errors ----


def test_a_queue_that_does_not_exist(queue):
    with pytest.raises(QueueError):
        work(queue)
    with pytest.raises(QueueError):
        queue_results(queue)


def test_a_server_that_is_not_there():
    if not gpu_dispatch.queue_available():
        pytest.skip("libnats is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(QueueError, match="server"):
        push(Queue(f"nats://127.0.0.1:{port}/x", connect_timeout=0.1), ["a"])


def test_another_worker_class_is_refused(queue):
    push(queue, ["a"])
    work(queue)
    push(queue, ["b"])
    with pytest.raises(QueueError):
        work(queue, Other)
    assert work(Queue(queue.url, spool=queue.spool, force=True), Other)[0] == [("str", "b")]


def test_wrong_arguments(queue):
    with pytest.raises(ValueError, match="password"):
        push("nats://me:secret@localhost/x", [])
    with pytest.raises(TypeError, match="give key="):
        push(queue, [object()])
    with pytest.raises(TypeError, match="address"):
        push(3, [])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bundle"):
        push(queue, [], bundle=0)
    with pytest.raises(ValueError, match="lease"):
        push(Queue(queue.url, lease=0), [])
    dispatcher = Dispatcher(Echo, "sim:1", queue_url=queue, job=None)
    with pytest.raises(ValueError, match="push"):
        dispatcher.run([1], print)
    with pytest.raises(ValueError, match="queue_results"):
        dispatcher.imap([1])
    with pytest.raises(ValueError, match="journal"):
        dispatcher.run(None, on_success=print, journal="run.db")
    with pytest.raises(TypeError, match="generator"):
        Dispatcher(Echo, "sim:1", job=None).run(None, on_success=print)


def test_ctrl_c_ends_a_wait_for_another_push(queue):
    other = _native.Push(queue._options())
    other.add("a", None, None, 0, 0, 0)
    notes: list[str] = []

    def interrupt(message):
        notes.append(message)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        push(queue, ["b"], wait=250, on_note=interrupt)
    assert len(notes) == 1
    assert signal.set_wakeup_fd(-1) == -1  # as it was
    other.finish()
    assert push(queue, ["a", "b"]).added == 1


def test_a_push_can_wait_only_so_long(queue):
    other = _native.Push(queue._options())
    with pytest.raises(QueueError, match="push"):
        push(queue, ["b"], wait=0)
    del other  # abandoned
    assert push(queue, ["b"]).added == 1


def test_a_push_that_has_ended_takes_nothing(queue):
    ended = _native.Push(queue._options())
    ended.finish()
    for call in (ended.finish, ended.retry_failed, lambda: ended.add("a", None, None, 0, 0, 0)):
        with pytest.raises(ValueError, match="ended"):
            call()


def test_an_error_while_items_are_made_keeps_what_was_added(queue):
    def items():
        yield "a"
        raise LookupError("no more")

    with pytest.raises(LookupError) as raised:  # the exception refers to the frame of push()
        push(queue, items(), bundle=1)
    again = push(queue, ["a", "b"], wait=0)
    assert again.added + again.known == 2
    del raised


# ---- with the command ----


def test_commands_and_python_share_a_queue(queue, tmp_path):
    """A line for the command and a str are the same task."""
    command = pathlib.Path(gpu_dispatch.__file__).parents[2] / "gpu-dispatch"  # in the build directory
    if not command.exists():
        pytest.skip("the command was not built")
    push(queue, ["a b", "c"])
    done = subprocess.run(
        [command, "run", "--queue", queue.url, "--gpus", "sim:1", "--spool", tmp_path / "s", "--", "echo", "got {}"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(r.result for r in queue_results(queue)) == [b"got a b\n", b"got c\n"]


def test_payloads_of_a_command_are_texts():
    assert _native.read_item(b"a.wav") == "a.wav"
    assert _native.read_item(b"") == ""
    assert _native.read_item(b"\xff") == "\udcff"
    assert _native.read_output(b"printed\n") == b"printed\n"
    assert _native.read_output(b"") == b""
    with pytest.raises(Exception, match="unknown|damaged|version"):
        _native.read_item(b"\x01")
