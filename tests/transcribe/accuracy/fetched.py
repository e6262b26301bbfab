# SPDX-License-Identifier: MIT
"""Fetches what the tests of this directory compare with, once, into the cache directory of tools/whisper.sh. Nothing is
installed. A lock prevents two fetches at the same time, and an interrupted one leaves nothing that looks complete. Without
a network, the case that needs it is skipped."""
import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests" / "transcribe" / "models"))
import cases  # noqa: E402

PATIENCE = dict(os.environ, PIP_RETRIES="1", PIP_DEFAULT_TIMEOUT="15", PIP_DISABLE_PIP_VERSION_CHECK="1")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "gpu_dispatch"

# The release whose sources tools/whisper.sh builds, so that both have the same whisper.cpp.
PYWHISPERCPP = "1.5.1"

# Debian has this version since 2022. Its sentences are the same in others.
SPEECH = "pocketsphinx-testdata"
SPEECH_SUM = "4cc29e04a6dcd29242893b3ee20470e50b6ace45f4387bb619e5218145c66f99"


def run(what, command, **options):
    """Runs a command that fetches. If it fails, the case is skipped."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=PATIENCE, **options)
    if done.returncode != 0:
        raise cases.Skip(f"{what} could not be fetched: there may be no network")
    return done.stdout


@contextlib.contextmanager
def cached(name):
    """Yields (directory, None) if it is complete, otherwise (directory, an empty directory to fill instead)."""
    final = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.exists():
            yield final, None
            return
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}.", dir=CACHE))
        try:
            yield final, work
            work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@functools.cache
def pywhispercpp():
    """The directory with pywhispercpp and what it imports, for PYTHONPATH."""
    version = f"{sysconfig.get_config_var('py_version_nodot')}-{sysconfig.get_platform()}"
    with cached(f"pywhispercpp-{PYWHISPERCPP}-{version}") as (directory, empty):
        if empty:
            run("pywhispercpp", [sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--target", empty,
                                 f"pywhispercpp=={PYWHISPERCPP}"])
        return directory


def checked(path, wanted):
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == wanted, f"{path.name} is not the expected one: its SHA-256 is {found}"


@functools.cache
def librivox():
    """The directory with five sentences of a book that volunteers read, and the file `transcription`."""
    with cached(f"{SPEECH}-r1") as (directory, empty):
        if empty:
            if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
                raise cases.Skip(f"{SPEECH} is a package of Debian, and this machine has no apt-get")
            os.chmod(empty, 0o755)  # apt-get fetches as another user
            run(SPEECH, ["apt-get", "download", "-q", SPEECH], cwd=empty)
            package = next(empty.glob("*.deb"))
            subprocess.run(["dpkg-deb", "-x", package, empty], check=True)
            checked(empty / "usr/share/pocketsphinx/test/data/librivox/transcription", SPEECH_SUM)
            package.unlink()
        return directory / "usr" / "share" / "pocketsphinx" / "test" / "data" / "librivox"


@functools.cache
def real_model(*options):
    """The path of OpenAI's tiny.en, or with --speech that of a recording."""
    return pathlib.Path(run("the real model", [ROOT / "tools" / "real_model.sh", *options]).strip())
