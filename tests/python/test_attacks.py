# SPDX-License-Identifier: MIT
"""Hard cases for the package: hundreds of killed workers, items and results of a gigabyte, Ctrl-C in a terminal, a
notebook."""

from __future__ import annotations

import os
import signal
import sys
import textwrap

import numpy as np
import pytest

from gpu_dispatch import BaseWorker, Dispatcher

SANITIZED = "LD_PRELOAD" in os.environ  # a process then takes many times as long to start
LONG = 250  # seconds: for events that come at once, except on a busy machine; a test that hangs is ended a little later


class Pid(BaseWorker):
    def setup(self, gpu_id, seed):
        self.pid = os.getpid()

    def process(self, data):
        return data, self.pid


class Doubles(BaseWorker):
    def setup(self, gpu_id, seed):
        pass

    def process(self, data):
        return data * 2


@pytest.mark.timeout(1500)  # on a busy machine 500 processes take minutes to start
@pytest.mark.parametrize("n, kills", [(20_000, 20), pytest.param(200_000, 500, marks=pytest.mark.slow)])
def test_no_task_is_lost_when_workers_are_killed(n, kills):
    """No task is lost, and none is reported twice. Each killed worker has just returned a result and has more tasks."""
    seen = [0] * n
    done, killed = 0, []

    def on_success(task_id, result, worker_id):
        nonlocal done
        assert result[0] == task_id
        seen[task_id] += 1
        done += 1
        if done // (n // (kills + 1)) > len(killed) and len(killed) < kills:
            try:
                os.kill(result[1], signal.SIGKILL)
            except ProcessLookupError:
                return  # the process that returned this result is already dead
            killed.append(result[1])

    errors = []
    dispatcher = Dispatcher(Pid, [0, 1, 2, 3], crash_limit=1000)
    dispatcher.run(range(n), on_success, on_error=lambda *about: errors.append(about))
    assert not errors
    assert seen == [1] * n
    assert len(killed) == kills


def available():
    """Bytes of memory that this process may still use."""
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    try:
        with open("/sys/fs/cgroup/memory.max") as most:
            return min(free, int(most.read()))
    except (OSError, ValueError):  # there is no limit, or it is stored in another file
        return free


@pytest.mark.skipif(available() < 6 << 30, reason="needs 6 GiB of free memory, for five copies of a gigabyte")
def test_item_and_result_of_a_gigabyte():
    results = []
    item = np.full(1 << 27, 1.5)
    item[-1] = 7
    Dispatcher(Doubles, [0], queue_bytes=4 << 30).run([item], lambda task_id, result, worker_id: results.append(result))
    (result,) = results
    assert result.nbytes == 1 << 30
    assert (result[:-1] == 3.0).all() and result[-1] == 14


INTERRUPTED = """
    import time
    from gpu_dispatch import BaseWorker, Dispatcher

    class Sleeper(BaseWorker):
        def setup(self, gpu_id, seed):
            pass

        def process(self, data):
            print("begun", flush=True)
            time.sleep(600)

    if __name__ == "__main__":
        try:
            Dispatcher(Sleeper, [0], stop_grace=0.1).run(range(1000), print)
        except KeyboardInterrupt:
            print("Stopped by user.")
"""


def test_ctrl_c_in_a_terminal(tmp_path):
    pexpect = pytest.importorskip("pexpect")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    child = pexpect.spawn(sys.executable, [str(script)], timeout=LONG)
    child.expect_exact("begun")
    child.sendintr()
    child.expect_exact("Stopped by user.")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


IN_A_NOTEBOOK = [
    """
    import sys
    sys.path.insert(0, DIRECTORY)
    from worker_of_a_notebook import Triples
    from gpu_dispatch import BaseWorker, Dispatcher
    found = []
    Dispatcher(Triples, [0, 1]).run(range(10), lambda task_id, result, worker_id: found.append(result))
    print(sorted(found))
    """,
    """
    class Squares(BaseWorker):  # defined in the notebook itself, so cloudpickle sends it
        def setup(self, gpu_id, seed):
            pass

        def process(self, data):
            return data * data

    print(list(Dispatcher(Squares, [0]).imap(range(5))))
    """,
]

MODULE = """
    from gpu_dispatch import BaseWorker

    class Triples(BaseWorker):
        def setup(self, gpu_id, seed):
            pass

        def process(self, data):
            return 3 * data
"""


@pytest.mark.skipif(SANITIZED, reason="the kernel is another program, without the preloaded sanitizer")
def test_dispatcher_in_a_notebook(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("cloudpickle")
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):  # the user's directories are not used
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "worker_of_a_notebook.py").write_text(textwrap.dedent(MODULE))
    cells = [textwrap.dedent(cell).replace("DIRECTORY", repr(str(tmp_path))) for cell in IN_A_NOTEBOOK]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=LONG, startup_timeout=LONG, kernel_name="python3").execute()
    printed = ["".join(o.get("text", "") for o in cell.outputs if o.get("name") == "stdout") for cell in notebook.cells]
    assert printed == [f"{[3 * i for i in range(10)]}\n", "[0, 1, 4, 9, 16]\n"]
