"""The dispatching side: Dispatcher.run() and its guarantees. Devices are only numbers here, so no GPU is needed."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
import weakref

import pytest

from gpu_dispatch import BaseWorker, Dispatcher, protocol

SANITIZED = "LD_PRELOAD" in os.environ  # Python then uses malloc, whose blocks are not counted
LONG = 250  # seconds: for events that come at once, except on a busy machine; a test that hangs is ended a little later
# Otherwise a worker that is slow to start is killed a second after the last task, and its setup is never reported.
PATIENT = {"cancel_grace": LONG, "cleanup_grace": LONG}


class Echo(BaseWorker):
    """Calls the item if it is a function, otherwise returns it."""

    def setup(self, gpu_id, seed, **kwargs):
        self.gpu_id, self.seed, self.kwargs = gpu_id, seed, kwargs
        self.seen = set()

    def process(self, data):
        if callable(data):
            return data(self)
        return data


class FailsOnOne(Echo):
    def setup(self, gpu_id, seed, bad=(1,)):
        if gpu_id in bad:
            raise OSError(f"no model for {gpu_id}")
        super().setup(gpu_id, seed)


class FailsInCleanup(Echo):
    def cleanup(self):
        raise LookupError("nothing to clean")


class Batches(Echo):
    def process_batch(self, items):
        return [(item, len(items)) for item in items]


class Loads(Echo):
    def load(self, data):
        return ("loaded", data)


class Marked:
    """An item that can be weakly referenced, so that tests see when it is freed."""

    def __init__(self, number):
        self.number = number


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not for sending")


class Unreadable:
    """Can be pickled in a worker, but not unpickled in this process."""

    def __reduce__(self):
        return unreadable, (os.getpid(),)


def unreadable(pid):
    if os.getpid() != pid:
        raise ImportError("not known here")


def fail(worker):
    raise KeyError("words of the failure")


def give_unreadable(worker):
    return Unreadable()


def spin(worker):
    while True:
        pass


def leave(worker):
    os._exit(3)


def who(worker):
    return worker.gpu_id, worker.seed, worker.kwargs


def environment(worker):
    return os.environ.get("GD_TEST_WORD")


def say(worker):
    print("a worker speaks", flush=True)


class FailOnce:
    """Fails the first time that a worker sees its number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, worker):
        if self.number not in worker.seen:
            worker.seen.add(self.number)
            raise RuntimeError("the first time")
        return self.number


class Log:
    """Stores the arguments of callbacks, as message objects in order."""

    def __init__(self):
        self.events = []

    def on_success(self, task_id, result, worker_id):
        self.events.append(protocol.TaskSuccess(task_id, result, worker_id))

    def on_error(self, task_id, error, worker_id):
        self.events.append(protocol.TaskError(task_id, error, worker_id))

    def on_timeout(self, task_id, timeout, worker_id):
        self.events.append(protocol.TaskTimeout(task_id, timeout, worker_id))

    def on_setup_fail(self, gpu_id, error):
        self.events.append(protocol.SetupFailed(gpu_id, error))

    def on_task_start(self, task_id, worker_id):
        self.events.append(protocol.TaskStarted(task_id, worker_id))

    def on_exit(self):
        self.events.append("exit")

    def callbacks(self, *left_out):
        names = {"on_success", "on_error", "on_timeout", "on_setup_fail", "on_task_start", "on_exit"} - set(left_out)
        return {name: getattr(self, name) for name in names}

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self):
        return {event.task_id: event.data for event in self.of(protocol.TaskSuccess)}

    @property
    def errors(self):
        return {event.task_id: event.error for event in self.of(protocol.TaskError)}


def run(items, worker_cls=Echo, gpu_ids=(0,), options=None, left_out=("on_task_start",), **kwargs):
    log = Log()
    Dispatcher(worker_cls, gpu_ids, **(options or {})).run(items, **log.callbacks(*left_out), **kwargs)
    return log


# --- results ---


def test_every_item_comes_back_once():
    log = run(range(5000), gpu_ids=[0, 1])
    assert log.results == {n: n for n in range(5000)}
    assert len(log.of(protocol.TaskSuccess)) == 5000


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**63, -(2**200), 1.5, "", "é☃" * 50, b"", b"x" * 100_000, [1, {"a": (2,)}], "s" * 300_000],
    ids=lambda value: f"{type(value).__name__}-{len(repr(value))}",
)
def test_values_come_back_unchanged(value):
    result = run([value]).results[0]
    assert result == value and type(result) is type(value)


def test_any_iterable_is_accepted():
    assert run([7, 8]).results == {0: 7, 1: 8}
    assert run({"a": 1}).results == {0: "a"}
    assert run(iter(())).results == {}


def test_worker_ids_are_gpu_ids():
    log = run(range(500), gpu_ids=[3, 5])
    assert {event.worker_id for event in log.events if event != "exit"} <= {3, 5}


def test_setup_gets_its_arguments():
    log = run([who] * 50, gpu_ids=[2, 4], base_seed=100, config="c.yaml", depth=3)
    assert set(map(repr, log.results.values())) <= {
        repr((gpu, 100 + gpu, {"config": "c.yaml", "depth": 3})) for gpu in (2, 4)
    }


def test_ordered():
    log = run(range(3000), gpu_ids=[0, 1, 2], options={"ordered": True})
    assert [event.task_id for event in log.of(protocol.TaskSuccess)] == list(range(3000))


def test_batches():
    log = run(range(200), Batches, options={"batch_size": 8, "batch_wait": LONG})
    assert log.results == {i: (i, 8) for i in range(200)}


def test_load():
    assert run([1, 2], Loads, options={"io_threads": 2}).results == {0: ("loaded", 1), 1: ("loaded", 2)}


def test_environment():
    assert run([environment], options={"env": {"GD_TEST_WORD": "yes"}}).results == {0: "yes"}


@pytest.mark.parametrize("suppress", [False, True])
def test_output_of_workers(capfd, suppress):
    run([say], options={"suppress_worker_output": suppress})
    assert ("a worker speaks" in capfd.readouterr().out) == (not suppress)


def test_large_result_may_be_kept():
    pieces = [bytes([i]) * 1_000_000 for i in range(8)]
    log = run(pieces, options={"queue_size": 2})
    assert [log.results[i] for i in range(8)] == pieces


# --- callbacks ---


def test_on_task_start_is_called_before_the_end_of_the_task():
    log = run(range(300), gpu_ids=[0, 1], left_out=())
    begun = set()
    for event in log.events[:-1]:
        if isinstance(event, protocol.TaskStarted):
            begun.add((event.task_id, event.worker_id))
        else:
            assert (event.task_id, event.worker_id) in begun
    assert len(begun) == 300


def test_error_has_the_traceback():
    log = run([1, fail, 2])
    assert log.results == {0: 1, 2: 2}
    assert "KeyError: 'words of the failure'" in log.errors[1]
    assert "Traceback (most recent call last)" in log.errors[1] and "in fail" in log.errors[1]


def test_error_without_on_error_is_only_counted():
    dispatcher = Dispatcher(Echo, [0])
    seen = []
    dispatcher.run([fail, 5], lambda task_id, result, worker_id: seen.append(result))
    assert seen == [5]
    assert dispatcher.get_stats()["failed"] == 1


def test_timeout():
    log = run([spin, spin], task_timeout=0.3)  # no other tasks: on a stalled machine they could exceed the limit too
    assert log.events == [protocol.TaskTimeout(0, 0.3, 0), protocol.TaskTimeout(1, 0.3, 0), "exit"]


def test_timeouts_are_retried_with_retry_timeouts():
    dispatcher = Dispatcher(Echo, [0], retries=2, retry_delay=0.001, retry_timeouts=True)
    dispatcher.run([spin], print, task_timeout=0.3)
    stats = dispatcher.get_stats()
    assert (stats["timeouts"], stats["retried"]) == (1, 2)


def test_timeout_without_on_timeout_is_an_error():
    log = run([spin], left_out=("on_timeout", "on_task_start"), task_timeout=0.3)
    assert "timed out" in log.errors[0]


def test_retries():
    log = run([FailOnce(n) for n in range(5)], options={"retries": 1, "retry_delay": 0.001})
    assert log.results == {n: n for n in range(5)}


def test_worker_that_exits_is_replaced():
    exits = []
    log = run(
        [1, leave, 2],
        options={"crash_limit": 2, "on_worker_exit": lambda *args: exits.append(args)},
    )
    assert log.results == {0: 1, 2: 2} and "exit" in log.errors[1]
    assert len(exits) == 2 and exits[0][:2] == (0, 0) and exits[0][3] is False


def test_setup_fails_on_one_gpu():
    log = run(range(20), FailsOnOne, gpu_ids=[0, 1], options=PATIENT)
    (failure,) = log.of(protocol.SetupFailed)
    assert failure.gpu_id == 1 and "OSError: no model for 1" in failure.error
    assert len(log.results) == 20


def test_setup_fails_on_all_gpus():
    log = Log()
    dispatcher = Dispatcher(FailsOnOne, [0, 1])
    with pytest.raises(RuntimeError, match="^All workers failed during setup: OSError: no model for [01]$"):
        dispatcher.run(range(20), **log.callbacks(), bad=(0, 1))
    assert len(log.of(protocol.SetupFailed)) == 2
    assert log.events[-1] == "exit" and log.events.count("exit") == 1
    assert dispatcher.get_stats()["setup_failures"] == 2


def test_cleanup_failure():
    failures = []
    run([1], FailsInCleanup, options={"on_cleanup_fail": lambda *args: failures.append(args)})
    ((gpu_id, error),) = failures
    assert gpu_id == 0 and "LookupError: nothing to clean" in error


def test_on_exit_is_called_once_and_last():
    log = run(range(50), gpu_ids=[0, 1])
    assert log.events.index("exit") == len(log.events) - 1


def test_callbacks_run_on_the_calling_thread_and_the_generator_on_another():
    threads = {}

    def items():
        threads["generator"] = threading.get_ident()
        yield 1

    Dispatcher(Echo, [0]).run(items(), lambda *args: threads.update(callback=threading.get_ident()))
    assert threads["callback"] == threading.get_ident() != threads["generator"]


# --- what raises ---


def test_callback_that_raises():
    raised = ArithmeticError("enough")
    log = Log()

    def on_success(task_id, result, worker_id):
        log.events.append(task_id)
        if len(log.events) == 10:
            raise raised

    with pytest.raises(ArithmeticError) as caught:
        Dispatcher(Echo, [0]).run(range(100_000), **{**log.callbacks("on_task_start"), "on_success": on_success})
    assert caught.value is raised
    assert traceback.extract_tb(raised.__traceback__)[-1].name == "on_success"
    assert len(log.events) == 11 and log.events[-1] == "exit"  # no other callback is called


@pytest.mark.parametrize("name", ["on_error", "on_timeout", "on_setup_fail", "on_task_start", "on_exit"])
def test_any_callback_may_raise(name):
    def callback(*args):
        raise ZeroDivisionError(name)

    callbacks = {**Log().callbacks("on_task_start"), name: callback}
    with pytest.raises(ZeroDivisionError, match=name):
        items, limit = ([spin], 0.2) if name == "on_timeout" else ([fail, 1], None)
        Dispatcher(FailsOnOne, [0, 1], **PATIENT).run(items, **callbacks, task_timeout=limit)


def test_generator_that_raises():
    raised = ArithmeticError("no more")

    def items():
        yield from range(100)
        raise raised

    log = Log()
    with pytest.raises(ArithmeticError) as caught:
        Dispatcher(Echo, [0]).run(items(), **log.callbacks())
    assert caught.value is raised
    assert traceback.extract_tb(raised.__traceback__)[-1].name == "items"
    assert len(log.results) == 100 and log.events[-1] == "exit"


def test_generator_that_raises_before_its_first_item():
    def items():
        raise ArithmeticError
        yield

    with pytest.raises(ArithmeticError):
        run(items())


def test_item_that_cannot_be_pickled_is_a_failed_task():
    log = run([1, Unpicklable(), 2])
    assert log.results == {0: 1, 2: 2}
    assert "could not be sent" in log.errors[1] and "ValueError: not for sending" in log.errors[1]


def test_result_that_cannot_be_read_is_a_failed_task():
    dispatcher, log = Dispatcher(Echo, [0]), Log()
    dispatcher.run([1, give_unreadable, 2], **log.callbacks())
    assert log.results == {0: 1, 2: 2}
    assert "ImportError: not known here" in log.errors[1]
    stats = dispatcher.get_stats()
    assert (stats["completed"], stats["failed"]) == (2, 1)


# --- the generator ---


def test_generator_may_wait_for_its_own_results():
    done = threading.Semaphore(0)

    def items():
        for i in range(200):
            yield i
            done.acquire()

    seen = []

    def on_success(task_id, result, worker_id):
        seen.append(result)
        done.release()

    Dispatcher(Echo, [0]).run(items(), on_success)
    assert seen == list(range(200))


@pytest.mark.parametrize("queue_size", [1, 4, 100])
def test_generator_is_at_most_queue_size_ahead(queue_size):
    state = {"taken": 0, "done": 0, "most": 0}

    def items():
        for i in range(1000):
            state["taken"] += 1
            state["most"] = max(state["most"], state["taken"] - state["done"])
            yield i

    def on_success(task_id, result, worker_id):
        state["done"] += 1

    Dispatcher(Echo, [0], queue_size=queue_size).run(items(), on_success)
    # The task that is being reported is finished for the library, but not yet counted here.
    assert 1 <= state["most"] <= queue_size + 1


def test_large_items_wait_for_room():
    log = run([bytes([i]) * 1_000_000 for i in range(20)], options={"queue_bytes": 2_500_000})
    assert {task_id: (value[:1], len(value)) for task_id, value in log.results.items()} == {
        i: (bytes([i]), 1_000_000) for i in range(20)
    }


def test_blocked_generator_does_not_delay_the_end():
    """run() returns although the generator is still blocked. When the generator continues, its thread releases it."""
    dispatcher, blocked, never, gone = Dispatcher(Echo, [0]), threading.Event(), threading.Event(), threading.Event()

    def items():
        yield 1
        blocked.set()
        never.wait()
        yield 2

    def on_success(*args):
        blocked.wait()
        dispatcher.shutdown()

    generator = items()
    watch = weakref.ref(generator, lambda ref: gone.set())
    dispatcher.run(generator, on_success)
    never.set()
    del generator
    assert gone.wait(LONG) and watch() is None


def test_generator_in_an_endless_loop_is_ended():
    dispatcher, ended = Dispatcher(Echo, [0]), threading.Event()

    def items():
        try:
            yield 1
            while True:
                pass
        finally:
            ended.set()

    dispatcher.run(items(), lambda *args: dispatcher.shutdown())
    assert ended.wait(LONG)


# --- shutdown and statistics ---


def test_shutdown_from_a_callback():
    dispatcher, log = Dispatcher(Echo, [0]), Log()

    def on_success(task_id, result, worker_id):
        log.on_success(task_id, result, worker_id)
        dispatcher.shutdown()

    assert dispatcher.run(iter(int, 1), **{**log.callbacks("on_task_start"), "on_success": on_success}) is None
    assert log.events[-1] == "exit"
    assert all("shut down" in error for error in log.errors.values())
    stats = dispatcher.get_stats()
    assert stats["taken"] == len(log.events) - 1


def test_shutdown_from_another_thread():
    dispatcher, begun = Dispatcher(Echo, [0]), threading.Event()
    thread = threading.Thread(target=lambda: (begun.wait(), dispatcher.shutdown()))
    thread.start()
    dispatcher.run(iter(int, 1), lambda *args: begun.set())
    thread.join()


def test_statistics():
    dispatcher = Dispatcher(Echo, [0])
    assert dispatcher.get_stats()["completed"] == 0
    during = []
    dispatcher.run([1, fail, 2], lambda *args: during.append(dispatcher.get_stats()), total_tasks=3)
    stats = dispatcher.get_stats()
    wanted = {"pending": 0, "running": 0, "completed": 2, "failed": 1, "timeouts": 0, "total": 3, "taken": 3}
    assert {name: stats[name] for name in wanted} == wanted
    assert during[0]["completed"] <= 1 and during[0]["total"] == 3
    (worker,) = dispatcher.get_worker_stats()
    assert worker["gpu_id"] == 0 and worker["completed"] == 2 and worker["state"] == "finished"
    assert worker["current_task"] is None


def test_statistics_of_timeouts():
    dispatcher = Dispatcher(Echo, [0])
    dispatcher.run([spin, spin], print, task_timeout=0.2)
    stats = dispatcher.get_stats()
    wanted = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "timeouts": 2, "total": 2, "taken": 2}
    assert {name: stats[name] for name in wanted} == wanted
    (worker,) = dispatcher.get_worker_stats()
    assert worker["timeouts"] == 2 and worker["completed"] == 0


def test_total_is_the_number_of_items_taken_if_not_given():
    dispatcher = Dispatcher(Echo, [0])
    dispatcher.run(range(12), lambda *args: None)
    assert dispatcher.get_stats()["total"] == 12


# --- several runs ---


def test_dispatcher_can_run_twice():
    dispatcher = Dispatcher(Echo, [0])
    for n in (10, 20):
        log = Log()
        dispatcher.run(range(n), **log.callbacks())
        assert len(log.results) == n and dispatcher.get_stats()["completed"] == n


def test_two_runs_at_once_in_threads():
    shared = Dispatcher(Echo, [0])
    logs = [Log() for _ in range(4)]

    def work(log, dispatcher):
        dispatcher.run(range(3000), **log.callbacks("on_task_start"))

    threads = [
        threading.Thread(target=work, args=(log, shared if i % 2 else Dispatcher(Echo, [0])))
        for i, log in enumerate(logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(log.results) == 3000 for log in logs)


def test_run_inside_a_callback():
    inner = Log()
    Dispatcher(Echo, [0]).run([1], lambda *args: Dispatcher(Echo, [0]).run(range(10), **inner.callbacks()))
    assert len(inner.results) == 10


def run_in_child():
    pid = os.fork()
    if pid == 0:
        try:
            ok = run(range(100)).results == {i: i for i in range(100)}
        except BaseException:
            traceback.print_exc()
            ok = False
        os._exit(0 if ok else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_run_in_a_forked_child_before_and_after_a_run():
    assert run_in_child() == 0
    assert len(run(range(100)).results) == 100
    assert run_in_child() == 0
    assert len(run(range(100)).results) == 100


def test_fork_from_a_callback():
    codes = []

    def on_success(*args):
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    Dispatcher(Echo, [0]).run([1, 2], on_success)
    assert codes == [7, 7]


# --- signals ---


def interrupt_then_wait(never):
    yield 1
    os.kill(os.getpid(), signal.SIGINT)
    never.wait()


def test_ctrl_c_while_run_sleeps():
    log, never = Log(), threading.Event()
    with pytest.raises(KeyboardInterrupt):
        Dispatcher(Echo, [0]).run(interrupt_then_wait(never), **log.callbacks())
    never.set()
    assert log.events[-1] == "exit"


def test_ctrl_c_in_a_callback():
    events = []

    def on_success(task_id, result, worker_id):
        events.append(task_id)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Dispatcher(Echo, [0]).run(iter(int, 1), on_success)
    assert events == [0]


def test_ctrl_c_while_a_task_is_stuck():
    started = []

    def on_task_start(task_id, worker_id):
        started.append(task_id)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Dispatcher(Echo, [0]).run([spin], lambda *args: None, on_task_start=on_task_start)
    assert started == [0]


def test_signal_handlers_run_while_run_sleeps():
    dispatcher, never, seen = Dispatcher(Echo, [0]), threading.Event(), []

    def items():
        yield 1
        os.kill(os.getpid(), signal.SIGUSR1)
        never.wait()

    def handler(number, frame):
        seen.append(number)
        dispatcher.shutdown()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        dispatcher.run(items(), lambda *args: None)
    finally:
        signal.signal(signal.SIGUSR1, before)
        never.set()
    assert seen == [signal.SIGUSR1]


def test_previous_wakeup_descriptor_gets_signals_and_is_restored():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer)
    never = threading.Event()
    try:
        with pytest.raises(KeyboardInterrupt):
            Dispatcher(Echo, [0]).run(interrupt_then_wait(never), lambda *args: None)
    finally:
        now = signal.set_wakeup_fd(-1)
        never.set()
    assert now == writer
    assert os.read(reader, 10) == bytes([signal.SIGINT])
    os.close(reader)
    os.close(writer)


def test_signal_handling_is_not_changed_in_other_threads():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(len(run(range(10)).results)))
    before = signal.set_wakeup_fd(-1)
    thread.start()
    thread.join()
    assert signal.set_wakeup_fd(before) == -1 and seen == [10]


def test_generator_has_the_signal_mask_of_the_caller():
    masks = []

    def items():
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        yield 1

    run(items())
    assert masks == [signal.pthread_sigmask(signal.SIG_BLOCK, [])]


# --- wrong use ---


class NoProcess(BaseWorker):
    def setup(self, gpu_id, seed):
        pass


@pytest.mark.parametrize("worker_cls", [int, object, None, "Echo", Echo(), NoProcess, BaseWorker])
def test_not_a_worker_class(worker_cls):
    with pytest.raises(TypeError):
        Dispatcher(worker_cls, [0])


@pytest.mark.parametrize(
    "kwargs, error",
    [
        ({"gpu_ids": []}, ValueError),
        ({"gpu_ids": ""}, ValueError),
        ({"gpu_ids": [-1]}, ValueError),
        ({"gpu_ids": None}, TypeError),
        ({"gpu_ids": [0.5]}, TypeError),
        ({"gpu_ids": 3}, TypeError),
        ({"queue_size": 0}, ValueError),
        ({"queue_size": -1}, ValueError),
        ({"queue_size": 1.5}, TypeError),
        ({"workers_per_gpu": -1}, ValueError),
        ({"retries": -1}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"io_threads": 0}, ValueError),
        ({"cancel_grace": -1}, ValueError),
        ({"cancel_grace": float("nan")}, ValueError),
        ({"stop_grace": "soon"}, TypeError),
        ({"on_worker_exit": 3}, TypeError),
        ({"no_such_option": 3}, TypeError),
    ],
    ids=str,
)
def test_wrong_arguments(kwargs, error):
    with pytest.raises(error):
        Dispatcher(Echo, **{"gpu_ids": [0], **kwargs})


@pytest.mark.parametrize(
    "kwargs, error",
    [
        ({"generator": 3}, TypeError),
        ({"on_success": None}, TypeError),
        ({"on_error": 3}, TypeError),
        ({"task_timeout": 0}, ValueError),
        ({"task_timeout": -1}, ValueError),
        ({"task_timeout": "1"}, TypeError),
        ({"task_timeout": float("inf")}, ValueError),
        ({"base_seed": -1}, ValueError),
        ({"base_seed": 1 << 64}, ValueError),
        ({"total_tasks": -1}, ValueError),
        ({"model": Unpicklable()}, TypeError),
    ],
    ids=lambda value: str(value).partition(" at 0x")[0],
)
def test_wrong_arguments_of_run(kwargs, error):
    with pytest.raises(error):
        Dispatcher(Echo, [0]).run(**{"generator": [1], "on_success": print, **kwargs})


def test_on_exit_is_called_even_if_the_run_could_not_start():
    exits = []
    with pytest.raises(TypeError):
        Dispatcher(Echo, [0]).run([1], print, on_exit=lambda: exits.append(1), model=Unpicklable())
    with pytest.raises(ValueError):
        Dispatcher(Echo, "no such device").run([1], print, on_exit=lambda: exits.append(1))
    assert exits == [1, 1]


def test_native_run_refuses_wrong_options():
    from gpu_dispatch import _native

    with pytest.raises(TypeError, match="unknown option 'colour'"):
        _native.Run({"colour": 3})
    with pytest.raises(TypeError, match="it must be an int"):
        _native.Run({"retries": "3"})
    with pytest.raises(ValueError, match="it must be 0 to 4294967295"):
        _native.Run({"retries": 1 << 32})
    made = _native.Run({"gpu_ids": [0], "worker_argv": ["/bin/true"]})
    with pytest.raises(TypeError, match="unknown callback 'on_colour'"):
        made.run([], {"on_colour": print})
    with pytest.raises(RuntimeError, match="once"):
        made.run([], {})


# --- references ---


def test_items_and_results_are_released():
    def on_success(task_id, result, worker_id):
        nonlocal alive
        alive += result.number == task_id

    def items():
        for number in range(500):
            item = Marked(number)
            watched.append(weakref.ref(item))
            yield item
            del item

    alive, watched = 0, []
    generator = items()
    dispatcher = Dispatcher(Echo, [0])
    before = sys.getrefcount(on_success), sys.getrefcount(generator)
    dispatcher.run(generator, on_success, on_error=on_success, on_exit=lambda: None)
    assert (sys.getrefcount(on_success), sys.getrefcount(generator)) == before
    assert alive == 500 and not any(ref() for ref in watched)


@pytest.mark.parametrize("how", ["callback", "generator"])
def test_items_and_results_are_released_after_an_exception(how):
    class Mine(Exception):
        pass

    def items():
        yield 1
        if how == "generator":
            raise Mine
        yield 2

    def on_success(task_id, result, worker_id):
        if how == "callback":
            raise Mine

    refs = []
    for _ in range(3):
        try:
            Dispatcher(Echo, [0]).run(items(), on_success)
        except Mine as error:
            refs.append(weakref.ref(error))
    gc.collect()
    assert len(refs) == 3 and not any(ref() for ref in refs)


def least_growth(counts):
    """The smallest growth from one count to the next. A leak is in every growth. Other work of this process (pytest
    receives the names of the next tests) is in one growth only."""
    return min(b - a for a, b in zip(counts, counts[1:]))


@pytest.mark.skipif(SANITIZED, reason="blocks are not counted")
def test_small_numbers_leak_nothing():
    dispatcher = Dispatcher(Echo, [0])

    def blocks_after(n):
        dispatcher.run(range(1000, 1000 + n), lambda *args: None)
        gc.collect()
        return sys.getallocatedblocks()

    assert least_growth([blocks_after(20_000), blocks_after(100_000), blocks_after(100_000)]) < 1000


@pytest.mark.skipif(SANITIZED, reason="blocks are not counted")
def test_runs_leak_nothing():
    dispatcher = Dispatcher(Echo, [0])

    def several():
        for _ in range(10):
            dispatcher.run([1, "text", fail], lambda *args: None, on_error=lambda *args: None)
        gc.collect()
        return sys.getallocatedblocks()

    several()
    assert least_growth([several() for _ in range(4)]) < 10  # less than one block per run


def test_message_classes_can_be_pickled():
    for message in (protocol.TaskSuccess(1, "x", 0), protocol.CleanupFailed(0, "why")):
        assert pickle.loads(pickle.dumps(message)) == message
