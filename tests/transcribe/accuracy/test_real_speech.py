# SPDX-License-Identifier: MIT
"""Real speech with a real model, OpenAI's tiny.en: our decoder has no more wrong words than whisper.cpp's own. The speech is
five sentences of an audio book, and a sentence of a president. Both rates are printed.

    test_real_speech.py BUILD_DIRECTORY
"""
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import fetched  # noqa: E402
from fetched import ROOT, cases  # noqa: E402

sys.path.append(str(ROOT / "tools"))
import wer  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
PRESIDENT = ("and so my fellow americans ask not what your country can do for you "
             "ask what you can do for your country")
LIMIT = 0.15  # of all words; a decoder that works has half as many


def sentences():
    """{recording: what was said}"""
    found = {fetched.real_model("--speech"): PRESIDENT}
    book = fetched.librivox()
    for line in (book / "transcription").read_text(encoding="utf-8").splitlines():
        said, name = re.fullmatch(r"<s> (.*) </s> \((.*)\)", line.strip()).groups()
        found[book / f"{name}.wav"] = said
    assert len(found) == 6, found
    return found


def make_table(directory):
    (directory / "audio").mkdir()
    lines = ["file\ttext"]
    for recording, said in sentences().items():
        shutil.copy(recording, directory / "audio")
        lines.append(f"{recording.name}\t{said}")
    (directory / "table.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def rate(directory, decoder):
    """The share of wrong words."""
    done = subprocess.run([BUILD / "gpu-dispatch", "transcribe", "--input-dir", directory / "audio", "--output-dir",
                           directory / decoder, "--decoder", decoder, "--gpus", "cpu:1", "--threads", "1", "--model",
                           fetched.real_model(), "--language", "en", "--progress", "none"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    found = wer.compare(directory / "table.tsv", directory / decoder)
    wer.show(found, "wrong")
    share, summary = wer.total(found)
    print(f"  {decoder}: {summary}")
    return share


def our_decoder_has_no_more_wrong_words_than_whisper_cpp(directory):
    if not (BUILD / "apps" / "transcribe" / "transcribe.so").exists():
        raise cases.Skip("this build has no transcription worker (make transcribe)")
    make_table(directory)
    ours, theirs = rate(directory, "lanes"), rate(directory, "whisper.cpp")
    assert ours <= theirs, (ours, theirs)
    assert ours < LIMIT, ours


sys.exit(cases.run((our_decoder_has_no_more_wrong_words_than_whisper_cpp,)))
