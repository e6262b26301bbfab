"""Whisper's log-mel features as whisper.cpp computes them, in PyTorch."""

import torch

from mel import CONTEXT, FRAMES, HOP, PADDING, RATE, SAMPLES, WINDOW, mel_filters

__all__ = ["CONTEXT", "RATE", "SAMPLES", "mel_filters", "mel_power", "normalise"]


def mel_power(waves, filters):
    """[batch, SAMPLES] in -1..1 to [batch, mels, FRAMES]. The start is padded with its mirror image, the end with zeros."""
    waves = torch.nn.functional.pad(torch.cat([waves[:, 1:201].flip(1), waves], 1), (0, WINDOW // 2))
    window = torch.hann_window(WINDOW, device=waves.device)
    spectrum = torch.stft(waves, WINDOW, HOP, window=window, center=False, return_complex=True)[..., :FRAMES]
    return filters @ (spectrum.real.square() + spectrum.imag.square())


def normalise(power, lengths, louder=0.0):
    """Takes the logarithm with a floor 80 dB below the loudest value, and scales it to about -1..1. `louder` is how
    much louder the loudest value outside this window is.

    whisper.cpp adds 30 s of padding to a file. Frames after that stay 0, as in whisper.cpp.
    """
    logs = power.clamp(min=1e-10).log10()
    floor = logs.amax((1, 2), keepdim=True) + louder - 8.0
    out = (torch.maximum(logs, floor) + 4.0) / 4.0
    ends = ((lengths + PADDING) // HOP).to(out.device)
    return out * (torch.arange(out.shape[2], device=out.device) < ends[:, None])[:, None]
