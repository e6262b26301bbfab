#!/usr/bin/env python3
"""Trains the demo model on clips made by synth.py. This takes a few minutes on a large GPU. A CPU can do a step or two.

A sample is what the network gets from whisper.cpp: a window of 30.72 s. It has either one clip and silence, or many
clips with pauses. The last clip may be cut off, as in the middle of a long file. Noise, level, time shift and changes
of the mel spectrum are made on the GPU, and are new in every step. The learning rate follows the clock, so that the run
ends in time.

usage: train.py DIR --out OUT [--seconds N] [--batch N] [--steps N]      DIR has train.npz, validation.npz, heldout.npz
"""

import argparse
import json
import math
import pathlib
import random
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F

import features
import model as network
import words

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from wer import distance  # noqa: E402

SLOTS = 18  # maximum number of clips in a window
RATE = features.RATE
WINDOW_END = 30.0
IGNORED = -100
AROUND = 4800  # samples of hiss before and after a clip


class Clips:
    def __init__(self, path):
        loaded = np.load(path)
        self.ends = loaded["ends"]
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.seconds = (self.ends - self.starts) / RATE
        self.words = [[int(w) for w in row if w >= 0] for row in loaded["words"]]
        self.samples = loaded["samples"]


def time_row(seconds, up):
    step = seconds / words.TIME_SECONDS
    step = math.ceil(step - 1e-6) if up else math.floor(step + 1e-6)
    return words.ROW[words.TIME_0 + words.TIME_STEP * min(max(step, 0), words.TIMES - 1)]


EOT, SOT, PREV, NO_TIMES = (words.ROW[t] for t in (words.EOT, words.SOT, words.PREV, words.NO_TIMES))


def place(rng, clips, kind):
    """Chooses clips and their start times: ([(clip, seconds)], length of the audio in the window in seconds)."""
    if kind == "silence":
        return [], rng.uniform(0.3, 30.72)
    if kind in ("clip", "late"):
        clip = rng.randrange(len(clips.words))
        start = rng.uniform(0, 0.8) if kind == "clip" else rng.uniform(0.8, 20)
        return [(clip, start)], start + clips.seconds[clip] + rng.choice([0, rng.uniform(0, 1), rng.uniform(0, 8)])
    placed, at = [], rng.uniform(0, 1.2)
    end = rng.choice([40, rng.uniform(4, 32)])
    longest_pause = rng.choice([1.2, 2.5, 6])
    while at < min(end, 30.7) and len(placed) < SLOTS:
        clip = rng.randrange(len(clips.words))
        placed.append((clip, at))
        at += clips.seconds[clip] + rng.uniform(0.7, longest_pause)
    last, start = placed[-1]
    return placed, max(end, start + clips.seconds[last]) if len(placed) < SLOTS else at


def transcript(clips, placed):
    """Token rows for the window: words between times. A clip that is cut off by the end of the window has only a start."""
    rows, said, heard_until = [], [], 30.72
    for i, (clip, start) in enumerate(placed):
        end = start + clips.seconds[clip]
        if end > WINDOW_END:
            heard_until = start
            if start < WINDOW_END and rows:
                rows.append(time_row(start, up=False))
            break
        rows.append(time_row(start if i else min(start, 1.0), up=False))
        rows += clips.words[clip]
        rows.append(time_row(end, up=True))
        said += clips.words[clip]
    return rows or [time_row(0, up=False)], said, heard_until


def sample(rng, clips, kind=None):
    kind = kind or rng.choices(["clip", "many", "late", "silence"], [43, 45, 7, 5])[0]
    placed, seconds = place(rng, clips, kind)
    rows, said, heard_until = transcript(clips, placed)
    prompt = []
    if rng.random() < 0.3:  # the text of the window before, which whisper.cpp gives as a prompt
        before = transcript(clips, place(rng, clips, "many")[0])[0]
        prompt = [PREV] + before[-rng.randint(1, 140) :]
    start, rows = ([SOT], rows) if rng.random() < 0.85 else ([SOT, NO_TIMES], said)
    tokens = (prompt + start + rows + [EOT])[: network.TEXT_CONTEXT + 1]
    unheard = len(prompt) + len(start) - 1
    return {
        "placed": placed,
        "samples": min(int(seconds * RATE), features.SAMPLES),
        "tokens": tokens[:-1],
        "targets": [IGNORED] * unheard + tokens[unheard + 1 :],
        "said": said,
        "frames": max(int(min(heard_until, seconds + 0.3, 30.72) / 0.08), len(said) * 2 + 1, 8),
    }


def padded(rows, fill, multiple=16):
    length = -(-max(1, max(map(len, rows))) // multiple) * multiple
    return torch.tensor([row + [fill] * (length - len(row)) for row in rows])


def collate(samples):
    placed = [(row, clip, int(at * RATE)) for row, s in enumerate(samples) for clip, at in s["placed"]]
    row, clip, at = torch.tensor(placed, dtype=torch.long).view(-1, 3).unbind(1)
    return {
        "row": row,
        "clip": clip,
        "at": at,
        "samples": torch.tensor([s["samples"] for s in samples]),
        "tokens": padded([s["tokens"] for s in samples], EOT),
        "targets": padded([s["targets"] for s in samples], IGNORED),
        "said": padded([s["said"] for s in samples], 0, 1),
        "said_length": torch.tensor([len(s["said"]) for s in samples]),
        "frames": torch.tensor([min(s["frames"], features.CONTEXT // 4) for s in samples]),
    }


def moved(plan, device):
    """Copies to the device, except the lengths, which the CTC loss reads on the host."""
    stay = ("frames", "said_length")
    return {name: value if name in stay else value.to(device, non_blocking=True) for name, value in plan.items()}


class Plans(torch.utils.data.IterableDataset):
    def __init__(self, clips, batch):
        self.clips, self.batch = clips, batch

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = random.Random(1000 + (info.id if info else 0))
        while True:
            yield collate([sample(rng, self.clips) for _ in range(self.batch)])


class Bank:
    """The clips on the device, and everything that is done to them there."""

    def __init__(self, clips, device):
        self.samples = F.pad(torch.from_numpy(clips.samples), (0, 80000)).to(device)
        self.starts = torch.from_numpy(clips.starts).to(device)
        self.lengths = torch.from_numpy(clips.ends - clips.starts).to(device)
        self.longest = int(self.lengths.max())
        self.filters = torch.from_numpy(features.mel_filters()).to(device)
        self.device = device

    def waves(self, plan, level_spread):
        """Puts every clip at its place, with its own level. Half of them have hiss that begins and ends with them."""
        row, clip, at = plan["row"], plan["clip"], plan["at"]
        out = torch.zeros(plan["samples"].shape[0], AROUND + features.SAMPLES + self.longest + AROUND, device=self.device)
        if not len(clip):
            return out[:, AROUND : AROUND + features.SAMPLES]
        steps = torch.arange(self.longest + 2 * AROUND, device=self.device)
        lengths = self.lengths[clip, None]
        inside = (steps >= AROUND) & (steps < AROUND + lengths)
        sound = self.samples[(self.starts[clip, None] + steps - AROUND).clamp(min=0)] / 32768 * inside
        hiss = self.random(len(clip), 1) * 25 + 15
        hiss = 0.2 * 10 ** (-hiss / 20) * (self.random(len(clip), 1) < 0.5) * (steps < lengths + 2 * AROUND)
        sound = (sound + hiss * torch.randn_like(sound)) * 10 ** (-self.random(len(clip), 1) * level_spread / 20)
        out.view(-1).scatter_add_(0, (row[:, None] * out.shape[1] + at[:, None] + steps).view(-1), sound.view(-1))
        return out[:, AROUND : AROUND + features.SAMPLES]

    def random(self, *shape):
        return torch.rand(*shape, device=self.device)

    def noise(self, waves, plan):
        """Noise from white to brown, 10 to 45 dB below the speech, as long as the audio. A third has no noise."""
        count, length = waves.shape
        size = 1 << (length - 1).bit_length()  # a power of two, because other lengths can be many times slower
        spectrum = torch.fft.rfft(torch.randn(count, size, device=self.device))
        tilt = self.random(count, 1) * torch.randint(0, 2, (count, 1), device=self.device)
        hertz = torch.arange(1, spectrum.shape[1] + 1, device=self.device) / 2000
        hiss = torch.fft.irfft(spectrum * hertz.clamp(min=0.02) ** -tilt, size)[:, :length]
        hiss = hiss / hiss.square().mean(1, keepdim=True).sqrt()
        loud = waves.abs().amax(1, keepdim=True) * 0.2
        loud = torch.where(loud > 0, loud, 0.05)
        ratio = 10 ** (-(10 + 35 * self.random(count, 1)) / 20) * (self.random(count, 1) > 0.33)
        lasts = torch.arange(length, device=self.device) < plan["samples"][:, None]
        return (waves + hiss * loud * ratio) * lasts

    def changed(self, power):
        """Imitates another speaker and microphone: stretches the mel axis by up to 10 % and changes its levels smoothly."""
        count, mels, frames = power.shape
        stretch = 1 + (torch.rand(count, 1, device=self.device) - 0.5) * 0.2
        bins = (torch.arange(mels, device=self.device) * stretch).clamp(0, mels - 1)
        low = bins.floor().long().clamp(max=mels - 2)
        share = (bins - low)[..., None]
        take = lambda index: power.gather(1, index[..., None].expand(-1, -1, frames))
        power = take(low) * (1 - share) + take(low + 1) * share
        curve = F.interpolate(torch.randn(count, 1, 6, device=self.device), mels, mode="linear", align_corners=True)
        return power * 10 ** (0.35 * curve[:, 0, :, None])

    def masked(self, mel):
        """SpecAugment: blanks two stretches of time (up to 0.12 s each second) and one band in half of the samples."""
        count, mels, frames = mel.shape
        for axis, size, most in ((1, mels, 10), (2, frames, 12), (2, frames, 12)):
            width = torch.randint(0, most, (count, 1), device=self.device)
            width = width * (torch.rand(count, 1, device=self.device) < 0.5)
            limit = size if axis == 1 else 400
            begin = torch.randint(0, limit, (count, 1), device=self.device)
            index = torch.arange(size, device=self.device)
            hidden = (index >= begin) & (index < begin + width)
            hidden = hidden[:, :, None] if axis == 1 else hidden[:, None, :]
            mel = torch.where(hidden, mel.amin((1, 2), keepdim=True), mel)
        return mel

    def mel(self, plan, augment):
        waves = self.noise(self.waves(plan, 18.0 if augment else 6.0), plan)
        waves = waves * 10 ** (-torch.rand(len(waves), 1, device=self.device) * 15 / 20)
        power = features.mel_power(waves, self.filters)
        if not augment:
            return features.normalise(power, plan["samples"])
        louder = 0.6 * torch.rand(len(power), 1, 1, device=self.device)
        louder = louder * (self.random(*louder.shape) < 0.2)
        return self.masked(features.normalise(self.changed(power), plan["samples"], louder))


def losses(net, weights, mel, plan):
    audio = net.encode(weights, mel)
    logits = net.decode(weights, plan["tokens"], audio)
    text = F.cross_entropy(logits.flatten(0, 1), plan["targets"].flatten(), ignore_index=IGNORED)
    logs = net.ctc_logits(audio).log_softmax(2).transpose(0, 1)
    lengths = plan["frames"], plan["said_length"]
    ctc = F.ctc_loss(logs, plan["said"] + 1, *lengths, zero_infinity=True)  # class 0 is the blank
    return text, ctc


@torch.no_grad()
def evaluate(net, clips, rounded, kind, device, limit):
    """Greedy decoding: (word error rate, share of samples exactly right)."""
    rng = random.Random(7)
    bank, wrong, spoken, exact = Bank(clips, device), 0, 0, 0
    weights = net.weights(rounded)
    for _ in range(0, limit, 100):
        samples = [sample(rng, clips, kind) for _ in range(min(100, limit))]
        plan = moved(collate(samples), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            audio = net.encode(weights, bank.mel(plan, augment=False))
            tokens = torch.full((len(samples), 1), SOT, device=device)
            for _ in range(150 if kind == "many" else 16):
                logits = net.decode(weights, tokens, audio)[:, -1, :-1]
                tokens = torch.cat([tokens, logits.argmax(1, keepdim=True)], 1)
                if bool((tokens == EOT).any(1).all()):
                    break
        for row, expected in zip(tokens.tolist(), samples):
            row = row[: row.index(EOT)] if EOT in row else row
            heard = [t for t in row if t < len(words.WORDS)]
            errors = distance(expected["said"], heard)
            wrong, spoken, exact = wrong + errors, spoken + len(expected["said"]), exact + (errors == 0)
    return wrong / max(spoken, 1), exact / limit


def rate_at(progress):
    """Fraction of the highest learning rate: a short rise, then a half cosine down to almost 0."""
    return min(progress / 0.03, 1.0) * (0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0))) + 0.002


def train(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    clips = Clips(args.directory / "train.npz")
    bank, net = Bank(clips, device), network.Whisper().to(device)
    if args.start:
        net.load(np.load(args.start))
    print(f"{len(clips.words)} clips, {sum(clips.seconds):.0f} s; {net.flat.numel()} weights in 4 bits", flush=True)
    optimiser = torch.optim.AdamW(
        net.parameters(), args.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=device.type == "cuda"
    )
    plans = iter(
        torch.utils.data.DataLoader(Plans(clips, args.batch), batch_size=None, num_workers=args.jobs, pin_memory=True)
    )
    begun, step, history = time.time(), 0, []
    while True:
        progress = (time.time() - begun) / args.seconds if not args.steps else step / args.steps
        if progress >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = args.rate * rate_at(progress)
        plan = moved(next(plans), device)
        with torch.no_grad():
            mel = bank.mel(plan, augment=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            text, ctc = losses(net, net.weights(progress > args.round_from), mel, plan)
        # The encoder's own loss matters mostly at the start. A resumed training does not use it.
        loss = text if args.start else text + (0.5 if progress < 0.3 else 0.15) * ctc
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        if step % args.report == 0:
            history.append((step, time.time() - begun, text.item(), ctc.item()))
            print("step %d  %.0f s  text %.4f  ctc %.4f" % history[-1], flush=True)
        step += 1
    return net, device, {"steps": step, "seconds": time.time() - begun, "batch": args.batch, "history": history}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--steps", type=int, default=0, help="instead of seconds")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--round-from", type=float, default=0.6, help="share of the run after which weights are rounded")
    parser.add_argument("--start", type=pathlib.Path, help="continue from this checkpoint")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--report", type=int, default=200)
    parser.add_argument("--check", type=int, default=600, help="samples per evaluation")
    args = parser.parse_args()
    net, device, metrics = train(args)
    args.out.mkdir(parents=True, exist_ok=True)
    np.savez(args.out / "model.npz", **net.exported())
    for name in ("train", "validation", "heldout"):
        clips = Clips(args.directory / f"{name}.npz")
        for kind in ("clip", "many"):
            for rounded in (False, True) if kind == "clip" else (True,):
                result = evaluate(net, clips, rounded, kind, device, args.check)
                metrics[f"{name} {kind} {'q4_0' if rounded else 'f32'}"] = result
                print("%s %s rounded=%d: word error rate %.4f, exact %.4f" % (name, kind, rounded, *result), flush=True)
                (args.out / "metrics.json").write_text(json.dumps(metrics, indent=1))


if __name__ == "__main__":
    main()
