# SPDX-License-Identifier: MIT
"""The whole of `gpu-dispatch transcribe`, with the real worker and the demo model. Independent parsers read every
output format. Other cases: bad files among good ones, unusual file names, workers that are killed or hang, and
interrupted runs that are resumed."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpu_dispatch

np = pytest.importorskip("numpy")
soundfile = pytest.importorskip("soundfile")
srt = pytest.importorskip("srt")
webvtt = pytest.importorskip("webvtt")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(gpu_dispatch.__file__).parents[2]
COMMAND = BUILD / "gpu-dispatch"
CLIPS = ROOT / "tests" / "data" / "speech"
MODEL = ROOT / "models" / "ggml-demo.bin"
RATE = 16000
PATIENCE = 240  # seconds until a run counts as hanging

pytestmark = pytest.mark.skipif(
    not (BUILD / "apps" / "transcribe" / "transcribe.so").exists(),
    reason="this build has no transcription worker (make transcribe)",
)


def arguments(directory: Path, out: Path, *more: object, gpus: str = "sim:1", pattern: str = "*.wav") -> list[str]:
    words = [COMMAND, "transcribe", "--input-dir", directory, "--output-dir", out, "--gpus", gpus, "--pattern", pattern,
             "--recursive", "--model", MODEL, "--language", "en", "--threads", "1", "--progress", "none"]
    return [str(word) for word in (*words, *more)]


def transcribe(*words: Any, **named: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments(*words, **named), capture_output=True, text=True, timeout=PATIENCE, check=False)


def texts(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): path.read_text("utf-8") for path in out.rglob("*.txt")}


def failures(path: Path) -> dict[str, dict[str, Any]]:
    """The records of --failed, by file name."""
    if not path.exists():
        return {}
    return {Path(each["input"]).name: each for each in map(json.loads, path.read_text().splitlines())}


@pytest.fixture(scope="session")
def clips() -> dict[str, Any]:
    """{text: samples} of the clips that the model transcribes correctly, shortest text first"""
    lines = (CLIPS / "transcripts.tsv").read_text().splitlines()[1:]
    text_of = {file: text for file, text, *_ in (line.split("\t") for line in lines)}
    wrong = {"clip_051.flac", "clip_059.flac"}  # models/README.md
    return {text: soundfile.read(CLIPS / file, dtype="int16")[0] for file, text in text_of.items() if file not in wrong}


@pytest.fixture(scope="session")
def speech(clips: dict[str, Any]) -> Any:
    """All clips one after the other, with pauses of a second: about a minute and a half."""
    return np.concatenate([part for samples in clips.values() for part in (samples, np.zeros(RATE, np.int16))])


def write(path: Path, samples: Any, rate: int = RATE, **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **more)
    return path


@pytest.fixture
def directory(tmp_path: Path, clips: dict[str, Any]) -> Path:
    """Three good files. The word spoken in each is its name."""
    for text in ("timer", "three", "start"):
        write(tmp_path / "in" / f"{text}.wav", clips[text])
    return tmp_path / "in"


def assert_good(out: Path, *names: str) -> None:
    for name in names or ("timer", "three", "start"):
        assert (out / f"{name}.txt").read_text() == f"{name}\n"


# --- what is written -----------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, speech: Any) -> tuple[Path, dict[str, Any]]:
    """Transcribes a long file into every format. Returns (the output directory, the contents of the JSON file)."""
    base = tmp_path_factory.mktemp("formats")
    write(base / "in" / "long.wav", speech)
    done = transcribe(base / "in", base / "out", "--format", "all", "--word-timestamps")
    assert done.returncode == 0, done.stderr
    return base / "out", json.loads((base / "out" / "long.json").read_text("utf-8"))


def test_the_json_has_segments_in_order(written: tuple[Path, dict[str, Any]], speech: Any) -> None:
    _, found = written
    segments = found["segments"]
    assert found["language"] == "en" and len(segments) >= 4
    assert found["text"].split() == " ".join(each["text"] for each in segments).split()
    times = [moment for each in segments for moment in (each["start"], each["end"])]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= len(speech) / RATE + 0.01


def test_words_have_times_within_their_segments(written: tuple[Path, dict[str, Any]]) -> None:
    for segment in written[1]["segments"]:
        words = segment["words"]
        assert "".join(each["word"] for each in words).split() == segment["text"].split()
        assert all(segment["start"] <= each["start"] <= each["end"] <= segment["end"] for each in words)
        assert all(0 <= each["probability"] <= 1 for each in words)


def test_segments_have_the_members_of_openai_whisper(written: tuple[Path, dict[str, Any]]) -> None:
    segments = written[1]["segments"]
    assert [each["id"] for each in segments] == list(range(len(segments)))
    for each in segments:
        text = each["text"].strip().encode()
        assert close(each["compression_ratio"], len(text) / len(zlib.compress(text)))
        assert each["tokens"] and all(isinstance(token, int) for token in each["tokens"])
        assert each["avg_logprob"] <= 0 <= each["no_speech_prob"] <= 1 and 0 <= each["temperature"] <= 1
        assert 0 <= each["seek"] <= 100 * each["start"]


def close(a: float, b: float) -> bool:
    return abs(a - b) < 0.0015  # a millisecond, rounded up or down


def same_as_json(found: list[tuple[float, float, str]], segments: list[dict[str, Any]]) -> None:
    assert [text.strip() for _, _, text in found] == [each["text"].strip() for each in segments]
    for (start, end, _), each in zip(found, segments):
        assert close(start, each["start"]) and close(end, each["end"]), (start, end, each)


def test_srt_read_by_another_parser(written: tuple[Path, dict[str, Any]]) -> None:
    out, expected = written
    subtitles = list(srt.parse((out / "long.srt").read_text("utf-8"), ignore_errors=False))
    assert [each.index for each in subtitles] == list(range(1, len(subtitles) + 1))
    same_as_json([(each.start.total_seconds(), each.end.total_seconds(), each.content) for each in subtitles],
                 expected["segments"])


def test_vtt_read_by_another_parser(written: tuple[Path, dict[str, Any]]) -> None:
    out, expected = written
    captions = webvtt.read(str(out / "long.vtt")).captions
    same_as_json([(each.start_in_seconds, each.end_in_seconds, each.text) if isinstance(each.start_in_seconds, float)
                  else (seconds(each.start), seconds(each.end), each.text) for each in captions], expected["segments"])


def seconds(stamp: str) -> float:
    """The seconds of a time such as 00:01:02.345. The parser itself gives only whole seconds."""
    hours, minutes, rest = stamp.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_tsv_read_by_another_parser(written: tuple[Path, dict[str, Any]]) -> None:
    out, expected = written
    with open(out / "long.tsv", encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert heading == ["start", "end", "text"]
    same_as_json([(int(start) / 1000, int(end) / 1000, text) for start, end, text in rows], expected["segments"])


def test_csv_read_by_another_parser(written: tuple[Path, dict[str, Any]]) -> None:
    out, expected = written
    with open(out / "long.csv", encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file, strict=True)
    assert heading == ["start", "end", "text"]
    same_as_json([(int(start) / 1000, int(end) / 1000, text) for start, end, text in rows], expected["segments"])


def test_lrc_has_the_starts_of_segments(written: tuple[Path, dict[str, Any]]) -> None:
    out, expected = written
    found = [re.fullmatch(r"\[(\d\d):(\d\d\.\d\d)\](.*)", line) for line in (out / "long.lrc").read_text("utf-8").splitlines()]
    spoken = [each for each in expected["segments"] if each["text"].strip()]
    assert [line[3] for line in found if line] == [each["text"].strip() for each in spoken]
    assert all(line and abs(int(line[1]) * 60 + float(line[2]) - each["start"]) < 0.006 for line, each in zip(found, spoken))


def test_txt_is_the_same_text(written: tuple[Path, dict[str, Any]], clips: dict[str, Any]) -> None:
    out, expected = written
    assert (out / "long.txt").read_text().split() == expected["text"].split()
    found, spoken = expected["text"].split(), " ".join(clips).split()
    assert len(set(found) & set(spoken)) >= 0.9 * len(set(spoken))


def test_only_the_wanted_formats_are_written(written: tuple[Path, dict[str, Any]]) -> None:
    assert sorted(path.name for path in written[0].iterdir()) == [f"long.{kind}" for kind in ("csv", "json", "lrc", "srt", "tsv", "txt", "vtt")]


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory, speech: Any) -> tuple[Path, dict[str, Any]]:
    """As `written`, with subtitles of two lines. Word timestamps are not requested."""
    base = tmp_path_factory.mktemp("layout")
    write(base / "in" / "long.wav", speech)
    done = transcribe(base / "in", base / "out", "--format", "srt,vtt,json", "--max-line-width", "20", "--max-line-count", "2")
    assert done.returncode == 0, done.stderr
    return base / "out", json.loads((base / "out" / "long.json").read_text("utf-8"))


def test_subtitles_have_few_short_lines(laid_out: tuple[Path, dict[str, Any]]) -> None:
    out, expected = laid_out
    subtitles = list(srt.parse((out / "long.srt").read_text("utf-8"), ignore_errors=False))
    lines = [each.content.split("\n") for each in subtitles]
    assert all(len(each) <= 2 and all(0 < len(line) <= 20 for line in each) for each in lines)
    assert any(len(each) == 2 for each in lines)
    assert " ".join(line for each in lines for line in each).split() == expected["text"].split()
    times = [moment for each in subtitles for moment in (each.start, each.end)]
    assert times == sorted(times)
    assert [each.text for each in webvtt.read(str(out / "long.vtt")).captions] == [each.content for each in subtitles]


def test_words_are_underlined_while_they_are_spoken(tmp_path: Path, speech: Any) -> None:
    write(tmp_path / "in" / "long.wav", speech)
    done = transcribe(tmp_path / "in", tmp_path / "out", "--format", "srt,json", "--highlight-words")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "long.json").read_text("utf-8"))
    words = [each for segment in found["segments"] for each in segment["words"] if each["end"] > each["start"]]
    subtitles = list(srt.parse((tmp_path / "out" / "long.srt").read_text("utf-8"), ignore_errors=False))
    marked = [(each, re.findall("<u>(.*?)</u>", each.content)) for each in subtitles if "<u>" in each.content]
    assert words and [mark for _, mark in marked] == [[each["word"].strip()] for each in words]
    for (each, _), spoken in zip(marked, words):
        assert close(each.start.total_seconds(), spoken["start"]) and close(each.end.total_seconds(), spoken["end"])


# --- speakers --------------------------------------------------------------------


@pytest.fixture
def call(tmp_path: Path, clips: dict[str, Any]) -> Path:
    """A directory with a file in which two words are spoken at the same time, on two channels."""
    words = [clips["timer"], clips["three"]]
    channels = np.zeros((max(map(len, words)), 2), np.int16)
    for channel, samples in enumerate(words):
        channels[: len(samples), channel] = samples
    return write(tmp_path / "in" / "call.wav", channels).parent


def test_each_channel_is_a_speaker(call: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = transcribe(call, out, "--diarize", "channels", "--format", "all")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    found = json.loads((out / "call.json").read_text("utf-8"))
    assert sorted((each["speaker"], each["text"].strip()) for each in found["segments"]) == [
        ("Speaker 1", "timer"), ("Speaker 2", "three")]
    assert close(found["duration"], soundfile.info(call / "call.wav").duration)
    assert sorted((out / "call.txt").read_text().splitlines()) == ["Speaker 1: timer", "Speaker 2: three"]
    assert sorted(each.voice for each in webvtt.read(str(out / "call.vtt")).captions) == ["Speaker 1", "Speaker 2"]
    with open(out / "call.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert sorted((row["speaker"], row["text"]) for row in rows) == [("Speaker 1", "timer"), ("Speaker 2", "three")]


def test_segments_of_speakers_are_in_order(tmp_path: Path, clips: dict[str, Any]) -> None:
    first, second, pause = clips["timer"], clips["three"], np.zeros(RATE, np.int16)
    left = np.concatenate([first, pause, np.zeros_like(second), pause, first])
    right = np.concatenate([np.zeros_like(first), pause, second, pause, np.zeros_like(first)])
    write(tmp_path / "in" / "call.flac", np.stack([left, right], axis=1))
    done = transcribe(tmp_path / "in", tmp_path / "out", "--pattern", "*.flac", "--diarize", "channels", "--format", "json")
    assert done.returncode == 0, done.stderr
    segments = json.loads((tmp_path / "out" / "call.json").read_text("utf-8"))["segments"]
    starts = [each["start"] for each in segments]
    assert starts == sorted(starts) and {each["speaker"] for each in segments} == {"Speaker 1", "Speaker 2"}
    said = {name: " ".join(each["text"] for each in segments if each["speaker"] == name).split()
            for name in ("Speaker 1", "Speaker 2")}
    assert said["Speaker 1"] == ["timer", "timer"] and said["Speaker 2"] == ["three"]


def test_a_file_with_one_channel_has_one_speaker(directory: Path, tmp_path: Path) -> None:
    done = transcribe(directory, tmp_path / "out", "--diarize", "channels")
    assert done.returncode == 0 and "3 of 3 files have only one channel" in done.stderr
    assert (tmp_path / "out" / "timer.txt").read_text() == "Speaker 1: timer\n"


def test_a_file_with_too_many_channels_for_speakers(tmp_path: Path) -> None:
    write(tmp_path / "in" / "wide.wav", np.zeros((RATE, 9), np.int16))
    done = transcribe(tmp_path / "in", tmp_path / "out", "--diarize", "channels")
    assert done.returncode == 1 and "has 9 channels, but --diarize channels takes files with at most 8" in done.stderr
    assert not list((tmp_path / "out").glob("*"))


# --- what is read ------------------------------------------------------------------


def resampled(samples: Any, rate: int) -> Any:
    """Resamples with linear interpolation, which is good enough for speech."""
    places = np.arange(int(len(samples) * rate / RATE)) * (RATE / rate)
    return np.interp(places, np.arange(len(samples)), samples) / 32768


@pytest.mark.parametrize(
    ("name", "rate", "channels", "more"),
    [
        ("a.wav", 8000, 1, {}),
        ("a.wav", 44100, 2, {"subtype": "PCM_24"}),
        ("a.wav", 48000, 6, {"subtype": "FLOAT"}),
        ("a.flac", 44100, 2, {}),
        ("a.ogg", 48000, 2, {"format": "OGG", "subtype": "VORBIS"}),
        ("a.opus", 48000, 1, {"format": "OGG", "subtype": "OPUS"}),
        ("a.mp3", 44100, 2, {"format": "MP3"}),
        ("a.aiff", 22050, 1, {}),
    ],
)
def test_formats_rates_and_channels(tmp_path: Path, clips: dict[str, Any], name: str, rate: int, channels: int,
                                    more: dict[str, str]) -> None:
    if more.get("format", "WAV") not in soundfile.available_formats():
        pytest.skip(f"this libsndfile cannot write {more['format']}")
    text = "paste previous kitchen volume"
    samples = np.tile(resampled(clips[text], rate)[:, None], (1, channels))
    write(tmp_path / "in" / name, samples, rate, **more)
    done = transcribe(tmp_path / "in", tmp_path / "out", pattern="a.*")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "a.txt").read_text() == text + "\n"


def test_streams_one_after_the_other(tmp_path: Path, clips: dict[str, Any]) -> None:
    """Joined files (cat a.ogg b.opus) are transcribed to the end, and their duration is known before."""
    joined = b""
    for text, rate, channels, subtype in ("timer", 44100, 2, "VORBIS"), ("three", 48000, 1, "OPUS"), ("start", 16000, 1, "VORBIS"):
        samples = np.concatenate([resampled(clips[text], rate), np.zeros(rate)])
        path = write(tmp_path / text, np.tile(samples[:, None], (1, channels)), rate, format="OGG", subtype=subtype)
        joined += path.read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ogg").write_bytes(joined)
    done = transcribe(tmp_path / "in", tmp_path / "out", "--format", "txt,json", pattern="a.*")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "a.txt").read_text().split() == ["timer", "three", "start"]
    duration = sum(len(clips[text]) / RATE + 1 for text in ("timer", "three", "start"))
    assert abs(json.loads((tmp_path / "out" / "a.json").read_text())["duration"] - duration) < 0.01
    listed = transcribe(tmp_path / "in", tmp_path / "out", "--dry-run", pattern="a.*").stdout
    assert listed.split()[0] == f"{duration:.1f}s", listed


FFMPEG = shutil.which("ffmpeg")


@pytest.mark.skipif(FFMPEG is None, reason="the program ffmpeg is not installed")
@pytest.mark.parametrize("name", ["a.m4a", "a.aac", "a.mp4", "a.mkv", "a.webm", "a.wma"])
def test_formats_that_only_ffmpeg_reads(tmp_path: Path, clips: dict[str, Any], name: str) -> None:
    text = "paste previous kitchen volume"
    write(tmp_path / "in.wav", clips[text])
    (tmp_path / "in").mkdir()
    made = subprocess.run([FFMPEG, "-v", "error", "-nostdin", "-i", tmp_path / "in.wav", "-ar", "48000", tmp_path / "in" / name])
    if made.returncode != 0:
        pytest.skip(f"this ffmpeg cannot write {name}")
    done = transcribe(tmp_path / "in", tmp_path / "out", pattern="a.*")
    if "build with FFmpeg" in done.stderr:
        pytest.skip("the worker was built without FFmpeg")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "a.txt").read_text() == text + "\n"


# --- bad files among good ones ---------------------------------------------------------


def wav_header(channels: int, data_bytes: int) -> bytes:
    block = 2 * channels
    return (b"RIFF" + (36 + data_bytes).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
            + (1).to_bytes(2, "little") + channels.to_bytes(2, "little") + RATE.to_bytes(4, "little")
            + (RATE * block).to_bytes(4, "little") + block.to_bytes(2, "little") + (16).to_bytes(2, "little")
            + b"data" + data_bytes.to_bytes(4, "little"))


def make_bad(directory: Path, kind: str) -> Path:
    """Makes a bad file whose name is the kind of fault."""
    path = directory / f"{kind}.wav"
    whole = (directory / "timer.wav").read_bytes()
    contents = {
        "empty": b"",
        "text": b"this is a letter, not a sound\n" * 40,
        "truncated": whole[: len(whole) // 2],
        "channels": wav_header(0, 32000) + bytes(32000),
        "samples": wav_header(1, 0),
        "header": whole[:20],
        "noise": bytes((i * 7919 >> 3) & 255 for i in range(20000)),
    }
    path.write_bytes(contents.get(kind, whole))
    if kind == "unreadable":
        path.chmod(0)
    return path


BAD = ["empty", "text", "truncated", "channels", "samples", "header", "noise"]


def test_each_bad_file_is_one_failure(tmp_path: Path, directory: Path) -> None:
    for kind in BAD:
        make_bad(directory, kind)
    done = transcribe(directory, tmp_path / "out", "--failed", tmp_path / "failed")
    assert done.returncode == 1, done.stderr
    assert_good(tmp_path / "out")
    found = failures(tmp_path / "failed")
    assert sorted(found) == sorted(f"{kind}.wav" for kind in BAD)
    assert all(len(each["error"]) > 10 for each in found.values()), found
    assert sorted(texts(tmp_path / "out")) == ["start.txt", "three.txt", "timer.txt"]
    assert all(f"{kind}.wav" in done.stderr + done.stdout for kind in BAD)


def test_a_truncated_file_that_is_accepted(tmp_path: Path, directory: Path) -> None:
    """The half file has a warning. The other bad files are still failures."""
    for kind in BAD:
        make_bad(directory, kind)
    done = transcribe(directory, tmp_path / "out", "--failed", tmp_path / "failed", "--accept-truncated", "--format", "txt,json")
    assert done.returncode == 1, done.stderr
    assert sorted(failures(tmp_path / "failed")) == sorted(f"{kind}.wav" for kind in BAD if kind != "truncated")
    assert "truncated.wav is truncated: its header says " in json.loads((tmp_path / "out" / "truncated.json").read_text())["warning"]
    assert "warning" not in json.loads((tmp_path / "out" / "timer.json").read_text())
    assert_good(tmp_path / "out")


@pytest.mark.parametrize(("kind", "words"), [("empty", ("empty", "no samples", "0 bytes")), ("text", ("not audio", "not an audio")),
                                             ("truncated", ("truncated", "cut", "ends")), ("channels", ("channel",)),
                                             ("samples", ("no samples", "no sound", "empty"))])
def test_the_reason_is_reported(tmp_path: Path, directory: Path, kind: str, words: tuple[str, ...]) -> None:
    make_bad(directory, kind)
    done = transcribe(directory, tmp_path / "out", "--failed", tmp_path / "failed")
    assert done.returncode == 1
    error = failures(tmp_path / "failed")[f"{kind}.wav"]["error"].replace(f"{kind}.wav", "")
    assert any(word in error.lower() for word in words), error


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_one_failure(tmp_path: Path, directory: Path) -> None:
    make_bad(directory, "unreadable")
    done = transcribe(directory, tmp_path / "out", "--failed", tmp_path / "failed")
    assert done.returncode == 1
    assert list(failures(tmp_path / "failed")) == ["unreadable.wav"]
    assert_good(tmp_path / "out")


def make_odd(directory: Path, kind: str) -> Path:
    """Makes a directory entry that is not a regular file, with the name of an audio file."""
    path = directory / f"{kind}.wav"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"dangling": "/nonexistent/x.wav", "device": "/dev/zero", "loop": path}[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "status"), [("dangling", 1), ("loop", 1), ("fifo", 0), ("device", 0), ("directory", 0)]
)
def test_other_entries_in_a_directory(tmp_path: Path, directory: Path, kind: str, status: int) -> None:
    """Every such entry is reported, except directories. A dangling link is an error; the others are not. A FIFO is not
    read."""
    make_odd(directory, kind)
    done = transcribe(directory, tmp_path / "out")
    assert done.returncode == status, done.stderr
    assert (f"{kind}.wav" in done.stderr) == (kind != "directory")
    assert_good(tmp_path / "out")


@pytest.mark.parametrize("kind", ["dangling", "fifo", "device"])
def test_other_entries_by_name(tmp_path: Path, directory: Path, kind: str) -> None:
    words = [COMMAND, "transcribe", directory / "timer.wav", make_odd(directory, kind), "--output-dir", tmp_path / "out", "--gpus",
             "sim:1", "--model", MODEL]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert f"{kind}.wav" in done.stderr


# --- names ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["été Zürich 東京 🎧", "tab\there", "new\nline", "-rf", "quote\"'`$x", "x" * 240, "a.b.c", "%s%n{}"])
def test_unusual_file_names(tmp_path: Path, clips: dict[str, Any], name: str) -> None:
    write(tmp_path / "in" / "plain.wav", clips["timer"]).rename(tmp_path / "in" / f"{name}.wav")
    done = transcribe(tmp_path / "in", tmp_path / "out", "--format", "txt,json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / f"{name}.txt").read_text() == "timer\n"
    assert json.loads((tmp_path / "out" / f"{name}.json").read_text())["text"].strip() == "timer"


def test_a_name_that_is_not_utf8(tmp_path: Path, clips: dict[str, Any]) -> None:
    write(tmp_path / "in" / "plain.wav", clips["timer"])
    inside = os.fsencode(tmp_path / "in")
    os.rename(inside + b"/plain.wav", inside + b"/\xff\xfe.wav")
    done = transcribe(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert os.listdir(os.fsencode(tmp_path / "out")) == [b"\xff\xfe.txt"]


def test_directories_are_mirrored(tmp_path: Path, clips: dict[str, Any]) -> None:
    deep = Path(*["d" * 100] * 12)
    for place in (Path("."), Path("a/b"), deep):
        write(tmp_path / "in" / "x.wav", clips["timer"])
        (tmp_path / "in" / place).mkdir(parents=True, exist_ok=True)
        if place != Path("."):
            shutil.copy(tmp_path / "in" / "x.wav", tmp_path / "in" / place / "x.wav")
    done = transcribe(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert texts(tmp_path / "out") == {str(place / "x.txt"): "timer\n" for place in (Path("."), Path("a/b"), deep)}


# --- what a run can't begin with ---------------------------------------------------------


def test_output_directory_cannot_be_created(tmp_path: Path, directory: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = transcribe(directory, tmp_path / "file" / "out")
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_output_directory_cannot_be_written(tmp_path: Path, directory: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    done = transcribe(directory, tmp_path / "out")
    assert done.returncode == 1
    assert str(tmp_path / "out") in done.stderr


def one_output_in_the_way(tmp_path: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "out" / "three.txt").mkdir(parents=True)
    (tmp_path / "out" / "three.txt" / "held").write_text("a directory with something in it")
    return transcribe(directory, tmp_path / "out", "--failed", tmp_path / "failed")


def test_output_that_cannot_be_written_is_one_failure(tmp_path: Path, directory: Path) -> None:
    done = one_output_in_the_way(tmp_path, directory)
    assert done.returncode == 1
    assert list(failures(tmp_path / "failed")) == ["three.wav"]
    assert_good(tmp_path / "out", "timer", "start")
    assert not list(tmp_path.rglob("*.part*"))


def with_model(directory: Path, out: Path, *model: object) -> subprocess.CompletedProcess[str]:
    words = arguments(directory, out)
    place = words.index("--model")
    words[place : place + 2] = [str(word) for word in model]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, "HOME": str(out), "XDG_CACHE_HOME": str(out / "cache")})


def test_missing_model(tmp_path: Path, directory: Path) -> None:
    done = with_model(directory, tmp_path / "out", "--model", tmp_path / "none.bin")
    assert done.returncode == 1 and str(tmp_path / "none.bin") in done.stderr
    done = with_model(directory, tmp_path / "out", "--model-size", "medium")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "gpu-dispatch: the model medium (ggml-medium.bin) is not on this machine. These places were searched:"
    assert lines[1:-2] and all(line.startswith("  ") and " " not in line[2:] for line in lines[1:-2])
    assert lines[-2] == "This command downloads it:" and lines[-1].startswith("  gpu-dispatch models download ")
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize("keep", [0, 4, 100, 700_000, -1])
def test_truncated_model(tmp_path: Path, directory: Path, keep: int) -> None:
    (tmp_path / "ggml-demo.bin").write_bytes(MODEL.read_bytes()[:keep])
    done = with_model(directory, tmp_path / "out", "--model", tmp_path / "ggml-demo.bin")
    assert done.returncode == 1 and "ggml-demo.bin" in done.stderr
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize("contents", [b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(5000), b"GGUF" + bytes(5000), b"{}"])
def test_file_that_is_not_a_model(tmp_path: Path, directory: Path, contents: bytes) -> None:
    (tmp_path / "photo.jpeg").write_bytes(contents)
    done = with_model(directory, tmp_path / "out", "--model", tmp_path / "photo.jpeg")
    assert done.returncode == 1 and "photo.jpeg" in done.stderr
    assert not list(tmp_path.rglob("*.txt"))


# --- killed, stuck, interrupted ------------------------------------------------------------


def of_process(pid: int, name: str) -> str:
    """The contents of a file in /proc/PID; empty if the process has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    parents: dict[int, list[int]] = {}
    for each in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        _, _, rest = of_process(each, "stat").rpartition(") ")
        if rest:
            parents.setdefault(int(rest.split()[1]), []).append(each)
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found[1:]


def workers(pid: int) -> list[int]:
    """The descendants of a process that are workers: those that have loaded the plugin."""
    return [child for child in children(pid) if "transcribe.so" in of_process(child, "maps")]


class Running:
    """A run that prints a line for each file that ends. Tests wait for the next line as an event."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen([*words, "--output", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.lines: list[dict[str, Any]] = []

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=PATIENCE)[1]
        self.lines.append(json.loads(line))
        return self.lines[-1]

    def end(self) -> tuple[int, str]:
        """(exit status, standard error). Stores the remaining lines."""
        out, err = self.process.communicate(timeout=PATIENCE)
        self.lines += map(json.loads, out.splitlines())
        return self.process.returncode, err

    def named(self) -> list[str]:
        """The files that were transcribed. (Cancelled files have a line too.)"""
        return [Path(each["input"]).name for each in self.lines if each["status"] == "ok"]


@pytest.fixture
def running() -> Iterator[Any]:
    started: list[Running] = []

    def start(*words: Any, batch_size: int | None = 1, **more: Any) -> Running:
        """By default, each worker has one file at a time, so that the order of the files is known."""
        size = [] if batch_size is None else ["--batch-size", str(batch_size)]
        started.append(Running(arguments(*words, *size, **more)))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.communicate()


@pytest.fixture
def series(tmp_path: Path, speech: Any) -> Path:
    """Files a to f of half a minute or more. Each is a little shorter than the one before, so they run in this
    order."""
    for i, name in enumerate("abcdef"):
        write(tmp_path / "in" / f"{name}.wav", speech[: (40 - 2 * i) * RATE])
    return tmp_path / "in"


SERIES = [f"{name}.wav" for name in "abcdef"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, speech: Any) -> dict[str, str]:
    """The output of a run of the same series that nothing disturbs."""
    base = tmp_path_factory.mktemp("undisturbed")
    for i, name in enumerate("abcdef"):
        write(base / "in" / f"{name}.wav", speech[: (40 - 2 * i) * RATE])
    done = transcribe(base / "in", base / "out")
    assert done.returncode == 0, done.stderr
    return texts(base / "out")


def test_worker_killed_with_many_files_in_flight(tmp_path: Path, series: Path, undisturbed: dict[str, str],
                                                 running: Any) -> None:
    """Nobody knows which file killed the worker, so no file is charged: all are run again, although there are no retries. A
    file that had ended is not run again."""
    run = running(series, tmp_path / "out", batch_size=None)
    first = run.next()  # the worker has all the others
    skip_if_over(tmp_path / "out")
    (worker,) = workers(run.process.pid)
    os.kill(worker, signal.SIGKILL)
    status, errors = run.end()
    assert status == 0, errors
    assert sorted(run.named()) == SERIES
    assert texts(tmp_path / "out") == undisturbed
    attempts = {each["input"]: each["attempt"] for each in run.lines}
    assert attempts.pop(first["input"]) == 1
    assert set(attempts.values()) <= {1, 2} and 2 in attempts.values(), attempts


def test_worker_killed_in_the_middle_of_a_file(tmp_path: Path, series: Path, undisturbed: dict[str, str], running: Any) -> None:
    run = running(series, tmp_path / "out", "--retries", "3")
    first = run.next()  # the worker is now at the next file
    skip_if_over(tmp_path / "out")
    (worker,) = workers(run.process.pid)
    os.kill(worker, signal.SIGKILL)
    status, errors = run.end()
    assert status == 0, errors
    assert first["input"].endswith("a.wav") and sorted(run.named()) == SERIES
    assert texts(tmp_path / "out") == undisturbed


def test_file_fails_if_its_worker_is_killed_too_often(tmp_path: Path, series: Path, undisturbed: dict[str, str],
                                                                  running: Any) -> None:
    run = running(series, tmp_path / "out", gpus="sim:2")
    run.next()
    for worker in workers(run.process.pid):
        with contextlib.suppress(ProcessLookupError):  # the worker may have finished its last file and ended
            os.kill(worker, signal.SIGKILL)
    status, errors = run.end()
    ended = {Path(each["input"]).name: each["status"] for each in run.lines}
    assert sorted(ended) == SERIES
    good = {name.replace(".wav", ".txt") for name, how in ended.items() if how == "ok"}
    assert texts(tmp_path / "out") == {name: text for name, text in undisturbed.items() if name in good}
    assert status == (0 if len(good) == len(SERIES) else 1), errors


def test_a_file_that_takes_too_long(tmp_path: Path, directory: Path, speech: Any) -> None:
    write(directory / "long.wav", np.tile(speech, 30))
    done = transcribe(directory, tmp_path / "out", "--timeout", "8s", "--failed", tmp_path / "failed", "--batch-size", "1",
                      gpus="sim:2")
    assert done.returncode == 1, done.stderr
    found = failures(tmp_path / "failed")
    assert list(found) == ["long.wav"] and found["long.wav"]["failure"] == "timeout", found
    assert_good(tmp_path / "out")
    assert sorted(texts(tmp_path / "out")) == ["start.txt", "three.txt", "timer.txt"]


def test_a_worker_that_is_stuck(tmp_path: Path, series: Path, undisturbed: dict[str, str], running: Any) -> None:
    run = running(series, tmp_path / "out", "--timeout", "12s", "--failed", tmp_path / "failed")
    run.next()
    skip_if_over(tmp_path / "out")
    (worker,) = workers(run.process.pid)
    os.kill(worker, signal.SIGSTOP)
    status, errors = run.end()
    assert status == 1, errors
    stuck = failures(tmp_path / "failed")  # the file of the stuck worker; on a busy machine other files may time out too
    assert {each["failure"] for each in stuck.values()} == {"timeout"}
    good = {name.replace(".wav", ".txt") for name in set(SERIES) - set(stuck)}
    assert texts(tmp_path / "out") == {name: text for name, text in undisturbed.items() if name in good}
    assert not Path(f"/proc/{worker}").exists()


def skip_if_over(out: Path) -> None:
    """Skips the test if this process was delayed for so long that the run is nearly over. Then there is nothing left to
    disturb."""
    if len(texts(out)) >= len(SERIES) - 1:
        pytest.skip("the run was over, or nearly, before anything could be done to it")


def kept(out: Path) -> dict[str, tuple[int, int]]:
    """For each file, values that change when it is written again."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.glob("*.txt")}


def interrupt(run: Running) -> None:
    os.killpg(run.process.pid, signal.SIGINT)


def kill_all(run: Running) -> None:
    everyone = [run.process.pid, *children(run.process.pid)]
    for pid in everyone:
        with contextlib.suppress(ProcessLookupError):  # it may have died together with the first process
            os.kill(pid, signal.SIGKILL)


def recorded(journal: Path, directory: Path) -> set[str]:
    """The files that are done according to a journal that is not in use. A copy is read, so that the journal does not
    change."""
    directory.mkdir()
    for path in journal.parent.glob(journal.name + "*"):
        shutil.copy(path, directory)
    with contextlib.closing(sqlite3.connect(directory / journal.name)) as db:
        return {Path(os.fsdecode(text)).name for (text,) in db.execute("SELECT input FROM task WHERE state = 'done'")}


@pytest.mark.parametrize("journal", [False, True], ids=["outputs", "journal"])
@pytest.mark.parametrize("end", [interrupt, kill_all])
def test_interrupted_or_killed_run_is_resumed(tmp_path: Path, series: Path, undisturbed: dict[str, str], running: Any,
end: Any,
                                              journal: bool) -> None:
    if journal and not has_journal():
        pytest.skip("this build has no journal (SQLite)")
    out = tmp_path / "out"
    more = ["--journal", tmp_path / "run.journal"] if journal else []
    run = running(series, out, *more)
    run.next()
    run.next()
    skip_if_over(out)
    end(run)
    status, errors = run.end()
    assert status == (130 if end is interrupt else -signal.SIGKILL), errors
    before = kept(out)
    assert 2 <= len(before) < len(SERIES)
    # A journal collects records for a tenth of a second. So files that ended just before the kill may be done again.
    lost = set(run.named()) - recorded(tmp_path / "run.journal", tmp_path / "copy") if journal else set()
    assert lost == set(run.named()[len(run.named()) - len(lost) :]) and (end is kill_all or not lost)
    again = running(series, out, *more, "--resume")
    status, errors = again.end()
    assert status == 0, errors
    after = kept(out)
    assert texts(out) == undisturbed
    finished = {name.replace(".wav", ".txt") for name in set(run.named()) - lost}
    assert {name: after[name] for name in finished} == {name: before[name] for name in finished}
    if not journal:  # a written output is done, even if it was not reported
        assert {name: after[name] for name in before} == before
    assert not set(again.named()) & (set(run.named()) - lost)
    assert set(again.named()) | {name.replace(".txt", ".wav") for name in before} == set(SERIES)
    third = running(series, out, *more, "--resume")
    assert third.end()[0] == 0 and third.named() == [] and kept(out) == after


def has_journal() -> bool:
    done = subprocess.run([str(COMMAND), "run", "--help"], capture_output=True, text=True, check=False)
    return "--journal" in done.stdout


def test_a_file_that_changed_is_transcribed_again(tmp_path: Path, directory: Path, clips: dict[str, Any]) -> None:
    out = tmp_path / "out"
    assert transcribe(directory, out).returncode == 0
    before = kept(out)
    write(directory / "three.wav", clips["off"])
    os.utime(directory / "three.wav", ns=(0, before["three.txt"][1] + 10**9))
    assert transcribe(directory, out, "--resume").returncode == 0
    after = kept(out)
    assert (out / "three.txt").read_text() == "off\n"
    assert {name: after[name] for name in ("timer.txt", "start.txt")} == {name: before[name] for name in ("timer.txt", "start.txt")}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
