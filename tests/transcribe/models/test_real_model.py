# SPDX-License-Identifier: MIT
"""A real model, OpenAI's tiny.en, is converted by the command and transcribes real speech. tools/real_model.sh fetches the
parts once. Without a network, the cases are skipped.

    test_real_model.py BUILD_DIRECTORY
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv[1]).resolve()
SPOKEN = ("and so my fellow americans ask not what your country can do for you "
          "ask what you can do for your country")


@functools.cache
def fetched(*options):
    """The path of the real model, or of the recording."""
    done = subprocess.run([ROOT / "tools" / "real_model.sh", *options], stdout=subprocess.PIPE, text=True, check=False,
                          env=dict(os.environ, PIP_RETRIES="1", PIP_DEFAULT_TIMEOUT="15"))
    if done.returncode != 0:
        raise cases.Skip("the real model could not be fetched: there may be no network")
    return pathlib.Path(done.stdout.strip())


def command(directory, *words):
    return subprocess.run([BUILD / "gpu-dispatch", *words], cwd=directory, capture_output=True, text=True, check=False)


def the_real_checkpoint_is_converted(directory):
    model = fetched()
    done = command(directory, "models", "convert", "--assets", model.parent / "assets", model.parent / "tiny.en.pt", "it.bin")
    assert done.returncode == 0, done
    assert (directory / "it.bin").read_bytes() == model.read_bytes(), "the cached model was made by another converter"
    assert "English" in done.stderr, done


def the_real_model_understands_real_speech(directory):
    if not (BUILD / "apps" / "transcribe" / "transcribe.so").exists():
        raise cases.Skip("this build has no transcription worker (make transcribe)")
    done = command(directory, "transcribe", "--gpus", "cpu:1", "--model", fetched(), "--language", "en", "--output-dir", "out",
                   "--progress", "none", fetched("--speech"))
    assert done.returncode == 0, done
    text = (directory / "out" / "jfk.txt").read_text()
    words = re.sub(r"[^a-z ]", "", re.sub(r"\s+", " ", text.lower())).strip()
    assert words == SPOKEN, text


sys.exit(cases.run((the_real_checkpoint_is_converted, the_real_model_understands_real_speech)))
