"""The Whisper network. All weights are in one flat parameter, so that a few calls can round them to 4 bits.

In the last part of training the weights are rounded as in the file (q4_0), so that the model learns to work without the
lost bits.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import features
import words

MELS, STATE, HEADS, AUDIO_LAYERS, TEXT_LAYERS, TEXT_CONTEXT = 80, 64, 1, 8, 3, 320
BLOCK = 32


def sinusoids(length, channels):
    scale = np.exp(-np.log(10000) / (channels // 2 - 1) * np.arange(channels // 2))
    angles = np.arange(length)[:, None] * scale[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def attention_names(prefix):
    return [f"{prefix}.{part}.weight" for part in ("query", "key", "value", "out")]


def matrices():
    """Names and shapes of the tensors that are stored in 4 bits."""
    shapes = {"decoder.token_embedding.weight": (len(words.USED) + 1, STATE)}
    for side, layers in (("encoder", AUDIO_LAYERS), ("decoder", TEXT_LAYERS)):
        for i in range(layers):
            block = f"{side}.blocks.{i}"
            names = attention_names(f"{block}.attn")
            if side == "decoder":
                names += attention_names(f"{block}.cross_attn")
            shapes |= {name: (STATE, STATE) for name in names}
            shapes[f"{block}.mlp.0.weight"] = (4 * STATE, STATE)
            shapes[f"{block}.mlp.2.weight"] = (STATE, 4 * STATE)
    return shapes


def vectors():
    """Names and shapes of the rest: biases, norms, convolutions, positions."""
    shapes = {
        "encoder.conv1.weight": (STATE, MELS, 3),
        "encoder.conv1.bias": (STATE,),
        "encoder.conv2.weight": (STATE, STATE, 3),
        "encoder.conv2.bias": (STATE,),
        "decoder.positional_embedding": (TEXT_CONTEXT, STATE),
    }
    norms = ["encoder.ln_post", "decoder.ln"]
    for side, layers in (("encoder", AUDIO_LAYERS), ("decoder", TEXT_LAYERS)):
        for i in range(layers):
            block = f"{side}.blocks.{i}"
            attentions = ["attn", "cross_attn"] if side == "decoder" else ["attn"]
            for name in attentions:
                shapes |= {f"{block}.{name}.{part}.bias": (STATE,) for part in ("query", "value", "out")}
                norms.append(f"{block}.{name}_ln")
            shapes[f"{block}.mlp.0.bias"] = (4 * STATE,)
            shapes[f"{block}.mlp.2.bias"] = (STATE,)
            norms.append(f"{block}.mlp_ln")
    for norm in norms:
        shapes |= {f"{norm}.weight": (STATE,), f"{norm}.bias": (STATE,)}
    return shapes


def round_q4(flat):
    """The weights after rounding to q4_0: a 16-bit scale for every 32 weights, and 4 bits for each."""
    blocks = flat.view(-1, BLOCK)
    extreme = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))
    scale = extreme / -8
    inverse = torch.where(scale == 0, 0, 1 / scale)
    steps = (blocks * inverse + 8.5).floor().clamp(0, 15) - 8
    return (steps * scale.half().float()).view(-1)


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.shapes = matrices()
        parts = []
        for name, shape in self.shapes.items():
            spread = 0.05 if "embedding" in name else shape[1] ** -0.5
            parts.append(torch.randn(shape).flatten() * spread)
        self.flat = nn.Parameter(torch.cat(parts))
        self.rest = nn.ParameterDict()
        for name, shape in vectors().items():
            value = torch.zeros(shape)
            if "conv" in name and len(shape) == 3:
                value = torch.randn(shape) * (shape[1] * 3) ** -0.5
            elif "positional" in name:
                value = torch.randn(shape) * 0.02
            elif name.endswith("weight"):
                value = torch.ones(shape)
            self.rest[name.replace(".", "/")] = nn.Parameter(value)
        self.ctc = nn.Linear(STATE, len(words.WORDS) + 1)  # not exported
        self.register_buffer("positions", torch.from_numpy(sinusoids(features.CONTEXT, STATE)))
        others = torch.zeros(len(words.USED) + 1)
        others[-1] = np.log(words.VOCABULARY - len(words.USED))
        self.register_buffer("others", others)

    @torch.no_grad()
    def load(self, named):
        self.flat.copy_(torch.cat([torch.from_numpy(named[name]).flatten() for name in self.shapes]))
        for name, value in self.rest.items():
            value.copy_(torch.from_numpy(named[name.replace("/", ".")]))

    def weights(self, rounded):
        flat = self.flat
        if rounded:
            flat = flat + (round_q4(flat.detach()) - flat.detach())
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        named = {
            name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), flat.split(sizes), strict=True)
        }
        return named | {name.replace("/", "."): value for name, value in self.rest.items()}

    def encode(self, w, mel):
        x = F.gelu(F.conv1d(mel, w["encoder.conv1.weight"], w["encoder.conv1.bias"], padding=1), approximate="tanh")
        x = F.gelu(
            F.conv1d(x, w["encoder.conv2.weight"], w["encoder.conv2.bias"], stride=2, padding=1), approximate="tanh"
        )
        x = x.transpose(1, 2) + self.positions
        for i in range(AUDIO_LAYERS):
            block = f"encoder.blocks.{i}"
            y = norm(w, f"{block}.attn_ln", x)
            x = x + attend(w, f"{block}.attn", y, y)
            x = x + mlp(w, block, x)
        return norm(w, "encoder.ln_post", x)

    def decode(self, w, tokens, audio):
        """Token rows [batch, length] to logits over the rows. The last row stands for all unused tokens."""
        table = w["decoder.token_embedding.weight"]
        x = F.embedding(tokens, table) + w["decoder.positional_embedding"][: tokens.shape[1]]
        for i in range(TEXT_LAYERS):
            block = f"decoder.blocks.{i}"
            y = norm(w, f"{block}.attn_ln", x)
            x = x + attend(w, f"{block}.attn", y, y, causal=True)
            x = x + attend(w, f"{block}.cross_attn", norm(w, f"{block}.cross_attn_ln", x), audio)
            x = x + mlp(w, block, x)
        return (norm(w, "decoder.ln", x) @ table.T).float() + self.others

    def ctc_logits(self, audio):
        """Combines four positions at a time; a word lasts longer than that."""
        pooled = audio.unflatten(1, (-1, 4)).mean(2)
        return self.ctc(pooled).float()

    def exported(self):
        return {name: value.detach().float().cpu().numpy() for name, value in self.weights(False).items()}


def norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


def mlp(w, block, x):
    y = norm(w, f"{block}.mlp_ln", x)
    y = F.gelu(F.linear(y, w[f"{block}.mlp.0.weight"], w[f"{block}.mlp.0.bias"]), approximate="tanh")
    return F.linear(y, w[f"{block}.mlp.2.weight"], w[f"{block}.mlp.2.bias"])


def attend(w, name, x, source, causal=False):
    q = F.linear(x, w[f"{name}.query.weight"], w[f"{name}.query.bias"])
    k = F.linear(source, w[f"{name}.key.weight"])
    v = F.linear(source, w[f"{name}.value.weight"], w[f"{name}.value.bias"])
    q, k, v = (t.unflatten(2, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return F.linear(y.transpose(1, 2).flatten(2), w[f"{name}.out.weight"], w[f"{name}.out.bias"])
