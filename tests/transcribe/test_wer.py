# SPDX-License-Identifier: MIT
"""Transcribes speech with the command, the worker and the demo model of the source tree. The model was not trained on
this speech. Checks the word error rate, checks that the number of workers does not change the texts, and tests how
errors are counted.

    test_wer.py BUILD_DIRECTORY

Prints a line per case. The last line is "N passed, N failed". Cases that transcribe are skipped if the build has no
worker.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import wer  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
CLIPS = ROOT / "tests" / "data" / "speech"
LIMIT = 0.10


class Skip(Exception):
    pass


def transcribe(directory, gpus, threads="1", pattern="*.flac"):
    """Transcribes the clips and returns the directory with their texts."""
    if not (BUILD / "apps" / "transcribe" / "transcribe.so").exists():
        raise Skip("this build has no transcription worker (make transcribe)")
    out = os.path.join(directory, f"{gpus}_{threads}")
    done = subprocess.run(
        [BUILD / "gpu-dispatch", "transcribe", "--input-dir", CLIPS, "--pattern", pattern, "--output-dir", out, "--gpus",
         gpus, "--threads", threads, "--model", ROOT / "models" / "ggml-demo.bin", "--language", "en", "--progress", "none"],
        capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return out


def texts(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()}


def check_rate(out):
    rate, summary = wer.total(wer.compare(CLIPS / "transcripts.tsv", out))
    print(f"  {summary}")
    assert rate < LIMIT, summary


def one_worker_transcribes_nine_words_of_ten(kept):
    kept["one"] = transcribe(kept["directory"], "sim:1")
    check_rate(kept["one"])


def two_workers_transcribe_nine_words_of_ten(kept):
    kept["two"] = transcribe(kept["directory"], "sim:2")
    check_rate(kept["two"])


def two_workers_write_the_same_texts_as_one(kept):
    if "two" not in kept:
        raise Skip("there is nothing to compare")
    one, two = texts(kept["one"]), texts(kept["two"])
    assert len(one) == len(list(CLIPS.glob("*.flac"))), sorted(one)
    assert one == two, {name: (one.get(name), two.get(name)) for name in one.keys() | two.keys() if one.get(name) != two.get(name)}


def threads_do_not_change_the_texts(kept):
    """Uses only a few clips. The threads wait for each other in a busy loop, which takes long on a busy machine."""
    if "one" not in kept:
        raise Skip("there is nothing to compare")
    one, more = texts(kept["one"]), texts(transcribe(kept["directory"], "sim:1", "2", "clip_02[0-4].flac"))
    assert len(more) == 5 and more == {name: one[name] for name in more}, more


def words_are_compared_without_case_and_punctuation(_):
    assert wer.words_of(" Stop, DON'T: go!\n") == ["stop", "don't", "go"]


def errors_are_added_missing_and_changed_words(_):
    for spoken, found, errors in (("", "", 0), ("a b c", "a b c", 0), ("a b c", "", 3), ("", "a", 1), ("a b c", "a c", 1),
                                  ("a b c", "a x c", 1), ("a b c", "a b b c", 1), ("a b c d", "b c d e", 2),
                                  ("a b", "c d e", 3)):
        assert wer.distance(spoken.split(), found.split()) == errors, (spoken, found)


def every_word_of_a_missing_transcript_is_an_error(kept):
    directory = pathlib.Path(kept["directory"]) / "missing"
    (directory / "a").mkdir(parents=True)
    (directory / "table.tsv").write_text("file\ttext\na/x.wav\tone two\ny.wav\tthree four five\n")
    (directory / "a" / "x.txt").write_text("one\ntwo\n")
    rate, summary = wer.total(wer.compare(directory / "table.tsv", directory))
    assert rate == 3 / 5 and "1 exactly right" in summary, summary


def exit_status_depends_on_the_limit(kept):
    directory = pathlib.Path(kept["directory"]) / "limit"
    directory.mkdir()
    (directory / "table.tsv").write_text("file\ttext\nx.wav\ta b c d e f g h i j\n")
    (directory / "x.txt").write_text("a b c d e f g h i x\n")
    for limit, status in (("10", 1), ("10.1", 0)):
        done = subprocess.run([sys.executable, ROOT / "tools" / "wer.py", directory / "table.tsv", directory, "--limit", limit],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert done.returncode == status, (limit, done.returncode)


CASES = (words_are_compared_without_case_and_punctuation, errors_are_added_missing_and_changed_words,
         every_word_of_a_missing_transcript_is_an_error, exit_status_depends_on_the_limit,
         one_worker_transcribes_nine_words_of_ten, two_workers_transcribe_nine_words_of_ten,
         two_workers_write_the_same_texts_as_one, threads_do_not_change_the_texts)


def main():
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="gd-wer-") as directory:
        kept = {"directory": directory}
        for case in CASES:
            try:
                case(kept)
                passed += 1
                print("ok", case.__name__)
            except Skip as why:
                skipped += 1
                print(f"skipped {case.__name__}: {why}")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED {case.__name__}: {error}")
    print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed > 0


sys.exit(main())
