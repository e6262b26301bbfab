"""Workers with several GPUs, and GPUs that are not used. All GPUs are simulated."""

from __future__ import annotations

import os

import pytest

from gpu_dispatch import BaseWorker, Dispatcher
from gpu_dispatch.multigpu import GPUDetector, LauncherOrchestrator
from gpu_dispatch.ui import RichDispatcher


class Shows(BaseWorker):
    """Returns what its process sees."""

    def setup(self, gpu_id, seed, **kwargs):
        self.at_setup = (gpu_id, self.gpu_ids)

    def process(self, data):
        visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        return self.at_setup, self.gpu_ids, visible, os.environ["GPU_DISPATCH_GPU_IDS"]


def seen(gpus, **options):
    """What the workers of a run saw, and which GPUs were not used."""
    results, idle = [], []
    dispatcher = Dispatcher(Shows, gpus, on_device_idle=lambda gpu, why: idle.append((gpu, why)), **options)
    dispatcher.run(range(30), on_success=lambda task, result, worker: results.append((worker, result)))
    assert len(results) == 30
    return dispatcher, results, idle


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("GPU_DISPATCH_SIM", "5,nvlink=0/1/0/1/2")


def test_two_gpus_per_worker():
    dispatcher, results, idle = seen("auto", gpus_per_worker=2)
    for worker, ((gpu_id, at_setup), gpu_ids, visible, variable) in results:
        assert gpu_ids == at_setup == {0: (0, 2), 1: (1, 3)}[gpu_id]
        assert worker == gpu_id
        assert len(visible) == 2 and all(name.startswith("GPU-") for name in visible)
        assert variable == ",".join(map(str, gpu_ids))
    assert [w["gpu_ids"] for w in dispatcher.get_worker_stats()] == [[0, 2], [1, 3]]
    assert idle == [(4, "too few devices are left for a group of 2")]


def test_groups_that_the_user_writes():
    dispatcher, results, idle = seen("3+0,1", gpus_per_worker=None)
    assert {r[1][1] for r in results} <= {(3, 0), (1,)}
    assert [w["gpu_ids"] for w in dispatcher.get_worker_stats()] == [[3, 0], [1]]
    assert idle == []


def test_one_gpu_per_worker():
    _, results, _ = seen([2])
    assert {r[1][1] for r in results} == {(2,)}


def test_by_index():
    _, results, _ = seen("4+1", visible_devices="index")
    assert all(visible == ["4", "1"] for _, (_, _, visible, _) in results)


def test_a_gpu_without_room_is_left_out(monkeypatch):
    monkeypatch.setenv("GPU_DISPATCH_SIM", "2,memory=16G,free=8G/1G")
    dispatcher, _, idle = seen("auto", workers_per_gpu=0, model_bytes=3 << 30)
    assert [w["gpu_id"] for w in dispatcher.get_worker_stats()] == [0, 0]
    assert [gpu for gpu, _ in idle] == [1]
    assert "1.0 GiB free" in idle[0][1]


@pytest.mark.parametrize(
    ("gpus", "options", "message"),
    [
        ("auto", {"gpus_per_worker": 6}, "only 5 devices"),
        ("0+1,2", {"gpus_per_worker": 2}, "the group of GPU 2 has 1 device"),
        ("auto", {"gpus_per_worker": 0}, "gpus_per_worker is 0: it must be at least 1"),
        ("auto", {"gpus_per_worker": 33}, "at most 32"),
        ("auto", {"visible_devices": "number"}, "it must be 'uuid' or 'index'"),
        ("0+0", {}, "listed twice"),
    ],
)
def test_what_is_refused(gpus, options, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        seen(gpus, **options)


def test_numbers_of_groups():
    assert GPUDetector().parse_gpu_list("3+0,1") == [3, 0, 1]


@pytest.mark.parametrize(("gpus", "options"), [("auto", {"gpus_per_worker": 2}), ("0+2,1+3", {})])
def test_the_launcher(tmp_path, capfd, gpus, options):
    for name in "abcd":
        (tmp_path / f"{name}.wav").write_bytes(b"x")
    assert LauncherOrchestrator(Shows).run(tmp_path, tmp_path / "out", gpus, **options) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    rows = {words[0] for words in lines if len(words) > 3 and words[0].isdigit() and words[1].isdigit()}
    assert rows and rows <= {"0", "1"}  # a row for each group, and none for its other GPUs


@pytest.mark.parametrize(("gpus", "options"), [("auto", {"gpus_per_worker": 2}), ("0+2,1+3", {})])
def test_statistics_have_a_row_for_each_group(gpus, options):
    stats = RichDispatcher(Shows, gpus, show_ui=False, **options).run(range(30), lambda task, result, worker: None)
    assert set(stats["gpu_status"]) == {0, 1}


def test_a_transcription_takes_no_groups(tmp_path):
    with pytest.raises(TypeError, match="gpus_per_worker needs a worker class"):
        LauncherOrchestrator().run(tmp_path, tmp_path, "auto", gpus_per_worker=2)
