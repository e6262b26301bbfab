"""Resumes a run whose list has another order than the journal. The whole journal is then read to index it, which may
take long.

A preloaded library (tests/journal/preload_index.c) stops the process under test while it builds the index, until
another Python thread of the process, or a signal handler, lets it continue. If Python's lock were held meanwhile, the
process would never end.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from gpu_dispatch import _native

PRELOAD = pathlib.Path(os.environ.get("GD_TEST_PLUGINS", "/nonexistent")) / "preload_index.so"
LIMIT = 120  # seconds, for a process that would never end

pytestmark = [
    pytest.mark.skipif(not _native.journal_available(), reason="built without SQLite"),
    pytest.mark.skipif(not PRELOAD.exists(), reason="GD_TEST_PLUGINS has no preload_index.so"),
]

PROGRAM = """
import os, signal, sys, threading
from gpu_dispatch import BaseWorker, Dispatcher

class Same(BaseWorker):
    def setup(self, gpu_id, seed):
        pass
    def process(self, data):
        return data

def go_on():
    with open("go", "w") as go:
        go.write("x")

def let_go():
    with open("held") as held:
        held.read(1)
    print("a thread runs", flush=True)
    go_on()

def interrupted(number, frame):
    print("a handler was called", flush=True)
    go_on()
    raise KeyboardInterrupt

def main():
    how = sys.argv[1]
    items = list(range(12000))
    if how == "thread":
        threading.Thread(target=let_go, daemon=True).start()
    signal.signal(signal.SIGINT, interrupted)
    dispatcher = Dispatcher(Same, [0, 1])
    try:
        if how == "first":
            dispatcher.run(items, lambda *args: None, journal="run.db")
        else:
            dispatcher.run(items[::-1], lambda *args: print("run again"), journal="run.db", resume=True)
            print("all is done")
    except KeyboardInterrupt:
        print("interrupted")

if __name__ == "__main__":
    main()
"""


def start(directory: pathlib.Path, how: str, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, **more}
    return subprocess.Popen(
        [sys.executable, "program.py", how], cwd=directory, env=env, stdout=subprocess.PIPE, text=True, errors="replace"
    )


def end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"the process did not end; its output: {process.communicate()[0]!r}")


def resume_held(directory: pathlib.Path, how: str) -> subprocess.Popen[str]:
    (directory / "program.py").write_text(textwrap.dedent(PROGRAM))
    first = start(directory, "first")
    assert end(first) == "" and first.returncode == 0
    for name in ("held", "go"):
        os.mkfifo(directory / name)
    loaded = f"{os.environ.get('LD_PRELOAD', '')} {PRELOAD}".strip()
    held, go = str(directory / "held"), str(directory / "go")
    return start(directory, how, LD_PRELOAD=loaded, GD_INDEX_HELD=held, GD_INDEX_GO=go)


def test_other_threads_run_while_the_journal_is_indexed(tmp_path: pathlib.Path) -> None:
    assert end(resume_held(tmp_path, "thread")) == "a thread runs\nall is done\n"


def test_signals_are_handled_while_the_journal_is_indexed(tmp_path: pathlib.Path) -> None:
    process = resume_held(tmp_path, "signal")
    with open(tmp_path / "held") as held:
        assert held.read(1) == "x"
    process.send_signal(signal.SIGINT)
    assert end(process) == "a handler was called\ninterrupted\n"
