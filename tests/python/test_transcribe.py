"""Transcription: most tests replace gpu-dispatch by a command that records its arguments. If the transcriber is built,
the real command transcribes too."""

from __future__ import annotations

import errno
import gc
import inspect
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import speech

import launcher_multigpu
from gpu_dispatch import BaseWorker, _native, _transcribe
from gpu_dispatch.multigpu import LauncherOrchestrator, ProcessSpawner

ROOT = Path(__file__).resolve().parents[2]

# Appends its arguments to a file, as one line of JSON. Then executes the Python code in $FAKE.
FAKE = """#!{python}
import json, os, signal, sys, time
with open(os.environ["FAKE_NOTES"], "a") as notes:
    print(json.dumps(sys.argv[1:]), file=notes)
exec(os.environ.get("FAKE", ""))
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the command by FAKE. Returns the file to which FAKE appends its arguments."""
    command, notes = tmp_path / "fake-dispatch", tmp_path / "notes"
    command.write_text(FAKE.format(python=sys.executable))
    command.chmod(0o755)
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", str(command))
    monkeypatch.setenv("FAKE_NOTES", str(notes))
    return notes


def arguments_of_calls(notes: Path) -> list[list[str]]:
    return [json.loads(line) for line in notes.read_text().splitlines()]


def arguments_once(notes: Path) -> list[str]:
    (words,) = arguments_of_calls(notes)
    return words


# ---- the arguments of the command ----


def test_arguments_of_the_documented_call(fake: Path) -> None:
    code = LauncherOrchestrator().run(
        input_dir=Path("data/audio"),
        output_dir=Path("data/outputs"),
        gpus=[0, 1],
        model_size="base",
        language="en",
        pattern="*.wav",
    )
    assert code == 0
    assert arguments_once(fake) == [
        "transcribe",
        "--input-dir=data/audio",
        "--output-dir=data/outputs",
        "--gpus=0,1",
        "--model-size=base",
        "--language=en",
        "--pattern=*.wav",
        "--workers-per-gpu=1",
    ]


def test_launcher_and_orchestrator_pass_the_same_arguments(fake: Path) -> None:
    assert launcher_multigpu.run_multi_gpu("in", "out", [0, 1], "tiny") == 0
    assert LauncherOrchestrator().run("in", "out", [0, 1], "tiny") == 0
    old, new = arguments_of_calls(fake)
    assert set(new) - set(old) == {"--workers-per-gpu=1"} and set(old) <= set(new)


@pytest.mark.parametrize(
    ("gpus", "word"),
    [([0, 1], "0,1"), ((3,), "3"), (range(3), "0,1,2"), ("0,2-4", "0,2-4"), ("sim:2", "sim:2"), ("cpu", "cpu")],
)
def test_devices(fake: Path, gpus: Any, word: str) -> None:
    assert launcher_multigpu.run_multi_gpu("in", "out", gpus) == 0
    assert f"--gpus={word}" in arguments_once(fake)


def test_auto_passes_no_gpus_option(fake: Path) -> None:
    assert launcher_multigpu.run_multi_gpu("in", "out", "auto", no_gpu=True) == 0
    words = arguments_once(fake)
    assert "--no-gpu" in words and not any(word.startswith("--gpus") for word in words)


OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"model": Path("m/ggml-x.bin")}, ["--model=m/ggml-x.bin"]),
    ({"model_dir": "models"}, ["--model-dir=models"]),
    ({"formats": ("txt", "srt")}, ["--format=txt,srt"]),
    ({"formats": "all"}, ["--format=all"]),
    ({"max_line_width": 42, "max_line_count": 2}, ["--max-line-width=42", "--max-line-count=2"]),
    ({"max_words_per_line": 3}, ["--max-words-per-line=3"]),
    ({"highlight_words": True}, ["--highlight-words"]),
    ({"translate": True}, ["--translate"]),
    ({"threads": 3}, ["--threads=3"]),
    ({"beam_size": 5}, ["--beam-size=5"]),
    ({"decoder": "lanes", "batch_size": 16, "split": "never"}, ["--decoder=lanes", "--batch-size=16", "--split=never"]),
    ({"temperature": 0.2}, ["--temperature=0.2"]),
    ({"temperature": 0}, ["--temperature=0"]),
    ({"prompt": "--a\nb"}, ["--prompt=--a\nb"]),
    ({"initial_prompt": "a"}, ["--initial-prompt=a"]),
    ({"initial_prompt": "a", "carry_initial_prompt": True}, ["--initial-prompt=a", "--carry-initial-prompt"]),
    ({"best_of": 3}, ["--best-of=3"]),
    ({"length_penalty": 1}, ["--length-penalty=1"]),
    ({"temperature_increment_on_fallback": 0}, ["--temperature-increment-on-fallback=0"]),
    ({"entropy_threshold": 2.8}, ["--entropy-threshold=2.8"]),
    ({"compression_ratio_threshold": math.inf}, ["--compression-ratio-threshold=None"]),
    ({"logprob_threshold": -0.00001}, ["--logprob-threshold=-0.00001"]),
    ({"logprob_threshold": -math.inf}, ["--logprob-threshold=None"]),
    ({"no_speech_threshold": 0.5}, ["--no-speech-threshold=0.5"]),
    ({"hotwords": "Anna Otto"}, ["--hotwords=Anna Otto"]),
    ({"condition_on_previous_text": False}, ["--condition-on-previous-text=no"]),
    ({"suppress_tokens": [-1, 50362]}, ["--suppress-tokens=-1,50362"]),
    ({"suppress_tokens": "-1"}, ["--suppress-tokens=-1"]),
    ({"suppress_blank": True}, ["--suppress-blank=yes"]),
    ({"without_timestamps": True}, ["--without-timestamps"]),
    ({"max_initial_timestamp": 1.5}, ["--max-initial-timestamp=1.5"]),
    ({"clip_timestamps": [0, 10, 60.5]}, ["--clip-timestamps=0,10,60.5"]),
    ({"vad": "v", "vad_threshold": 0.25}, ["--vad=v", "--vad-threshold=0.25"]),
    ({"vad": "v", "vad_min_speech_duration_ms": 0}, ["--vad=v", "--vad-min-speech-duration-ms=0"]),
    ({"vad": "v", "vad_min_silence_duration_ms": 2000}, ["--vad=v", "--vad-min-silence-duration-ms=2000"]),
    ({"vad": "v", "vad_max_speech_duration_s": 30}, ["--vad=v", "--vad-max-speech-duration-s=30"]),
    ({"vad": "v", "vad_speech_pad_ms": 400}, ["--vad=v", "--vad-speech-pad-ms=400"]),
    ({"vad": Path("vad.bin")}, ["--vad=vad.bin"]),
    ({"word_timestamps": True}, ["--word-timestamps"]),
    ({"diarize": "channels"}, ["--diarize=channels"]),
    ({"no_gpu": True}, ["--no-gpu"]),
    ({"workers_per_gpu": 2}, ["--workers-per-gpu=2"]),
    ({"task_timeout": 1.5}, ["--timeout=1.500"]),
    ({"task_timeout": 1e-9}, ["--timeout=0.001"]),
    ({"retries": 0}, ["--retries=1"]),
    ({"retries": 2}, ["--retries=3"]),
    ({"journal": "run.db", "resume": True}, ["--journal=run.db", "--resume"]),
    ({"journal": "run.db", "retry_failed": True}, ["--journal=run.db", "--retry-failed"]),
    ({"journal": "run.db", "journal_sync": "full"}, ["--journal=run.db", "--sync=full"]),
    ({"journal_sync": "normal"}, []),
    ({"journal": "run.db", "force_resume": True}, ["--journal=run.db", "--force-resume"]),
    ({"shard": (2, 16)}, ["--shard=3/16"]),
    ({"shard": "auto/16"}, ["--shard=auto/16"]),
    ({"journal": "run.db", "skip_done": "a.db"}, ["--journal=run.db", "--skip-done=a.db"]),
    ({"journal": "r.db", "skip_done": [Path("a.db"), "b"]}, ["--journal=r.db", "--skip-done=a.db", "--skip-done=b"]),
    ({"journal": "run.db", "lock_wait": 1.5}, ["--journal=run.db", "--lock-wait=1.500"]),
    ({"recursive": True}, ["--recursive"]),
    ({"full_names": True}, ["--full-names"]),
    ({"accept_truncated": True}, ["--accept-truncated"]),
    ({"quiet": True}, ["--quiet"]),
    ({"translate": False, "threads": None, "prompt": None, "formats": None, "retries": None, "task_timeout": None}, []),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=[" ".join(words) or "none" for _, words in OPTIONS])
@pytest.mark.parametrize("way", [launcher_multigpu.run_multi_gpu, lambda *a, **k: LauncherOrchestrator().run(*a, **k)])
def test_options(fake: Path, way: Any, options: dict[str, Any], words: list[str]) -> None:
    assert way("in", "out", [0], **options) == 0
    always = {"transcribe", "--input-dir=in", "--output-dir=out", "--gpus=0", "--model-size=base", "--pattern=*.wav"}
    extra = [word for word in arguments_once(fake) if word not in always and word != "--workers-per-gpu=1"]
    assert extra == words


def test_every_option_is_tested() -> None:
    assert {name for options, _ in OPTIONS for name in options} == set(_transcribe.Options.__annotations__)


def test_no_model_size_is_passed_with_a_model_file(fake: Path) -> None:
    assert launcher_multigpu.run_multi_gpu("in", "out", model="m.bin", model_size="base") == 0
    assert not any(word.startswith("--model-size") for word in arguments_once(fake))


def test_several_patterns(fake: Path) -> None:
    assert launcher_multigpu.run_multi_gpu("in", "out", pattern=["*.wav", "*.mp3"]) == 0
    assert [word for word in arguments_once(fake) if "pattern" in word] == ["--pattern=*.wav", "--pattern=*.mp3"]


def test_any_path_and_text(fake: Path, tmp_path: Path) -> None:
    directory = os.fsdecode(b"na\xefve \xff dir")
    assert launcher_multigpu.run_multi_gpu(directory, "öut", prompt="Grüße, 世界") == 0
    words = arguments_once(fake)
    assert words[1] == f"--input-dir={directory}" and words[2] == "--output-dir=öut" and "--prompt=Grüße, 世界" in words


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"beams": 5}, TypeError, "beams.*beam_size"),
        ({"gpus": []}, ValueError, "auto"),
        ({"gpus": ["x"]}, ValueError, "x"),
        ({"task_timeout": 0}, ValueError, "task_timeout=0"),
        ({"task_timeout": float("nan")}, ValueError, "task_timeout"),
        ({"retries": -1}, ValueError, "retries=-1"),
        ({"prompt": "a\0b"}, ValueError, "null"),
    ],
)
def test_wrong_options_are_refused_before_the_command_starts(fake: Path, options: dict[str, Any], kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        launcher_multigpu.run_multi_gpu("in", "out", **options)
    assert not fake.exists()


def test_progress_callback_needs_a_worker_class(fake: Path) -> None:
    with pytest.raises(TypeError, match="progress_callback needs a worker class"):
        LauncherOrchestrator().run("in", "out", progress_callback=print)


class Quiet(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Path) -> None:
        pass


@pytest.mark.parametrize(
    "make", [lambda: LauncherOrchestrator(Quiet), lambda: LauncherOrchestrator(spawner=ProcessSpawner(Quiet))]
)
def test_worker_class_is_used_instead_of_the_command(fake: Path, tmp_path: Path, make: Any) -> None:
    (tmp_path / "a.wav").write_bytes(b"x")
    assert make().run(tmp_path, tmp_path / "out", "sim:1") == 0
    assert not fake.exists()


# ---- its exit code and its streams ----


@pytest.mark.parametrize(
    ("does", "code"),
    [
        ("", 0),
        ("sys.exit(1)", 1),
        ("sys.exit(130)", 130),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT)", 130),
    ],
)
def test_exit_code(fake: Path, monkeypatch: pytest.MonkeyPatch, does: str, code: int) -> None:
    monkeypatch.setenv("FAKE", does)
    assert LauncherOrchestrator().run("in", "out") == code


def script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


def test_command_uses_the_standard_streams_of_this_program(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command uses the standard streams of this program. Earlier output comes first."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("FAKE", "print('read', sys.stdin.read()); print('an error', file=sys.stderr)")
    text = """
        import launcher_multigpu
        print("before")
        print("code", launcher_multigpu.run_multi_gpu("in", "out"))
    """
    done = subprocess.run(script(tmp_path, text), input="me", capture_output=True, text=True, check=True)
    assert done.stdout == "before\nread me\ncode 0\n" and done.stderr.endswith("an error\n")


# Uses only the shell itself, because programs that the shell starts may have other signals blocked.
SIGNALS = """#!/bin/sh
while read -r name value; do
    case $name in SigBlk:|SigIgn:) echo "$name $value" ;; esac
done </proc/$$/status
"""


def test_command_has_the_signals_that_a_shell_gives(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores SIGPIPE and catches SIGINT. A program that it starts does neither, and no signal is blocked."""
    command = tmp_path / "status"
    command.write_text(SIGNALS)
    command.chmod(0o755)
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", str(command))
    done = subprocess.run(
        script(tmp_path, "import launcher_multigpu; launcher_multigpu.run_multi_gpu('in', 'out')"),
        capture_output=True,
        text=True,
        check=True,
    )
    # The signals without Python. The parent process may ignore some, for example under nohup.
    plain = subprocess.run([command], capture_output=True, text=True, check=True)

    def named(text: str) -> list[int]:  # leaves out the signals that the C library uses itself
        return [int(line.split()[1], 16) & (1 << 31) - 1 for line in text.splitlines()]

    assert named(done.stdout) == named(plain.stdout)
    blocked, ignored = named(done.stdout)
    for number in (signal.SIGPIPE, signal.SIGINT):
        assert (blocked | ignored) & 1 << (number - 1) == 0, number.name


def test_no_descriptor_is_left_open(fake: Path) -> None:
    gc.collect()  # so that descriptors of other tests are not closed during this one
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        LauncherOrchestrator().run("in", "out")
    assert set(os.listdir("/proc/self/fd")) <= before


def test_in_a_thread(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", "sys.exit(7)")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(LauncherOrchestrator().run("in", "out")))
    thread.start()
    thread.join()
    assert codes == [7]


def test_other_threads_run_while_the_command_runs(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    monkeypatch.setenv("FAKE", f"open({str(fifo)!r}).read()")  # ends when the other thread has opened and closed it
    thread = threading.Thread(target=lambda: fifo.write_text("go on"))
    thread.start()
    assert LauncherOrchestrator().run("in", "out") == 0
    thread.join()


# ---- interrupts ----

# Prints a line when it is ready, counts SIGINTs, and exits with 130 when it reads a line.
PATIENT = """
count = 0
def handler(number, frame):
    global count
    count += 1
    os.write(1, b"interrupt %d\\n" % count)  # in one write, because other processes write there too
signal.signal(signal.SIGINT, handler)
print("ready", os.getpid(), flush=True)
print("ends after", sys.stdin.readline().strip(), count, flush=True)
sys.exit(130)
"""

RUNS = """
    import launcher_multigpu
    print("code", launcher_multigpu.run_multi_gpu("in", "out"))
"""


@pytest.fixture
def patient(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", PATIENT)


def test_ctrl_c_in_a_terminal_reaches_the_command_once(patient: None, tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    python, path = script(tmp_path, RUNS)
    child = pexpect.spawn(python, [path], timeout=250, echo=False)
    child.expect(r"ready \d+")
    child.sendintr()
    child.expect_exact("interrupt 1")
    child.sendline("one")
    child.expect_exact("ends after one 1")  # a second SIGINT would have come before the line was read
    child.expect_exact("code 130")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def begin(tmp_path: Path, text: str = RUNS) -> tuple[subprocess.Popen[str], int]:
    """A Python process that runs the patient command, which is ready, and the process id of that command."""
    process = subprocess.Popen(
        script(tmp_path, text), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    word, pid = process.stdout.readline().split()
    assert word == "ready"
    return process, int(pid)


def rest(process: subprocess.Popen[str]) -> str:
    """The output from here to the end of the process. Its input is neither written nor closed before that."""
    assert process.stdin and process.stdout
    with process, process.stdin:
        return process.stdout.read()


def test_sigint_sent_only_to_python_is_passed_on(patient: None, tmp_path: Path) -> None:
    process, _ = begin(tmp_path)
    assert process.stdout
    for n in (1, 2):
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == f"interrupt {n}\n"
    out, _ = process.communicate("two\n", timeout=250)
    assert out == "ends after two 2\ncode 130\n" and process.returncode == 0


def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the command by a program that SIGINT ends at any moment. A Python program could lose a SIGINT while it
    starts, in a callback of the import system, where an exception is only printed."""
    command = tmp_path / "sleeper"
    command.write_text("#!/bin/sh\nexec sleep 3600\n")
    command.chmod(0o755)
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", str(command))


def test_sigint_while_the_command_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the process sends the signal at any moment. The run ends with 130 or, before it has begun, with
    KeyboardInterrupt. It never hangs."""
    sleeper(tmp_path, monkeypatch)
    text = """
        import os, signal, sys, threading
        import launcher_multigpu
        for delay in (0, 1, 10, 100, 1000, 10000):
            def shoot():
                for _ in range(delay): pass
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=shoot)
            try:
                thread.start()
                assert launcher_multigpu.run_multi_gpu("in", "out") == 130
            except KeyboardInterrupt:
                pass
            thread.join()
    """
    done = subprocess.run(script(tmp_path, text), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr


def test_sigint_before_the_process_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread gets the signal while this one forks, when there is no process yet to pass it on to. The signal is
    not lost."""
    sleeper(tmp_path, monkeypatch)
    text = """
        import ctypes, os, signal, threading
        import launcher_multigpu

        reader, writer = os.pipe()
        os.set_blocking(writer, False)

        @ctypes.CFUNCTYPE(None)
        def before_fork():
            os.kill(os.getpid(), signal.SIGINT)
            os.read(reader, 1)  # Python's handler, which is called last, writes to this pipe

        end = threading.Event()
        threading.Thread(target=end.wait).start()
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        ctypes.CDLL(None).__register_atfork(before_fork, None, None, None)
        print("code", launcher_multigpu.run_multi_gpu("in", "out"))
        end.set()
    """
    done = subprocess.run(script(tmp_path, text), capture_output=True, text=True, timeout=250)
    assert done.stdout == "code 130\n", done.stderr


def test_python_handles_sigint_again_after_two_runs(fake: Path, tmp_path: Path) -> None:
    text = """
        import signal
        import launcher_multigpu
        codes = [launcher_multigpu.run_multi_gpu("in", "out") for _ in range(2)]
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print(codes, "interrupted")
    """
    done = subprocess.run(script(tmp_path, text), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0, 0] interrupted\n"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_command_dies_with_python(patient: None, tmp_path: Path, number: signal.Signals) -> None:
    process, pid = begin(tmp_path)
    process.send_signal(number)
    assert rest(process) == "", f"{pid} still runs"  # while it runs, it keeps the pipe open
    assert process.returncode == -number


def test_exception_of_another_handler_ends_the_command(patient: None, tmp_path: Path) -> None:
    text = """
        import os, signal
        import launcher_multigpu
        def handler(number, frame):
            raise TimeoutError("enough")
        signal.signal(signal.SIGUSR1, handler)
        try:
            launcher_multigpu.run_multi_gpu("in", "out")
        except TimeoutError as error:
            print("raised", error)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            print("no child")
    """
    process, pid = begin(tmp_path, text)
    process.send_signal(signal.SIGUSR1)
    assert rest(process) == "raised enough\nno child\n" and not Path(f"/proc/{pid}").exists()


def test_keyboard_interrupt_without_sigint_ends_the_command(patient: None, tmp_path: Path) -> None:
    text = """
        import signal
        import launcher_multigpu
        def handler(number, frame):
            raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, handler)
        try:
            launcher_multigpu.run_multi_gpu("in", "out")
        except KeyboardInterrupt:
            print("raised")
    """
    process, pid = begin(tmp_path, text)
    process.send_signal(signal.SIGTERM)
    assert rest(process) == "raised\n" and not Path(f"/proc/{pid}").exists()


def test_handler_of_the_user_is_called_too(patient: None, tmp_path: Path) -> None:
    text = """
        import os
        import signal
        import launcher_multigpu
        def handler(number, frame):
            os.write(1, b"mine\\n")
        signal.signal(signal.SIGINT, handler)
        launcher_multigpu.run_multi_gpu("in", "out")
        print(signal.getsignal(signal.SIGINT) is handler, flush=True)
        signal.raise_signal(signal.SIGINT)
    """
    process, _ = begin(tmp_path, text)
    process.send_signal(signal.SIGINT)
    assert process.stdout
    assert sorted([process.stdout.readline(), process.stdout.readline()]) == ["interrupt 1\n", "mine\n"]
    assert process.communicate("one\n", timeout=250)[0] == "ends after one 1\nTrue\nmine\n"


def test_ignored_sigint_is_ignored_by_the_command_too(patient: None, tmp_path: Path) -> None:
    text = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + textwrap.dedent(RUNS)
    process, _ = begin(tmp_path, text)
    process.send_signal(signal.SIGINT)
    assert process.communicate("none\n", timeout=250)[0] == "ends after none 0\ncode 130\n"


# ---- finding the command ----


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes sure that no command is found anywhere. Returns a directory in the PATH."""
    monkeypatch.delenv("GPU_DISPATCH_COMMAND", raising=False)
    monkeypatch.setattr(_transcribe, "__file__", str(tmp_path / "a" / "b" / "c" / "_transcribe.py"))
    monkeypatch.setattr(_transcribe, "__package__", "json")  # a package without the command
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "path"


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF and more")
    path.chmod(0o755)
    return path


def test_no_command(nowhere: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert LauncherOrchestrator().run("in", "out") == 1
    printed = capsys.readouterr().err
    assert "pip install" in printed and "make install" in printed and "GPU_DISPATCH_COMMAND" in printed
    is_valid, error = LauncherOrchestrator().validate_setup(tmp_path, "sim:2")
    assert is_valid is False and error == printed.strip()


def test_command_in_the_path(nowhere: Path) -> None:
    ours = program(nowhere / "gpu-dispatch")
    assert _transcribe.find_command() == ours


def test_command_next_to_python_is_preferred_to_the_path(nowhere: Path, tmp_path: Path) -> None:
    program(nowhere / "gpu-dispatch")
    ours = program(tmp_path / "bin" / "gpu-dispatch")
    assert _transcribe.find_command() == ours


def test_command_of_a_build_directory_is_preferred_to_both(nowhere: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "gpu-dispatch")
    ours = program(tmp_path / "a" / "gpu-dispatch")
    assert _transcribe.find_command() == ours


def test_pips_script_is_not_the_command(nowhere: Path, tmp_path: Path) -> None:
    """If pip's script were taken for the command, it would call itself for ever."""
    pips = tmp_path / "bin" / "gpu-dispatch"
    pips.write_text("#!/bin/sh\n")
    pips.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        _transcribe.find_command()
    ours = program(nowhere / "gpu-dispatch")
    assert _transcribe.find_command() == ours


def test_file_that_is_not_executable_is_not_the_command(nowhere: Path) -> None:
    program(nowhere / "gpu-dispatch").chmod(0o644)
    with pytest.raises(FileNotFoundError):
        _transcribe.find_command()


def test_named_command_does_not_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", "/nonexistent/gd")
    assert launcher_multigpu.run_multi_gpu("in", "out") == 1
    assert "GPU_DISPATCH_COMMAND=/nonexistent/gd" in capsys.readouterr().err


def test_named_command_is_not_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is executable, but cannot be executed."""
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", str(program(tmp_path / "odd")))
    assert launcher_multigpu.run_multi_gpu("in", "out") == 1
    printed = capsys.readouterr().err
    assert "odd" in printed and "Exec format error" in printed


def test_command_of_this_build() -> None:
    if "GPU_DISPATCH_COMMAND" in os.environ:
        pytest.skip("GPU_DISPATCH_COMMAND names another command")
    assert _transcribe.find_command() == Path(_transcribe.__file__).parents[2] / "gpu-dispatch"


# ---- the module as a program ----


@pytest.mark.parametrize("how", ["-m", "file"])
def test_launcher_is_the_command(fake: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv("FAKE", "print('here'); sys.exit(5)")
    name = ["-m", "launcher_multigpu"] if how == "-m" else [str(launcher_multigpu.__file__)]
    words = ["--input-dir", "data/audio", "--gpus", "0,1,2", "--model-size", "large-v3"]
    done = subprocess.run([sys.executable, *name, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "here\n"), done.stderr
    assert arguments_once(fake) == words  # "transcribe" is not passed: launcher_multigpu always transcribes


def test_launcher_without_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_DISPATCH_COMMAND", "/nonexistent/gd")
    done = subprocess.run([sys.executable, "-m", "launcher_multigpu"], capture_output=True, text=True)
    assert done.returncode == 1 and "/nonexistent/gd" in done.stderr and "Traceback" not in done.stderr


def test_help_names_every_option() -> None:
    for place in (launcher_multigpu.run_multi_gpu, LauncherOrchestrator.run):
        text = f"{inspect.signature(place)} {inspect.getdoc(place)}"
        missing = [name for name in _transcribe.Options.__annotations__ if name not in text]
        assert set(missing) <= {"journal_sync", "force_resume"}, place


# ---- the extension's part ----


@pytest.mark.parametrize("argv", [[], ["text"], (b"/bin/true",), [b"a\0b"], None])
def test_run_program_refuses_wrong_arguments(argv: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        _native.run_program(argv, True)


def test_run_program_returns_the_error_of_a_missing_program() -> None:
    assert _native.run_program([b"/nonexistent/program"], True) == -errno.ENOENT


# ---- the real thing ----

transcribes = pytest.mark.skipif(not speech.CAN_TRANSCRIBE, reason=speech.WITHOUT)


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, and an environment in which the demo model is found."""
    monkeypatch.delenv("GPU_DISPATCH_COMMAND", raising=False)
    for name in set(os.environ) - set(speech.environment(tmp_path)):
        monkeypatch.delenv(name)
    for name, value in speech.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def texts_in(directory: Path, ending: str = ".txt") -> dict[str, str]:
    return {path.name.removesuffix(ending) + ".flac": path.read_text().strip() for path in directory.glob("*" + ending)}


@transcribes
@pytest.mark.parametrize("gpus", ["cpu", "sim:2"])
def test_transcribes(at_home: Path, gpus: str) -> None:
    code = LauncherOrchestrator().run(speech.CLIPS, at_home / "out", gpus, "demo", "en", list(speech.SURE))
    assert code == 0 and texts_in(at_home / "out") == speech.SURE


@transcribes
def test_transcribes_a_wav_with_a_model_file(at_home: Path) -> None:
    (at_home / "in").mkdir()
    clip, text = next(iter(speech.SURE.items()))
    speech.make_wav(clip, at_home / "in" / "a.wav")
    code = launcher_multigpu.run_multi_gpu(
        at_home / "in",
        at_home / "out",
        "cpu",
        model=ROOT / "models" / "ggml-demo.bin",
        formats=("txt", "json"),
        full_names=True,
        word_timestamps=True,
        threads=1,
        beam_size=2,
        temperature=0.0,
        prompt="",
        quiet=True,
    )
    assert code == 0 and sorted(path.name for path in (at_home / "out").iterdir()) == ["a.wav.json", "a.wav.txt"]
    assert (at_home / "out" / "a.wav.txt").read_text().strip() == text
    assert json.loads((at_home / "out" / "a.wav.json").read_text())["text"].strip() == text


@transcribes
def test_file_that_is_not_audio_is_one_failure(at_home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (at_home / "in").mkdir()
    (at_home / "in" / "bad.wav").write_bytes(b"no audio")
    clip, text = next(iter(speech.SURE.items()))
    speech.make_wav(clip, at_home / "in" / "good.wav")
    assert LauncherOrchestrator().run(at_home / "in", at_home / "out", "cpu", "demo") == 1
    assert [path.name for path in (at_home / "out").iterdir()] == ["good.txt"]
    assert "bad.wav" in "".join(capfd.readouterr())


@transcribes
@pytest.mark.skipif(not _native.journal_available(), reason="built without SQLite")
def test_journal(at_home: Path) -> None:
    """A finished file is not transcribed again, even if its text was removed."""
    run = lambda **more: LauncherOrchestrator().run(  # noqa: E731
        speech.CLIPS, at_home / "out", "cpu", "demo", None, list(speech.SURE), journal=at_home / "run.db", **more
    )
    assert run() == 0 and texts_in(at_home / "out") == speech.SURE
    (at_home / "out" / next(iter(speech.SURE))).with_suffix(".txt").unlink()
    assert run(resume=True) == 0 and len(texts_in(at_home / "out")) == len(speech.SURE) - 1


@transcribes
def test_interrupted(at_home: Path) -> None:
    """Started files may finish, and no others are started. The exit code shows the interrupt."""
    clips, files = at_home / "many", speech.spoken()
    clips.mkdir()
    for n in range(50):  # more files than can be finished before the interrupt, however late it comes
        for clip in files:
            (clips / f"{n}-{clip}").symlink_to(speech.CLIPS / clip)
    text = f"""
        import launcher_multigpu
        clips, out = {str(clips)!r}, {str(at_home / "out")!r}
        print("code", launcher_multigpu.run_multi_gpu(clips, out, "cpu", "demo", "en", "*.flac", threads=1))
    """
    process = subprocess.Popen(
        script(at_home, text), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    next(line for line in process.stderr if "model demo" in line)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=250)[0].endswith("code 130\n")
    assert len(texts_in(at_home / "out")) < 50 * len(files)


@pytest.mark.parametrize(
    ("where", "gpus", "words"),
    [("absent", "sim:1", "absent"), (".", [7], "7"), (".", [], "auto"), (".", "nonsense-7", "nonsense-7")],
)
def test_validate_setup_reports_what_is_wrong(at_home: Path, where: str, gpus: Any, words: str) -> None:
    is_valid, error = LauncherOrchestrator().validate_setup(at_home / where, gpus)
    assert is_valid is False and error and words in error


@transcribes
def test_validate_setup_accepts_a_valid_setup(at_home: Path) -> None:
    orchestrator = LauncherOrchestrator()
    assert orchestrator.validate_setup(at_home, "sim:2") == (True, None)
    assert orchestrator.validate_setup(at_home, "cpu", model_size="demo") == (True, None)


@transcribes
def test_validate_setup_without_the_model(at_home: Path) -> None:
    is_valid, error = LauncherOrchestrator().validate_setup(at_home, "cpu", model_size="base")
    assert is_valid is False and error
    lines = error.splitlines()
    assert lines[0] == "the model base (ggml-base.bin) is not on this machine. These places were searched:"
    assert lines[-2] == "This command downloads it:" and lines[-1] == "  gpu-dispatch models download base"


def test_validate_setup_without_the_transcriber(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_DISPATCH_TRANSCRIBER", "/nonexistent/transcribe.so")
    is_valid, error = LauncherOrchestrator().validate_setup(at_home, "cpu")
    assert is_valid is False and error and "/nonexistent/transcribe.so" in error
