#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples of the manual pages, on simulated GPUs.

Every block from .EX to .EE is shell code and must succeed. The blocks of a page run one after the other in one directory
that has the files they name (prepare()). A block is left out if the line before it is a comment that begins with
"not run:". Programs that are not installed here are replaced by ones that do nothing.

usage: man_examples.py SOURCE_ROOT BUILD_ROOT journals|no-journals
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
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
AUDIO = ("a.wav", "data/b.wav", "data/more/c.wav", "data/audio/d.wav", "talks/more/e.mp3", "talks/f.flac", "calls/g.wav",
         "clips/h.wav")
# Only the demo model is in the tree. The last --model-size counts.
WITH_DEMO_MODEL = """#!/bin/sh
case "$0 $1" in *" transcribe" | *launcher*) set -- "$@" --model-size demo ;; esac
exec {program} "$@"
"""
UNSET = ("BASH_ENV", "CUDA_VISIBLE_DEVICES", "GPU_DISPATCH_HTTP_TOKEN", "GPU_DISPATCH_MODELS", "HIP_VISIBLE_DEVICES",
         "PARALLEL_SHELL", "ROCR_VISIBLE_DEVICES", "WHISPER_MODEL_DIR", "ZE_AFFINITY_MASK")
MISSING_IS_NOTHING = ("jq", "sqlite3")
WITH_JOURNAL = ("gpu-dispatch-run.1", "gpu-dispatch-transcribe.1", "gpu-dispatch-report.1", "gpu-dispatch-status.1",
                "gpu-dispatch-export.1", "gpu-dispatch-journal.5")
JOURNAL_IS_THERE = ("gpu-dispatch-status.1", "gpu-dispatch-export.1", "gpu-dispatch-journal.5")


def examples(page):
    """The blocks of a page that can be run."""
    blocks = re.findall(r'^(\.\\" not run:.*\n)?\.EX\n(.*?)^\.EE', page.read_text(), re.MULTILINE | re.DOTALL)
    plain = {r"\-": "-", r"\e": "\\", r"\(aq": "'", r"\(dq": '"'}
    return [re.sub(r"\\(-|e|\(aq|\(dq)", lambda escape: plain[escape[0]], text) for skipped, text in blocks if not skipped]


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
    for name in MISSING_IS_NOTHING:
        if not shutil.which(name):
            write(programs / name, "#!/bin/sh\ncat > /dev/null\n", 0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
    return dict(inherited, PATH=f"{programs}:{os.environ['PATH']}", HOME=str(directory), SHELL="/bin/bash",
                GPU_DISPATCH_SIM="4", GPU_DISPATCH_JOBS=str(directory / "jobs"),
                GPU_DISPATCH_TRANSCRIBER=str(build / "tests" / "plugin_transcribe.so"))


def run(script, directory, env):
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=directory, env=env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def prepare(directory, source, env, with_journal):
    """The files that examples name, and a journal with a failed task."""
    write(directory / "infer.py", INFER)
    write(directory / "worker.py", WORKER)
    write(directory / "transcribe", TRANSCRIBE, 0o755)
    write(directory / "list", "a.jpg\nb.jpg\n")
    for name in ("a.jpg", "b.jpg"):
        write(directory / name, "")
    for name in AUDIO:
        write_audio(directory / name)
    (directory / "models").symlink_to(source / "models")
    if with_journal:
        failed = run("gpu-dispatch run --quiet --journal run.db python3 infer.py ::: a.jpg c.jpg", directory, env)
        assert failed.returncode == 1, failed.stdout
        write(directory / "c.jpg", "")


def try_page(page, source, build, with_journal):
    """Runs the examples of a page. Returns how many there were."""
    blocks = examples(page)
    with tempfile.TemporaryDirectory(prefix="gd-man-") as name:
        directory = pathlib.Path(name)
        env = environment(directory, build)
        prepare(directory, source, env, with_journal)
        if with_journal and page.name not in JOURNAL_IS_THERE:
            (directory / "run.db").unlink()
        for block in blocks:
            done = run(block, directory, env)
            assert done.returncode == 0, f"exit status {done.returncode} of\n{block}{done.stdout}"
    return len(blocks)


def main():
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    journals = sys.argv[3] == "journals"
    passed = failed = skipped = 0
    for page in sorted((source / "man").glob("gpu-dispatch*.[15]")):
        if page.name in WITH_JOURNAL and not journals:
            skipped += 1
            continue
        try:
            assert try_page(page, source, build, page.name in WITH_JOURNAL), "it has no example"
            passed += 1
        except AssertionError as error:
            failed += 1
            print(f"FAILED {page.name}: {error}")
    print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed > 0 or passed == 0


sys.exit(main())
