"""Views of shared memory, and views that are kept after their task (python/native/values/view.c)."""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import random
import resource
import sys
import threading
import weakref

import native_test
import pytest

np = pytest.importorskip("numpy")

SIZE = 64 << 20
PAGE = mmap.PAGESIZE


class Place:
    """A memfd with a writable mapping, like the arena."""

    def __init__(self):
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, SIZE)
        self.room = mmap.mmap(self.fd, SIZE)

    def put(self, value, offset=0) -> int:
        with memoryview(self.room) as whole, whole[offset:] as room:
            return native_test.write(value, room)

    def get(self, size, offset=0):
        with memoryview(self.room) as whole, whole[offset:offset + size] as room:
            return native_test.decode(room, self.fd, offset)

    def pass_through(self, value, offset=0):
        return self.get(self.put(value, offset), offset)

    def overwrite(self, size=1 << 20):
        self.room[:size] = b"\xee" * size

    def close(self):
        self.room.close()
        os.close(self.fd)


@pytest.fixture
def place():
    native_test.settle()
    native_test.forget()
    made = Place()
    yield made
    made.close()
    native_test.settle()
    native_test.forget()
    gc.collect()
    counts = native_test.count()
    assert (counts["live"], counts["cached"], counts["cached_bytes"]) == (0, 0, 0)


def change(before):
    return {name: value - before[name] for name, value in native_test.count().items() if value != before[name]}


def address(array):
    return array.__array_interface__["data"][0]


def view_of(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


SANITIZED = "LD_PRELOAD" in os.environ
# Kilobytes of normal variation. A sanitizer keeps freed memory for a while.
NOISE = 400_000 if SANITIZED else 10_000


def kilobytes(column=1):
    """The current resident memory; with column 0, the size of the address space."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[column]) * PAGE // 1024


def mappings():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def mappings_of(place):
    """The number of mappings of its file, including the one of the test itself."""
    with open("/proc/self/maps") as file:
        return sum(1 for line in file if f" {os.fstat(place.fd).st_ino} " in line)


def mapping_of(where):
    """The line of /proc/self/maps for the mapping with this address."""
    with open("/proc/self/maps") as file:
        for line in file:
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if start <= where < end:
                return line
    return None


LARGE = np.arange(100_000, dtype=np.int64)


def test_a_large_array_is_a_view(place):
    back = place.pass_through(LARGE, PAGE * 3)
    assert np.array_equal(back, LARGE)
    assert type(view_of(back)).__name__ == "View" and view_of(back).shared
    assert not back.flags.writeable and address(back) % 64 == 0
    where = place.room.find(LARGE.tobytes()[:4096])
    place.room[where] = 77  # it is the same memory
    assert back[0] == 77


HUGE_PAGE = 2 << 20


@pytest.mark.parametrize("offset", [0, PAGE * 5, HUGE_PAGE - PAGE, HUGE_PAGE * 3 + PAGE * 7])
def test_huge_array_has_the_same_alignment_in_memory_as_in_the_file(place, offset):
    """The array has the same offset from a huge page in memory as in the file. Otherwise the kernel would use small
    pages."""
    array = np.random.default_rng(1).integers(0, 256, HUGE_PAGE * 2, dtype=np.uint8)
    back = place.pass_through(array, offset)
    assert np.array_equal(back, array)
    assert address(back) % HUGE_PAGE == place.room.find(array.tobytes()[:4096]) % HUGE_PAGE


def mappings_now():
    with open("/proc/self/maps", "rb") as f:
        return len(f.readlines())


@pytest.mark.skipif(SANITIZED, reason="a sanitizer maps its own memory, and keeps freed memory")
def test_nothing_stays_mapped_around_a_huge_array(place):
    array = np.ones(HUGE_PAGE * 2 + PAGE, dtype=np.uint8)
    for kept in (False, True):
        before = mappings_now()
        for i in range(1, 20):
            back = place.pass_through(array, i * PAGE)
            kept_one = back if kept else None
            del back
            native_test.settle()
            assert kept_one is None or np.array_equal(kept_one, array)
            del kept_one
            native_test.forget()
        assert mappings_now() <= before + 5  # other threads and the allocator may have mapped a few meanwhile


def test_small_buffers_are_copied(place):
    least = native_test.VIEW_LEAST
    before = native_test.count()
    small = place.pass_through(np.zeros(least - 1, dtype=np.uint8))
    assert change(before) == {} and small.size == least - 1
    place.pass_through(np.zeros(least, dtype=np.uint8))
    assert change(before) == {"mapped": 1, "live": 1}


def test_bytes_come_back_as_bytes(place):
    before = native_test.count()
    for value in (b"x" * 3_000_000, bytearray(b"y" * 3_000_000), "z" * 3_000_000):
        back = place.pass_through(value)
        assert type(back) is type(value) and back == value
    assert change(before) == {}


def test_mapping_of_a_view_that_is_not_kept_goes_to_the_cache(place):
    before = native_test.count()
    back = place.pass_through(LARGE)
    dead = weakref.ref(view_of(back))
    del back
    assert dead() is not None  # the list of views still has a reference
    native_test.settle()
    assert dead() is None
    got = change(before)
    assert got.pop("cached_bytes") >= LARGE.nbytes
    assert got == {"mapped": 1, "cached": 1}


def test_kept_view_gets_its_own_memory_at_the_same_address(place):
    back = place.pass_through(LARGE, PAGE)
    where = address(back)
    assert "rw-s" not in mapping_of(where) and "r--s" in mapping_of(where)
    native_test.settle()
    place.overwrite()
    assert np.array_equal(back, LARGE) and address(back) == where
    assert "r--p" in mapping_of(where) and not view_of(back).shared
    native_test.settle()
    assert np.array_equal(back, LARGE)


def hold_array(a):
    return a


def hold_slice(a):
    return a[500:600:7]


def hold_memoryview(a):
    return memoryview(a)[10:20]


def hold_cast(a):
    return a.view(np.uint8)


def hold_buffer(a):
    return memoryview(view_of(a))


def hold_view(a):
    return view_of(a)


def hold_iterator(a):
    return iter(a)


def hold_closure(a):
    return lambda: a.sum()


def hold_tensor(a):
    return pytest.importorskip("torch").from_numpy(a)


HOLDERS = [hold_array, hold_slice, hold_memoryview, hold_cast, hold_buffer, hold_view, hold_iterator, hold_closure]


def content(held):
    if callable(held):
        return int(held())
    if hasattr(held, "__next__"):
        return [int(x) for x in held][:100]
    return bytes(held)


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda f: f.__name__)
def test_any_reference_keeps_the_view(place, hold):
    wanted = LARGE.tobytes() if hold in (hold_view, hold_buffer) else content(hold(LARGE))
    held = hold(place.pass_through(LARGE))
    native_test.settle()
    place.overwrite()
    assert content(held) == wanted


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_tensor_keeps_the_view(place):
    held = hold_tensor(place.pass_through(LARGE))
    native_test.settle()
    place.overwrite()
    assert held.sum().item() == LARGE.sum()


@pytest.mark.parametrize("megabytes", [1, 3, 5, 17])
@pytest.mark.parametrize("offset", [0, PAGE, 64, (2 << 20) - PAGE])
def test_large_kept_arrays_that_may_get_huge_pages(place, megabytes, offset):
    data = np.arange(megabytes << 17)
    back = place.pass_through(data, offset)
    where = address(back)
    native_test.settle()
    place.overwrite(SIZE)
    assert np.array_equal(back, data) and address(back) == where


def test_nothing_stays_mapped_next_to_huge_pages(place):
    size = place.put(np.arange(5 << 17))
    before = kilobytes(0)
    for _ in range(200):
        held = place.get(size)
        native_test.settle()
    del held
    assert kilobytes(0) - before < 50_000  # a leak would be 2 MB for each array


def test_one_of_several_views_is_kept(place):
    arrays = [np.full(20_000, i) for i in range(6)]
    back = place.pass_through(arrays)
    kept = {i: back[i] for i in (0, 3, 5)}
    del back
    before = native_test.count()
    native_test.settle()
    place.overwrite()
    assert all(np.array_equal(kept[i], arrays[i]) for i in kept)
    got = change(before)
    assert (got["kept"], got["cached"], got["live"]) == (3, 3, -3)


def test_a_weak_reference_keeps_nothing(place):
    back = place.pass_through(LARGE)
    weak = weakref.ref(view_of(back))
    del back
    native_test.settle()
    assert weak() is None


def test_weak_reference_callback_may_open_views(place):
    size = place.put(LARGE)
    got = []
    back = place.get(size)
    weak = weakref.ref(view_of(back), lambda _: got.append(place.get(size)))
    del back
    native_test.settle()
    assert weak() is None and np.array_equal(got[0], LARGE)
    native_test.settle()
    place.overwrite()
    assert np.array_equal(got[0], LARGE)


def test_settling_drops_one_reference(place):
    back = place.pass_through(LARGE)
    view = view_of(back)
    with_list = sys.getrefcount(view)
    native_test.settle()
    assert sys.getrefcount(view) == with_list - 1
    native_test.settle()
    assert sys.getrefcount(view) == with_list - 1


def test_releasing_a_kept_view_unmaps_it(place):
    back = place.pass_through(LARGE)
    where = address(back)
    native_test.settle()
    del back
    line = mapping_of(where)
    assert line is None or "r--p 00000000 00:00 0" not in line
    assert native_test.count()["live"] == 0


# ---- the cache ----


def test_the_same_place_is_mapped_once(place):
    before = native_test.count()
    for i in range(50):
        back = place.pass_through(LARGE + i)
        assert back[7] == 7 + i
        del back
        native_test.settle()
    got = change(before)
    assert (got["mapped"], got["reused"]) == (1, 49)


def test_larger_mapping_is_used_for_pages_inside_it(place):
    data = np.arange(1 << 20, dtype=np.uint8)
    before = native_test.count()
    for lies_at, n in ((0, 1 << 20), (PAGE * 8, 600_000), (PAGE * 3, 500_000), (0, 1 << 20)):
        back = place.pass_through(data[:n], lies_at)
        assert np.array_equal(back, data[:n])
        del back
        native_test.settle()
    assert (change(before)["mapped"], change(before)["reused"]) == (1, 3)


def test_keeping_part_of_a_larger_mapping_unmaps_the_rest(place):
    data = np.arange(1 << 20, dtype=np.uint8)
    place.pass_through(data)
    native_test.settle()
    back = place.pass_through(data[:400_000], PAGE * 20)
    assert native_test.count()["reused"] > 0 and native_test.count()["cached"] == 0
    native_test.settle()
    place.overwrite(2 << 20)
    assert np.array_equal(back, data[:400_000])
    assert mappings_of(place) == 1


def test_much_larger_mapping_is_not_used(place):
    place.pass_through(np.zeros(8 << 20, dtype=np.uint8))
    native_test.settle()
    before = native_test.count()
    place.pass_through(LARGE)
    assert change(before)["mapped"] == 1


def test_another_file_is_another_mapping(place):
    other = Place()
    before = native_test.count()
    for file, base in ((place, 0), (other, 1), (place, 2), (other, 3)):
        back = file.pass_through(LARGE + base)
        assert back[0] == base
        del back
        native_test.settle()
    other.close()
    assert (change(before)["mapped"], change(before)["reused"]) == (2, 2)


def test_descriptor_number_that_now_means_another_file(place):
    first = Place()
    first.pass_through(LARGE)
    native_test.settle()
    number = first.fd
    first.close()
    second = Place()
    if second.fd != number:  # a lower number has become free
        os.dup2(second.fd, number)
        os.close(second.fd)
        second.fd = number
    before = native_test.count()
    assert np.array_equal(second.pass_through(LARGE[::-1].copy()), LARGE[::-1])
    assert change(before)["mapped"] == 1
    second.close()


def test_the_cache_is_bounded(place):
    before = mappings()
    for i in range(200):
        place.pass_through(LARGE[:10_000], i * 40 * PAGE)
        native_test.settle()
    assert native_test.count()["cached"] == native_test.VIEW_CACHE_MOST
    assert mappings() - before < native_test.VIEW_CACHE_MOST + 16
    # The newest ones are there.
    counts = native_test.count()
    for i in range(199, 139, -1):
        place.pass_through(LARGE[:10_000], i * 40 * PAGE)
        native_test.settle()
    assert change(counts) == {"reused": 60}


def test_places_used_in_turn_are_mapped_once_each(place):
    places, rounds = 100, 4  # like the places of a queue: each time the longest unused place is needed
    before = native_test.count()
    for turn in range(places * rounds):
        at = turn % places * 40 * PAGE
        back = place.pass_through(LARGE[:10_000] + turn, at)
        assert (back[0], back[-1]) == (turn, 9_999 + turn)
        del back
        native_test.settle()
    got = change(before)
    assert (got["mapped"], got["reused"], got["cached"]) == (places, places * (rounds - 1), places)


def test_place_used_by_two_views_at_once(place):
    for i in range(100):
        place.pass_through(LARGE[:10_000], i * 40 * PAGE)
    native_test.settle()
    before = native_test.count()
    one, two = (place.pass_through(LARGE[:10_000] + 5, 7 * 40 * PAGE) for _ in range(2))
    assert np.array_equal(one, LARGE[:10_000] + 5) and np.array_equal(two, one)
    got = change(before)
    assert (got["mapped"], got["reused"], got["live"], got["cached"]) == (1, 1, 2, -1)
    del one, two
    native_test.settle()
    assert change(before)["cached"] == 1
    one, two = (place.pass_through(LARGE[:10_000] + 6, 7 * 40 * PAGE) for _ in range(2))
    assert change(before)["mapped"] == 1 and one[0] == two[0] == 6


def test_mappings_released_in_any_order_are_found_again(place):
    order = np.random.default_rng(3)
    known = set()
    for turn in range(2000):  # the cache has room for all 120 places, so only the first use of a place maps it
        i = int(order.integers(120))
        before = native_test.count()
        assert place.pass_through(LARGE[:10_000] + turn, i * 40 * PAGE)[1] == turn + 1
        native_test.settle()
        assert change(before).get("reused", 0) == (i in known)
        known.add(i)


def test_the_cache_is_bounded_in_bytes(place):
    part = native_test.VIEW_CACHE_BYTES // 3
    for i in range(4):
        native_test.open_view(place.fd, i * part // PAGE * PAGE, part)
        native_test.settle()
    counts = native_test.count()
    assert counts["cached"] == 3 or counts["cached"] == 2
    assert part * 2 <= counts["cached_bytes"] <= native_test.VIEW_CACHE_BYTES
    native_test.open_view(place.fd, 0, native_test.VIEW_CACHE_BYTES + 1)
    native_test.settle()
    assert native_test.count()["cached"] == counts["cached"]
    assert mappings_of(place) <= counts["cached"] + 1


def test_forgetting_releases_the_memory_of_the_file(place):
    place.pass_through(LARGE)
    native_test.settle()
    native_test.forget()
    assert mappings_of(place) == 1


# ---- limits and failures ----


def test_too_many_views_are_copies(place):
    most = native_test.VIEW_MOST
    before = native_test.count()
    kept = []
    for i in range(most + 50):
        kept.append(place.pass_through(LARGE[:8192] + i))
        native_test.settle()
        place.overwrite(70_000)
    assert all(array[5] == 5 + i for i, array in enumerate(kept))
    assert native_test.count()["live"] == most and change(before)["copied"] == 50
    assert not view_of(kept[-1]).shared
    before = kilobytes()
    for _ in range(1000):
        place.pass_through(LARGE[:8192])
    assert kilobytes() - before < NOISE  # a copy is freed at once; otherwise it would be 64 MB
    kept.clear()
    assert native_test.count()["live"] == 0


def test_beyond_the_end_of_the_file(place):
    for offset, size in ((SIZE, 1), (0, SIZE + 1), (SIZE - 10, 11), (2**64 - 1, 1), (2**64 - PAGE, 2**63), (0, 2**64 - 1)):
        with pytest.raises(ValueError, match="beyond"):
            native_test.open_view(place.fd, offset, size)
    assert native_test.open_view(place.fd, SIZE - 10, 10)
    assert bytes(native_test.open_view(place.fd, SIZE, 0)) == b""


def test_bad_descriptor():
    with pytest.raises(OSError):
        native_test.open_view(-1, 0, 10)


def test_file_that_can_be_neither_mapped_nor_read(tmp_path):
    """Uses a file that was opened only for writing."""
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100_000)
    fd = os.open(path, os.O_WRONLY)
    blocks = sys.getallocatedblocks()
    for _ in range(100):
        try:
            native_test.open_view(fd, 0, 100_000)
            raise AssertionError("opened")
        except OSError:
            pass
    assert sys.getallocatedblocks() - blocks < 50
    os.close(fd)


def test_no_memory_for_a_kept_view(place):
    data = np.ones(32 << 20, dtype=np.uint8)
    back = place.pass_through(data)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = kilobytes(0) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), limits[1]))
    try:
        with pytest.raises(MemoryError, match="kept"):
            native_test.settle()
        assert view_of(back).shared
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    native_test.settle()  # the view was still in the list
    place.overwrite(40 << 20)
    assert back.all() and back.max() == 1


# ---- the type ----


def test_type_of_views(place):
    place.room[0:5] = b"hello"
    view = native_test.open_view(place.fd, 0, 5)
    assert len(view) == 5 and bytes(view) == b"hello"
    assert repr(view) == "<gpu_dispatch view of 5 bytes of shared memory>"
    with pytest.raises(TypeError):
        memoryview(view)[0] = 1
    with pytest.raises(TypeError):
        type(view)()
    with pytest.raises(AttributeError):
        view.other = 1
    native_test.settle()
    assert repr(view) == "<gpu_dispatch view of 5 bytes of own memory>"


def test_view_sent_to_another_process_becomes_bytes(place):
    view = native_test.open_view(place.fd, 0, 100_000)
    wanted = bytes(view)
    for protocol in (2, 4, 5):
        assert pickle.loads(pickle.dumps(view, protocol)) == wanted
    back = place.pass_through([view], 1 << 20)
    assert back == [wanted] and type(back[0]) is bytes


def test_array_on_a_view_can_be_sent_to_another_process(place):
    back = place.pass_through(LARGE)
    again = place.pass_through({"a": back[10:], "b": back[::2]}, 4 << 20)
    assert np.array_equal(again["a"], LARGE[10:]) and np.array_equal(again["b"], LARGE[::2])


# ---- threads, forks ----


def test_each_thread_settles_its_own_views(place):
    mine = place.pass_through(LARGE)

    def other():
        theirs = place.pass_through(LARGE * 2, 8 << 20)
        native_test.settle()
        assert not view_of(theirs).shared

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert view_of(mine).shared
    native_test.settle()
    assert not view_of(mine).shared


def test_readers_do_not_notice_the_copy(place):
    data = np.full(1 << 21, 7, dtype=np.uint8)
    done, wrong, reads, current = threading.Event(), [], [0], [None]

    def read():
        while not done.is_set():
            array = current[0]
            if array is None:
                continue
            if not (array[::4096] == 7).all():
                wrong.append(1)
            reads[0] += 1

    thread = threading.Thread(target=read)
    thread.start()
    try:
        rounds = 0
        while rounds < 100 or reads[0] == 0:  # the other thread may start late
            rounds += 1
            current[0] = place.pass_through(data)
            native_test.settle()
            place.overwrite(3 << 20)
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_kept_views_survive_a_fork(place):
    back = place.pass_through(LARGE)
    native_test.settle()
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        ok = bool(np.array_equal(back, LARGE))
        del back
        os._exit(0 if ok else 1)
    place.overwrite()
    del back
    os.write(go, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ready)
    os.close(go)


# ---- over and over ----


def test_random_places_sizes_and_keeping(place):
    draw = random.Random(11)
    kept = []
    for i in range(1500):
        n = draw.choice((10, 8192, 9000, 20_000, 60_000))
        offset = draw.randrange(64) * draw.choice((64, PAGE, 16 * PAGE))
        arrays = [np.full(n, i * 10 + k) for k in range(draw.randrange(1, 4))]
        back = place.pass_through(arrays, offset)
        assert all(np.array_equal(a, b) for a, b in zip(arrays, back))
        if draw.random() < 0.3:
            k = draw.randrange(len(back))
            kept.append((back[k], i * 10 + k, address(back[k])))
        del back, arrays
        native_test.settle()
        if len(kept) > 100:
            kept.pop(draw.randrange(100))
    place.overwrite(SIZE)
    assert all((array == value).all() and address(array) == where for array, value, where in kept)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps freed memory")
@pytest.mark.parametrize("keep", [False, True])
def test_no_leak_over_many_rounds(place, keep):
    def rounds(n):
        kept = None
        for _ in range(n):
            back = place.get(size)
            if keep:
                kept = back  # until the next round
            del back
            native_test.settle()
        return kept

    size = place.put([np.arange(8192), np.arange(10)])
    def sizes_after(n):
        rounds(n)
        gc.collect()
        return kilobytes(), sys.getallocatedblocks(), mappings()

    sizes = [sizes_after(200), *(sizes_after(10_000 if keep else 50_000) for _ in range(3))]
    # The smallest growth counts. A leak is in every round. Other work of this process (pytest receives the names of the
    # next tests) is in one round only.
    growth = [min(b - a for a, b in zip(column, column[1:])) for column in zip(*sizes)]
    assert growth[0] < 5_000 and growth[1] < 100 and growth[2] <= 2, sizes
