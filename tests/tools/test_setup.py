# SPDX-License-Identifier: MIT
"""Tests tools/setup.sh with stand-ins for apt-get and pkg-config, which install and find nothing.

    test_setup.py

Prints a line per case and, last, "N passed, N failed".
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FFMPEG = ["libavformat-dev", "libavcodec-dev", "libavutil-dev", "libswresample-dev"]
WITHOUT = "continuing without FFmpeg's libraries, so m4a, aac, mp4, mkv, webm and wma files cannot be read"

# The packages in $MISSING cannot be installed. What is installed is written to $LOG, and pkg-config finds it.
APT_GET = """#!/bin/sh
[ "$1" != update ] || exit 0
for word in "$@"; do
    case " $MISSING " in *" $word "*) echo "E: Unable to locate package $word" >&2; exit 100 ;; esac
done
for word in "$@"; do
    case $word in -* | install) ;; *) echo "$word" >>"$LOG" ;; esac
done
"""
PKG_CONFIG = """#!/bin/sh
[ "$1" = --exists ] && case $2 in sndfile) package=libsndfile1-dev ;; soxr) package=libsoxr-dev ;; *) package=$2-dev ;; esac
grep -qx "$package" "$LOG" 2>/dev/null
"""
SUDO = '#!/bin/sh\n[ "$1" != -n ] || exit ${SUDO_ASKS:-0}\n"$@"\n'
ID = '#!/bin/sh\n[ "$1" = -u ] && echo "${GD_TEST_UID:-0}"\n'


def run(what, missing=(), **env):
    """Returns the finished process, and the packages that were installed."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in ("apt-get", APT_GET), ("pkg-config", PKG_CONFIG), ("sudo", SUDO), ("id", ID):
            path = pathlib.Path(directory, name)
            path.write_text(text)
            path.chmod(0o755)
        log = pathlib.Path(directory, "log")
        done = subprocess.run(
            [ROOT / "tools" / "setup.sh", what, directory], capture_output=True, text=True, cwd=ROOT,
            env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "LOG": str(log),
                 "MISSING": " ".join(missing), **env})
        return done, log.read_text().split() if log.exists() else []


def check(condition, done):
    assert condition, f"status {done.returncode}, {done.stdout!r}, {done.stderr!r}"


def transcribe_installs_ffmpeg():
    done, installed = run("transcribe")
    check(done.returncode == 0 and "without" not in done.stdout, done)
    check(installed == ["libsndfile1-dev", "libsoxr-dev", *FFMPEG], done)


def ffmpeg_that_cannot_be_installed():
    done, installed = run("transcribe", missing=["libavcodec-dev"])
    check(done.returncode == 0, done)
    check(installed == ["libsndfile1-dev", "libsoxr-dev"], done)
    check(f"setup: {WITHOUT}: could not install: {' '.join(FFMPEG)}\n" in done.stdout, done)


def other_libraries_are_needed():
    done, installed = run("transcribe", missing=["libsoxr-dev"])
    check(done.returncode == 1 and installed == [], done)
    check("setup: could not install: libsndfile1-dev libsoxr-dev\n" in done.stderr, done)


def ffmpeg_that_is_not_wanted():
    done, installed = run("transcribe", GD_FFMPEG="no")
    check(done.returncode == 0 and installed == ["libsndfile1-dev", "libsoxr-dev"], done)
    check(WITHOUT not in done.stdout, done)


def no_password_is_asked_for_ffmpeg():
    done, installed = run("transcribe", GD_TEST_UID="1000", SUDO_ASKS="1")
    check(done.returncode == 0 and installed == ["libsndfile1-dev", "libsoxr-dev"], done)
    check(f"setup: {WITHOUT}. This installs them: sudo apt-get install {' '.join(FFMPEG)}\n" in done.stdout, done)


CASES = [transcribe_installs_ffmpeg, ffmpeg_that_cannot_be_installed, other_libraries_are_needed,
         ffmpeg_that_is_not_wanted, no_password_is_asked_for_ffmpeg]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
            print(f"ok {case.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED {case.__name__}: {error}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
