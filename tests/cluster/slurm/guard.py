# SPDX-License-Identifier: MIT
"""Ends every process that a test has started, also the daemons among them, even if the test is killed.

Three processes:

    front    what the user or Meson starts. It only waits. If it dies in any way, even by SIGKILL, the guard notices
    guard    a session of its own. Processes below it that lose their parent become its children (a "subreaper"), so
             daemons do not escape. When the body ends or the front dies, it kills everything below it
    body     runs the test
"""
import ctypes
import os
import select
import shutil
import signal
import sys
import tempfile

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """From now on, descendants that lose their parent become children of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children_of(parent):
    """The process ids of all children, zombies among them."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                if name.isdigit() and int(stat.read().rpartition(b")")[2].split()[1]) == parent:
                    found.append(int(name))
        except OSError:
            pass  # not a process, or it has ended
    return found


def kill_all_below():
    """Kills and waits for every descendant. The caller adopts orphans, so the children of killed processes come next."""
    while True:
        for child in children_of(os.getpid()):
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def exit_code(status):
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def run_body(body, directory):
    """Runs the body in this process, and never returns."""
    code = 1
    try:
        code = int(body(directory) or 0)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:  # also a KeyboardInterrupt: the guard does the rest
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


def watch(body, front):
    """The guard: front is a pipe whose other end only the front holds. Returns the exit code of the body."""
    os.setsid()
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the front has ended
    # Not in TMPDIR: the paths of Unix sockets must be short.
    directory = tempfile.mkdtemp(prefix="gd_slurm.", dir="/tmp")
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.close(front)
        run_body(body, directory)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([front, ended], [], [])
    code = exit_code(os.waitpid(pid, 0)[1]) if ended in ready else 1
    kill_all_below()
    shutil.rmtree(directory, ignore_errors=True)
    return code


def run(body):
    """Runs body(directory) under a guard, removes the directory afterwards, and exits with what the body returned."""
    sys.stdout.flush()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        os._exit(watch(body, read_end))
    os.close(read_end)
    sys.exit(exit_code(os.waitpid(pid, 0)[1]))
