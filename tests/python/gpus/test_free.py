"""Unused GPUs (gpu_ids="free:1"), on simulated devices."""

from __future__ import annotations

import logging
import signal
import threading

import pytest

from gpu_dispatch import BaseWorker, Dispatcher, _native
from gpu_dispatch.multigpu import LauncherOrchestrator


class Gpu(BaseWorker):
    """Returns the number of its GPU."""

    def setup(self, gpu_id, seed):
        self.gpu_id = gpu_id

    def process(self, data):
        return self.gpu_id


@pytest.fixture(autouse=True)
def two_devices(tmp_path, monkeypatch):
    monkeypatch.setenv("GPU_DISPATCH_LOCKS", str(tmp_path))
    monkeypatch.setenv("GPU_DISPATCH_SIM", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


class Held:
    """A run that holds GPUs until release() is called."""

    def __init__(self, gpus):
        self._go = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(gpus,))
        self._thread.start()
        assert self._begun.wait(60)

    def _items(self):
        self._begun.set()
        self._go.wait()
        yield 0

    def _run(self, gpus):
        Dispatcher(Gpu, gpu_ids=gpus).run(self._items(), on_success=lambda *_: None)

    def release(self):
        self._go.set()
        self._thread.join()


def gpus_of(dispatcher):
    found = set()
    dispatcher.run(range(4), on_success=lambda task, result, worker: found.add(result))
    return found


def free_ids(spec="free"):
    return [device["id"] for device in _native.devices(spec)]


def test_two_runs_never_share():
    held = Held("free:1")
    try:
        assert free_ids() == [1]
        assert gpus_of(Dispatcher(Gpu, gpu_ids="free:1")) == {1}
    finally:
        held.release()
    assert free_ids() == [0, 1]


def test_a_run_reports_what_it_waits_for():
    held = Held("free")
    notes = []

    def note(message):
        notes.append(message)
        threading.Thread(target=held.release).start()

    assert gpus_of(Dispatcher(Gpu, gpu_ids="free:1", on_device_note=note)) <= {0, 1}
    assert notes[0].startswith("waiting for 1 free GPU: GPU 0 is held by process ")


def test_the_message_is_logged_if_there_is_no_callback(caplog):
    held = Held("free:1")
    try:
        with caplog.at_level(logging.WARNING, "gpu_dispatch"):
            assert gpus_of(Dispatcher(Gpu, gpu_ids="auto")) == {1}
        assert "GPU 0 is held by process " in caplog.text
    finally:
        held.release()


def test_a_named_gpu_that_is_held_is_an_error_unless_locks_are_ignored():
    held = Held("free:1")
    try:
        with pytest.raises(RuntimeError, match="GPU 0 is held by process "):
            gpus_of(Dispatcher(Gpu, gpu_ids=[0]))
        assert gpus_of(Dispatcher(Gpu, gpu_ids=[0], ignore_gpu_locks=True)) == {0}
    finally:
        held.release()


def test_ctrl_c_ends_the_wait():
    held = Held("free")
    try:
        with pytest.raises(KeyboardInterrupt):
            note = lambda message: signal.raise_signal(signal.SIGINT)  # noqa: E731
            gpus_of(Dispatcher(Gpu, gpu_ids="free:1", on_device_note=note))
    finally:
        held.release()


def test_an_exception_in_the_callback_ends_the_wait():
    def note(message):
        raise LookupError("enough")

    held = Held("free")
    try:
        with pytest.raises(LookupError, match="enough"):
            gpus_of(Dispatcher(Gpu, gpu_ids="free:1", on_device_note=note))
    finally:
        held.release()


@pytest.mark.parametrize("how", ["shutdown", "abort"])
def test_another_thread_can_end_the_wait(how):
    held = Held("free")
    try:
        dispatcher = Dispatcher(
            Gpu, gpu_ids="free:1", on_device_note=lambda _: threading.Thread(target=getattr(dispatcher, how)).start()
        )
        with pytest.raises(RuntimeError, match="interrupted while waiting for 1 free GPU"):
            gpus_of(dispatcher)
    finally:
        held.release()


def test_the_launcher_refuses_free_gpus_with_a_worker_class(tmp_path):
    valid, problem = LauncherOrchestrator(Gpu).validate_setup(tmp_path, "free:1")
    assert not valid
    assert "Dispatcher" in problem
