# SPDX-License-Identifier: MIT
"""Writes a meaningless English model in whisper.cpp's format that is very fast. It looks at the beginning of each window
only, and finds a time and the end of the text in any audio. Its weights are 0 except for the last bias and the rows of these
two tokens. Their product is its output."""
import struct

WIDTH, AUDIO, TEXT, MELS, VOCABULARY = 64, 64, 64, 80, 51864
END, TIME_0 = 50256, 50363
F32, F16 = 0, 1


def tensor(out, name, kind, *shape):
    """Writes a tensor of zeros; the fastest dimension comes first."""
    out.write(struct.pack(f"<{3 + len(shape)}i", len(shape), len(name), kind, *shape) + name.encode())
    size = 2 if kind == F16 else 4
    for side in shape:
        size *= side
    out.write(bytes(size))


def pair(out, name, inputs, outputs, kind=F16):
    """Weights and bias. A norm has no inputs, and a key has no bias."""
    if inputs:
        tensor(out, f"{name}.weight", kind, inputs, outputs)
    else:
        tensor(out, f"{name}.weight", F32, outputs)
    if not name.endswith("key"):
        tensor(out, f"{name}.bias", F32, outputs)


def block(out, name, *attentions):
    pair(out, f"{name}.mlp_ln", 0, WIDTH)
    pair(out, f"{name}.mlp.0", WIDTH, 4 * WIDTH)
    pair(out, f"{name}.mlp.2", 4 * WIDTH, WIDTH)
    for attention in attentions:
        pair(out, f"{name}.{attention}_ln", 0, WIDTH)
        for part in ("query", "key", "value", "out"):
            pair(out, f"{name}.{attention}.{part}", WIDTH, WIDTH)


def set_end(out, back, value):
    """Changes the value that begins `back` bytes before the end of the file."""
    out.seek(-back, 2)
    out.write(value)
    out.seek(0, 2)


def make(path):
    with open(path, "wb") as out:
        out.write(struct.pack("<12i", 0x67676D6C, VOCABULARY, AUDIO, WIDTH, 1, 1, TEXT, WIDTH, 1, 1, MELS, F16))
        out.write(struct.pack("<2i", MELS, 201) + bytes(MELS * 201 * 4))
        out.write(struct.pack("<i", END))
        for i in range(END):
            token = bytes([i]) if i < 256 else b" word%d" % i
            out.write(struct.pack("<I", len(token)) + token)
        tensor(out, "encoder.positional_embedding", F32, WIDTH, AUDIO)
        for number, inputs in ((1, MELS), (2, WIDTH)):
            tensor(out, f"encoder.conv{number}.weight", F16, 3, inputs, WIDTH)
            tensor(out, f"encoder.conv{number}.bias", F32, 1, WIDTH)
        block(out, "encoder.blocks.0", "attn")
        pair(out, "encoder.ln_post", 0, WIDTH)
        tensor(out, "decoder.positional_embedding", F32, WIDTH, TEXT)
        block(out, "decoder.blocks.0", "attn", "cross_attn")
        pair(out, "decoder.ln", 0, WIDTH)
        set_end(out, 4 * WIDTH, struct.pack("<f", 1))
        tensor(out, "decoder.token_embedding.weight", F16, WIDTH, VOCABULARY)
        for token, value in ((END, 30), (TIME_0, 25)):
            set_end(out, 2 * WIDTH * (VOCABULARY - token), struct.pack("<e", value))
