# SPDX-License-Identifier: MIT
"""Makes tiny checkpoints as torch.save() writes them, and the models that they become, with the standard library only."""
import base64
import collections
import io
import pickle
import struct
import sys
import types
import zipfile

VOCAB, WIDTH, MELS, BINS = 51864, 8, 2, 201
DIMS = {"n_mels": MELS, "n_vocab": VOCAB, "n_audio_ctx": 4, "n_audio_state": WIDTH, "n_audio_head": 2, "n_audio_layer": 1,
        "n_text_ctx": 8, "n_text_state": WIDTH, "n_text_head": 2, "n_text_layer": 1}
LETTERS = {"HalfStorage": "e", "FloatStorage": "f", "BFloat16Storage": None}
TOKENS = {"gpt2": [b"!", b" ", b"\xff\n"], "multilingual": [b" ", b"word"]}


def shapes(dims=DIMS):
    """The tensors of a model with one layer on each side, in the order of OpenAI's files."""
    width = dims["n_audio_state"]
    named = {"decoder.positional_embedding": (dims["n_text_ctx"], width),
             "encoder.positional_embedding": (dims["n_audio_ctx"], width),
             "decoder.token_embedding.weight": (dims["n_vocab"], width)}
    for block, attentions in (("decoder.blocks.0.", ("attn", "cross_attn")), ("encoder.blocks.0.", ("attn",))):
        for attention in attentions:
            for part in ("query", "key", "value", "out"):
                named[f"{block}{attention}.{part}.weight"] = (width, width)
                if part != "key":
                    named[f"{block}{attention}.{part}.bias"] = (width,)
            named[f"{block}{attention}_ln.weight"] = named[f"{block}{attention}_ln.bias"] = (width,)
        named.update({f"{block}mlp.0.weight": (4 * width, width), f"{block}mlp.0.bias": (4 * width,),
                      f"{block}mlp.2.weight": (width, 4 * width), f"{block}mlp.2.bias": (width,),
                      f"{block}mlp_ln.weight": (width,), f"{block}mlp_ln.bias": (width,)})
    named.update({"decoder.ln.weight": (width,), "decoder.ln.bias": (width,),
                  "encoder.conv1.weight": (width, dims["n_mels"], 3), "encoder.conv1.bias": (width,),
                  "encoder.conv2.weight": (width, width, 3), "encoder.conv2.bias": (width,),
                  "encoder.ln_post.weight": (width,), "encoder.ln_post.bias": (width,)})
    return named


def count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def values(name, shape):
    """Numbers that 16 bits can hold, also as bfloat16, and that differ between tensors."""
    first = sum(name.encode()) % 64
    return [((first + i * 7) % 128 - 64) / 32 for i in range(count(shape))]


# ---- writing a checkpoint --------------------------------------------------------------------------------------------


class Storage:
    def __init__(self, kind, key, data):
        self.kind, self.key, self.data = kind, key, data

    def __len__(self):
        return len(self.data) // (4 if self.kind == "FloatStorage" else 2)


class Tensor:
    def __init__(self, storage, shape, offset=0, strides=None):
        self.storage, self.shape, self.offset = storage, shape, offset
        self.strides = strides or tuple(count(shape[i + 1:]) for i in range(len(shape)))

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (
            self.storage, self.offset, self.shape, self.strides, False, collections.OrderedDict())


def pretend_torch():
    """Makes modules with the names that a checkpoint has, so that pickle can write them."""
    for name in ("torch", "torch._utils"):
        sys.modules[name] = types.ModuleType(name)
    for kind in (*LETTERS, "IntStorage"):
        setattr(sys.modules["torch"], kind, type(kind, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    sys.modules["torch._utils"]._rebuild_tensor_v2 = _rebuild_tensor_v2


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return "storage", getattr(sys.modules["torch"], obj.kind), obj.key, "cpu", len(obj)
        return None


def packed(kind, numbers):
    if kind == "BFloat16Storage":  # the upper half of a 32-bit number
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{LETTERS.get(kind) or 'i'}", *numbers)


def tensors(kind="HalfStorage", dims=DIMS):
    return {name: Tensor(Storage(kind, str(i), packed(kind, values(name, shape))), shape)
            for i, (name, shape) in enumerate(shapes(dims).items())}


def write(path, state, dims=DIMS, **more):
    """more: members of the checkpoint besides the usual ones."""
    out = io.BytesIO()
    whole = {"dims": dims, "model_state_dict": state, **more}
    Pickler(out, protocol=2).dump({name: value for name, value in whole.items() if value is not None})
    stored = {tensor.storage.key: tensor.storage.data for tensor in (state or {}).values() if isinstance(tensor, Tensor)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", out.getvalue())
        for key, data in stored.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", "3\n")


# ---- what it needs and becomes ---------------------------------------------------------------------------------------


def filters(mels=MELS):
    return struct.pack(f"<{mels * BINS}f", *(i / 8 for i in range(mels * BINS)))


def write_assets(directory, mels=MELS):
    directory.mkdir(parents=True)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({mels}, {BINS}), }}".ljust(117) + "\n"
    with zipfile.ZipFile(directory / "mel_filters.npz", "w") as archive:
        archive.writestr(f"mel_{mels}.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + filters(mels))
    for name, tokens in TOKENS.items():
        lines = [base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens)]
        (directory / f"{name}.tiktoken").write_bytes(b"".join(lines))


def model(dims=DIMS, tokens=(*TOKENS["gpt2"], b"<|endoftext|>")):
    """The bytes of the model, in whisper.cpp's format."""
    order = ("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "n_text_ctx", "n_text_state",
             "n_text_head", "n_text_layer", "n_mels")
    out = [struct.pack("<12i", 0x67676D6C, *(dims[name] for name in order), 1), struct.pack("<2i", MELS, BINS), filters(),
           struct.pack("<i", len(tokens))]
    out += [struct.pack("<i", len(token)) + token for token in tokens]
    for name, shape in shapes(dims).items():
        single = len(shape) == 1 or "positional" in name
        sizes = (1, *shape) if name in ("encoder.conv1.bias", "encoder.conv2.bias") else tuple(reversed(shape))
        out.append(struct.pack(f"<3i{len(sizes)}i", len(sizes), len(name), 0 if single else 1, *sizes) + name.encode())
        out.append(struct.pack(f"<{count(shape)}{'f' if single else 'e'}", *values(name, shape)))
    return b"".join(out)
