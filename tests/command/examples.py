#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples of the manual pages and of --help, on simulated GPUs.

In a manual page every block from .EX to .EE is shell code, and must succeed. A block is left out if the line before it is
a comment that begins with "not run:". In a help text every indented line that calls one of our programs is an example. The
examples of one text run one after the other, in a directory that has the files they name (prepare()). Programs that are
not installed are replaced by programs that do nothing. Examples with a queue use a real server instead of "host", and are
left out if there is none.

usage: examples.py SOURCE_ROOT BUILD_ROOT journals|no-journals
"""
import contextlib
import ctypes
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import wave

INFER = """import os, sys
sys.exit(0 if os.path.exists(sys.argv[1]) else "no such file: " + sys.argv[1])
"""
WORKER = """import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps({"id": task["id"], "output": task["input"]}), flush=True)
"""
TRANSCRIBE = """#!/bin/sh
echo "$1"
test -z "$2" || echo "$1" > "$2"
"""
AUDIO = ("a.wav", "data/b.wav", "data/more/c.wav", "data/audio/d.wav", "talks/more/e.mp3", "talks/f.flac", "talks/g.mp3",
         "calls/h.wav", "clips/i.wav")
# Only the demo model is in the tree, so --model-size demo is appended. If an option is given twice, the last counts.
WITH_DEMO_MODEL = """#!/bin/sh
case "$0 $1" in *" transcribe" | *launcher*) set -- "$@" --model-size demo ;; esac
exec {program} "$@"
"""
UNSET = ("BASH_ENV", "CUDA_VISIBLE_DEVICES", "GPU_DISPATCH_HTTP_TOKEN", "GPU_DISPATCH_MODELS", "HIP_VISIBLE_DEVICES",
         "PARALLEL_SHELL", "ROCR_VISIBLE_DEVICES", "WHISPER_MODEL_DIR", "ZE_AFFINITY_MASK")
MISSING_IS_NOTHING = ("jq", "sqlite3")
HELP = ("", "run", "transcribe", "models", "gpus", "estimate", "top", "status", "export", "report", "merge", "push", "journal", "stream")
NEEDS_JOURNALS = ("run", "transcribe", "report", "status", "export", "merge", "journal", "top")
JOURNAL_IS_THERE = ("gpu-dispatch-status.1", "gpu-dispatch-export.1", "gpu-dispatch-journal.5", "help status", "help export")
SHARDS_ARE_THERE = tuple(f(name) for name in ("status", "export", "report", "merge", "top")
                         for f in ("help {}".format, "gpu-dispatch-{}.1".format))
QUEUE_COMMANDS = ("push --queue {} ::: a.jpg", "run --quiet --queue {} python3 infer.py")
# These need a job with this number, a run with failed tasks, a network, and a checkpoint.
HELP_NOT_RUN = ("4711", "run.failed.jsonl", "models download", "models convert")


def of_page(page):
    """The runnable examples of a manual page."""
    blocks = re.findall(r'^(\.\\" not run:.*\n)?\.EX\n(.*?)^\.EE', page.read_text(), re.MULTILINE | re.DOTALL)
    plain = {r"\-": "-", r"\e": "\\", r"\(aq": "'", r"\(dq": '"'}
    return [re.sub(r"\\(-|e|\(aq|\(dq)", lambda escape: plain[escape[0]], text) for skipped, text in blocks if not skipped]


def of_help(*command):
    """The runnable examples of a help text. Two blanks end an example. An explanation may follow."""
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^  (\S.*)$", re.sub(r"\\\n +", "", text), re.MULTILINE)
    calls = [line.split("  ")[0] for line in lines if re.match(r"(\S+=\S+ |\w+ \| )?(gpu-dispatch|launcher_multigpu) ", line)]
    return [call for call in calls if not any(part in call for part in HELP_NOT_RUN)]


def write(path, text, mode=0o644):
    path.write_text(text)
    path.chmod(mode)


def write_audio(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as audio:
        audio.setparams((1, 2, 8000, 0, "NONE", ""))
        audio.writeframes(bytes(16000))


def environment(directory, build):
    programs = directory / "programs"
    programs.mkdir()
    for name in ("gpu-dispatch", "launcher_multigpu"):
        write(programs / name, WITH_DEMO_MODEL.format(program=build / name), 0o755)
    write(programs / "CMD", "#!/bin/sh\necho \"$@\"\n", 0o755)
    for name in MISSING_IS_NOTHING:
        if not shutil.which(name):
            write(programs / name, "#!/bin/sh\ncat > /dev/null\n", 0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
    return dict(inherited, PATH=f"{programs}:{os.environ['PATH']}", HOME=str(directory), SHELL="/bin/bash",
                GPU_DISPATCH_SIM="4", GPU_DISPATCH_JOBS=str(directory / "jobs"), GPU_DISPATCH_LOCKS=str(directory),
                GPU_DISPATCH_TRANSCRIBER=str(build / "tests" / "plugin_transcribe.so"))


def run(script, directory, env):
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=directory, env=env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def prepare(directory, source, env, with_shards, with_journal):
    """The files that examples name, the journals of two shards, and a journal with a failed task."""
    write(directory / "infer.py", INFER)
    write(directory / "worker.py", WORKER)
    write(directory / "worker", f"#!{sys.executable}\n{WORKER}", 0o755)
    write(directory / "transcribe", TRANSCRIBE, 0o755)
    write(directory / "program", "#!/bin/sh\n", 0o755)
    for name in ("list", "list.txt"):
        write(directory / name, "a.jpg\nb.jpg\n")
    for name in ("a.jpg", "b.jpg"):
        write(directory / name, "")
    for name in AUDIO:
        write_audio(directory / name)
    (directory / "models").symlink_to(source / "models")
    for shard in ("1/2", "2/2") if with_shards else ():
        done = run(f"gpu-dispatch run --quiet --shard {shard} --journal part.db python3 infer.py ::: a.jpg b.jpg", directory, env)
        assert done.returncode == 0, done.stdout
    if with_journal:
        failed = run("gpu-dispatch run --quiet --journal run.db python3 infer.py ::: a.jpg c.jpg", directory, env)
        assert failed.returncode == 1, failed.stdout
        write(directory / "c.jpg", "")


def can_have_queues():
    try:
        ctypes.CDLL(ctypes.util.find_library("nats") or "libnats is missing")
    except OSError:
        return False
    return os.path.exists(os.environ.get("GD_TEST_NATS_SERVER", ""))


@contextlib.contextmanager
def nats_server(directory):
    """Yields the host and port of a server."""
    server = subprocess.Popen([os.environ["GD_TEST_NATS_SERVER"], "-js", "-a", "127.0.0.1", "-p", "-1", "-sd",
                               str(directory / "server")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        address = ""
        for line in server.stderr:
            found = re.search(r"Listening for client connections on (\S+)", line)
            address = found[1] if found else address
            if "Server is ready" in line:
                break
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield address
    finally:
        server.kill()
        server.wait()


def try_queue_examples(examples, directory, env):
    """The queues that the examples name have a task with a record, unless the examples push tasks."""
    with nats_server(directory) as address:
        for name in sorted(set(re.findall(r"nats://host/(\w+)", "\n".join(examples)))):
            for command in () if any(" push " in example for example in examples) else QUEUE_COMMANDS:
                done = run("gpu-dispatch " + command.format(f"nats://{address}/{name}"), directory, env)
                assert done.returncode == 0, done.stdout
        for example in examples:
            done = run(example.replace("nats://host/", f"nats://{address}/"), directory, env)
            assert done.returncode == 0, f"exit status {done.returncode} of\n{example}\n{done.stdout}"


def try_examples(name, examples, source, build, journals):
    """Runs the examples of one text."""
    assert examples, "the text has no example"
    with tempfile.TemporaryDirectory(prefix="gd-examples-") as made:
        directory = pathlib.Path(made)
        env = environment(directory, build)
        prepare(directory, source, env, journals and name in SHARDS_ARE_THERE, journals and name in JOURNAL_IS_THERE)
        for example in examples:
            if "nats://" not in example:
                done = run(example, directory, env)
                assert done.returncode == 0, f"exit status {done.returncode} of\n{example}\n{done.stdout}"
        with_queue = [example for example in examples if "nats://" in example]
        if with_queue and can_have_queues():
            try_queue_examples(with_queue, directory, env)


def texts(source, build):
    """(name, examples) of every text that has examples."""
    for page in sorted((source / "man").glob("gpu-dispatch*.[15]")):
        yield page.name, of_page(page)
    for topic in HELP:
        yield f"help {topic}".strip(), of_help(build / "gpu-dispatch", "help", *topic.split())
    yield "launcher_multigpu --help", of_help(build / "launcher_multigpu", "--help")


def main():
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    journals = sys.argv[3] == "journals"
    passed = failed = skipped = 0
    for name, examples in texts(source, build):
        if not journals and any(part in NEEDS_JOURNALS for part in re.split(r"[-. ]", name)):
            skipped += 1
            continue
        try:
            try_examples(name, examples, source, build, journals)
            passed += 1
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}")
    print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
