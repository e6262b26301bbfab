#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts a Whisper checkpoint of OpenAI (a .pt file) to a model in the format of whisper.cpp, with 16-bit weights.

usage: convert_model.py CHECKPOINT OUT.bin [--assets DIR]

Only Python's standard library is needed. A checkpoint is a zip archive with a pickle that describes the tensors. A pickle
can name any function of Python. Here only the three names that describe a tensor are accepted, so a checkpoint cannot
run code.

The mel filters and the vocabulary are not in the checkpoint. They come from DIR, or from the installed package
openai-whisper (whisper/assets). DIR has mel_filters.npz, gpt2.tiktoken and multilingual.tiktoken.

The output (all numbers are little-endian):
  i32 magic, i32 x 11 sizes, i32 mels, i32 bins, f32 filters, i32 tokens, {u32 length, bytes} each,
  then until the end {i32 dimensions, i32 name length, i32 type, i32 sizes (innermost first), name, data}.
It is complete or does not exist: it is written under another name first.
"""

from __future__ import annotations

import argparse
import ast
import base64
import collections
import importlib.util
import io
import math
import os
import pickle
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn

MAGIC = 0x67676D6C
F32, F16 = 0, 1  # types of tensors, and of the file
BINS = 201
FIRST_MULTILINGUAL = 51865
VOCABULARIES = range(51864, 51867)
SIZES = (
    "n_vocab n_audio_ctx n_audio_state n_audio_head n_audio_layer n_text_ctx n_text_state n_text_head n_text_layer n_mels"
).split()
STORAGES = {"HalfStorage": "e", "FloatStorage": "f", "BFloat16Storage": "H"}  # the last one has no letter of its own
PIECE = 1 << 18  # values that are converted at a time


class Failure(Exception):
    """An error message for the user."""


# ---- the checkpoint --------------------------------------------------------------------------------------------------


class Storage(NamedTuple):
    kind: str
    key: str


class Tensor(NamedTuple):
    storage: Storage
    offset: int  # in values
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class StorageKind(NamedTuple):
    name: str


def rebuild_tensor(storage: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Tensor:
    if not isinstance(storage, Storage):
        raise Failure("a tensor has no storage")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return rebuild_tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name.endswith("Storage"):
            return StorageKind(name)
        raise Failure(f"it names {module}.{name}, which is no part of a checkpoint of OpenAI")

    def persistent_load(self, pid: Any) -> Storage:
        if not isinstance(pid, tuple) or len(pid) < 3 or pid[0] != "storage" or not isinstance(pid[1], StorageKind):
            raise Failure("it has a reference that is not to a storage")
        return Storage(pid[1].name, str(pid[2]))


class Checkpoint:
    """The sizes and the tensors of a checkpoint. The data of a tensor is read when it is asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(names) != 1:
            raise Failure("is a zip archive, but not of PyTorch: it has no data.pkl")
        self.archive = archive
        self.root = names[0].removesuffix("data.pkl")
        if self._text("byteorder") not in (None, "little"):
            raise Failure("was made on a machine with big-endian numbers, which this program does not read")
        loaded = self._unpickle(archive.read(names[0]))
        if not isinstance(loaded, dict) or not {"dims", "model_state_dict"} <= loaded.keys():
            raise Failure(
                "is a PyTorch file, but not a checkpoint of OpenAI: it has no dims and model_state_dict; models of "
                "Hugging Face's transformers are converted by models/convert-h5-to-ggml.py of whisper.cpp"
            )
        self.sizes = checked_sizes(loaded["dims"])
        self.tensors = checked_tensors(loaded["model_state_dict"], expected_shapes(self.sizes))

    def _text(self, name: str) -> str | None:
        try:
            return self.archive.read(self.root + name).decode("ascii", "replace").strip()
        except KeyError:
            return None

    @staticmethod
    def _unpickle(data: bytes) -> Any:
        try:
            return Unpickler(io.BytesIO(data)).load()
        except Failure:
            raise
        except Exception as error:  # a damaged pickle can raise anything
            raise Failure(f"its data.pkl is damaged: {error}") from None

    def values(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The data of a tensor in pieces, in the order of its dimensions: ("e", 16-bit) or ("f", 32-bit)."""
        tensor = self.tensors[name]
        if tensor.storage.kind not in STORAGES:
            raise Failure(f"{name} has the type {tensor.storage.kind}: only 16-bit and 32-bit numbers can be converted")
        letter = STORAGES[tensor.storage.kind]
        width = struct.calcsize(letter)
        try:
            data = memoryview(self.archive.read(f"{self.root}data/{tensor.storage.key}"))
        except (KeyError, zipfile.BadZipFile) as error:
            raise Failure(f"the data of {name} is missing or damaged: {error}") from None
        last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides))
        if tensor.offset < 0 or min(tensor.strides) < 0 or (last + 1) * width > len(data):
            raise Failure(f"the data of {name} is shorter than its shape {tensor.shape}")
        for piece in contiguous(data, width, tensor):
            yield ("f", widened(piece)) if letter == "H" else (letter, bytes(piece))


def contiguous(data: memoryview, width: int, tensor: Tensor) -> Iterator[memoryview]:
    """The values of a tensor in the order of its dimensions, in pieces."""
    count = math.prod(tensor.shape)
    steps = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
    if list(tensor.strides) == steps:
        start, end = tensor.offset * width, (tensor.offset + count) * width
        for at in range(start, end, PIECE * width):
            yield data[at : min(at + PIECE * width, end)]
        return
    values = data.cast("H") if width == 2 else data.cast("I")
    size, step = tensor.shape[-1], tensor.strides[-1]
    for start in row_starts(tensor):
        row = values[start : start + (size - 1) * step + 1 : step] if step > 0 else values[start : start + 1]
        yield memoryview(row.tobytes() if step > 0 else row.tobytes() * size)


def row_starts(tensor: Tensor) -> Iterator[int]:
    starts = [tensor.offset]
    for size, step in zip(tensor.shape[:-1], tensor.strides[:-1]):
        starts = [start + i * step for start in starts for i in range(size)]
    yield from starts


def widened(piece: memoryview) -> bytes:
    """bfloat16 is the upper half of a 32-bit number."""
    out = bytearray(2 * len(piece))
    out[2::4], out[3::4] = piece[0::2], piece[1::2]
    return bytes(out)


def checked_sizes(dims: Any) -> dict[str, int]:
    if not isinstance(dims, dict) or not all(isinstance(dims.get(name), int) and dims[name] > 0 for name in SIZES):
        raise Failure(f"its sizes (dims) are not complete: it needs {', '.join(SIZES)}")
    sizes = {name: int(dims[name]) for name in SIZES}
    if sizes["n_vocab"] not in VOCABULARIES:
        raise Failure(f"its vocabulary has {sizes['n_vocab']} tokens: whisper.cpp needs 51864 to 51866")
    if sizes["n_audio_state"] != sizes["n_text_state"]:
        raise Failure("its encoder and decoder differ in width, which whisper.cpp does not support")
    return sizes


def expected_shapes(sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all tensors of a model with these sizes."""
    width = sizes["n_audio_state"]
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.positional_embedding": (sizes["n_audio_ctx"], width),
        "encoder.conv1.weight": (width, sizes["n_mels"], 3),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width,),
        "encoder.ln_post.weight": (width,),
        "encoder.ln_post.bias": (width,),
        "decoder.positional_embedding": (sizes["n_text_ctx"], width),
        "decoder.token_embedding.weight": (sizes["n_vocab"], width),
        "decoder.ln.weight": (width,),
        "decoder.ln.bias": (width,),
    }
    for part, layers, attentions in (
        ("encoder", sizes["n_audio_layer"], ("attn",)),
        ("decoder", sizes["n_text_layer"], ("attn", "cross_attn")),
    ):
        for layer in range(layers):
            shapes.update(block_shapes(f"{part}.blocks.{layer}.", width, attentions))
    return shapes


def block_shapes(block: str, width: int, attentions: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for attention in attentions:
        for matrix in ("query", "key", "value", "out"):
            shapes[f"{block}{attention}.{matrix}.weight"] = (width, width)
            if matrix != "key":
                shapes[f"{block}{attention}.{matrix}.bias"] = (width,)
        shapes[f"{block}{attention}_ln.weight"] = shapes[f"{block}{attention}_ln.bias"] = (width,)
    shapes[f"{block}mlp.0.weight"], shapes[f"{block}mlp.0.bias"] = (4 * width, width), (4 * width,)
    shapes[f"{block}mlp.2.weight"], shapes[f"{block}mlp.2.bias"] = (width, 4 * width), (width,)
    shapes[f"{block}mlp_ln.weight"] = shapes[f"{block}mlp_ln.bias"] = (width,)
    return shapes


def checked_tensors(state: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The tensors in the order of the checkpoint."""
    if not isinstance(state, dict):
        raise Failure("its model_state_dict is not a list of tensors")
    missing = sorted(shapes.keys() - state.keys())
    other = sorted(str(name) for name in state.keys() - shapes.keys())
    if missing or other:
        raise Failure(
            f"is not a model that whisper.cpp can use: {len(missing)} tensors are missing {missing[:2]} and "
            f"{len(other)} are unknown {other[:2]}"
        )
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor) or tensor.shape != shapes[name] or len(tensor.strides) != len(tensor.shape):
            raise Failure(f"{name} has the shape {getattr(tensor, 'shape', None)} instead of {shapes[name]}")
    return dict(state)


# ---- filters and vocabulary ------------------------------------------------------------------------------------------


def find_assets(given: str | None) -> str:
    if given is not None:
        return given
    spec = importlib.util.find_spec("whisper")
    for package in (spec.submodule_search_locations or []) if spec else []:
        if os.path.isfile(os.path.join(package, "assets", "mel_filters.npz")):
            return os.path.join(package, "assets")
    raise Failure(
        "the mel filters and the vocabulary are needed, which are not in a checkpoint: install OpenAI's package with "
        f"{sys.executable} -m pip install openai-whisper, or name a directory that has its whisper/assets with --assets"
    )


def read_filters(assets: str, mels: int) -> bytes:
    """The filters as 32-bit numbers, from an array that NumPy has stored (a header in Python's syntax, then the data)."""
    path = os.path.join(assets, "mel_filters.npz")
    with zipfile.ZipFile(path) as archive:
        try:
            data = archive.read(f"mel_{mels}.npy")
        except KeyError:
            raise Failure(f"{path} has no filters for {mels} mel bands") from None
    length = struct.unpack_from("<H", data, 8)[0] if data[:8] == b"\x93NUMPY\1\0" else 0
    header = ast.literal_eval(data[10 : 10 + length].decode("latin-1")) if length else {}
    values = data[10 + length :]
    if header != {"descr": "<f4", "fortran_order": False, "shape": (mels, BINS)} or len(values) != 4 * mels * BINS:
        raise Failure(f"{path}: mel_{mels} is not an array of {mels} x {BINS} 32-bit numbers")
    return values


def read_tokens(assets: str, multilingual: bool) -> list[bytes]:
    path = os.path.join(assets, "multilingual.tiktoken" if multilingual else "gpt2.tiktoken")
    tokens: list[bytes] = []
    with open(path, "rb") as file:
        for number, line in enumerate(filter(None, file.read().splitlines())):
            words = line.split()
            if len(words) != 2 or words[1] != b"%d" % number:
                raise Failure(f"{path}: line {number + 1} is not the token {number}")
            tokens.append(base64.b64decode(words[0]))
    # The published English models have the end of text as a token with a name.
    return tokens if multilingual else [*tokens, b"<|endoftext|>"]


# ---- the model -------------------------------------------------------------------------------------------------------


def recoded(letter: str, data: bytes, wanted: str) -> bytes:
    if letter == wanted:
        return data
    count = len(data) // struct.calcsize(letter)
    return struct.pack(f"<{count}{wanted}", *struct.unpack(f"<{count}{letter}", data))


def write_tensor(out: BinaryIO, checkpoint: Checkpoint, name: str) -> None:
    shape = checkpoint.tensors[name].shape
    kind = F32 if len(shape) < 2 or name.endswith(".positional_embedding") else F16
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        shape = (shape[0], 1)
    encoded = name.encode()
    out.write(struct.pack("<3i", len(shape), len(encoded), kind))
    out.write(struct.pack(f"<{len(shape)}i", *reversed(shape)) + encoded)
    for letter, data in checkpoint.values(name):
        try:
            out.write(recoded(letter, data, "f" if kind == F32 else "e"))
        except OverflowError:
            raise Failure(f"{name} has a value that is too large for a 16-bit number") from None


def write_model(out: BinaryIO, checkpoint: Checkpoint, filters: bytes, tokens: list[bytes]) -> None:
    sizes = checkpoint.sizes
    out.write(struct.pack("<12i", MAGIC, *(sizes[name] for name in SIZES), F16))
    out.write(struct.pack("<2i", sizes["n_mels"], BINS) + filters)
    out.write(struct.pack("<i", len(tokens)))
    for token in tokens:
        out.write(struct.pack("<i", len(token)) + token)
    for name in checkpoint.tensors:
        write_tensor(out, checkpoint, name)


def convert(source: str, target: str, assets: str | None) -> None:
    try:
        archive = zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        raise Failure(f"{source}: is not a checkpoint of PyTorch 1.6 or later (a zip archive)") from None
    with archive:
        try:
            checkpoint = Checkpoint(archive)
        except (Failure, zipfile.BadZipFile) as error:
            raise Failure(f"{source}: {error}") from None
        assets = find_assets(assets)
        filters = read_filters(assets, checkpoint.sizes["n_mels"])
        tokens = read_tokens(assets, checkpoint.sizes["n_vocab"] >= FIRST_MULTILINGUAL)
        replace(target, lambda out: write_model(out, checkpoint, filters, tokens))


def replace(target: str, write: Any) -> None:
    """Writes a file and gives it its name when it is complete."""
    fd, path = tempfile.mkstemp(prefix=os.path.basename(target) + ".", dir=os.path.dirname(target) or ".")
    try:
        with open(fd, "wb") as out:
            write(out)
            out.flush()
            os.fsync(fd)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(path, 0o666 & ~umask)
        os.replace(path, target)
    except BaseException:
        os.unlink(path)
        raise


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description="Converts a Whisper checkpoint of OpenAI to the format of whisper.cpp.")
    parser.add_argument("checkpoint", help="the .pt file")
    parser.add_argument("out", help="the model to write")
    parser.add_argument("--assets", help="directory with mel_filters.npz, gpt2.tiktoken and multilingual.tiktoken")
    given = parser.parse_args()
    try:
        convert(given.checkpoint, given.out, given.assets)
    except (Failure, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"convert_model: {error}")
    sys.exit(0)


if __name__ == "__main__":
    main()
