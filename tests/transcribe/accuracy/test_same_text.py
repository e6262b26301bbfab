# SPDX-License-Identifier: MIT
"""80 recordings have the same text as with pywhispercpp, another program on whisper.cpp, with the same options: with greedy
decoding and with beams. Both use the demo model and never decode a window again at a higher temperature, because random
numbers choose the text then.

    test_same_text.py BUILD_DIRECTORY
"""
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import clips  # noqa: E402
import fetched  # noqa: E402
from fetched import ROOT, cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
MODEL = ROOT / "models" / "ggml-demo.bin"
BEAMS = 4


def command(*words):
    done = subprocess.run([BUILD / "gpu-dispatch", "transcribe", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return done


def our_texts(directory, recordings, *options):
    command("--gpus", "cpu:1", "--threads", "1", "--model", MODEL, "--language", "en", "--temperature-increment-on-fallback",
            "0", "--progress", "none", "--output-dir", directory / "out", *options, *recordings)
    return {str(path): (directory / "out" / f"{path.stem}.txt").read_text(encoding="utf-8").splitlines() for path in recordings}


def peer_texts(recordings, beams):
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("peer.py"), MODEL, str(beams), *recordings],
                          env=dict(os.environ, PYTHONPATH=str(fetched.pywhispercpp())), capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, f"peer.py: exit {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def check(directory, beams, *options):
    if not (BUILD / "apps" / "transcribe" / "transcribe.so").exists():
        raise cases.Skip("this build has no transcription worker (make transcribe)")
    fetched.pywhispercpp()  # skips without a network, before anything takes time
    recordings = clips.make(ROOT / "tests" / "data" / "speech", directory)
    ours, theirs = our_texts(directory, recordings, *options), peer_texts(recordings, beams)
    different = {pathlib.Path(path).name: (ours[path], theirs[path]) for path in ours if ours[path] != theirs[path]}
    print(f"  {len(ours) - len(different)} of {len(ours)} recordings have the same text, "
          f"{sum(any(lines) for lines in ours.values())} have words")
    assert len(ours) == 80 and not different, different


def lanes_give_the_text_of_pywhispercpp(directory):
    check(directory, 1, "--decoder", "lanes")


def beams_give_the_text_of_pywhispercpp(directory):
    check(directory, BEAMS, "--beam-size", str(BEAMS))


sys.exit(cases.run((lanes_give_the_text_of_pywhispercpp, beams_give_the_text_of_pywhispercpp)))
