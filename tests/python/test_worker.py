"""The worker's side: how user code runs in a worker process, and what it may do there."""

from __future__ import annotations

import atexit
import ctypes
import mmap
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, TaskTimeoutError, _native
from gpu_dispatch._spawn import worker_command
from gpu_dispatch._worker import Host

# A time limit that some tasks are meant to exceed (see `slow` in run()). The others take much less time, unless the
# machine stalls for a moment. A sanitizer makes everything slower.
SANITIZED = "LD_PRELOAD" in os.environ
LIMIT = 1.0 if SANITIZED else 0.15
PATIENT = 60.0  # a grace period that no task is meant to exceed


@dataclass
class Outcome:
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    timeouts: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)  # these timed out although they are fast: the machine stalled
    setup_failures: list[str] = field(default_factory=list)
    cleanup_failures: list[str] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)
    raised: str = ""

    def of(self, *task_ids: int) -> list[Any]:
        """The results of these tasks, except late ones."""
        assert all(i in self.results or i in self.late for i in task_ids)
        return [self.results[i] for i in task_ids if i in self.results]


def run(
    worker_cls: type[BaseWorker],
    items: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    task_timeout: float | None = None,
    base_seed: int = 42,
    slow: Any = None,
    dies: bool | None = False,
    **options: Any,
) -> Outcome:
    """Runs the items, by default with one worker. Each item must be reported exactly once. Also checks that no process
    ended unexpectedly, which would otherwise go unnoticed because its tasks are run again.

    slow: the tasks that are meant to exceed the time limit. Another task may exceed it only if enough time has passed
    since the task before it. It is then added to late."""
    out = Outcome()
    items = list(items)
    seen: list[int] = []
    last_end = time.monotonic_ns()

    def note(store: Any) -> Any:
        def callback(task_id: int, value: Any, worker_id: int) -> None:
            nonlocal last_end
            seen.append(task_id)
            store(task_id, value)
            last_end = dispatcher.task_times()[1] or time.monotonic_ns()

        return callback

    def on_timeout(task_id: int, limit: float) -> None:
        if slow is None or task_id in slow:
            out.timeouts.append(task_id)
        else:
            waited = (time.monotonic_ns() - last_end) / 1e9
            # An interrupt that was meant for another task would come at once.
            assert waited > limit / 2, f"task {task_id} was interrupted after {waited} s"
            out.late.append(task_id)

    dispatcher = Dispatcher(
        worker_cls,
        **{"gpu_ids": [0], **options},
        on_cleanup_fail=lambda gpu_id, text: out.cleanup_failures.append(text),
        on_worker_exit=lambda worker_id, gpu_id, text, given_up: out.exits.append(text),
    )
    try:
        dispatcher.run(
            iter(items),
            on_success=note(out.results.__setitem__),
            on_error=note(out.errors.__setitem__),
            on_timeout=note(on_timeout),
            on_setup_fail=lambda gpu_id, text: out.setup_failures.append(text),
            task_timeout=task_timeout,
            base_seed=base_seed,
            total_tasks=len(items),
            **(kwargs or {}),
        )
    except RuntimeError as error:
        out.raised = str(error)
    assert sorted(seen) == list(range(len(items))) or out.raised
    assert not out.cleanup_failures or worker_cls is Ends
    assert dies is None or bool(out.exits) == dies
    return out


ENDLESS_LOOPS = {"x86_64": b"\xeb\xfe", "aarch64": b"\x00\x00\x00\x14"}


def executable_page() -> mmap.mmap:
    return mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


class Plain(BaseWorker):
    """The item is the name of the method to call."""

    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        self.gpu_id, self.seed, self.kwargs = gpu_id, seed, kwargs
        self.kept: list[Any] = []

    def process(self, data: Any) -> Any:
        if isinstance(data, str) and hasattr(self, f"do_{data}"):
            return getattr(self, f"do_{data}")()
        if isinstance(data, BaseException) or isinstance(data, type) and issubclass(data, BaseException):
            raise data
        return data

    def mark(self) -> None:
        """Creates a file that shows that the task got this far."""
        Path(self.kwargs["mark"]).touch()

    def do_pid(self) -> int:
        return os.getpid()

    def do_environment(self) -> Any:
        name = multiprocessing.current_process().name
        return self.gpu_id, self.seed, self.kwargs, os.environ.get("CUDA_VISIBLE_DEVICES"), name

    # -- ends of the process --

    def do_exit(self) -> None:
        os._exit(7)

    def do_kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_segfault(self) -> None:
        ctypes.string_at(8)

    # -- time limits --

    def do_spin(self) -> None:
        while True:
            pass

    def do_sleep(self) -> None:
        time.sleep(3600)

    def do_tidy(self) -> str:
        try:
            self.kept.append("begun")
            time.sleep(3600)
        except TaskTimeoutError:
            self.kept.append("tidied")
        return "so far"

    def do_wrap(self) -> None:
        try:
            time.sleep(3600)
        except TimeoutError as error:
            raise ValueError("too slow") from error

    def do_kept(self) -> list[Any]:
        return self.kept

    def do_swallow(self) -> None:
        while True:
            try:
                self.mark()
                time.sleep(3600)
            except Exception:
                pass

    def do_blocked_sleep(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        self.mark()
        time.sleep(3600)

    def do_deadlock(self) -> None:
        mutex = ctypes.create_string_buffer(64)  # all zero: an ordinary mutex of the C library
        library = ctypes.CDLL(None)
        library.pthread_mutex_lock(mutex)
        self.mark()
        library.pthread_mutex_lock(mutex)

    def do_busy_c(self) -> None:
        page = executable_page()
        page.write(ENDLESS_LOOPS[platform.machine()])
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        self.mark()
        ctypes.PYFUNCTYPE(None)(address)()  # with the interpreter's lock held

    def do_outlive_limit(self) -> str:
        """Blocks the signal, and returns when it has come and is pending."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while signal.SIGALRM not in signal.sigpending():
            pass
        return "late"

    def do_unblock(self) -> str:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        return "not interrupted"

    # -- other things that user code may do --

    def do_sigint(self) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "alive"

    def do_fork_exit(self) -> int:
        child = os.fork()
        if child == 0:
            sys.exit(3)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def do_fork_return(self) -> int:
        child = os.fork()
        if child == 0:
            return -1
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def do_lock(self) -> Any:
        return threading.Lock()

    def do_generator(self) -> Any:
        return (i for i in range(3))

    def do_recursion(self) -> Any:
        return self.do_recursion()

    def do_nested_cause(self) -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise RuntimeError("second") from error

    def do_blocks(self) -> int:
        return sys.getallocatedblocks()


# ---- setup, process, cleanup ----


def test_setup_gets_its_arguments() -> None:
    out = run(Plain, ["environment"], {"path": "x", "n": [1, 2]}, gpu_ids=[3], base_seed=100)
    gpu_id, seed, kwargs, visible, name = out.results[0]
    assert (gpu_id, seed, kwargs, visible) == (3, 103, {"path": "x", "n": [1, 2]}, "3")
    assert name == "gpu_dispatch-0", "the name of the process has the index of its worker"


def test_values_come_back_unchanged() -> None:
    items = [None, True, 0, -(2**80), 1.5, "ü" * 100, b"", b"x" * 100_000, (1, [2, {3: "4"}]), {5, 6}, 7j, range(3)]
    out = run(Plain, items)
    assert [out.results[i] for i in range(len(items))] == items
    assert [type(out.results[i]) for i in range(len(items))] == [type(item) for item in items]


class FailsSetup(Plain):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        atexit.register(Path(kwargs["path"]).write_text, "exit")
        raise OSError("no model here")


def test_setup_failure_has_a_traceback_that_starts_in_setup(tmp_path: Path) -> None:
    out = run(FailsSetup, [1], {"path": str(tmp_path / "exit")})
    assert out.raised == "All workers failed during setup: OSError: no model here" and len(out.setup_failures) == 1
    lines = out.setup_failures[0].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_worker.py" in lines[1] and lines[1].endswith("in setup")
    assert lines[-1] == "OSError: no model here"
    assert (tmp_path / "exit").read_text() == "exit"


class ExitsInSetup(Plain):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        sys.exit("leaving")


class NoArguments(Plain):
    def setup(self, gpu_id: int, seed: int) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    "worker_cls, kwargs, words", [(ExitsInSetup, {}, "SystemExit: leaving"), (NoArguments, {"x": 1}, "TypeError: ")]
)
def test_setup_failures_of_other_kinds(worker_cls: type[BaseWorker], kwargs: dict[str, Any], words: str) -> None:
    assert words in run(worker_cls, [1], kwargs).setup_failures[0]


class Ends(Plain):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        self.log = open(kwargs["path"], "w")  # never closed, because exit handlers write to it
        self.fails = kwargs["fails"]
        self.let_go = threading.Event()
        atexit.register(self.note, "atexit")
        threading.Thread(target=self.wait).start()

    def note(self, words: str) -> None:
        self.log.write(words + "\n")
        self.log.flush()

    def wait(self) -> None:
        self.let_go.wait()
        self.note("thread")

    def cleanup(self) -> None:
        self.note("cleanup")
        self.let_go.set()
        if self.fails:
            raise ValueError("cannot clean up")


@pytest.mark.parametrize("fails", [False, True])
def test_worker_ends_like_a_normal_interpreter(tmp_path: Path, fails: bool) -> None:
    out = run(Ends, [1], {"path": str(tmp_path / "log"), "fails": fails})
    assert (tmp_path / "log").read_text().split() == ["cleanup", "thread", "atexit"]
    assert out.results == {0: 1}
    assert [text.splitlines()[-1] for text in out.cleanup_failures] == ["ValueError: cannot clean up"] * fails
    assert all(text.splitlines()[1].endswith("in cleanup") for text in out.cleanup_failures)


# ---- failures ----


class BadStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class BadPickle(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


class BadBoth(BadStr, BadPickle):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Raises(Plain):
    def process(self, data: Any) -> Any:
        raise {"str": BadStr, "pickle": BadPickle, "both": BadBoth}[data]()


def test_error_message_is_a_traceback_that_starts_in_process() -> None:
    out = run(Plain, [ValueError("three"), "nested_cause", 5])
    lines = out.errors[0].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_worker.py" in lines[1] and lines[1].endswith("in process")
    assert lines[-1] == "ValueError: three"
    assert "KeyError: 'first'" in out.errors[1] and "direct cause" in out.errors[1]
    assert out.errors[1].endswith("RuntimeError: second\n")
    assert out.results == {2: 5}


def test_exceptions_without_str_or_pickle_still_give_a_message() -> None:
    out = run(Raises, ["str", "pickle", "both"])
    assert "BadStr" in out.errors[0] and "in process" in out.errors[0]
    assert "BadPickle" in out.errors[1]
    assert "BadBoth" in out.errors[2]


def test_system_exit_and_similar_exceptions_fail_only_their_task() -> None:
    out = run(Plain, [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), StopIteration(), "pid", "pid"])
    names = ["SystemExit: 0", "KeyboardInterrupt", "GeneratorExit", "StopIteration"]
    assert [out.errors[i].splitlines()[-1] for i in range(4)] == names
    assert out.results[4] == out.results[5]


def test_unusual_and_long_error_messages() -> None:
    out = run(Plain, [ValueError("nul \0, surrogate \udc80, ü"), ValueError("ä" * 500_000 + "the end"), "recursion"])
    assert out.errors[0].endswith("ValueError: nul \\x00, surrogate \\udc80, ü\n")
    assert out.errors[1].startswith("Traceback") and out.errors[1].endswith("the end\n")
    assert len(out.errors[1].encode()) < 65536 and "left out" in out.errors[1]
    assert "RecursionError" in out.errors[2]


@pytest.mark.parametrize("what", ["lock", "generator"])
def test_unpicklable_result_fails_only_its_task(what: str) -> None:
    out = run(Plain, ["pid", what, "pid"])
    assert out.errors[1].startswith("The result can't be sent back:") and "pickle" in out.errors[1]
    assert out.results[0] == out.results[2]


def refuse_in_worker() -> str:
    if multiprocessing.current_process().name.startswith("gpu_dispatch-"):
        raise ImportError("no such thing here")
    return "read"


class Unreadable:
    def __reduce__(self) -> Any:
        return refuse_in_worker, ()


def test_unreadable_item_fails_only_its_task() -> None:
    out = run(Plain, ["pid", Unreadable(), [Unreadable()] * 3, "pid"])
    for i in (1, 2):
        assert out.errors[i].startswith("The item can't be read in the worker process:")
        assert out.errors[i].endswith("ImportError: no such thing here\n")
    assert out.results[0] == out.results[3]


# ---- memory and devices ----


class FakeOutOfMemory(RuntimeError):
    pass


FakeOutOfMemory.__module__, FakeOutOfMemory.__qualname__ = "torch", "OutOfMemoryError"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class LoopedCause(Exception):
    def __init__(self) -> None:
        super().__init__("looped")
        self.__cause__ = self


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("x"), "error"),
        (MemoryError(), "out_of_memory"),
        (FakeOutOfMemory("whatever"), "out_of_memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), "out_of_memory"),
        (RuntimeError("CUDA error: out of memory"), "out_of_memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "out_of_memory"),
        (RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors"), "device_lost"),
        (RuntimeError("CUDA error: device-side assert triggered"), "device_lost"),
        (RuntimeError("cudaErrorLaunchFailure: unspecified launch failure"), "device_lost"),
        (RuntimeError("HIP error: misaligned address"), "device_lost"),
        (RuntimeError("a misaligned address in the mailing list"), "error"),
        (RuntimeError("CUDA error: invalid argument"), "error"),
        (RuntimeError("CUDA error: invalid device ordinal"), "error"),
        (caused(ValueError("inference failed"), RuntimeError("CUDA error: unspecified launch failure")), "device_lost"),
        (caused(ValueError("inference failed"), FakeOutOfMemory()), "out_of_memory"),
        (LoopedCause(), "error"),
        (TaskTimeoutError(), "timeout"),
        (TimeoutError(), "error"),
        (SystemExit("CUDA out of memory"), "error"),
        (BadBoth(), "error"),
    ],
)
def test_classify(error: BaseException, kind: str) -> None:
    assert Host.classify(error) == kind


class LosesDevice(Plain):
    def process(self, data: Any) -> Any:
        if data == "lose" and not os.path.exists(self.kwargs["path"]):
            Path(self.kwargs["path"]).touch()
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return os.getpid()


def test_lost_device_replaces_the_process(tmp_path: Path) -> None:
    out = run(LosesDevice, ["pid", "lose", "pid"], {"path": str(tmp_path / "lost")}, dies=True)
    assert not out.errors and len(out.exits) == 1
    assert out.results[0] != out.results[1] == out.results[2]


# ---- ends of the process ----


@pytest.mark.parametrize(
    "how, words", [("exit", "7"), ("kill", f"signal {signal.SIGKILL:d}"), ("segfault", f"signal {signal.SIGSEGV:d}")]
)
def test_dying_worker_fails_only_its_task(how: str, words: str) -> None:
    out = run(Plain, ["pid", 1, how, 3, "pid"], crash_limit=1, dies=True)
    assert list(out.errors) == [2] and words in out.errors[2]
    assert out.results.keys() == {0, 1, 3, 4} and (out.results[1], out.results[3]) == (1, 3)
    assert out.results[0] != out.results[4]


# ---- time limits ----


@pytest.mark.parametrize("how", ["spin", "sleep", "wrap"])
def test_python_code_is_interrupted_and_the_worker_lives(how: str) -> None:
    out = run(Plain, ["pid", how, "pid"], task_timeout=LIMIT, cancel_grace=PATIENT, slow={1})
    assert out.timeouts == [1] and not out.errors
    assert len(set(out.of(0, 2))) <= 1


def test_interrupted_code_may_clean_up_and_return() -> None:
    out = run(Plain, ["pid", "tidy", "pid", "kept"], task_timeout=LIMIT, cancel_grace=PATIENT, slow=())
    assert not out.errors and len(set(out.of(0, 2))) <= 1
    # The task itself is late only if it was interrupted before it had started.
    assert out.of(1) in (["so far"], [])
    assert out.of(3) in ([["begun", "tidied"] if 1 in out.results else []], [])


@pytest.mark.parametrize("how", ["swallow", "blocked_sleep", "deadlock", "busy_c"])
def test_code_that_cannot_be_interrupted_is_killed(tmp_path: Path, how: str) -> None:
    if how == "busy_c":
        try:
            executable_page().close()
        except OSError:
            pytest.skip("this system does not allow memory that is both writable and executable")
        if platform.machine() not in ENDLESS_LOOPS:
            pytest.skip(f"this test has no machine code for {platform.machine()}")
    mark = tmp_path / "mark"
    options = {"task_timeout": LIMIT, "cancel_grace": 0.1, "slow": {1}, "dies": None}
    out = run(Plain, ["pid", how, "pid"], {"mark": str(mark)}, **options)
    assert out.timeouts == [1] and not out.errors
    if mark.exists():  # the task may have been interrupted before it got this far
        assert out.exits and len(set(out.of(0, 2))) == len(out.of(0, 2))


def test_late_interrupt_does_not_hit_the_next_task() -> None:
    out = run(Plain, ["pid", "outlive_limit", "unblock", "pid"], task_timeout=LIMIT, cancel_grace=PATIENT, slow=())
    assert not out.errors
    assert out.of(1) in (["late"], []) and out.of(2) in (["not interrupted"], [])
    assert len(set(out.of(0, 3))) <= 1


def test_many_interrupts() -> None:
    items = ["pid", *["spin", "sleep", 1] * 10, "pid"]
    slow = [i for i, item in enumerate(items) if item in ("spin", "sleep")]
    out = run(Plain, items, task_timeout=LIMIT / 8, cancel_grace=PATIENT, slow=slow)
    assert out.timeouts == slow and not out.errors
    assert len(set(out.of(0, len(items) - 1))) <= 1


def test_own_timeout_error_is_an_error() -> None:
    out = run(Plain, [TaskTimeoutError("of its own")], task_timeout=60)
    assert out.errors[0].endswith("TaskTimeoutError: of its own\n") and not out.timeouts


# ---- what else user code may do ----


def test_workers_ignore_sigint() -> None:
    assert run(Plain, ["sigint"]).results == {0: "alive"}


def test_forked_children_do_not_become_workers() -> None:
    out = run(Plain, ["pid", "fork_exit", "fork_return", "fork_exit", "pid"])
    assert [out.results[i] for i in (1, 2, 3)] == [3, 0, 3]
    assert out.results[0] == out.results[4]


# ---- batches ----


class Batch(Plain):
    def process(self, data: Any) -> Any:
        raise AssertionError("not with batches")

    def process_batch(self, items: list[Any]) -> Any:
        first = items[0]
        if first == "size":
            return [len(items)] * len(items)
        if isinstance(first, tuple):
            return first[0]
        if isinstance(first, int) and len(items) > 2:
            raise FakeOutOfMemory(f"{len(items)} are too many")
        if first == "raise":
            raise ValueError("all of them")
        if first == "sleep":
            time.sleep(3600)
        return [ValueError(f"only {item}") if item == "bad" else item for item in items]


def run_batch(items: list[Any], **options: Any) -> Outcome:
    return run(Batch, items, batch_size=len(items), batch_wait=PATIENT, **options)


def test_process_batch_gets_all_items() -> None:
    assert list(run_batch(["size"] * 4).results.values()) == [4] * 4


def test_items_of_a_batch_fail_alone() -> None:
    out = run_batch(["a", "bad", Unreadable(), "d"])
    assert out.results == {0: "a", 3: "d"}
    assert out.errors[1] == "ValueError: only bad\n"
    assert out.errors[2].startswith("The item can't be read")


def test_batch_of_unreadable_items() -> None:
    assert run_batch([Unreadable()] * 3).errors.keys() == {0, 1, 2}


@pytest.mark.parametrize(
    "returned, words",
    [
        ([1, 2], "ValueError: process_batch returned 2 results for 3 items: return one for each, in the same order"),
        ([1] * 4, "ValueError: process_batch returned 4 results for 3 items: return one for each, in the same order"),
        (None, "TypeError: process_batch returned NoneType instead of a list of results"),
        ("abc", "TypeError: process_batch returned str instead of a list of results"),
        ({0: 1, 1: 2, 2: 3}, "TypeError: process_batch returned dict instead of a list of results"),
        ({1, 2, 3}, "TypeError: process_batch returned set instead of a list of results"),
    ],
)
def test_batch_with_wrong_results_fails_whole(returned: Any, words: str) -> None:
    out = run_batch([(returned,)] * 3)
    assert [text.strip() for text in out.errors.values()] == [words] * 3


def test_batch_returns_any_sequence() -> None:
    assert run_batch([((1, 2, 3),)] * 3).results == {0: 1, 1: 2, 2: 3}
    assert run_batch([(range(3),)] * 3).results == {0: 0, 1: 1, 2: 2}


def test_batch_that_raises_fails_whole() -> None:
    out = run_batch(["raise"] * 3)
    assert len(out.errors) == 3
    assert all("in process_batch" in text and text.endswith("all of them\n") for text in out.errors.values())


def test_batch_out_of_memory_is_split() -> None:
    out = run_batch([1, 2, 3, 4, 5, 6, 7])
    assert out.results == {i: i + 1 for i in range(7)} and not out.errors


def test_batch_is_interrupted() -> None:
    out = run_batch(["sleep"] * 3, task_timeout=LIMIT, cancel_grace=PATIENT)
    assert sorted(out.timeouts) == [0, 1, 2]


def test_batch_size_one_uses_process() -> None:
    assert "not with batches" in run(Batch, [1]).errors[0]


# ---- loading ahead ----


class Loads(Plain):
    per_thread = threading.local()

    def load(self, data: Any) -> Any:
        if data == "bad":
            raise OSError("no such file")
        if data == "sleep":
            self.mark()
            time.sleep(3600)
        if data in ("spin", "tidy", "swallow"):
            getattr(self, f"do_load_{data}")()
        self.per_thread.count = getattr(self.per_thread, "count", 0) + 1
        return data, threading.current_thread() is threading.main_thread(), self.per_thread.count

    def do_load_spin(self) -> None:
        while True:
            pass

    def do_load_tidy(self) -> None:
        try:
            self.kept.append("begun")
            self.do_load_spin()
        except TaskTimeoutError as error:
            self.kept.append("tidied")
            raise ValueError("too slow") from error

    def do_load_swallow(self) -> None:
        while True:
            try:
                self.mark()
                self.do_load_spin()
            except TaskTimeoutError:
                pass

    def process(self, data: Any) -> Any:
        return *data, os.getpid(), len(self.kept)


class AtThreadEnd:
    """Writes a line when the last reference to it is gone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __del__(self) -> None:
        with open(self.path, "a") as file:
            file.write("gone\n")


class KeepsPerThread(Plain):
    per_thread = threading.local()

    def load(self, data: Any) -> Any:
        if not hasattr(self.per_thread, "kept"):
            self.per_thread.kept = AtThreadEnd(self.kwargs["path"])
        return data


class LoadsBatches(Loads):
    def process_batch(self, items: list[Any]) -> list[Any]:
        return [("batch", *item) for item in items]


def test_load_always_runs_on_the_same_thread() -> None:
    out = run(Loads, ["a", "b", "c"])
    assert [out.results[i][:3] for i in range(3)] == [("a", False, 1), ("b", False, 2), ("c", False, 3)]


def test_thread_local_data_is_released_with_its_thread(tmp_path: Path) -> None:
    run(KeepsPerThread, range(10), {"path": str(tmp_path / "log")})
    assert (tmp_path / "log").read_text() == "gone\n"


def test_load_on_many_threads() -> None:
    out = run(Loads, range(500), io_threads=4)
    assert [out.results[i][0] for i in range(500)] == list(range(500))


def test_load_that_raises_fails_its_task() -> None:
    out = run(Loads, ["a", "bad", Unreadable(), "d"])
    assert out.errors[1].splitlines()[1].endswith("in load") and out.errors[1].endswith("OSError: no such file\n")
    assert out.errors[2].startswith("The item can't be read")
    assert out.results.keys() == {0, 3}


def test_load_and_batches() -> None:
    items = ["a", "bad", "c"]
    out = run(LoadsBatches, items, batch_size=3, batch_wait=PATIENT)
    assert {i: value[:2] for i, value in out.results.items()} == {0: ("batch", "a"), 2: ("batch", "c")}
    assert out.errors.keys() == {1}


def test_python_code_in_load_is_interrupted_and_the_worker_lives() -> None:
    out = run(Loads, ["a", "spin", "c", "tidy", "e"], task_timeout=LIMIT, cancel_grace=PATIENT, slow={1, 3})
    assert out.timeouts == [1, 3] and not out.errors
    good = out.of(0, 2, 4)
    assert len({pid for _, _, _, pid, _ in good}) <= 1
    counts = [count for _, _, count, _, _ in good]  # all from the same thread
    assert counts == [1, 2, 3] or out.late and counts == sorted(set(counts))
    assert [kept for _, _, _, _, kept in out.of(4)] in ([2], [0], [])  # it could clean up, if it had started


def test_many_interrupted_loads() -> None:
    """Fast tasks are not interrupted, even if the exception for another task comes too late."""
    items = ["a", *["spin", 1, 2, 3] * 20, "z"]
    slow = [i for i, item in enumerate(items) if item == "spin"]
    out = run(Loads, items, task_timeout=LIMIT / 4, cancel_grace=PATIENT, io_threads=3, slow=slow)
    assert out.timeouts == slow and not out.errors
    assert len({result[3] for result in out.results.values()}) <= 1


def zero() -> float:
    return 0.0


class Zero:
    """Unpickling it runs Python code, on the thread that calls load()."""

    def __reduce__(self) -> Any:
        return zero, ()


class LoadsInC(Plain):
    load = staticmethod(time.sleep)  # type: ignore[assignment]  # has no Python code that could be interrupted

    def process(self, data: Any) -> Any:
        return os.getpid()


def test_late_interrupt_of_a_load_does_not_hit_the_next_load() -> None:
    # Long enough for the dispatcher to notice that the limit is exceeded, even if the dispatcher itself stalls.
    out = run(LoadsInC, [Zero(), LIMIT + 2.5, Zero(), Zero()], task_timeout=LIMIT, cancel_grace=PATIENT, slow={1})
    assert out.timeouts == [1] and not out.errors
    assert len(set(out.of(0, 2, 3))) <= 1


def test_load_of_a_batch_is_interrupted() -> None:
    options = {"batch_size": 3, "batch_wait": PATIENT, "task_timeout": LIMIT, "cancel_grace": PATIENT, "slow": {0, 2}}
    out = run(LoadsBatches, ["spin", "b", "spin"], **options)
    # Each item is run alone to find the ones that are too slow.
    assert sorted(out.timeouts) == [0, 2] and not out.errors
    assert all(result[:2] == ("batch", "b") for result in out.of(1))


@pytest.mark.parametrize("how", ["sleep", "swallow"])
def test_load_that_cannot_be_interrupted_has_its_worker_replaced(tmp_path: Path, how: str) -> None:
    mark = tmp_path / "mark"
    options = {"task_timeout": LIMIT, "cancel_grace": 0.1, "slow": {1}, "dies": None}
    out = run(Loads, ["a", how, "c"], {"mark": str(mark)}, **options)
    assert out.timeouts == [1]
    pids = [result[3] for result in out.of(0, 2)]
    if mark.exists():  # the task may have been interrupted before it got this far
        assert out.exits and len(set(pids)) == len(pids)


class NotTheHook(Plain):
    def load(self) -> str:  # type: ignore[override]
        return "a helper of the user's"


def test_methods_with_another_signature_are_not_called() -> None:
    assert worker_command(NotTheHook, {})[0][-1] != "--load"
    assert worker_command(LoadsBatches, {})[0][-2:] == ["--batch", "--load"]
    assert run(NotTheHook, [1]).results == {0: 1}


# ---- references ----


class Thing:
    """An object that can be weakly referenced and pickled."""

    def __init__(self, size: int) -> None:
        self.bytes = bytearray(size)


class Watches(Plain):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        self.watched: list[weakref.ref[Any]] = []

    def process(self, data: Any) -> Any:
        if data == "alive":
            return sum(ref() is not None for ref in self.watched), len(self.watched)
        self.watched.append(weakref.ref(data))
        result = Thing(len(data.bytes))
        self.watched.append(weakref.ref(result))
        if data.bytes and data.bytes[0]:
            raise ValueError("with things in its frame")
        return result


class WatchesLoaded(Watches):
    def load(self, data: Any) -> Any:
        if data != "alive":
            self.watched.append(weakref.ref(data))
            data = Thing(len(data.bytes))
        return data


@pytest.mark.parametrize("worker_cls, each", [(Watches, 2), (WatchesLoaded, 3)])
def test_nothing_outlives_its_task(worker_cls: type[BaseWorker], each: int) -> None:
    failing = Thing(10)
    failing.bytes[0] = 1
    things = [Thing(0), Thing(10), Thing(1_000_000), failing]
    # The second "alive" is one task later, when the loaded objects of the tasks before have been released.
    out = run(worker_cls, [*things, "alive", "alive"], io_threads=1, load_ahead=1)
    assert out.results[5] == (0, each * len(things))


@pytest.mark.skipif(SANITIZED, reason="Python then uses malloc, whose blocks are not counted")
def test_blocks_of_memory_do_not_grow() -> None:
    mixed = [1, "text", 2.5, None, b"b" * 40, [1, 2], {"a": 1}, b"b" * 100_000, ValueError("x"), "lock"]
    before, after = "blocks", "blocks"
    # Caches grow by about 1000 blocks during the first 20,000 tasks, and not after that.
    out = run(Plain, [*mixed * 2500, before, *mixed * 2000, after])
    first, last = out.results[25000], out.results[45001]
    assert last - first < 1000  # 20,000 tasks


def test_places_in_the_queue_stay_mapped(tmp_path: Path) -> None:
    """Most of the cost of passing an array on would be the mmap() and munmap() for it."""
    numpy = pytest.importorskip("numpy")
    gate, n = tmp_path / "gate", 200
    os.mkfifo(gate)

    def arrays() -> Any:
        yield str(gate)
        for i in range(n):
            yield numpy.full(10_000, i, dtype="i8")
        gate.write_text("go")  # the worker is still at the first task, so each array has its own place
        yield "count"

    found: list[Any] = []
    Dispatcher(CountsMappings, [0], queue_size=n + 2).run(
        arrays(), on_success=lambda task_id, value, worker_id: found.append(value)
    )
    assert found[:-1] == ["go", *range(n)]
    assert found[-1] >= n


class CountsMappings(Plain):
    def process(self, data: Any) -> Any:
        if not isinstance(data, str):
            return int(data[0])
        if data != "count":
            return Path(data).read_text()
        return sum("memfd:" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_kept_arrays_keep_their_values() -> None:
    numpy = pytest.importorskip("numpy")

    def arrays() -> Any:
        for i in range(30):
            yield numpy.full(250_000, i, dtype="i8")

    out = run(KeepsArrays, arrays(), queue_size=4)
    assert [out.results[i].tolist() for i in range(30)] == [list(range(i + 1)) for i in range(30)]


class KeepsArrays(Plain):
    def process(self, data: Any) -> Any:
        import numpy

        self.kept.append(data)
        assert not data.flags.writeable
        assert all((array == array[0]).all() for array in self.kept)
        return numpy.array([array[-1] for array in self.kept])


# ---- how the main module is imported ----

SCRIPT = """
import os, sys
from gpu_dispatch import BaseWorker, Dispatcher

print("imported as", __name__, flush=True)

class Result:
    def __init__(self, value):
        self.value = value

class Worker(BaseWorker):
    def setup(self, gpu_id, seed, offset):
        self.offset = offset
    def process(self, data):
        if data == "print":
            print("printed before the end")
            os._exit(1)
        return Result(data + self.offset)

def run(items):
    found = []
    try:
        Dispatcher(Worker, [0], crash_limit=1).run(
            items, lambda task, value, worker: found.append(value.value), offset=10)
    finally:
        print("results", found)

{guard}run({items})
"""


def run_python(*words: str, cwd: Path, text: str | None = None) -> str:
    path = str(Path(gpu_dispatch.__file__).parent.parent)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        input=text,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**inherited, "PYTHONPATH": path},
        timeout=250,
    )
    return done.stdout


GUARD = 'if __name__ == "__main__":\n    '


def test_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=GUARD, items=[1, 2]))
    assert run_python("script.py", cwd=tmp_path).splitlines() == [
        "imported as __main__",
        "imported as __mp_main__",
        "results [11, 12]",
    ]


def test_script_without_a_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard="", items=[1, 2]))
    lines = run_python("script.py", cwd=tmp_path).splitlines()
    assert lines[-1] == "results [11, 12]" and lines.count("imported as __mp_main__") == 1


def test_python_dash_m(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "tool.py").write_text(SCRIPT.format(guard=GUARD, items=[1, 2]))
    assert run_python("-m", "package.tool", cwd=tmp_path).splitlines()[-1] == "results [11, 12]"


def test_class_defined_in_a_main_dot_py(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(SCRIPT.format(guard="", items=[1, 2]))
    assert run_python("-m", "package", cwd=tmp_path).splitlines() == ["imported as __main__", "results [11, 12]"]
    assert run_python("package", cwd=tmp_path).splitlines() == ["imported as __main__", "results [11, 12]"]


def test_class_defined_in_an_interactive_session(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    assert "results [11, 12]" in run_python("-", cwd=tmp_path, text=SCRIPT.format(guard="", items=[1, 2]))


def test_class_defined_in_an_interactive_session_without_cloudpickle(tmp_path: Path) -> None:
    (tmp_path / "cloudpickle.py").write_text("raise ImportError('hidden')")
    out = run_python("-", cwd=tmp_path, text=SCRIPT.format(guard="", items=[1]))
    assert "TypeError: the worker class Worker is defined where worker processes can't import it" in out


def test_output_appears_even_if_the_worker_crashes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=GUARD, items=["print"]))
    assert "printed before the end" in run_python("script.py", cwd=tmp_path).splitlines()


def test_start_method_is_left_alone(tmp_path: Path) -> None:
    script = SCRIPT.format(guard=GUARD, items=[1]) + "    import multiprocessing as m; m.set_start_method('spawn')\n"
    (tmp_path / "script.py").write_text(script)
    assert run_python("script.py", cwd=tmp_path).splitlines()[-1] == "results [11]"


def test_local_class_and_lambda() -> None:
    pytest.importorskip("cloudpickle")

    class Local(BaseWorker):
        def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
            self.function = kwargs["function"]

        def process(self, data: Any) -> Any:
            return self.function(data)

    assert run(Local, [2, 3], {"function": lambda x: x * x}).results == {0: 4, 1: 9}


def test_argument_that_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="an argument for setup.. can't be pickled"):
        worker_command(Plain, {"lock": threading.Lock()})


def test_worker_main_works_only_in_workers() -> None:
    with pytest.raises(RuntimeError, match="not started by a dispatcher"):
        _native.worker_main(Host(False, False))
