# SPDX-License-Identifier: MIT
"""Runs the examples of README.md and docs/*.md as they are printed.

    examples.py BUILD_DIR [DOCUMENT...]

A document is run from top to bottom in its own directory, with the command, the library and the Python package of
BUILD_DIR. At the start the directory has only links to examples/ and tests/. The kinds of blocks:

    ```sh                   run by bash; it must end with status 0
    ```LANG title="NAME"    written to the file NAME
    ```LANG                 for c and python, a title or a comment is required, so that every program is tested

A comment in the line before a block changes how it is treated:

    <!-- not run: REASON -->    the block is left out
    <!-- needs: PART, ... -->   the block is left out if BUILD_DIR lacks PART (python, journal, http, transcribe or
                                queue), or if the machine has no program of that name
    <!-- prints -->             the block is what the block before it printed to standard output

A document that needs `queue` has a NATS server with examples/queue/gpu-dispatch.conf while it is run. The part is missing
if there is no server, or if another program uses its port. A process that an example leaves in the background writes its
id to a file NAME.pid, and is killed at the end.

`sleep` returns at once here, because examples sleep only to give a reader time to watch. Prints a line for each
document and, last, "N passed, N failed".
"""
import ctypes
import ctypes.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = ("c", "python")
FENCE = re.compile(r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?$")
COMMENT = re.compile(r"^<!-- (?P<what>not run|needs|prints)(?:: (?P<value>.*))? -->$")
# Variables that a new user has not set.
UNSET = ("CUDA_VISIBLE_DEVICES", "GPU_DISPATCH_SIM", "GPU_DISPATCH_HTTP_TOKEN", "PARALLEL_SHELL", "NO_COLOR")
LIMIT_S = 300
QUEUE_SERVER = ("127.0.0.1", 4222)  # as in examples/queue/gpu-dispatch.conf


class Failed(Exception):
    pass


class Block:
    def __init__(self, line, language, title, comment):
        self.line, self.language, self.title, self.text = line, language, title, ""
        self.what, self.value = (comment["what"], comment["value"]) if comment else (None, None)


def blocks_of(document):
    """The fenced blocks of a document, in order."""
    block, before = None, ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if block is None and line.startswith("```"):
            fence = FENCE.match(line)
            if not fence:
                raise Failed(f"line {number}: cannot read {line}")
            block = Block(number, fence["language"], fence["title"], COMMENT.match(before))
        elif block is not None and line == "```":
            yield block
            block = None
        elif block is not None:
            block.text += line + "\n"
        before = line
    if block is not None:
        raise Failed(f"line {block.line}: the end of the block is missing")


def parts_of_the_build():
    """The optional parts of this build."""
    command = BUILD / "gpu-dispatch"

    def works(*words):
        done = subprocess.run([command, *words], cwd=BUILD, env=environment(BUILD), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    with tempfile.TemporaryDirectory() as directory:
        return {
            "python": (BUILD / "python" / "interpreter").exists(),
            "journal": works("run", "--gpus", "sim:1", "--journal", f"{directory}/j.db", "true", ":::", "a"),
            "http": works("run", "--gpus", "sim:1", "--http", "0", "true", ":::", "a"),
            "queue": works("push", "--help") and can_have_queues(),
            "transcribe": works("transcribe", "--check", "--gpus", "cpu", "--model-size", "demo"),
        }


def nats_server():
    """The program that tools/setup.sh has fetched, or None."""
    asked = subprocess.run([ROOT / "tools" / "nats_server.sh", "new", "--path"], capture_output=True, text=True)
    path = pathlib.Path(asked.stdout.strip() or "/nowhere")
    return path if path.exists() else None


def can_have_queues():
    try:
        with socket.create_server(QUEUE_SERVER):
            pass
        ctypes.CDLL(ctypes.util.find_library("nats") or "libnats is missing")
    except OSError:
        return False
    return nats_server() is not None


def start_nats(directory):
    """Returns when the server is ready."""
    server = subprocess.Popen([nats_server(), "-js", "-c", "examples/queue/gpu-dispatch.conf"], cwd=directory,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if not any("Server is ready" in line for line in server.stderr):
        raise Failed("nats-server did not start")
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server


def end_processes(directory, server):
    for path in directory.glob("*.pid"):
        try:
            os.kill(int(path.read_text(encoding="ascii")), signal.SIGKILL)
        except (ValueError, ProcessLookupError):
            pass
    if server:
        server.kill()
        server.communicate()


def environment(directory):
    own = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {
        **own,
        "PATH": f"{directory}/.bin:{BUILD}:{os.environ['PATH']}",
        "PYTHONPATH": str(BUILD / "python"),
        "PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled"),
        "LD_LIBRARY_PATH": str(BUILD / "src"),
        "GPU_DISPATCH_HOST": str(next(BUILD.glob("**/gpu-dispatch-host"), "")),
        "GPU_DISPATCH_JOBS": f"{directory}/.jobs",
        "GPU_DISPATCH_LOCKS": str(directory),
        "GPU_DISPATCH_MODELS": str(ROOT / "models"),
        "HOME": str(directory),
        "SHELL": "/bin/sh",
        "TERM": "dumb",
    }


def fill(directory):
    """Adds the Python that the package was built for, a `sleep` that returns at once, and links to the tree."""
    programs = {"sleep": "exit 0"}
    interpreter = BUILD / "python" / "interpreter"
    if interpreter.exists():
        programs["python3"] = f'exec {interpreter.read_text(encoding="utf-8").strip()} "$@"'
    (directory / ".bin").mkdir()
    for name, line in programs.items():
        path = directory / ".bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    (directory / ".jobs").mkdir(mode=0o700)
    for name in ("examples", "tests"):
        (directory / name).symlink_to(ROOT / name)


def run_shell(block, directory):
    done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", block.text], cwd=directory, env=environment(directory),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Failed(f"line {block.line}: status {done.returncode}\n{block.text}{done.stdout}{done.stderr}")
    return done.stdout


def has_part(name, parts):
    return parts[name] if name in parts else shutil.which(name) is not None


def run_block(block, directory, printed, parts):
    """Returns the output that a later `prints` block is compared with."""
    if block.what == "not run":
        return None
    if block.what == "needs" and not all(has_part(name, parts) for name in block.value.split(", ")):
        return None
    if block.what == "prints":
        if printed is not None and printed.strip() != block.text.strip():
            raise Failed(f"line {block.line}: expected\n{block.text}but the output was\n{printed}")
        return None
    if block.title:
        path = directory / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return printed
    if block.language in PROGRAMS:
        raise Failed(f"line {block.line}: a program without a title; add a title, or a comment with the reason why it is not run")
    return run_shell(block, directory) if block.language == "sh" else None


def run_document(document, parts):
    """Returns how many shell blocks were run."""
    count, printed, server = 0, None, None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gd-docs-"))
    try:
        fill(directory)
        if parts["queue"] and any(block.what == "needs" and "queue" in block.value for block in blocks_of(document)):
            server = start_nats(directory)
        for block in blocks_of(document):
            printed = run_block(block, directory, printed, parts)
            count += block.language == "sh" and printed is not None
    finally:
        end_processes(directory, server)
        shutil.rmtree(directory, ignore_errors=True)
    return count


def main():
    wanted = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    documents = wanted or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    parts, failed = parts_of_the_build(), 0
    print("this build has:", ", ".join(name for name, there in parts.items() if there) or "the command alone")
    for document in documents:
        try:
            print(f"ok {document.relative_to(ROOT)}: {run_document(document, parts)} examples", flush=True)
        except (Failed, subprocess.TimeoutExpired) as problem:
            print(f"FAILED {document.relative_to(ROOT)}: {problem}", flush=True)
            failed += 1
    print(f"{len(documents) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
