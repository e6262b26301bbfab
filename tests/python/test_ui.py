"""RichDispatcher: its statistics, its display, and how it handles exceptions."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import BaseWorker, Dispatcher
from gpu_dispatch.ui import STATUS_STYLES, GpuState, RichDispatcher, RunState, dashboard

rich_console = pytest.importorskip("rich.console")

ESCAPE = "\x1b"
LONG = 250  # seconds: for events that come at once, except on a busy machine; a test that hangs is ended a little later
# Otherwise a worker that is slow to start is killed a second after the last task, and its setup is never reported.
PATIENT = {"cancel_grace": LONG, "cleanup_grace": LONG}


class Double(BaseWorker):
    """Doubles numbers. 3 raises an exception, and 5 never ends. Setup fails on GPU 9."""

    def setup(self, gpu_id: int, seed: int, broken: tuple[int, ...] = (9,)) -> None:
        if gpu_id in broken:
            raise ValueError("there is no such [bold]model[/bold]")

    def process(self, data: int) -> int:
        if data == 3:
            raise KeyError("three")
        while data == 5:
            time.sleep(60)
        return 2 * data


def ignore(*args: Any) -> None:
    pass


def counted(**figures: Any) -> RunState:
    """A state in the middle of a run that began at time 100."""
    gpus = {
        0: GpuState("processing", completed=1_234_567, last_duration=0.0123, running={0: (17, 101.0)}, last_task=17),
        1: GpuState("idle", completed=12, failed=3, last_duration=75.0, last_task=9, last_error="KeyError: 'three'"),
        2: GpuState("initializing"),
        3: GpuState("error", last_error="ValueError: no [bold]model[/bold]"),
        4: GpuState("finished", completed=5, timeouts=1, last_duration=2e-6, last_task=3),
    }
    return RunState(gpus, **{"start_time": 1e9, "began": 100.0, **figures})


def text_of(state: RunState, width: int, now: float = 110.0) -> str:
    console = rich_console.Console(width=width, record=True, file=io.StringIO(), color_system=None)
    console.print(dashboard(state, now))
    return console.export_text()


# ---- the layout ----


@pytest.mark.parametrize("width", [40, 80, 200])
def test_layout_fits(width: int) -> None:
    state = counted(
        completed=1_234_584, failed=3, timeouts=1, setup_failures=1, expected_total=2_000_000, first_end=101.0
    )
    lines = text_of(state, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for status in STATUS_STYLES:
        assert status in text
    for figure in ("1,234,588 of 2,000,000", "1,234,584 done", "3 failed", "1 timeout", "1 setup failure", "1,234,567"):
        assert figure in text
    assert "0:00:10 elapsed" in text and "ETA" in text and "tasks/s" in text


def test_layout_columns_by_width() -> None:
    titles = {width: text_of(counted(), width) for width in (40, 80, 200)}
    assert [title in titles[40] for title in ("Task", "Timeouts", "Last error")] == [False, False, False]
    assert [title in titles[80] for title in ("Task", "Timeouts", "Last error")] == [True, True, False]
    assert [title in titles[200] for title in ("Task", "Timeouts", "Last error")] == [True, True, True]
    assert "#17" in titles[80] and "12.3 ms" in titles[80] and "75.0 s" in titles[80] and "2.0 µs" in titles[80]
    assert "ValueError: no [bold]model[/bold]" in titles[200], "error messages are not markup"


def test_control_characters_do_not_reach_the_terminal() -> None:
    words = "a\x1b[2J\x9bm\u202e\u2066\u2028\udc9b\x7f z"
    file = io.StringIO()
    console = rich_console.Console(width=200, file=file, color_system=None)
    console.print(dashboard(RunState({0: GpuState("error", last_error=words)}), 110.0))
    assert "a?[2J?m????? z" in file.getvalue()
    assert all(character == "\n" or character.isprintable() for character in file.getvalue())


def test_layout_without_total_has_no_eta() -> None:
    text = text_of(counted(completed=7), 80)
    assert "7 tasks" in text and "ETA" not in text and " of " not in text


def test_layout_before_the_first_result() -> None:
    text = text_of(RunState({0: GpuState()}, expected_total=10), 80)
    assert "0 of 10 tasks, 0.0 %" in text and "- tasks/s" in text and "- ETA" in text and "initializing" in text


def test_layout_of_no_tasks_expected() -> None:
    assert "0 tasks" in text_of(RunState({0: GpuState("finished")}, expected_total=0), 80)


def test_status_colours() -> None:
    file = io.StringIO()
    console = rich_console.Console(
        width=80, file=file, force_terminal=True, color_system="standard", legacy_windows=False
    )
    console.print(dashboard(counted(), 110.0))
    codes = {"initializing": "36", "processing": "33", "idle": "32", "finished": "1;32", "error": "1;31"}
    for status, code in codes.items():
        assert f"\x1b[{code}m{status}" in file.getvalue(), status


def test_layout_is_pure() -> None:
    state = counted(completed=5)
    assert text_of(state, 80) == text_of(state, 80)
    assert state == counted(completed=5)


# ---- the state ----


def test_eta_uses_the_speed_since_the_first_task() -> None:
    state = RunState({}, expected_total=101, began=0.0, completed=11, first_end=1000.0)
    assert state.eta(1010.0) == pytest.approx(90.0)  # the 1000 seconds before the first task were setup
    state.ended = 1010.0
    assert state.eta(1010.0) is None


@pytest.mark.parametrize(
    "figures", [{}, {"expected_total": 5}, {"expected_total": 5, "completed": 1, "first_end": 1.0}]
)
def test_eta_is_unknown(figures: dict[str, Any]) -> None:
    assert RunState({}, began=0.0, **figures).eta(9.0) is None


def test_eta_is_zero_if_there_are_more_tasks_than_expected() -> None:
    assert RunState({}, began=0.0, expected_total=5, completed=6, first_end=1.0).eta(9.0) == 0.0


def test_current_task_is_the_longest_running() -> None:
    assert GpuState(running={4: (12, 7.0), 5: (11, 6.0)}).current_task == 11
    assert GpuState().current_task is None


# ---- runs without a display ----


def test_statistics() -> None:
    ends: list[int] = []
    before = time.time()
    stats = RichDispatcher(Double, [0, 1], show_ui=False).run(
        (i for i in range(8) if i != 5), lambda t, r, w: ends.append(r)
    )
    assert (stats["total"], stats["completed"], stats["failed"], stats["timeouts"]) == (7, 6, 1, 0)
    assert stats["setup_failures"] == 0 and stats["expected_total"] is None
    assert sorted(ends) == [0, 2, 4, 8, 12, 14]
    assert before <= stats["start_time"] <= stats["end_time"] <= time.time()
    gpus = stats["gpu_status"]
    assert list(gpus) == [0, 1]
    for counter in ("completed", "failed", "timeouts"):
        assert sum(gpu[counter] for gpu in gpus.values()) == stats[counter]
    for gpu in gpus.values():
        assert gpu["status"] == "finished" and gpu["current_task"] is None
        assert (gpu["last_duration"] is None) == (gpu["last_task"] is None)


def test_statistics_of_timeouts() -> None:
    """Only tasks that never end. On a stalled machine, other tasks could exceed the limit too."""
    stats = RichDispatcher(Double, [0, 1], show_ui=False).run([5, 5, 5], ignore, task_timeout=0.2)
    assert (stats["total"], stats["completed"], stats["failed"], stats["timeouts"]) == (3, 0, 0, 3)
    gpus = stats["gpu_status"].values()
    assert sum(gpu["timeouts"] for gpu in gpus) == 3
    assert {gpu["last_error"] for gpu in gpus} - {None} == {"timed out after 0.2 s"}


class Timed(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        self.ready = time.monotonic()

    def process(self, data: Any) -> tuple[float, float, float]:
        begun = time.monotonic()
        return self.ready, begun, time.monotonic()


def test_durations_are_those_of_the_tasks() -> None:
    times: list[float] = []
    dispatcher = RichDispatcher(Timed, [0], show_ui=False)
    stats = dispatcher.run([1], lambda t, r, w: times.extend(r))
    ready, begun, ended = times
    setup = ready - (dispatcher.state.began or 0.0)
    assert ended - begun <= stats["gpu_status"][0]["last_duration"] <= stats["elapsed"] - setup


def test_expected_total() -> None:
    dispatcher = RichDispatcher(Double, [0], show_ui=False)
    assert dispatcher.run([1, 2], ignore)["expected_total"] == 2, "a list has a length"
    assert dispatcher.run(iter([1]), ignore, total_tasks=7)["expected_total"] == 7
    assert dispatcher.run((i for i in [1]), ignore)["expected_total"] is None


def test_state_is_up_to_date_in_callbacks() -> None:
    seen: list[tuple[str, int, int]] = []
    dispatcher = RichDispatcher(Double, [0], show_ui=False)

    def look(what: str, task_id: int) -> None:
        state = dispatcher.state
        seen.append((what, state.total, state.gpus[0].completed + state.gpus[0].failed + state.gpus[0].timeouts))
        if what == "start":
            assert state.gpus[0].status == "processing" and state.gpus[0].current_task == task_id
        else:
            assert state.gpus[0].current_task != task_id

    def on_exit() -> None:
        assert {gpu.status for gpu in dispatcher.state.gpus.values()} == {"finished"}
        seen.append(("exit", dispatcher.state.total, 0))

    def run(items: list[int], **limit: float) -> list[tuple[str, int, int]]:
        seen.clear()
        dispatcher.run(
            items,
            on_success=lambda t, r, w: look("success", t),
            on_error=lambda t, e, w: look("error", t),
            on_timeout=lambda t, s, w: look("timeout", t),
            on_task_start=lambda t, w: look("start", t),
            on_exit=on_exit,
            **limit,
        )
        starts = sum(entry[0] == "start" for entry in seen)
        assert starts == len(items) or (limit and starts < len(items)), "a task that is too late does not start"
        return [entry for entry in seen if entry[0] != "start"]

    assert run([1, 3]) == [("success", 1, 1), ("error", 2, 2), ("exit", 2, 0)]
    assert run([5, 5], task_timeout=0.2) == [("timeout", 1, 1), ("timeout", 2, 2), ("exit", 2, 0)]


def test_timeouts_without_on_timeout_go_to_on_error() -> None:
    errors: list[tuple[int, str]] = []
    stats = RichDispatcher(Double, [0], show_ui=False).run(
        [5], ignore, lambda t, e, w: errors.append((t, e)), task_timeout=0.1
    )
    assert errors == [(0, "timed out after 0.1 s")] and stats["timeouts"] == 1 and stats["failed"] == 0


def test_setup_fails_on_one_gpu() -> None:
    failures: list[tuple[int, str]] = []
    dispatcher = RichDispatcher(Double, [0, 9], show_ui=False, **PATIENT)

    def on_setup_fail(gpu_id: int, error: str) -> None:
        assert dispatcher.state.gpus[gpu_id].status == "error" and dispatcher.state.setup_failures == 1
        failures.append((gpu_id, error))

    stats = dispatcher.run([1, 2], ignore, on_setup_fail=on_setup_fail)
    assert stats["setup_failures"] == 1 and stats["completed"] == 2
    assert stats["gpu_status"][9]["status"] == "error" and stats["gpu_status"][0]["status"] == "finished"
    assert stats["gpu_status"][9]["last_error"] == "ValueError: there is no such [bold]model[/bold]"
    assert failures[0][0] == 9 and "Traceback" in failures[0][1]


def test_setup_failure_on_all_gpus_is_raised() -> None:
    dispatcher = RichDispatcher(Double, [9], show_ui=False)
    with pytest.raises(RuntimeError, match="All workers failed during setup"):
        dispatcher.run([1], ignore)
    assert dispatcher.state.gpus[9].status == "error"


def test_several_workers_per_gpu() -> None:
    stats = RichDispatcher(Double, [4, 6], show_ui=False, workers_per_gpu=2).run([1] * 200, ignore)
    assert set(stats["gpu_status"]) == {4, 6}
    assert sum(gpu["completed"] for gpu in stats["gpu_status"].values()) == 200


def test_devices_by_specification() -> None:
    stats = RichDispatcher(Double, "sim:2", show_ui=False).run([1, 2], ignore)
    assert set(stats["gpu_status"]) == {0, 1} and stats["completed"] == 2


def test_dispatcher_can_run_again() -> None:
    dispatcher = RichDispatcher(Double, [0], show_ui=False)
    for _ in range(2):
        assert dispatcher.run([1, 2], ignore)["total"] == 2
    assert dispatcher.get_stats()["completed"] == 2


def test_shutdown_from_a_callback() -> None:
    dispatcher = RichDispatcher(Double, [0], queue_size=4, show_ui=False)
    stats = dispatcher.run(iter(lambda: 1, 2), lambda t, r, w: dispatcher.shutdown())
    assert stats["completed"] >= 1 and stats["gpu_status"][0]["status"] == "finished"


# ---- what is wrong ----


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_bad_refresh_rate(rate: float) -> None:
    with pytest.raises(ValueError, match="refresh_rate"):
        RichDispatcher(Double, [0], refresh_rate=rate)


def test_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match=r"pip install gpu_dispatch\[ui\]"):
        RichDispatcher(Double, [0])
    assert RichDispatcher(Double, [0], show_ui=False).run([1], ignore)["completed"] == 1


def test_rich_is_not_imported_early() -> None:
    code = "import sys, gpu_dispatch.ui; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


# ---- displays; each has its own console ----


class Page:
    """A console that is a terminal or not, and the text that was written to it."""

    def __init__(self, terminal: bool) -> None:
        self.file = io.StringIO()
        self.console = rich_console.Console(
            file=self.file, force_terminal=terminal, width=80, height=30, _environ={"TERM": "xterm"}
        )

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())


@pytest.mark.parametrize("terminal", [True, False])
class TestDisplay:
    def test_end(self, terminal: bool) -> None:
        page = Page(terminal)
        stats = RichDispatcher(Double, [0, 9], console=page.console, **PATIENT).run([1, 2, 3], ignore)
        assert stats["completed"] == 2
        last = page.text[page.text.rindex("gpu_dispatch") :]
        assert "3 of 3 tasks, 100.0 %" in last and "2 done" in last and "1 failed" in last
        assert re.search(r"0 +finished", last) and re.search(r"9 +error", last)
        assert (ESCAPE in page.file.getvalue()) == terminal

    def test_callback_exception(self, terminal: bool) -> None:
        error = ZeroDivisionError("in a callback")

        def raise_it(*args: Any) -> None:
            raise error

        with pytest.raises(ZeroDivisionError) as caught:
            RichDispatcher(Double, [0], console=Page(terminal).console).run(iter(lambda: 1, 2), raise_it)
        assert caught.value is error
        assert "raise_it" in [entry.name for entry in caught.traceback]

    def test_generator_exception(self, terminal: bool) -> None:
        def items() -> Any:
            yield 1
            raise LookupError("in the generator")

        results: list[int] = []
        with pytest.raises(LookupError, match="in the generator"):
            RichDispatcher(Double, [0], console=Page(terminal).console).run(items(), lambda t, r, w: results.append(r))
        assert results == [2]

    def test_thread_of_callbacks(self, terminal: bool) -> None:
        threads = set()
        RichDispatcher(Double, [0], console=Page(terminal).console).run(
            [1],
            lambda t, r, w: threads.add(threading.current_thread()),
            on_exit=lambda: threads.add(threading.current_thread()),
        )
        assert threads != {threading.current_thread()} if terminal else threads == {threading.current_thread()}

    def test_keyboard_interrupt(self, terminal: bool) -> None:
        """Ctrl-C after a task that never ends has started."""

        def interrupt(task_id: int, worker_id: int) -> None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        dispatcher = RichDispatcher(Double, [0], console=Page(terminal).console, refresh_rate=100)
        with pytest.raises(KeyboardInterrupt):
            dispatcher.run([5], ignore, on_task_start=interrupt)
        assert not [thread for thread in threading.enumerate() if thread.name == "gpu_dispatch"]


def test_display_is_drawn_while_it_runs(tmp_path: Path) -> None:
    """The task ends only after the display shows that it is running."""
    page = Page(True)
    dispatcher = RichDispatcher(Gated, [0], console=page.console, refresh_rate=50)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shown = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "processing" in text:
                shown.set()
            return super().write(text)

    page.console.file = Watched()

    def open_gate(task_id: int, worker_id: int) -> None:
        threading.Thread(target=lambda: gate.write_bytes(b"x" if shown.wait(LONG) else b"")).start()

    stats = dispatcher.run([str(gate)], ignore, on_task_start=open_gate)
    assert shown.is_set() and stats["completed"] == 1


class Gated(BaseWorker):
    """Each task waits for a byte."""

    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: str) -> bytes:
        with open(data, "rb", buffering=0) as gate:
            return gate.read(1)


def test_display_that_cannot_be_drawn_ends_the_run() -> None:
    page = Page(True)

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if "processing" in text:
                raise OSError("no space left")
            return super().write(text)

    page.console.file = Full()
    with pytest.raises(OSError, match="no space left"):
        RichDispatcher(Double, [0], console=page.console, refresh_rate=100).run([5], ignore)


def test_worker_output_does_not_disturb_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[bool, Any] = {}

    class Spy(Dispatcher):
        def __init__(self, cls: Any, gpus: Any, size: int, quiet: bool, **more: Any) -> None:
            asked[len(asked) == 0] = quiet
            super().__init__(cls, gpus, size, quiet, **more)

    monkeypatch.setattr("gpu_dispatch.ui.Dispatcher", Spy)
    RichDispatcher(Double, [0], console=Page(True).console)
    RichDispatcher(Double, [0], console=Page(False).console)
    assert asked == {True: True, False: False}


def test_on_a_real_terminal(tmp_path: Path) -> None:
    """Runs a script on a pseudo-terminal. The display is drawn in place, the output of callbacks stays visible, and the
    cursor is shown again at the end."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    main, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, script], stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "xterm"}
    )
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(main, 65536):
            output += chunk
    except OSError:  # the other side is closed
        pass
    os.close(main)
    assert child.wait(LONG) == 0, output.decode()
    text = output.decode()
    assert "printed by a callback" in text and "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "COMPLETED 4" in text


SCRIPT = """
from gpu_dispatch import BaseWorker
from gpu_dispatch.ui import RichDispatcher

class Worker(BaseWorker):
    def setup(self, gpu_id, seed):
        print("this would tear the display")
    def process(self, data):
        return data

if __name__ == "__main__":
    dispatcher = RichDispatcher(Worker, gpu_ids=[0, 1])
    stats = dispatcher.run(range(4), lambda t, r, w: print("printed by a callback"))
    print("COMPLETED", stats["completed"])
"""
