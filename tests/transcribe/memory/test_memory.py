# SPDX-License-Identifier: MIT
"""Memory does not grow with the length or the number of files. Each case runs the command twice, the second time with ten
times as much to do, and compares the peaks. The model is so small that its work does not matter.

    test_memory.py BUILD_DIRECTORY       GD_SOAK=1: 10 hours and 10,000 files instead of 2 hours and 2,000 files
"""
import os
import pathlib
import struct
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
import short_model  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests" / "transcribe" / "models"))
import cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOAK = os.environ.get("GD_SOAK") == "1"
HOURS, FILES = (10, 10000) if SOAK else (2, 2000)
RATE = 16000
# KiB between the two peaks. An hour has 220 MiB of samples in memory, and a spectrum of 110 MiB. The rest of a long file's
# growth is memory that was freed, but that malloc() cannot use again: about 2 MiB for each hour.
SMALL = 32 * 1024


def make_silence(path, seconds):
    """A WAV file that takes no room on the disk."""
    size = int(seconds * RATE) * 2
    with open(path, "wb") as out:
        out.write(b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE, 2 * RATE, 2, 16)
                  + b"data" + struct.pack("<I", size))
        out.truncate(44 + size)


def children(pid):
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as found:
                yield from map(int, found.read().split())
    except OSError:
        pass  # it has ended


def peak(pid):
    """The peak of a process in KiB, and its name."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            found = dict(line.split(":", 1) for line in status)
        return int(found["VmHWM"].split()[0]), found["Name"].strip()
    except (OSError, KeyError):
        return 0, ""


class Peaks(threading.Thread):
    """Looks at the peaks of a process and its descendants until it is told to stop. The kernel keeps a peak while the process
    lives, so only growth in the last moment is missed."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.own, self.workers, self.ends = pid, 0, {}, threading.Event()

    def look(self, pid):
        for child in children(pid):
            self.workers[child] = max(self.workers.get(child, 0), peak(child)[0])
            self.look(child)

    def run(self):
        while not self.ends.wait(0.05):
            self.own = max(self.own, peak(self.pid)[0])
            self.look(self.pid)


def run(directory, *words):
    """The peaks in KiB: that of the command, and that of its largest child."""
    if not (BUILD / "apps" / "transcribe" / "transcribe.so").exists():
        raise cases.Skip("this build has no transcription worker (make transcribe)")
    with open(directory / "log", "w+", encoding="utf-8") as log:
        done = subprocess.Popen([BUILD / "gpu-dispatch", "transcribe", "--gpus", "cpu:1", "--threads", "1", "--batch-size", "2",
                                 "--model", directory / "ggml-short.bin", "--language", "en", "--output-dir", directory / "out",
                                 "--progress", "none", *words], stdout=log, stderr=log)
        peaks = Peaks(done.pid)
        peaks.start()
        _, status, usage = os.wait4(done.pid, 0)  # usage: the largest of the command and its children, exactly
        done.returncode = os.waitstatus_to_exitcode(status)
        peaks.ends.set()
        peaks.join()
        log.seek(0)
        assert done.returncode == 0, f"exit {done.returncode}: {log.read()[-2000:]}"
    worker = max(peaks.workers.values(), default=0)
    assert peaks.own and worker, "the peaks were not seen"
    return peaks.own, max(worker, usage.ru_maxrss)


def compare(what, small, large):
    for name, before, after in zip(("command", "worker"), small, large):
        print(f"  {what}: the {name} had {before / 1024:.1f} MiB, and {after / 1024:.1f} MiB with ten times as much")
    assert all(after - before < SMALL for before, after in zip(small, large)), (small, large)


def a_long_file_needs_no_more_memory_than_a_short_one(directory):
    short_model.make(directory / "ggml-short.bin")
    peaks = []
    for share in (10, 1):
        make_silence(directory / "long.wav", HOURS * 3600 / share)
        peaks.append(run(directory, directory / "long.wav"))
    compare(f"{HOURS} hours", *peaks)


def many_files_need_no_more_memory_than_few(directory):
    short_model.make(directory / "ggml-short.bin")
    make_silence(directory / "one.wav", 0.2)
    peaks = []
    for count in (FILES // 10, FILES):
        files = directory / f"files_{count}"
        files.mkdir()
        for i in range(count):
            os.link(directory / "one.wav", files / f"{i:05d}.wav")
        peaks.append(run(directory, "--input-dir", files))
        assert len(list((directory / "out").iterdir())) == count
    compare(f"{FILES:,} files", *peaks)


sys.exit(cases.run((a_long_file_needs_no_more_memory_than_a_short_one, many_files_need_no_more_memory_than_few)))
