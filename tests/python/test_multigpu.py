"""The launcher's five parts, and run_multi_gpu(), on simulated devices."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import BaseWorker
from gpu_dispatch.multigpu import (
    FileResult,
    GPUDetector,
    LauncherOrchestrator,
    LoadBalancer,
    ProcessSpawner,
    ResourceAllocator,
    distribute_to_gpus,
    run_multi_gpu,
)


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_DISPATCH_SIM", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Files of 1 to 5 bytes, of which b.wav is the largest, and one file of another kind."""
    for name, size in (("a.wav", 1), ("b.wav", 5), ("c.wav", 3), ("d.txt", 9)):
        (tmp_path / name).write_bytes(b"x" * size)
    return tmp_path


class Count(BaseWorker):
    """Writes the size of each file to the output directory. "bad" fails, and "stuck" never ends."""

    def setup(self, gpu_id: int, seed: int, output_dir: Path | None = None, model_size: str = "none") -> None:
        self.output_dir, self.model_size = output_dir, model_size

    def process(self, data: Path) -> dict[str, Any]:
        if "bad" in data.name:
            raise ValueError("this file is bad")
        while "stuck" in data.name:
            time.sleep(60)
        size = data.stat().st_size
        if self.output_dir:
            (self.output_dir / f"{data.stem}.{self.model_size}").write_text(str(size))
        return {"size": size, "media_seconds": float(size)}


class NoSetup(Count):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        raise OSError("no model")


# ---- detector ----


def test_detector_lists_devices() -> None:
    detector = GPUDetector()
    assert detector.get_available_gpus() == [0, 1]
    assert detector.is_cuda_available() is False, "simulated devices have no CUDA"
    assert detector.validate_gpus([0, 1]) == (True, None)


@pytest.mark.parametrize(
    ("gpus", "words"), [([7], "7"), ([0, 0], "twice|0"), ([], "auto"), (["x"], ""), ([1 << 40], "not a device number")]
)
def test_detector_refuses(gpus: list[Any], words: str) -> None:
    import re

    is_valid, error = GPUDetector().validate_gpus(gpus)
    assert is_valid is False and error and re.search(words, error)


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ("auto", [0, 1]),
        (" AUTO ", [0, 1]),
        (None, [0, 1]),
        ("0,1,2", [0, 1, 2]),
        ("0-3", [0, 1, 2, 3]),
        ("5", [5]),
        ([2, 0], [2, 0]),
        ("sim:3", [0, 1, 2]),
    ],
)
def test_detector_parses(spec: Any, gpus: list[int]) -> None:
    assert GPUDetector().parse_gpu_list(spec) == gpus


def test_detector_parses_a_uuid() -> None:
    detector = GPUDetector()
    assert detector.parse_gpu_list(detector.get_gpu_info(1)["uuid"]) == [1]


@pytest.mark.parametrize("spec", ["", "0,,1", "3-1", "0;1"])
def test_detector_refuses_malformed_lists(spec: str) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        GPUDetector().parse_gpu_list(spec)


def test_detector_info() -> None:
    info = GPUDetector().get_gpu_info(1)
    assert info["gpu_id"] == 1 and info["name"] == "Simulated GPU" and info["vendor"] == "simulated"
    assert info["total_memory"] >= info["free_memory"] > 0
    with pytest.raises(ValueError, match="no GPU 2: "):
        GPUDetector().get_gpu_info(2)


def test_detector_without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_DISPATCH_SIM")
    monkeypatch.setenv("GPU_DISPATCH_NVML", "/nonexistent")
    monkeypatch.setenv("GPU_DISPATCH_SYSFS", "/nonexistent")
    detector = GPUDetector()
    assert detector.get_available_gpus() == [] and detector.parse_gpu_list("auto") == []
    assert detector.validate_gpus([0])[0] is False


# ---- allocator ----


def test_allocator_finds_largest_first(directory: Path) -> None:
    allocator = ResourceAllocator()
    assert [path.name for path in allocator.discover_files(directory, "*.wav")] == ["b.wav", "c.wav", "a.wav"]
    assert [path.name for path in allocator.discover_files(directory, "*.wav", order="name")] == [
        "a.wav",
        "b.wav",
        "c.wav",
    ]
    assert [path.name for path in allocator.discover_files(str(directory), ["*.txt", "a*"])] == ["d.txt", "a.wav"]
    assert allocator.discover_files(directory, "*.mp3") == []


def test_allocator_searches_subdirectories(directory: Path) -> None:
    (directory / "deep").mkdir()
    (directory / "deep" / "e.wav").write_bytes(b"x" * 99)
    allocator = ResourceAllocator()
    assert len(allocator.discover_files(directory, "*.wav")) == 3
    assert allocator.discover_files(directory, "*.wav", recursive=True)[0] == directory / "deep" / "e.wav"


def test_allocator_finds_files_with_any_name(directory: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.wav")
    (directory / name).write_bytes(b"x" * 50)
    assert ResourceAllocator().discover_files(directory, "*.wav")[0] == directory / name


def test_allocator_refuses(directory: Path) -> None:
    allocator = ResourceAllocator()
    with pytest.raises(ValueError):
        allocator.discover_files(directory / "absent")
    with pytest.raises(ValueError, match="order='age'"):
        allocator.discover_files(directory, order="age")
    with pytest.raises(ValueError, match="how='fair'"):
        allocator.distribute_workload([], 1, how="fair")
    with pytest.raises(ValueError):
        allocator.distribute_workload([], 0)
    with pytest.raises(ValueError):
        allocator.create_task_queue([], 0)


def test_allocator_distributes_files(directory: Path) -> None:
    a, b, c = (directory / name for name in ("a.wav", "b.wav", "c.wav"))
    deal = ResourceAllocator().distribute_workload
    assert deal([b, c, a], 2) == [[b, a], [c]]
    assert deal([b, c, a], 2, how="chunks") == [[b, c], [a]]
    assert deal([b, c, a], 2, how="balanced") == [[b], [c, a]]
    assert deal([], 3) == [[], [], []]
    assert deal([Path("absent")], 2) == [[Path("absent")], []]


def test_allocator_queue(directory: Path) -> None:
    tasks = ResourceAllocator().create_task_queue([directory / "a.wav", directory / "b.wav"], num_workers=2)
    assert [tasks.get_nowait() for _ in range(4)] == [directory / "a.wav", directory / "b.wav", None, None]
    assert tasks.empty()


def test_allocator_estimates(directory: Path) -> None:
    stats = ResourceAllocator().estimate_workload([directory / "a.wav", directory / "b.wav", directory / "c.wav"])
    assert (stats["file_count"], stats["total_size"], stats["average_size"], stats["median_size"]) == (3, 9, 3.0, 3)
    assert (stats["largest_size"], stats["smallest_size"]) == (5, 1)
    assert ResourceAllocator().estimate_workload([])["file_count"] == 0


# ---- spawner ----


def spawn(spawner: ProcessSpawner, files: list[Path], **more: Any) -> tuple[list[Any], queue.Queue[Any]]:
    results: queue.Queue[Any] = queue.Queue()
    tasks = ResourceAllocator().create_task_queue(files, num_workers=2)
    return spawner.spawn_workers(gpu_ids=[0, 1], task_queue=tasks, result_queue=results, **more), results


def drain(results: queue.Queue[Any]) -> list[FileResult]:
    return list(iter(results.get, None))


def test_spawner_processes_files(directory: Path) -> None:
    spawner = ProcessSpawner(Count)
    (directory / "bad.wav").write_bytes(b"")
    files = sorted(directory.glob("*.wav"))
    processes, results = spawn(spawner, files, model_size="base", language=None, output_dir=directory)
    assert [process.gpu_id for process in processes] == [0, 1]
    assert spawner.wait_for_completion() is True
    by_name = {result.path.name: result for result in drain(results) if result.path}
    assert sorted(by_name) == ["a.wav", "b.wav", "bad.wav", "c.wav"]
    assert by_name["b.wav"].success and by_name["b.wav"].result["size"] == 5 and by_name["b.wav"].media_seconds == 5.0
    assert by_name["bad.wav"].failure == "error" and "ValueError: this file is bad" in (by_name["bad.wav"].error or "")
    assert all(0 < result.start_ns < result.end_ns and result.gpu_id in (0, 1) for result in by_name.values())
    assert (directory / "b.base").read_text() == "5"
    assert [status["gpu_id"] for status in spawner.get_process_status()] == [0, 1]
    assert not any(process.is_alive() for process in processes)


def test_spawner_tasks_may_come_later(directory: Path) -> None:
    tasks: queue.Queue[Any] = queue.Queue()
    results: queue.Queue[Any] = queue.Queue()
    spawner = ProcessSpawner()
    spawner.spawn_workers([0], tasks, results, worker_cls=Count)
    for name in ("a.wav", "b.wav"):
        tasks.put(directory / name)
        assert results.get(timeout=60).path == directory / name
    assert spawner.wait_for_completion(timeout=0) is False and spawner.is_running
    tasks.put(None)
    assert spawner.wait_for_completion() and results.get() is None


def test_spawner_terminates(directory: Path) -> None:
    spawner = ProcessSpawner(Count)
    tasks: queue.Queue[Any] = queue.Queue()
    results: queue.Queue[Any] = queue.Queue()
    tasks.put(directory / "a.wav")
    tasks.put(directory / "stuck.wav")
    processes = spawner.spawn_workers([0], tasks, results)
    assert results.get().success
    assert processes[0].is_alive() and processes[0].pid != os.getpid()
    with pytest.raises(RuntimeError, match="wait_for_completion"):
        spawn(spawner, [])
    pid = processes[0].pid
    spawner.terminate_all()
    assert not spawner.is_running and not Path(f"/proc/{pid}").exists()
    assert [(result.path, result.failure) for result in drain(results)] in ([(directory / "stuck.wav", "error")], [])
    spawner.terminate_all()


def test_spawner_time_limit(directory: Path) -> None:
    spawner = ProcessSpawner(Count)
    _, results = spawn(spawner, [directory / "stuck.wav"], task_timeout=0.2)
    assert spawner.wait_for_completion()
    (result,) = drain(results)
    assert result.failure == "timeout" and result.error == "timed out after 0.2 s"


def test_spawner_setup_failure(directory: Path) -> None:
    spawner = ProcessSpawner(NoSetup)
    _, results = spawn(spawner, [directory / "a.wav"])
    with pytest.raises(RuntimeError, match="All workers failed during setup"):
        spawner.wait_for_completion()
    assert [result.failure for result in drain(results)] == ["error"]
    assert spawner.wait_for_completion() is True, "the exception is raised only once"


def test_spawner_without_a_worker_class() -> None:
    with pytest.raises(TypeError, match="no worker class.*BaseWorker"):
        spawn(ProcessSpawner(), [])


def test_spawner_without_a_run() -> None:
    spawner = ProcessSpawner()
    spawner.terminate_all()
    assert spawner.wait_for_completion() and spawner.get_process_status() == []


# ---- balancer ----


def test_balancer_without_results() -> None:
    balancer = LoadBalancer(gpu_ids=[0, 1])
    assert balancer.get_overall_rtf() == 0.0 and balancer.get_speedup() == 0.0
    assert {gpu: figures["done"] for gpu, figures in balancer.get_per_gpu_stats().items()} == {0: 0, 1: 0}


def test_balancer_counts(capsys: pytest.CaptureFixture[str]) -> None:
    second = 10**9
    results: queue.Queue[Any] = queue.Queue()
    results.put(FileResult(0, Path("a.wav"), 0, start_ns=1, end_ns=1 + 2 * second, media_seconds=10.0))
    results.put(FileResult(1, Path("b.wav"), 1, start_ns=1, end_ns=1 + 2 * second, media_seconds=10.0))
    results.put({"task_id": 2, "path": Path("c.wav"), "gpu_id": 1, "failure": "timeout", "error": "too slow"})
    results.put(None)
    seen: list[tuple[int, int]] = []
    balancer = LoadBalancer(gpu_ids=[0, 1])
    taken = balancer.monitor_progress(
        results, total_files=9, progress_callback=lambda done, total: seen.append((done, total))
    )
    assert len(taken) == 3 and seen == [(1, 9), (2, 9), (3, 9)], "None ends it"
    assert balancer.get_speedup() == pytest.approx(2.0) and balancer.get_overall_rtf() == pytest.approx(0.1)
    per_gpu = balancer.get_per_gpu_stats()
    assert per_gpu[0]["done"] == 1 and per_gpu[1]["failed"] == 1 and per_gpu[1]["timeouts"] == 1
    assert balancer.get_errors() == ["c.wav: too slow"]
    balancer.print_summary(3)
    assert "3 files, 1 failed, in 2.0s" in capsys.readouterr().out


def test_balancer_prints_progress(capsys: pytest.CaptureFixture[str]) -> None:
    balancer = LoadBalancer(gpu_ids=[0])
    for done in range(1, 101):
        balancer.print_progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) < 100 and lines[-1].startswith("100 of 100 files, 0 failed")
    assert "\x1b" not in "".join(lines)


# ---- orchestrator ----


def test_orchestrator_runs(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = directory / "new" / "output"
    code = LauncherOrchestrator(Count).run(
        directory, output, gpus=[0, 1], model_size="tiny", language="en", pattern="*.wav"
    )
    assert code == 0
    assert {path.name: path.read_text() for path in output.iterdir()} == {"a.tiny": "1", "b.tiny": "5", "c.tiny": "3"}
    captured = capsys.readouterr()
    assert "3 files in" in captured.out and "RTF" in captured.out and "3 of 3 files" in captured.err


@pytest.mark.parametrize("gpus", ["auto", "0,1", "cpu:2"])
def test_orchestrator_devices_by_specification(directory: Path, gpus: str) -> None:
    assert LauncherOrchestrator(Count).run(directory, directory / "out", gpus) == 0


def test_orchestrator_reports_failures(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "bad.wav").write_bytes(b"x")
    assert LauncherOrchestrator(Count).run(directory, directory, [0]) == 1
    assert "1 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("worker", "where", "gpus", "words"),
    [
        (Count, "absent", [0], "absent"),
        (Count, "a.wav", [0], "a.wav"),
        (Count, ".", [5], "no GPU 5: "),
        (Count, ".", "nonsense-7", "nonsense-7"),
    ],
)
def test_orchestrator_cannot_start(
    directory: Path, capsys: pytest.CaptureFixture[str], worker: Any, where: str, gpus: Any, words: str
) -> None:
    orchestrator = LauncherOrchestrator(worker)
    is_valid, error = orchestrator.validate_setup(directory / where, gpus)
    assert is_valid is False and words in (error or "")
    assert orchestrator.run(directory / where, directory / "output", gpus) == 1
    assert words in capsys.readouterr().err and not (directory / "output").exists()


def test_orchestrator_nothing_to_do(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert LauncherOrchestrator(Count).run(directory, directory, [0], pattern="*.mp3") == 1
    assert "*.mp3" in capsys.readouterr().err


def test_orchestrator_setup_failure(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert LauncherOrchestrator(NoSetup).run(directory, directory, [0]) == 1
    assert "All workers failed during setup" in capsys.readouterr().err


def test_orchestrator_interrupted(directory: Path) -> None:
    """Ctrl-C during the processing of a file that never ends."""
    (directory / "stuck.wav").write_bytes(b"")

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    assert LauncherOrchestrator(Count).run(directory, directory, [0, 1], progress_callback=interrupt) == 130


def test_orchestrator_callback_exception(directory: Path) -> None:
    def fail(done: int, total: int) -> None:
        raise LookupError("in a callback")

    orchestrator = LauncherOrchestrator(Count)
    with pytest.raises(LookupError):
        orchestrator.run(directory, directory, [0], progress_callback=fail)
    assert not orchestrator.spawner.is_running


def test_orchestrator_information(directory: Path) -> None:
    orchestrator = LauncherOrchestrator(Count)
    assert orchestrator.validate_setup(directory, [0, 1]) == (True, None)
    assert orchestrator.get_workload_info(directory, "*.wav")["total_size"] == 9
    info = orchestrator.get_gpu_info()
    assert info["gpu_count"] == 2 and info["cuda_available"] is False and info["gpus"][1]["gpu_id"] == 1


# ---- records ----


def double_all(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises an exception for a batch with a bad record. A deadly record ends the process."""
    if any(record.get("bad") for record in records):
        raise ValueError("bad record")
    if any(record.get("deadly") for record in records):
        os._exit(3)
    return [{**record, "y": 2 * record["x"], "pid": os.getpid(), "n": len(records)} for record in records]


def process_batch(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return double_all(records)


def numbers(n: int) -> list[dict[str, Any]]:
    return [{"x": i} for i in range(n)]


def test_records_with_the_process_batch_of_the_calling_module() -> None:
    results = run_multi_gpu(numbers(100), n_gpus=2, batch_size=8)
    assert [result["y"] for result in results] == list(range(0, 200, 2))
    assert max(result["n"] for result in results) == 8
    assert os.getpid() not in {result["pid"] for result in results}


def test_records_small_batches_keep_gpus_busy() -> None:
    results = run_multi_gpu(numbers(10), 4, 128, double_all)
    assert {result["n"] for result in results} == {3, 1}


def test_one_bad_record_fails_alone() -> None:
    records = numbers(20)
    records[7]["bad"] = True
    results = run_multi_gpu(records, 2, 5, double_all)
    assert [at for at, result in enumerate(results) if "_error" in result] == [7]
    assert results[7]["x"] == 7 and "ValueError: bad record" in results[7]["_error"]
    assert "_error" not in records[7], "the records of the caller are not changed"


def test_record_that_kills_its_worker_fails_alone() -> None:
    records = numbers(12)
    records[5]["deadly"] = True
    results = run_multi_gpu(records, 2, 4, double_all)
    assert [at for at, result in enumerate(results) if "_error" in result] == [5]
    assert [result.get("y") for result in results[:5]] == [0, 2, 4, 6, 8]


def test_records_when_all_gpus_fail() -> None:
    results = run_multi_gpu(numbers(5), 2, 2, NoSetupRecords)
    assert [result["x"] for result in results] == list(range(5))
    assert all("All workers failed during setup" in result["_error"] for result in results)


def test_records_that_were_never_taken_when_all_gpus_fail() -> None:
    results = run_multi_gpu(numbers(50), 2, 1, NoSetupRecords, options={"queue_size": 2})
    assert all("All workers failed during setup" in result["_error"] for result in results)


def leave_mark(gpu_id: int) -> None:
    with open(os.environ["MARKS"], "a") as file:
        file.write("x")


def test_bad_record_causes_no_second_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    results = run_multi_gpu([{"x": 1, "bad": True}, {"x": 2}], 1, 2, double_all, init=leave_mark)
    assert ["_error" in result for result in results] == [True, False]
    assert (tmp_path / "marks").read_text() == "x"


class NoSetupRecords(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        raise OSError("no model")

    def process(self, data: Any) -> Any:
        return data


class Batches(BaseWorker):
    def setup(self, gpu_id: int, seed: int, factor: int = 1) -> None:
        self.factor = factor

    def load(self, data: int) -> int:
        return data + 1

    def process(self, data: int) -> int:
        return data * self.factor

    def process_batch(self, items: list[int]) -> list[int]:
        return [len(items) * 1000 + self.process(item) for item in items]


def test_records_with_a_worker_class() -> None:
    assert run_multi_gpu([1, 2, 3, 4], 1, 2, Batches, factor=10) == [2020, 2030, 2040, 2050]


def wrong_count(records: list[Any]) -> list[Any]:
    return records[1:]


def test_records_that_are_not_mappings() -> None:
    results = run_multi_gpu(["a", "b"], 1, 2, wrong_count)
    assert [result["record"] for result in results] == ["a", "b"]
    assert "got 1 records and returned 0 results" in results[0]["_error"]


def some_fail(records: list[Any]) -> list[Any]:
    return [LookupError("not this one") if record["x"] == 2 else record["x"] for record in records]


def test_records_that_fail_as_results() -> None:
    results = run_multi_gpu(numbers(4), 1, 4, some_fail)
    assert results[:2] == [0, 1] and results[3] == 3 and results[2]["_error"].endswith("LookupError: not this one\n")


def lose_device(records: list[Any]) -> list[Any]:
    """A process that gets a batch with 5 and other records loses its device. All its further batches fail, until it is
    replaced."""
    if globals().get("lost") or (len(records) > 1 and any(record["x"] == 5 for record in records)):
        globals()["lost"] = True
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return [{**record, "pid": os.getpid()} for record in records]


def test_records_are_retried_after_a_lost_device() -> None:
    results = run_multi_gpu(numbers(8), 2, 4, lose_device)
    assert [result["x"] for result in results] == list(range(8))
    assert all("pid" in result for result in results), [result.get("_error") for result in results]


def own_timeout(records: list[Any]) -> list[Any]:
    if any(record["x"] == 1 for record in records):
        raise TimeoutError("a server of ours")
    return records


def test_records_with_the_users_own_timeout_error() -> None:
    assert ["_error" in result for result in run_multi_gpu(numbers(4), 1, 4, own_timeout)] == [
        False,
        True,
        False,
        False,
    ]


def never(records: list[Any]) -> list[Any]:
    while True:
        time.sleep(60)


def test_records_time_limit() -> None:
    results = run_multi_gpu(numbers(4), 2, 2, never, task_timeout=0.2)
    assert [result["_error"] for result in results] == ["timed out after 0.2 s"] * 4


def remember(gpu_id: int) -> None:
    os.environ["REMEMBERED"] = str(gpu_id)


def recall(records: list[Any]) -> list[Any]:
    return [os.environ["REMEMBERED"]] * len(records)


def test_records_init() -> None:
    assert run_multi_gpu([0], 1, 1, recall, init=remember, gpu_ids=[1]) == ["1"]


def test_no_records() -> None:
    assert run_multi_gpu([], 2, 2) == []


@pytest.mark.parametrize(("n_gpus", "batch_size"), [(0, 1), (1, 0)])
def test_records_bad_numbers(n_gpus: int, batch_size: int) -> None:
    with pytest.raises(ValueError, match="must be >= 1"):
        run_multi_gpu([1], n_gpus, batch_size, double_all)


def test_records_without_process_batch() -> None:
    space: dict[str, Any] = {"run_multi_gpu": run_multi_gpu}
    with pytest.raises(TypeError, match="process_batch"):
        exec("run_multi_gpu([1])", space)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9])
@pytest.mark.parametrize("n_gpus", [1, 2, 3, 8])
def test_distribute(n: int, n_gpus: int) -> None:
    chunks = distribute_to_gpus(list(range(n)), n_gpus)
    assert [item for records, _, _ in chunks for item in records] == list(range(n))
    assert [gpu for _, gpu, _ in chunks] == list(range(len(chunks))) and len(chunks) <= n_gpus
    assert len({len(records) for records, _, _ in chunks[:-1]}) <= 1


def test_distribute_refuses() -> None:
    with pytest.raises(ValueError, match="n_gpus must be >= 1, got 0"):
        distribute_to_gpus([1], 0)
