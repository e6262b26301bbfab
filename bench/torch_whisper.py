#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A peer for `gpu-dispatch transcribe`: batched Whisper in plain PyTorch, as a whole program.

It reads WAV files (16 kHz, mono, 16 bits), computes their spectra, decodes windows of 30 s in batches, and writes a text
file for each recording. A batch has windows of any files, so only the last one is not full. Half precision, SDPA, key and
value caches of a fixed size, and a decoder step that is one CUDA graph. The weights are random and have the sizes of the
real models, so every window gets the same number of tokens, and the text is their numbers. There are no timestamps, no
context from the window before and no fallback, which all cost time. A thread reads the files of the next batches while
the GPU works.

usage: torch_whisper.py [--size base] [--batch 64] [--tokens 100] [--device cuda] OUTPUT_DIR < FILES      one path per line
       torch_whisper.py --check      compares its parts with simpler code, on the CPU with a tiny model

Prints records like the other programs here. The start is everything before the first file is read: importing PyTorch,
making the model, the first kernels and the CUDA graph.
"""
import time

BEGAN = time.perf_counter()

import argparse
import json
import math
import os
import queue
import sys
import threading
import wave

import torch
from torch import nn
from torch.nn import functional

RATE, SECONDS, FFT, HOP = 16000, 30, 400, 160
SAMPLES = RATE * SECONDS
POSITIONS = SAMPLES // HOP // 2  # of the encoder: 20 ms each
PROMPT = (50258, 50259, 50359)  # start, English, transcribe
SIZES = {  # mels, width, heads, layers on each side, vocabulary
    "test": (80, 64, 2, 2, 51865),
    "tiny": (80, 384, 6, 4, 51865),
    "base": (80, 512, 8, 6, 51865),
    "large-v3": (128, 1280, 20, 32, 51866),
}


# --- spectrum --------------------------------------------------------------------------------


def mel_filters(mels):
    """Triangles of equal area, evenly spaced on Slaney's scale: linear below 1 kHz, logarithmic above."""
    top = 15 + 27 * math.log(RATE / 2 / 1000) / math.log(6.4)
    points = torch.linspace(0, top, mels + 2, dtype=torch.float64)
    hertz = torch.where(points < 15, points * 200 / 3, 1000 * torch.exp((points - 15) * math.log(6.4) / 27))
    bins = torch.linspace(0, RATE / 2, FFT // 2 + 1, dtype=torch.float64)
    low, middle, high = hertz[:-2, None], hertz[1:-1, None], hertz[2:, None]
    triangles = torch.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clamp(min=0)
    return (triangles * 2 / (high - low)).float()


class Spectrum:
    """Log-mel spectra of windows of 16-bit samples."""

    def __init__(self, mels, device, dtype):
        self.filters = mel_filters(mels).to(device)
        self.hann = torch.hann_window(FFT, device=device)
        self.dtype = dtype

    def __call__(self, samples):
        waves = torch.stft(samples.float() / 32768, FFT, HOP, window=self.hann, return_complex=True)[..., :-1]
        levels = (self.filters @ waves.abs().square()).clamp(min=1e-10).log10()
        loudest = levels.amax((1, 2), keepdim=True)
        return ((torch.maximum(levels, loudest - 8) + 4) / 4).to(self.dtype)


# --- model -----------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(width, width) for _ in range(3))
        self.key = nn.Linear(width, width, bias=False)

    def split(self, x):
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def keys_values(self, x):
        return self.split(self.key(x)), self.split(self.value(x))

    def forward(self, x, keys, values, mask=None):
        seen = functional.scaled_dot_product_attention(self.split(self.query(x)), keys, values, attn_mask=mask)
        return self.out(seen.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads, is_decoder):
        super().__init__()
        self.own, self.own_norm = Attention(width, heads), nn.LayerNorm(width)
        if is_decoder:
            self.cross, self.cross_norm = Attention(width, heads), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Whisper(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mels, self.width, self.heads, layers, vocabulary = SIZES[size]
        self.first = nn.Conv1d(self.mels, self.width, 3, padding=1)
        self.second = nn.Conv1d(self.width, self.width, 3, stride=2, padding=1)
        self.encoder = nn.ModuleList(Layer(self.width, self.heads, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(self.width, self.heads, True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(self.width), nn.LayerNorm(self.width)
        self.tokens = nn.Embedding(vocabulary, self.width)
        self.audio_places = nn.Parameter(torch.randn(POSITIONS, self.width))
        self.text_places = nn.Parameter(torch.randn(448, self.width))

    def encode(self, mel):
        x = functional.gelu(self.second(functional.gelu(self.first(mel)))).transpose(1, 2) + self.audio_places
        for layer in self.encoder:
            normal = layer.own_norm(x)
            x = x + layer.own(normal, *layer.own.keys_values(normal))
            x = x + layer.feed(x)
        return self.encoder_norm(x)

    def decode(self, tokens, places, cross, cache, mask):
        """The most probable token after the last of `tokens`, which are at `places`. `cache` gets their keys and values."""
        x = self.tokens(tokens) + self.text_places[places]
        for layer, sound, (keys, values) in zip(self.decoder, cross, cache):
            normal = layer.own_norm(x)
            for whole, new in zip((keys, values), layer.own.keys_values(normal)):
                whole.index_copy_(2, places, new)
            x = x + layer.own(normal, keys, values, mask)
            x = x + layer.cross(layer.cross_norm(x), *sound)
            x = x + layer.feed(x)
        return functional.linear(self.decoder_norm(x[:, -1:]), self.tokens.weight).argmax(-1)


def make_model(size, device, dtype):
    torch.manual_seed(1)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):  # made where it is used, in its final precision
        model = Whisper(size).eval()
    torch.set_default_dtype(before)
    model.tokens.weight *= 0.05  # otherwise the next token is always the one before
    model.text_places *= 0.05
    return model


# --- decoding a batch ------------------------------------------------------------------------


class Decoder:
    """The memory of a batch of windows, and a step that picks the next token of each."""

    def __init__(self, model, batch, count, device, dtype):
        self.model, self.count, self.device = model, count, device
        self.room = -(-(len(PROMPT) + count) // 64) * 64
        self.spectrum = Spectrum(model.mels, device, dtype)
        pair = lambda length: tuple(torch.zeros(batch, model.heads, length, model.width // model.heads, device=device,
                                                dtype=dtype) for _ in range(2))
        self.cross = [pair(POSITIONS) for _ in model.decoder]
        self.cache = [pair(self.room) for _ in model.decoder]
        self.prompt = torch.tensor(PROMPT, device=device).expand(batch, -1).contiguous()
        self.token = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.told = torch.zeros(batch, self.room, dtype=torch.long, device=device)
        self.steps = torch.arange(self.room, device=device)
        self.graph = None

    def feed(self, tokens, places):
        mask = self.steps <= places[:, None]
        return self.model.decode(tokens, places, self.cross, self.cache, mask)

    def step(self):
        self.token.copy_(self.feed(self.token, self.place))
        self.place += 1
        self.told.index_copy_(1, self.place, self.token)

    def capture(self):
        """Runs everything once, and makes a CUDA graph of a step."""
        silence = torch.zeros(len(self.token), SAMPLES, dtype=torch.int16, device=self.device)
        if self.device == "cpu":
            self.decode(silence)
            return
        stream = torch.cuda.Stream()  # PyTorch wants the first run before a capture on another stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.decode(silence)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph
        self.decode(silence)

    def decode(self, samples):
        """The tokens of all windows."""
        heard = self.model.encode(self.spectrum(samples))
        for layer, pair in zip(self.model.decoder, self.cross):
            for whole, new in zip(pair, layer.cross.keys_values(heard)):
                whole.copy_(new)
        first = len(PROMPT)
        self.token.copy_(self.feed(self.prompt, self.steps[:first]))
        self.told[:, first:first + 1] = self.token
        self.place.fill_(first)
        for _ in range(self.count - 1):
            self.graph.replay() if self.graph else self.step()
        return self.told[:, first:first + self.count]


# --- files -----------------------------------------------------------------------------------


def read(path):
    with wave.open(path) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
            sys.exit(f"torch_whisper.py: {path} is not 16 kHz, mono, 16 bits")
        data = file.readframes(file.getnframes())
    return torch.frombuffer(bytearray(data), dtype=torch.int16) if data else torch.empty(0, dtype=torch.int16)


def windows(paths, seconds):
    """(number of the file, samples) of each window. Adds the durations to the list `seconds`."""
    for number, path in enumerate(paths):
        samples = read(path)
        seconds.append(len(samples) / RATE)
        for piece in samples.split(SAMPLES):
            yield number, piece


class Reader:
    """A thread that fills buffers with windows. Iterating gives (numbers of the files, buffer). A buffer that was used must be
    given back."""

    def __init__(self, paths, batch, pinned):
        self.seconds, self.error = [], None
        self.full, self.empty = queue.Queue(), queue.Queue()
        for _ in range(3):
            self.give_back(torch.zeros(batch, SAMPLES, dtype=torch.int16, pin_memory=pinned))
        threading.Thread(target=self.work, args=(paths, batch), daemon=True).start()

    def give_back(self, buffer):
        self.empty.put(buffer)

    @torch.inference_mode()  # each thread has its own mode
    def work(self, paths, batch):
        try:
            numbers, buffer = [], self.empty.get()
            for number, piece in windows(paths, self.seconds):
                buffer[len(numbers), :len(piece)] = piece
                buffer[len(numbers), len(piece):] = 0
                numbers.append(number)
                if len(numbers) == batch:
                    self.full.put((numbers, buffer))
                    numbers, buffer = [], self.empty.get()
            if numbers:
                self.full.put((numbers, buffer))
        except BaseException as error:  # the main thread raises it
            self.error = error
        self.full.put(None)

    def __iter__(self):
        yield from iter(self.full.get, None)
        if self.error:
            raise self.error


class Writer:
    """Collects the texts of windows, and writes that of a file when the next one begins."""

    def __init__(self, directory, paths):
        self.directory, self.paths, self.number, self.lines = directory, paths, 0, []
        os.makedirs(directory, exist_ok=True)

    def add(self, number, tokens):
        while self.number < number:
            self.finish()
        self.lines.append(" ".join(map(str, tokens)))

    def finish(self):
        name = os.path.splitext(os.path.basename(self.paths[self.number]))[0] + ".txt"
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in self.lines)
        self.number, self.lines = self.number + 1, []

    def close(self):
        while self.number < len(self.paths):
            self.finish()


class Results:
    """The tokens of a batch on their way to the CPU, so that the GPU can begin the next batch."""

    def __init__(self, numbers, tokens):
        self.numbers, self.event = numbers, torch.cuda.Event() if tokens.is_cuda else None
        self.tokens = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=tokens.is_cuda)
        self.tokens.copy_(tokens, non_blocking=True)
        if self.event:
            self.event.record()

    def write(self, writer):
        if self.event:
            self.event.synchronize()
        for number, line in zip(self.numbers, self.tokens.tolist()):
            writer.add(number, line)


def transcribe(decoder, paths, directory, batch):
    """(seconds of sound, number of windows). The texts of a batch are written when the next one has been started."""
    reader, writer, count = Reader(paths, batch, decoder.device == "cuda"), Writer(directory, paths), 0
    last = buffer_before = None
    for numbers, buffer in reader:
        samples = buffer.to(decoder.device, non_blocking=True, copy=True)
        new = Results(numbers, decoder.decode(samples))
        if last:
            last.write(writer)
            reader.give_back(buffer_before)  # its copy to the GPU ended before its tokens came
        last, buffer_before, count = new, buffer, count + len(numbers)
    if last:
        last.write(writer)
    writer.close()
    return sum(reader.seconds), count


# --- check -----------------------------------------------------------------------------------


def check_tokens():
    """The tokens of the cached decoder are those of one that begins anew for every token."""
    count = 10
    model = make_model("test", "cpu", torch.float32)
    decoder = Decoder(model, 2, count, "cpu", torch.float32)
    samples = (torch.rand(2, SAMPLES) * 20000 - 10000).short()
    tokens = decoder.decode(samples).clone()
    heard = model.encode(decoder.spectrum(samples))
    cross = [layer.cross.keys_values(heard) for layer in model.decoder]
    text = decoder.prompt
    for _ in range(count):
        places = torch.arange(text.shape[1])
        cache = [tuple(torch.zeros(2, model.heads, len(places), model.width // model.heads) for _ in range(2)) for _ in cross]
        new = model.decode(text, places, cross, cache, places <= places[:, None])
        text = torch.cat([text, new], 1)
    assert text[:, len(PROMPT):].tolist() == tokens.tolist(), (text, tokens)
    assert len(set(tokens.flatten().tolist())) > 2, f"these tokens show little: {tokens.tolist()}"
    decoder.decode(samples.flip(0))
    assert decoder.decode(samples).tolist() == tokens.tolist(), "a batch changes the next one"


def check_spectrum():
    """A frame of the spectrum is that of the definition."""
    samples = (torch.rand(1, SAMPLES) * 20000 - 10000).short()
    found = Spectrum(80, "cpu", torch.float64)(samples)
    assert found.shape == (1, 80, 2 * POSITIONS), found.shape
    at = 1000 * HOP - FFT // 2
    frame = samples[0, at:at + FFT].double() / 32768 * torch.hann_window(FFT, dtype=torch.float64)
    turns = torch.outer(torch.arange(FFT // 2 + 1), torch.arange(FFT)).double() * 2 * math.pi / FFT
    power = (turns.cos() @ frame) ** 2 + (turns.sin() @ frame) ** 2
    wanted = ((mel_filters(80).double() @ power).clamp(min=1e-10).log10() + 4) / 4
    assert (found[0, :, 1000] - wanted).abs().max() < 1e-3, (found[0, :, 1000] - wanted).abs().max()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        with torch.inference_mode():
            check_spectrum()
            check_tokens()
        print("ok")
        return
    if not args.directory:
        parser.error("give OUTPUT_DIR, and the paths on standard input")
    dtype = torch.float16 if args.device == "cuda" else torch.float32
    with torch.inference_mode():
        decoder = Decoder(make_model(args.size, args.device, dtype), args.batch, args.tokens, args.device, dtype)
        decoder.capture()
        if args.device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        paths = sys.stdin.read().splitlines()
        seconds, count = transcribe(decoder, paths, args.directory, args.batch)
    ended = time.perf_counter()
    for name, value in (("seconds", ended - BEGAN), ("start_seconds", started - BEGAN), ("audio_seconds", seconds),
                        ("files", len(paths)), ("windows", count)):
        print(json.dumps({"name": f"torch_whisper_{name}", "median": value, "repeats": [value]}))


if __name__ == "__main__":
    main()
