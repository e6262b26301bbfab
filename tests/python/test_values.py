"""Python values as bytes, and back (python/native/values/value.c)."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import gc
import math
import pathlib
import pickle
import random
import struct
import sys
import threading
import time

import native_test
import pytest

np = pytest.importorskip("numpy")
LONG = 250  # seconds: for events that come at once, except on a busy machine; a test that hangs is ended a little later

TAGS = {"none": 0x10, "false": 0x11, "true": 0x12, "int": 0x13, "float": 0x14, "str": 0x15, "bytes": 0x16,
        "bytearray": 0x17, "pickle": 0x18, "buffers": 0x19}


def round_trip(value):
    return native_test.decode(native_test.encode(value))


def failure(function, *arguments):
    """The type of the exception that it raises. pytest.raises() would leave references behind."""
    try:
        function(*arguments)
    except Exception as error:
        return type(error)
    return None


def same(a, b) -> bool:
    """Whether both are equal and have the same types, at every level."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


class Number(int):
    pass


class Text(str):
    pass


class Blob(bytes):
    pass


class Blobs(bytearray):
    pass


class Real(float):
    pass


class Colour(enum.IntEnum):
    RED = 1


class Word(str, enum.Enum):
    YES = "yes"


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Record:
    name: str
    pixels: object


class Buffered:
    """Gives its bytes to pickle as an out-of-band buffer."""

    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        return Buffered, (pickle.PickleBuffer(self.data),)


class Stubborn:
    def __reduce__(self):
        raise ValueError("not me")


SCALARS = {
    "none": [None], "false": [False], "true": [True],
    "int": [0, 1, -1, 255, 2**30, -(2**30), 2**31, 2**62, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.5, -1e308, 5e-324, math.inf, -math.inf, math.nan],
    "str": ["", "a", "x" * 23, "x" * 24, "é", "é" * 12, "日本語", "\U0001f600" * 10, "a\0b", "y" * 100_000, "é" * 100_000],
    "bytes": [b"", b"a", b"x" * 23, b"x" * 24, b"\0" * 50, bytes(range(256)) * 8192],
    "bytearray": [bytearray(), bytearray(b"a"), bytearray(b"x" * 3_000_000)],
}


@pytest.mark.parametrize("kind, value", [(kind, value) for kind in SCALARS for value in SCALARS[kind]],
                         ids=lambda v: repr(v)[:20])
def test_scalars_have_their_own_encoding(kind, value):
    data = native_test.encode(value)
    assert data[0] == TAGS[kind]
    assert same(native_test.decode(data), value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**100, -(10**4000), "\ud800", "a\udfffb", "\udc80" * 100])
def test_scalar_that_does_not_fit_its_encoding_is_pickled(value):
    data = native_test.encode(value)
    assert data[0] == TAGS["pickle"]
    assert same(native_test.decode(data), value)


@pytest.mark.parametrize("value", [Number(5), Text("a"), Blob(b"a"), Blobs(b"a"), Real(1.5), Colour.RED, Word.YES, np.float64(1.5),
                                   np.int64(3), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.float32(0.1)], ids=repr)
def test_subclasses_keep_their_type(value):
    assert native_test.encode_small(value) == b""
    assert same(round_trip(value), value)


def test_small_encoding_is_the_same_as_the_full_one():
    for values in SCALARS.values():
        for value in values:
            small = native_test.encode_small(value)
            assert len(small) <= 24
            assert small in (b"", native_test.encode(value))
    assert all(native_test.encode_small(v) for v in (None, True, False, 2**63 - 1, math.nan, "x" * 23, b"x" * 23))
    assert not any(native_test.encode_small(v) for v in (2**63, "x" * 24, b"x" * 24, "é", [], (), 1j))


@pytest.mark.parametrize("value", [
    1j, (), [], {}, set(), frozenset({1, 2}), (1, "a", None), [1, [2, [3]]], {"a": {"b": (1, 2.5)}}, range(5), Point(1, "y"), ...,
    datetime.datetime(2024, 5, 6, 7, 8), decimal.Decimal("1.10"), fractions.Fraction(1, 3), pathlib.PurePosixPath("/a/b"),
    Record("r", [1, 2]), collections.OrderedDict(a=1), slice(1, 2), int, len, Colour,
], ids=repr)
def test_anything_picklable(value):
    assert same(round_trip(value), value)


ARRAYS = {
    "one": np.arange(10),
    "large": np.arange(300_000, dtype=np.float32),
    "zero": np.zeros(0),
    "zero rows": np.zeros((0, 5), dtype=np.int16),
    "no dimension": np.array(7.5),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "strided": np.arange(100)[::3],
    "reversed": np.arange(100)[::-1],
    "rows of columns": np.arange(100).reshape(10, 10)[:, 2:5],
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
    "structured": np.array([(1, 2.5, b"ab")], dtype=[("i", "<i4"), ("f", "<f8"), ("s", "S2")]),
    "big endian": np.arange(5, dtype=">i8"),
    "dates": np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
    "text": np.array(["a", "日本"]),
    "bool": np.array([True, False]),
    "complex": np.array([1j, math.nan]),
    "half": np.arange(4, dtype=np.float16),
    "five dimensions": np.arange(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name):
    array = ARRAYS[name]
    back = round_trip(array)
    assert same(back, array)
    assert back.flags.f_contiguous or not array.flags.f_contiguous


def test_arrays_of_objects():
    array = np.array([None, "a", [1]], dtype=object)
    assert round_trip(array).tolist() == [None, "a", [1]]


def test_buffers_are_read_only_at_every_size():
    for n in (1, 100, 100_000):
        back = round_trip(np.zeros(n))
        assert not back.flags.writeable
        with pytest.raises(ValueError):
            back[0] = 1


def test_contiguous_arrays_are_sent_outside_the_pickle():
    array = np.arange(1000)
    data = native_test.encode(array)
    assert data[0] == TAGS["buffers"]
    assert data.endswith(array.tobytes())
    assert data.index(array.tobytes()) % 64 == 0
    assert native_test.encode(array[::2])[0] == TAGS["pickle"]


def test_containers_with_arrays():
    shared = np.arange(50)
    value = {"a": [np.ones((3, 3)), shared, shared], "b": (np.zeros(0), {"c": np.arange(100_000)}), "d": Record("x", np.ones(7))}
    back = round_trip(value)
    assert same(back["a"], value["a"]) and same(back["b"], value["b"]) and same(back["d"].pixels, np.ones(7))
    assert back["a"][1] is back["a"][2]
    data = native_test.encode(value)
    n_buffers, = struct.unpack_from("Q", data, 16)
    assert n_buffers == 5


def test_cycles():
    value = [np.arange(5)]
    value.append(value)
    back = round_trip(value)
    assert back[1] is back and same(back[0], value[0])


@pytest.mark.parametrize("data", [b"abc", bytearray(b"x" * 1000), b"", memoryview(b"abcdef")[1:3], np.arange(12).reshape(3, 4).T])
def test_objects_with_their_own_buffers(data):
    back = round_trip(Buffered(data))
    assert bytes(back.data) == (data.tobytes("A") if isinstance(data, np.ndarray) else bytes(data))


def test_buffer_that_is_not_contiguous_is_left_to_pickle():
    with pytest.raises(pickle.PicklingError, match="non-contiguous"):
        native_test.encode(Buffered(memoryview(b"abcdef")[::2]))


def test_exceptions():
    back = round_trip(KeyError("k", 3))
    assert type(back) is KeyError and back.args == ("k", 3)


def test_cloudpickle_is_used_if_pickle_fails():
    pytest.importorskip("cloudpickle")
    offset = np.arange(3)
    assert round_trip(lambda x: x + offset)(1).tolist() == [1, 2, 3]

    class Local:
        data = np.arange(5)

    back = round_trip([Local(), np.arange(4)])
    assert type(back[0]).data.tolist() == [0, 1, 2, 3, 4] and back[1].tolist() == [0, 1, 2, 3]


def test_unpicklable(monkeypatch):
    with pytest.raises(TypeError, match="lock"):
        native_test.encode([threading.Lock()])
    with pytest.raises(ValueError, match="not me"):
        native_test.encode(Stubborn())
    monkeypatch.setitem(sys.modules, "cloudpickle", None)  # as if it were not installed
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        native_test.encode(lambda: None)


def test_exception_of_cloudpickle_shows_the_cause():
    pytest.importorskip("cloudpickle")
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock") as caught:
        native_test.encode(lambda: lock)
    assert "lambda" in str(caught.value.__context__)


def test_deep_nesting_is_an_error():
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(RecursionError):
        native_test.encode(value)


# ---- damage ----


@pytest.mark.parametrize("data, words", [
    (b"", "empty"),
    (b"\x00", "version"), (b"\x23" + bytes(8), "version"), (b"\xff" * 30, "version"),
    (b"\x1f", "kind"), (b"\x1a123", "kind"),
    (b"\x10\0", "constant"), (b"\x12\0", "constant"),
    (b"\x13" + bytes(7), "size"), (b"\x13" + bytes(9), "size"), (b"\x14", "size"),
    (b"\x19", "header"), (b"\x19" + bytes(22), "header"),
    (b"\x19" + bytes(7) + struct.pack("QQ", 0, 2**61), "more buffers"),
    (b"\x19" + bytes(7) + struct.pack("QQ", 0, 2**64 - 1), "more buffers"),
    (b"\x19" + bytes(7) + struct.pack("QQ", 1, 0), "pickle"),
    (b"\x19" + bytes(7) + struct.pack("QQ", 2**64 - 1, 0), "pickle"),
    (b"\x19" + bytes(7) + struct.pack("QQQ", 0, 1, 1), "beyond"),
    (b"\x19" + bytes(7) + struct.pack("QQQ", 0, 1, 2**64 - 1) + bytes(64), "beyond"),
    (b"\x19" + bytes(7) + struct.pack("QQQ", 0, 1, 2**64 - 64) + bytes(64), "beyond"),
    (b"\x19" + bytes(7) + struct.pack("QQQ", 0, 1, 1) + bytes(64), "follows"),
])
def test_damaged_input(data, words):
    with pytest.raises(ValueError, match="damaged value: .*" + words):
        native_test.decode(data)


def test_damaged_text_and_pickle():
    with pytest.raises(UnicodeDecodeError):
        native_test.decode(b"\x15\xff\xfe")
    for data in (b"\x18", b"\x18abc", native_test.encode([1, 2, 3])[:-1]):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            native_test.decode(data)


def test_every_truncated_value_is_an_error():
    data = native_test.encode([np.arange(20), b"x", np.arange(3)])
    for end in range(len(data)):
        with pytest.raises(ValueError, match="damaged"):
            native_test.decode(data[:end])


def test_random_headers_never_crash():
    draw = random.Random(7)
    whole = native_test.encode([np.arange(20), np.arange(30)])
    for _ in range(5000):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(8, 40)] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        try:
            native_test.decode(bytes(data))
        except Exception:  # any exception is fine, but no crash
            pass


# ---- at random, and references ----


def random_value(draw: random.Random, depth: int = 0):
    makers = [
        lambda: None, lambda: draw.random() < 0.5, lambda: draw.randint(-(2**70), 2**70), lambda: draw.randint(-1000, 1000),
        lambda: struct.unpack("d", draw.randbytes(8))[0], lambda: "".join(chr(draw.randrange(0xd800)) for _ in range(draw.randrange(40))),
        lambda: chr(draw.randrange(0x110000)) * draw.randrange(30), lambda: draw.randbytes(draw.randrange(60)),
        lambda: bytearray(draw.randbytes(draw.randrange(60))),
        lambda: np.frombuffer(draw.randbytes(8 * draw.randrange(50)), dtype=draw.choice(["u1", "<i4", ">i8", "f8"])),
        lambda: np.arange(24, dtype=draw.choice("bhilfd")).reshape(draw.choice([(24,), (2, 12), (2, 3, 4)])).T,
    ]
    if depth < 4:
        def some():
            return [random_value(draw, depth + 1) for _ in range(draw.randrange(5))]
        makers += [some, lambda: tuple(some()), lambda: dict(enumerate(some()))] * 2
    return draw.choice(makers)()


def test_random_round_trips():
    draw = random.Random(20240501)
    for i in range(3000):
        value = random_value(draw)
        assert same(round_trip(value), value), i


def test_reference_counts():
    values = [object(), "x" * 40, b"x" * 40, bytearray(40), np.arange(40), [np.arange(40)], Buffered(b"x" * 40), "é" * 40, 2**80]
    before = [sys.getrefcount(v) for v in values]
    for value in values[1:]:
        for _ in range(1000):
            native_test.decode(native_test.encode(value))
    for _ in range(1000):
        assert failure(native_test.encode, [values[0], threading.Lock()]) is TypeError
    del value
    gc.collect()
    assert [sys.getrefcount(v) for v in values] == before
    bytes_array = values[3]
    bytes_array.extend(b"y")  # no export is left


def test_nothing_is_left_allocated():
    def work():
        for value in (1, 2**80, "é" * 40, b"x" * 40, bytearray(40), [np.arange(40)], "\ud800", {"a": (1, 2)}):
            round_trip(value)
        for data in (b"", b"\x19" + bytes(40), b"\x18abc"):
            assert failure(native_test.decode, data)

    def blocks_after(n):
        for _ in range(n):
            work()
        gc.collect()
        return sys.getallocatedblocks()

    counts = [blocks_after(20), *(blocks_after(500) for _ in range(3))]
    # The smallest growth counts. A leak is in every round. Other work of this process (pytest receives the names of the
    # next tests) is in one round only.
    assert min(b - a for a, b in zip(counts, counts[1:])) < 100


def test_other_threads_run_during_a_large_copy():
    """Another thread runs while a bytearray is copied, at least in one of many attempts. It cannot resize the
    bytearray."""
    data, done, errors = bytearray(64 << 20), threading.Event(), []

    def resize():
        while not done.is_set():
            try:
                data.append(0)
                data.pop()
            except BufferError as error:
                errors.append(error)

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        until = time.monotonic() + LONG
        while not errors and time.monotonic() < until:
            assert len(native_test.encode(data)) >= 64 << 20
    finally:
        done.set()
        thread.join()
    assert errors
