#!/usr/bin/env python3
"""Writes a model in the file format of whisper.cpp, from a checkpoint of train.py, or with random weights and a real size.

The format (all little-endian):
  i32 magic, i32 x 11 sizes, i32 mels, i32 bins, f32 filters, i32 tokens, {u32 length, bytes} each,
  then until the end {i32 dimensions, i32 name length, i32 type, i32 sizes (innermost first), name, data}.
Matrices have the type that the 11th size names, convolutions are f16, everything else is f32.

usage: export.py MODEL.npz OUT.bin [--type q4_0]
       export.py --random base OUT.bin [--says 100] [--type f16]       tiny, base, small, medium, large-v3: for benchmarks

A model with random weights decodes up to the limit, at every temperature. With --says N it decodes like a trained
model: for any audio, it writes N tokens with high probability for each 30 s and goes on. (Speech has about a hundred
tokens in 30 s.)
"""

import argparse
import struct

import numpy as np

import mel
import words

MAGIC = 0x67676D6C
# name: (number of the weight type of the file, number of the tensor type); whisper.cpp aborts on f32 convolutions
TYPES = {"f32": (0, 0), "f16": (1, 1), "q4_0": (2, 2), "q8_0": (7, 8), "q5_0": (8, 6)}
SIZES = {  # width, heads, layers in encoder and decoder each, mels, vocabulary
    "tiny": (384, 6, 4, 4, 80, 51865),
    "base": (512, 8, 6, 6, 80, 51865),
    "small": (768, 12, 12, 12, 80, 51865),
    "medium": (1024, 16, 24, 24, 80, 51865),
    "large-v3": (1280, 20, 32, 32, 128, 51866),
    "large-v3-turbo": (1280, 20, 32, 4, 128, 51866),
}
QUANTISATION_VERSION = 2000  # version of ggml's quantized blocks, added to the type of the file


def q4_0(blocks):
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    scale = extreme / -8
    steps = np.clip(np.floor(blocks * inverse(scale) + 8.5), 0, 15).astype(np.uint8)
    return packed(scale, steps[:, :16] | (steps[:, 16:] << 4))


def q5_0(blocks):
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    scale = extreme / -16
    steps = np.clip(np.floor(blocks * inverse(scale) + 16.5), 0, 31).astype(np.uint8)
    high = np.packbits(steps >> 4, axis=1, bitorder="little")
    low = steps & 15
    return packed(scale, np.concatenate([high, low[:, :16] | (low[:, 16:] << 4)], 1))


def q8_0(blocks):
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    return packed(scale, np.round(blocks * inverse(scale)).astype(np.int8).view(np.uint8))


def inverse(scale):
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)


def packed(scale, data):
    return np.concatenate([scale.astype("<f2").view(np.uint8), data], 1).tobytes()


BLOCKS = {"q4_0": q4_0, "q5_0": q5_0, "q8_0": q8_0}


def encoded(values, kind):
    values = np.ascontiguousarray(values, np.float32)
    if kind in BLOCKS:
        return BLOCKS[kind](values.reshape(-1, 32))
    return values.astype("<f4" if kind == "f32" else "<f2").tobytes()


def kind_of(name, values, kind):
    if name.endswith("positional_embedding") or values.ndim == 1 or name.endswith("bias"):
        return "f32"
    if values.ndim == 3:
        return "f16"
    return kind


def write_tensor(out, name, values, kind):
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        values = values.reshape(-1, 1)
    kind = kind_of(name, values, kind)
    out.write(struct.pack("<3i", values.ndim, len(name), TYPES[kind][1]))
    out.write(struct.pack(f"<{values.ndim}i", *reversed(values.shape)))
    out.write(name.encode() + encoded(values, kind))


def write(path, sizes, tensors, kind):
    """`tensors` yields (name, values), so that a large random model is never completely in memory."""
    file_type = TYPES[kind][0] + (QUANTISATION_VERSION if kind in BLOCKS else 0)
    filters = mel.mel_filters(sizes["mels"])
    with open(path, "wb") as out:
        out.write(struct.pack("<i", MAGIC))
        order = "vocabulary audio_context state heads audio_layers text_context state heads text_layers mels".split()
        out.write(struct.pack("<11i", *(sizes[name] for name in order), file_type))
        out.write(struct.pack("<2i", *filters.shape) + filters.astype("<f4").tobytes())
        out.write(struct.pack("<i", len(words.TOKENS)))
        for token in words.TOKENS:
            out.write(struct.pack("<I", len(token)) + token.encode())
        for name, values in tensors:
            write_tensor(out, name, values, kind)


def sinusoids(length, channels):
    scale = np.exp(-np.log(10000) / (channels // 2 - 1) * np.arange(channels // 2))
    angles = np.arange(length)[:, None] * scale[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def full_table(rows):
    """The trained rows at the numbers of their tokens, and the shared row everywhere else."""
    table = np.repeat(rows[-1:], words.VOCABULARY, 0)
    table[words.USED] = rows[:-1]
    return table


def trained(path):
    """(sizes, tensors) of a checkpoint. The sizes come from its shapes."""
    named = dict(np.load(path))
    state, mels, _ = named["encoder.conv1.weight"].shape
    layers = {side: len({n.split(".")[2] for n in named if n.startswith(f"{side}.blocks.")}) for side in ("encoder", "decoder")}
    named["decoder.token_embedding.weight"] = full_table(named["decoder.token_embedding.weight"])
    named["encoder.positional_embedding"] = sinusoids(mel.CONTEXT, state)
    sizes = {
        "vocabulary": words.VOCABULARY,
        "audio_context": mel.CONTEXT,
        "state": state,
        "heads": state // 64,
        "audio_layers": layers["encoder"],
        "text_context": len(named["decoder.positional_embedding"]),
        "text_layers": layers["decoder"],
        "mels": mels,
    }
    return sizes, named.items()


def block_shapes(side, layers, state):
    for i in range(layers):
        block = f"{side}.blocks.{i}"
        for attention in ["attn", "cross_attn"] if side == "decoder" else ["attn"]:
            for part in ("query", "key", "value", "out"):
                yield f"{block}.{attention}.{part}.weight", (state, state)
                if part != "key":
                    yield f"{block}.{attention}.{part}.bias", (state,)
            yield from norm_shapes(f"{block}.{attention}_ln", state)
        yield f"{block}.mlp.0.weight", (4 * state, state)
        yield f"{block}.mlp.0.bias", (4 * state,)
        yield f"{block}.mlp.2.weight", (state, 4 * state)
        yield f"{block}.mlp.2.bias", (state,)
        yield from norm_shapes(f"{block}.mlp_ln", state)


def norm_shapes(name, state):
    yield f"{name}.weight", (state,)
    yield f"{name}.bias", (state,)


def all_shapes(sizes):
    state, mels = sizes["state"], sizes["mels"]
    yield "encoder.positional_embedding", (sizes["audio_context"], state)
    yield "decoder.positional_embedding", (sizes["text_context"], state)
    yield "decoder.token_embedding.weight", (sizes["vocabulary"], state)
    for name, inputs in (("conv1", mels), ("conv2", state)):
        yield f"encoder.{name}.weight", (state, inputs, 3)
        yield f"encoder.{name}.bias", (state,)
    yield from norm_shapes("encoder.ln_post", state)
    yield from norm_shapes("decoder.ln", state)
    yield from block_shapes("encoder", sizes["audio_layers"], state)
    yield from block_shapes("decoder", sizes["text_layers"], state)


def random_tensors(sizes, seed):
    rng = np.random.default_rng(seed)
    for name, shape in all_shapes(sizes):
        if "_ln." in name or ".ln" in name:
            yield name, np.full(shape, 1.0 if name.endswith("weight") else 0.0, np.float32)
        else:
            yield name, rng.standard_normal(shape, np.float32) * np.float32(0.02)


def special(vocabulary):
    """Token numbers of transcribe, end of text and the time 0.00. Each language beyond 99 adds 1 to the first and the last."""
    more = vocabulary - 51865
    return 50359 + more, 50257, 50364 + more


def chain(count, vocabulary):
    """The chain of tokens: the last one of the prompt, time 0.00, `count` others, time 28.00, end of text."""
    transcribe, end, time_0 = special(vocabulary)
    return [transcribe, time_0, *range(1000, 1000 + count), time_0 + 1400, end]


def next_token_map(state):
    """Weights (up, down) of a feed-forward layer that turns the stream [a; b] into [0; a], where x has the scale SAID.
    The activation g has g(x) - g(-x) = x, so a pair of units passes a value on unchanged."""
    half, one = state // 2, np.eye(state, dtype=np.float32)
    change = np.zeros((state, state), np.float32)
    change[:half, :half] = change[half:, half:] = -np.eye(half)
    change[half:, :half] = np.eye(half)
    unused = np.zeros((2 * state, state), np.float32)
    return np.concatenate([one, -one, unused]), SAID * np.concatenate([change, -change, unused.T], 1)


SAID, FAINT = 0.1, 0.01  # scale of the row of a token in the chain; scale of the other layers, compared with random ones


def speaking(tensors, sizes, count, seed):
    """The same tensors, but the decoder writes a chain of tokens. The row of a token is [a; b], where b is the a of its
    predecessor. The last layer moves the token's own a to the place of b, so the row of its successor fits best."""
    rng, last = np.random.default_rng(seed + 1), f"decoder.blocks.{sizes['text_layers'] - 1}.mlp"
    up, down = next_token_map(sizes["state"])
    for name, values in tensors:
        if name == "decoder.token_embedding.weight":
            order = chain(count, sizes["vocabulary"])
            own = rng.standard_normal((len(order), sizes["state"] // 2), np.float32)
            values[order] = SAID * np.concatenate([own, np.roll(own, 1, 0)], 1)
        elif name.startswith("decoder") and (name.endswith(("positional_embedding", "out.weight", "mlp.2.weight"))
                                             or (name.endswith("bias") and "ln" not in name)):
            values = values * np.float32(FAINT)
        if name.startswith(last):
            values = {"0.weight": up, "2.weight": down}.get(name[len(last) + 1 :], values)
        yield name, values


def at_random(name, seed):
    state, heads, audio_layers, text_layers, mels, vocabulary = SIZES[name]
    sizes = {
        "vocabulary": vocabulary,
        "audio_context": 1500,
        "state": state,
        "heads": heads,
        "audio_layers": audio_layers,
        "text_context": 448,
        "text_layers": text_layers,
        "mels": mels,
    }
    return sizes, random_tensors(sizes, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="checkpoint and output, or the output of --random")
    parser.add_argument("--random", choices=SIZES)
    parser.add_argument("--says", type=int, metavar="N", help="with --random: tokens for each 30 s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--type", choices=[kind for kind in TYPES if kind != "f32"])
    args = parser.parse_args()
    if len(args.files) != (1 if args.random else 2):
        parser.error("give MODEL.npz OUT.bin, or --random SIZE OUT.bin")
    sizes, tensors = at_random(args.random, args.seed) if args.random else trained(args.files[0])
    if args.says:
        tensors = speaking(tensors, sizes, args.says, args.seed)
    write(args.files[-1], sizes, tensors, args.type or ("f16" if args.random else "q4_0"))


if __name__ == "__main__":
    main()
