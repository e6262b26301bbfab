"""Runs the examples of the documents that this package is built from, as scripts and as they are written there.

A few lines before each example provide what it assumes: a model, a directory of files, a data set. In the launcher's
examples only the name of the package is changed.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import speech

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, multigpu, protocol


def run(directory: Path, *parts: str, devices: int = 4, errors: bool = False) -> str:
    """Runs a script made of these parts in a directory. Returns its standard output; with errors=True, also its
    standard error."""
    (directory / "example.py").write_text("\n".join(parts))
    env = {**speech.environment(directory), "GPU_DISPATCH_SIM": str(devices)}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=directory, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr * errors


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """A directory with three files in data/audio; c.wav is the largest."""
    directory = tmp_path / "data" / "audio"
    directory.mkdir(parents=True)
    for at, name in enumerate(("a.wav", "b.wav", "c.wav")):
        (directory / name).write_bytes(b"x" * (at + 1) * 10)
    return tmp_path


# ---- the launcher's five parts ----

# A worker that replaces the transcriber. Worker processes import it as part of a module.
WORKER = """
from pathlib import Path
from gpu_dispatch import BaseWorker

class Sizer(BaseWorker):
    def setup(self, gpu_id, seed, model_size, language, output_dir):
        self.output = output_dir / f"{model_size}-{language}.txt"
    def process(self, path):
        with open(self.output, "a") as file:
            file.write(path.name + "\\n")
        return {"media_seconds": 2.0}
"""

DETECTOR = r"""
from gpu_dispatch.multigpu import GPUDetector

detector = GPUDetector()
gpus = detector.get_available_gpus()
is_valid, error = detector.validate_gpus([0, 1])
"""

ALLOCATOR = r"""
from gpu_dispatch.multigpu import ResourceAllocator

allocator = ResourceAllocator()
files = allocator.discover_files(Path("data/audio"), "*.wav")
task_queue = allocator.create_task_queue(files, num_workers=2)
"""

SPAWNER = r"""
from gpu_dispatch.multigpu import ProcessSpawner

spawner = ProcessSpawner()
processes = spawner.spawn_workers(
    gpu_ids=[0, 1],
    task_queue=task_queue,
    result_queue=result_queue,
    model_size="base",
    language=None,
    output_dir=Path("output")
)
spawner.wait_for_completion()
"""

BALANCER = r"""
from gpu_dispatch.multigpu import LoadBalancer

balancer = LoadBalancer(gpu_ids=[0, 1])
balancer.monitor_progress(
    result_queue=result_queue,
    total_files=100,
    progress_callback=balancer.print_progress
)
balancer.print_summary(100)
"""

ORCHESTRATOR = r"""
from gpu_dispatch.multigpu import LauncherOrchestrator

orchestrator = LauncherOrchestrator()
exit_code = orchestrator.run(
    input_dir=Path("data/audio"),
    output_dir=Path("data/outputs"),
    gpus=[0, 1],
    model_size="base",
    language="en",
    pattern="*.wav"
)
"""

PROGRAMMATIC = r"""
from pathlib import Path
from gpu_dispatch.multigpu import LauncherOrchestrator

# Create orchestrator
orchestrator = LauncherOrchestrator()

# Validate setup before running
is_valid, error = orchestrator.validate_setup(
    input_dir=Path("data/audio"),
    gpus=[0, 1]
)

if is_valid:
    # Run transcription
    exit_code = orchestrator.run(
        input_dir=Path("data/audio"),
        output_dir=Path("data/outputs"),
        gpus=[0, 1],
        model_size="base"
    )
"""

CUSTOM = r"""
from gpu_dispatch.multigpu import GPUDetector, ResourceAllocator

# Use GPUDetector for GPU management
detector = GPUDetector()
gpus = detector.get_available_gpus()
for gpu_id in gpus:
    info = detector.get_gpu_info(gpu_id)
    print(f"GPU {gpu_id}: {info['name']}, {info['total_memory']} bytes")

# Use ResourceAllocator for workload analysis
allocator = ResourceAllocator()
files = allocator.discover_files(Path("data/audio"), "*.wav")
stats = allocator.estimate_workload(files)
print(f"Total files: {stats['file_count']}")
print(f"Total size: {stats['total_size']} bytes")
"""

TESTING = r"""
# Test GPUDetector
detector = GPUDetector()
assert detector.is_cuda_available() in [True, False]

# Test ResourceAllocator
allocator = ResourceAllocator()
files = [Path("a.wav"), Path("b.wav")]
distributed = allocator.distribute_workload(files, num_gpus=2)
assert len(distributed) == 2

# Test LoadBalancer
balancer = LoadBalancer(gpu_ids=[0])
assert balancer.get_overall_rtf() == 0.0  # Initially empty
"""

MIGRATED = r"""
# New way (same result)
from gpu_dispatch.multigpu import LauncherOrchestrator
orchestrator = LauncherOrchestrator()
exit_code = orchestrator.run(input_dir, output_dir, gpus, model_size)

# Or use components individually
from gpu_dispatch.multigpu import GPUDetector, ResourceAllocator
detector = GPUDetector()
allocator = ResourceAllocator()
# ...
"""


OLD_WAY = r"""
# Old way
from launcher_multigpu import run_multi_gpu
exit_code = run_multi_gpu(input_dir, output_dir, gpus, model_size)
"""


def test_detector(tmp_path: Path) -> None:
    assert run(tmp_path, DETECTOR, "print(gpus, is_valid, error)") == "[0, 1, 2, 3] True None\n"


def test_allocator(audio: Path) -> None:
    end = "print([path.name for path in files], [task_queue.get() for _ in range(5)][3:])"
    assert run(audio, "from pathlib import Path", ALLOCATOR, end) == "['c.wav', 'b.wav', 'a.wav'] [None, None]\n"


# Worker processes import the script too. So the code that starts them is in a function, as in every such program.
def main(*parts: str) -> str:
    body = "\n".join(parts).strip().splitlines()
    return "\n".join(["def main():", *("    " + line for line in body), "", "if __name__ == '__main__':", "    main()"])


QUEUES = """
import functools, queue
import gpu_dispatch.multigpu as multigpu
multigpu.LauncherOrchestrator = functools.partial(multigpu.LauncherOrchestrator, worker_cls=Sizer)
files = multigpu.ResourceAllocator().discover_files("data/audio", "*.wav")
result_queue = queue.Queue()
task_queue = multigpu.ResourceAllocator().create_task_queue(files, 2)
"""


def test_spawner(audio: Path) -> None:
    (audio / "output").mkdir()
    end = "print(len(processes), sorted(result.path.name for result in iter(result_queue.get, None)))"
    begin = "multigpu.ProcessSpawner = functools.partial(multigpu.ProcessSpawner, worker_cls=Sizer)"
    assert run(audio, WORKER, main(QUEUES, begin, SPAWNER, end)) == "2 ['a.wav', 'b.wav', 'c.wav']\n"
    assert len((audio / "output" / "base-None.txt").read_text().split()) == 3


def test_balancer(audio: Path) -> None:
    begin = """
for i in range(100):
    result_queue.put(multigpu.FileResult(i, Path("a.wav"), i % 2, start_ns=1 + i, end_ns=1000001, media_seconds=1.0))
"""
    assert "100 files in 1.0ms" in run(audio, WORKER, QUEUES, begin, BALANCER)


def test_orchestrator(audio: Path) -> None:
    output = run(audio, WORKER, main(QUEUES, ORCHESTRATOR, "print('CODE', exit_code)"))
    assert "3 files in" in output and "RTF" in output and "CODE 0" in output
    assert sorted((audio / "data/outputs/base-en.txt").read_text().split()) == ["a.wav", "b.wav", "c.wav"]


def test_programmatic(audio: Path) -> None:
    output = run(audio, WORKER, main(QUEUES, PROGRAMMATIC, "print('CODE', exit_code)"))
    assert "3 files in" in output and "CODE 0" in output


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """A directory with clips in data/audio."""
    if not speech.CAN_TRANSCRIBE:
        pytest.skip(speech.WITHOUT)
    (tmp_path / "data" / "audio").mkdir(parents=True)
    for clip in speech.SURE:
        speech.make_wav(clip, (tmp_path / "data" / "audio" / clip).with_suffix(".wav"))
    return tmp_path


def texts_in(directory: Path) -> dict[str, str]:
    return {path.with_suffix(".flac").name: path.read_text().strip() for path in directory.iterdir()}


# The orchestrator's examples, and the code that they need before them.
TRANSCRIBING = {
    "orchestrator": ("from pathlib import Path", ORCHESTRATOR),
    "programmatic": ("", PROGRAMMATIC),
    "migrated": ("input_dir, output_dir, gpus, model_size = 'data/audio', 'data/outputs', [0, 1], 'base'", MIGRATED),
    "old way": ("input_dir, output_dir, gpus, model_size = 'data/audio', 'data/outputs', [0, 1], 'base'", OLD_WAY),
}


@pytest.mark.parametrize("name", TRANSCRIBING)
def test_transcribing(spoken: Path, name: str) -> None:
    """The examples with the demo model. Weights of the size that they name are not available here."""
    begin, example = (part.replace('"base"', '"demo"').replace("'base'", "'demo'") for part in TRANSCRIBING[name])
    output = run(spoken, begin, example, "print('CODE', exit_code)", errors=True)
    assert "CODE 0" in output and "RTF" in output
    assert texts_in(spoken / "data" / "outputs") == speech.SURE


@pytest.mark.parametrize("name", TRANSCRIBING)
def test_transcribing_without_weights(spoken: Path, name: str) -> None:
    """The examples as they are written end with the command that downloads the weights."""
    output = run(spoken, *TRANSCRIBING[name], "print('CODE', exit_code)", errors=True)
    assert "CODE 1" in output and "ggml-base.bin" in output and "gpu-dispatch models download base" in output


@pytest.mark.parametrize("name", TRANSCRIBING)
def test_transcribing_without_a_transcriber(audio: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_DISPATCH_TRANSCRIBER", "/nonexistent/transcribe.so")
    end = "print('CODE', exit_code if globals().get('is_valid', True) else error)"
    output = run(audio, *TRANSCRIBING[name], end, errors=True)
    assert "/nonexistent/transcribe.so" in output and "CODE 0" not in output


def test_custom(audio: Path) -> None:
    lines = run(audio, "from pathlib import Path", CUSTOM, devices=2).splitlines()
    assert lines == [
        "GPU 0: Simulated GPU, 17179869184 bytes",
        "GPU 1: Simulated GPU, 17179869184 bytes",
        "Total files: 3",
        "Total size: 60 bytes",
    ]


def test_testing(tmp_path: Path) -> None:
    run(tmp_path, "from pathlib import Path", "from gpu_dispatch.multigpu import *", TESTING)


def test_migrated(audio: Path) -> None:
    names = "input_dir, output_dir, gpus, model_size = 'data/audio', 'out', [0, 1], 'base'"
    assert "CODE 0" in run(audio, WORKER, main(QUEUES, names, MIGRATED, "print('CODE', exit_code)"))


# ---- records over several GPUs ----

DISTRIBUTE = r'''
def distribute_to_gpus(records: list, n_gpus: int) -> list[tuple]:
    """Distribute records evenly across GPUs.

    Returns list of (chunk, gpu_id, position) tuples.
    """
    if n_gpus < 1:
        raise ValueError(f"n_gpus must be >= 1, got {n_gpus}")

    n_total = len(records)
    chunk_size = (n_total + n_gpus - 1) // n_gpus  # ceiling division

    chunks = []
    for i in range(n_gpus):
        start = i * chunk_size
        end = min(start + chunk_size, n_total)
        if start < n_total:
            chunks.append((records[start:end], i, i))  # (data, gpu_id, tqdm_position)

    return chunks
'''

ORCHESTRATE = r'''
def run_multi_gpu(
    records: list[dict],
    n_gpus: int = 4,
    batch_size: int = 128,
) -> list[dict]:
    """Orchestrate multi-GPU parallel processing.

    Args:
        records: Data records to process
        n_gpus: Number of GPUs to use
        batch_size: Batch size per GPU

    Returns:
        Processed records with results
    """
    if not records:
        return []

    # Distribute data
    chunks = distribute_to_gpus(records, n_gpus)
    print(f"Distributing {len(records):,} items across {len(chunks)} GPUs")

    # CRITICAL: Use spawn context for CUDA
    ctx = mp.get_context("spawn")

    # Track GPU assignments for error recovery
    gpu_to_chunk = {gpu_id: chunk for chunk, gpu_id, _ in chunks}

    all_results = []
    failed_chunks = []

    with ProcessPoolExecutor(max_workers=len(chunks), mp_context=ctx) as executor:
        futures = {
            executor.submit(_process_gpu_chunk, chunk, gpu_id, batch_size, pos): gpu_id
            for chunk, gpu_id, pos in chunks
        }

        for future in as_completed(futures):
            gpu_id = futures[future]
            try:
                results = future.result()
                all_results.extend(results)
            except Exception as e:
                print(f"[ERROR] GPU {gpu_id} failed: {e}")
                failed_chunks.append((gpu_id, gpu_to_chunk[gpu_id]))

    # Handle failures gracefully (don't lose data)
    if failed_chunks:
        for gpu_id, chunk in failed_chunks:
            for record in chunk:
                record["_error"] = f"GPU {gpu_id} failed"
                all_results.append(record)

    return all_results
'''


@pytest.mark.parametrize("n_gpus", [1, 2, 3, 4, 7])
def test_distribute_to_gpus(n_gpus: int) -> None:
    space: dict[str, Any] = {}
    exec(DISTRIBUTE, space)
    for n in range(20):
        records = list(range(n))
        assert multigpu.distribute_to_gpus(records, n_gpus) == space["distribute_to_gpus"](records, n_gpus)
    with pytest.raises(ValueError) as theirs:
        space["distribute_to_gpus"]([1], 0)
    with pytest.raises(ValueError) as ours:
        multigpu.distribute_to_gpus([1], 0)
    assert str(ours.value) == str(theirs.value)


CHUNK = """
import os
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor, as_completed

def _worker_init_with_gpu(gpu_id):
    global _gpu_id
    _gpu_id = gpu_id

def process_batch(batch):
    assert os.environ.get("CUDA_VISIBLE_DEVICES") != "" and _gpu_id in (0, 1)
    if any(record["x"] == 13 for record in batch):
        raise ValueError("unlucky")
    return [{"x": record["x"], "y": record["x"] ** 2} for record in batch]

def _process_gpu_chunk(records, gpu_id, batch_size, position):
    _worker_init_with_gpu(gpu_id)
    batches = [records[i:i+batch_size] for i in range(0, len(records), batch_size)]
    return [result for batch in batches for result in process_batch(batch)]
"""

COMPARE = """
if __name__ == "__main__":
    import gpu_dispatch.multigpu
    for n in (0, 1, 12, 40):
        theirs = run_multi_gpu([{"x": i} for i in range(n)], n_gpus=2, batch_size=4)
        ours = gpu_dispatch.multigpu.run_multi_gpu([{"x": i} for i in range(n)], n_gpus=2, batch_size=4)
        assert [result["x"] for result in ours] == list(range(n)) == sorted(result["x"] for result in theirs)
        lost = [result["x"] for result in ours if "_error" in result]
        assert lost == ([13] if n > 13 else []), lost
        assert set(lost) <= {result["x"] for result in theirs if "_error" in result}
        good = {result["x"]: result["y"] for result in theirs if "_error" not in result}
        assert good.items() <= {result["x"]: result.get("y") for result in ours}.items()
    print("the same")
"""


def test_run_multi_gpu(tmp_path: Path) -> None:
    """Calls the document's function and ours with the same records and the same helper functions. Both return all
    records. If one record is bad, ours marks only that one as failed."""
    assert run(tmp_path, CHUNK, DISTRIBUTE, ORCHESTRATE, COMPARE).endswith("the same\n")


# ---- messages and classes ----

PROTOCOL = r"""
from dataclasses import dataclass

from typing import Any

@dataclass
class TaskSuccess:
    task_id: int
    data: Any       # The return value from worker.process()
    worker_id: int  # GPU/worker identifier

@dataclass
class TaskError:
    task_id: int
    error: str      # Traceback string (Runtime failures)
    worker_id: int

@dataclass
class SetupFailed:
    gpu_id: int
    error: str      # Traceback string (Initialization failures)

@dataclass
class CleanupFailed:
    gpu_id: int
    error: str      # Traceback string (Resource release failures)

@dataclass
class TaskTimeout:
    task_id: int
    timeout: float  # The timeout duration that was exceeded
    worker_id: int

@dataclass
class TaskStarted:
    task_id: int
    worker_id: int  # Fired when a worker begins processing
"""

BASE_WORKER = r'''
import abc

class BaseWorker(abc.ABC):
    def __init__(self):
        """
        Constructor must remain empty or lightweight.
        Do NOT load models or CUDA tensors here.
        """
        pass

    @abc.abstractmethod
    def setup(self, gpu_id: int, seed: int, **kwargs):
        """
        Executed ONCE when the worker process starts.
        Use this to load large models (e.g., PyTorch/TensorRT engines).
        """
        pass

    @abc.abstractmethod
    def process(self, data: Any) -> Any:
        """
        Executed for EACH item yielded by the generator.
        Should return a JSON-serializable result (or CPU tensor).
        """
        pass

    def cleanup(self):
        """
        Executed when the dispatcher shuts down.
        Use this to explicitly release resources if necessary.
        """
        pass
'''

DISPATCHER = r'''
class Dispatcher:
    def __init__(self, worker_cls: type[BaseWorker], gpu_ids: list[int], queue_size: int = 1024):
        """
        :param worker_cls: The user-defined worker class.
        :param gpu_ids: List of integers representing target GPUs.
        :param queue_size: Buffer size. Larger = higher throughput; Smaller = lower memory usage.
        """
        pass

    def run(self,
            generator,
            on_success: callable,          # (task_id, result, worker_id)
            on_error: callable = None,     # (task_id, error, worker_id)
            on_timeout: callable = None,   # (task_id, timeout, worker_id)
            on_setup_fail: callable = None,# (gpu_id, error)
            on_task_start: callable = None,# (task_id, worker_id)
            on_exit: callable = None,      # ()
            base_seed: int = 42,
            task_timeout: float | None = None,
            **setup_kwargs):
        """
        Starts the pipeline and blocks until the generator is exhausted.

        :param generator: Iterator yielding task data (e.g., file paths).
        :param on_success: Callback function(task_id, result, worker_id).
        :param on_error: Callback function(task_id, error, worker_id) for task failures.
        :param on_timeout: Callback function(task_id, timeout, worker_id) for task timeouts.
        :param on_setup_fail: Callback function(gpu_id, error) for setup failures.
        :param on_task_start: Callback function(task_id, worker_id) fired before processing begins.
        :param on_exit: Callback triggered once all workers drain (cleanup hook).
        :param base_seed: Base random seed for workers.
        :param task_timeout: Maximum seconds per task. None = no timeout.
        :param setup_kwargs: Arguments passed to worker.setup() (e.g., model_path).
        """
        pass
'''


def fields(cls: Any) -> dict[str, str]:
    names = {"Any": "Any", "typing.Any": "Any"}
    out = {}
    for name, kind in inspect.get_annotations(cls).items():
        kind = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
        out[name] = names.get(kind, kind)
    return out


def space_of(code: str) -> dict[str, Any]:
    space: dict[str, Any] = {"Any": Any, "BaseWorker": BaseWorker}
    exec(code, space)
    return space


@pytest.mark.parametrize(
    "name", ["TaskSuccess", "TaskError", "SetupFailed", "CleanupFailed", "TaskTimeout", "TaskStarted"]
)
def test_protocol(name: str) -> None:
    theirs, ours = space_of(PROTOCOL)[name], getattr(protocol, name)
    assert fields(ours) == fields(theirs)
    values = range(len(fields(theirs)))
    assert repr(ours(*values)) == repr(theirs(*values))


def same_call(theirs: Any, ours: Any) -> None:
    """Our function accepts all arguments of theirs, by position or by name, with the same meaning."""
    mine = inspect.signature(ours).parameters
    names = list(mine)
    for at, (name, parameter) in enumerate(inspect.signature(theirs).parameters.items()):
        assert mine[name].kind == parameter.kind and mine[name].default == parameter.default, name
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            assert names[at] == name


@pytest.mark.parametrize("method", ["__init__", "setup", "process", "cleanup"])
def test_base_worker(method: str) -> None:
    theirs = space_of(BASE_WORKER)["BaseWorker"]
    same_call(getattr(theirs, method), getattr(BaseWorker, method))
    is_abstract = getattr(getattr(theirs, method), "__isabstractmethod__", False)
    assert getattr(getattr(BaseWorker, method), "__isabstractmethod__", False) == is_abstract


@pytest.mark.parametrize("method", ["__init__", "run"])
@pytest.mark.parametrize("ours", [Dispatcher, "RichDispatcher"])
def test_dispatcher(method: str, ours: Any) -> None:
    if ours == "RichDispatcher":
        ours = pytest.importorskip("gpu_dispatch.ui").RichDispatcher
    same_call(getattr(space_of(DISPATCHER)["Dispatcher"], method), getattr(ours, method))


# ---- whole programs ----

USAGE = r"""
from gpu_dispatch import BaseWorker, Dispatcher

import time

# --- 1. Define the Worker ---
class InferenceWorker(BaseWorker):
    def setup(self, gpu_id, seed, config_path):
        self.gpu_id = gpu_id
        print(f"[GPU {gpu_id}] Initializing with config: {config_path}")
        # Simulate heavy model loading
        time.sleep(1)

    def process(self, image_path):
        # Simulate inference
        # result = model(image_path)
        return f"Features from {image_path} via GPU {self.gpu_id}"

    def cleanup(self):
        print(f"[GPU {self.gpu_id}] Shutting down.")

# --- 2. Define Data Source ---
def path_generator():
    # This generator can yield millions of items without memory issues
    # thanks to the Dispatcher's backpressure mechanism.
    for i in range(1000):
        yield f"/data/img_{i:04d}.jpg"

# --- 3. Define Callbacks ---
def on_result(task_id, data, worker_id):
    if task_id % 100 == 0:
        print(f"Progress: {task_id} on GPU {worker_id} -> {data}")

def on_failure(task_id, error, worker_id):
    print(f"Task {task_id} Failed on GPU {worker_id}: {error}")

def on_timeout_handler(task_id, timeout, worker_id):
    print(f"Task {task_id} on GPU {worker_id} timed out after {timeout}s")

# --- 4. Run Pipeline ---
if __name__ == "__main__":
    # Configure the dispatcher
    dispatcher = Dispatcher(
        worker_cls=InferenceWorker,
        gpu_ids=[0, 1, 2, 3],
        queue_size=512
    )

    print("Starting Dispatcher...")

    try:
        # Start processing
        dispatcher.run(
            generator=path_generator(),
            on_success=on_result,
            on_error=on_failure,
            on_timeout=on_timeout_handler,
            task_timeout=30.0,  # 30 seconds per task
            # Arguments below are passed to setup()
            config_path="./configs/yolo_v8.yaml",
            base_seed=100
        )
    except KeyboardInterrupt:
        print("\nStopped by user.")
"""

QUICK_START = r"""
from gpu_dispatch import BaseWorker, Dispatcher

class InferenceWorker(BaseWorker):
    def setup(self, gpu_id, seed, model_path):
        self.gpu_id = gpu_id
        # Load your model here

    def process(self, data):
        # Run inference
        return result

    def cleanup(self):
        # Release resources
        pass

def data_generator():
    for item in dataset:
        yield item

def on_success(task_id, result, worker_id):
    # Handle result
    pass

def on_exit():
    print("All workers drained!")

dispatcher = Dispatcher(
    worker_cls=InferenceWorker,
    gpu_ids=[0, 1, 2, 3],
    queue_size=512,
)

dispatcher.run(
    generator=data_generator(),
    on_success=on_success,
    on_exit=on_exit,
    model_path="./model.pth",
)
"""

RICH = r"""
from gpu_dispatch.ui import RichDispatcher

dispatcher = RichDispatcher(
    worker_cls=InferenceWorker,
    gpu_ids=[0, 1, 2, 3],
    refresh_rate=4.0,
)

stats = dispatcher.run(
    generator=data_generator(),
    on_success=on_success,
    model_path="./model.pth",
)

print(f"Completed {stats['completed']} tasks")
"""


# A worker that is slow to start gets enough time, even if the other workers have finished all tasks. Otherwise it would
# be killed a second after the last task.
SLOW_ONES = """
import functools, gpu_dispatch
gpu_dispatch.Dispatcher = functools.partial(gpu_dispatch.Dispatcher, cancel_grace=250, cleanup_grace=250)
"""


def test_usage(tmp_path: Path) -> None:
    output = run(tmp_path, SLOW_ONES, USAGE)
    # The text is searched in the whole output, not in lines, because four processes write to the same pipe.
    for gpu in range(4):
        assert output.count(f"[GPU {gpu}] Initializing with config: ./configs/yolo_v8.yaml") == 1
        assert output.count(f"[GPU {gpu}] Shutting down.") == 1
    progress = re.findall(r"Progress: (\d+) on GPU (\d) -> Features from /data/img_(\d+)\.jpg via GPU (\d)", output)
    assert sorted(int(task) for task, _, _, _ in progress) == list(range(0, 1000, 100))
    assert all(int(task) == int(image) and worker == gpu for task, worker, image, gpu in progress)
    assert "Failed" not in output and "timed out" not in output


def test_quick_start(tmp_path: Path) -> None:
    """The example has no `if __name__ == "__main__"`. So worker processes reach the dispatcher too, and stop there."""
    output = run(tmp_path, "dataset, result = range(10), 'a result'", QUICK_START)
    assert output == "All workers drained!\n"


def test_rich(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    output = run(tmp_path, "dataset, result = range(10), 'a result'", QUICK_START, RICH)
    assert output.startswith("All workers drained!\n") and output.endswith("Completed 10 tasks\n")
    assert "10 tasks" in output and "finished" in output and "\x1b" not in output


def test_version() -> None:
    assert gpu_dispatch.__version__
