# SPDX-License-Identifier: MIT
"""Tests the tables of tools/gpu_transcribe.sh with made logs: an hour of sound in two files.

    test_gpu_tables.py

Prints a line per case and, last, "N passed, N failed".
"""
import contextlib
import datetime
import io
import json
import pathlib
import sys
import wave

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "transcribe" / "models")]
sys.dont_write_bytecode = True
import cases  # noqa: E402
import gpu_transcribe_tables as tables  # noqa: E402

BEGAN = 1_800_000_000.0  # Unix time at which each part begins


def make_sound(logs):
    (logs / "audio").mkdir()
    for i in range(2):
        with wave.open(str(logs / "audio" / f"{i}.wav"), "wb") as out:
            out.setparams((1, 1, 10, 0, "NONE", ""))
            out.writeframes(bytes(1800 * 10))


def make_times(logs, name, seconds, status=0):
    (logs / f"{name}.times").write_text(f"{BEGAN} {BEGAN + seconds} {status}\n")


def make_ours(logs, name, seconds, start, status="ok"):
    """A run of which `start` seconds pass before the first file. The GPU is idle until then, and 95 percent busy after."""
    make_times(logs, name, seconds)
    lines = [{"status": status, "started": BEGAN + start + i, "seconds": seconds - start - 1} for i in range(2)]
    (logs / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open(logs / f"{name}.gpu", "w", encoding="utf-8") as out:
        out.write("not a line of the table\n")
        for i in range(int(seconds * 10) + 1):
            when = datetime.datetime.fromtimestamp(BEGAN + i / 10)
            out.write(f"{when:%Y/%m/%d %H:%M:%S}.{when.microsecond // 1000:03d}, {95 if i / 10 >= start else 0}, {1000 + i}\n")


def make_other(logs, name, prefix, start_name, seconds, start, sound):
    make_times(logs, name, seconds)
    records = {"seconds": seconds, f"{start_name}_seconds": start, "audio_seconds": sound, "files": 2}
    (logs / f"{name}.out").write_text("".join(json.dumps({"name": f"{prefix}_{key}", "median": value}) + "\n"
                                              for key, value in records.items()))


def shown(logs, sizes="base large-v3", variants="64 128"):
    """The rows of both tables, by their first cell."""
    sys.argv = ["x", str(logs), sizes, variants]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        tables.main()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.getvalue().splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def figures_are_compared_with_the_targets(logs):
    make_sound(logs)
    make_ours(logs, "ours_large-v3_64", 6, 2)
    make_other(logs, "alone_large-v3", "whisper", "load", 23, 3, 720)  # 20 s for a fifth of the sound
    make_other(logs, "torch_large-v3", "torch_whisper", "start", 8, 6, 3600)
    rows = shown(logs)
    assert rows["large-v3, 64 slots"] == ["2 of 2", "60.0 min", "6.00 s", "2.00 s", "0.001667", "0.001111", "95 %", "1,060 MiB"], rows
    assert rows["large-v3: times as fast as whisper.cpp alone"] == ["20", "-", "25.0 met"], rows
    assert rows["large-v3: real-time factor"] == ["0.0014", "0.001667 MISSED", "0.001111 met"], rows
    assert rows["large-v3: GPU busy, percent"] == ["90", "-", "95 met"], rows
    assert rows["large-v3: speed compared with PyTorch"] == ["0.8", "1.33 met", "0.50 MISSED"], rows


def a_missing_part_does_not_spoil_the_others(logs):
    make_sound(logs)
    make_ours(logs, "ours_base_64", 2, 1)
    make_times(logs, "alone_base", 5, status=1)
    make_times(logs, "torch_base", 5)  # it printed nothing
    rows = shown(logs)
    assert rows["base, alone"] == rows["base, torch"] == rows["base, 128"] == ["-"] * 8, rows
    assert rows["base: real-time factor"] == ["0.0003", "0.000556 MISSED", "0.000278 met"], rows
    assert rows["base: times as fast as whisper.cpp alone"][-1] == "-", rows
    assert rows["large-v3: GPU busy, percent"][-1] == "-", rows


def a_run_in_which_all_files_failed_has_no_figures(logs):
    make_sound(logs)
    make_ours(logs, "ours_base_64", 2, 1, status="failed")
    assert shown(logs)["base, 64"] == ["-"] * 8


def texts_are_compared_by_words(logs):
    for name, text in (("alone_base", "a b\nc\n"), ("ours_base_64", "a\nb c\n")):
        (logs / f"{name}.text").mkdir()
        (logs / f"{name}.text" / "0.txt").write_text(text)
        (logs / f"{name}.text" / "1.txt").write_text(name)
    assert tables.same_texts(logs, "base", "64") == (1, 2)
    assert tables.same_texts(logs, "base", "128") is None


sys.exit(cases.run((figures_are_compared_with_the_targets, a_missing_part_does_not_spoil_the_others,
                    a_run_in_which_all_files_failed_has_no_figures, texts_are_compared_by_words)))
