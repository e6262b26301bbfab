"""Sizes of Whisper's log-mel features, and the filters that a model file contains. Needs only NumPy."""

import numpy as np

RATE, WINDOW, HOP = 16000, 400, 160
CONTEXT = 1536  # encoder positions of 20 ms: a multiple of 256, which whisper.cpp's flash attention rounds up to
FRAMES = 2 * CONTEXT
PADDING = 30 * RATE
SAMPLES = (FRAMES - 1) * HOP + WINDOW // 2  # up to the last one that the last frame uses


def mel_filters(mels=80):
    """Triangles of equal area, evenly spaced on Slaney's scale (linear below 1 kHz, logarithmic above)."""
    step, knee = 200 / 3, 15.0
    log_step = np.log(6.4) / 27
    top = knee + np.log(RATE / 2 / 1000) / log_step
    points = np.linspace(0, top, mels + 2)
    hertz = np.where(points < knee, points * step, 1000 * np.exp(log_step * (points - knee)))
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rising = (bins - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    falling = (hertz[2:, None] - bins) / (hertz[2:] - hertz[1:-1])[:, None]
    area = 2 / (hertz[2:] - hertz[:-2])[:, None]
    return (np.maximum(0, np.minimum(rising, falling)) * area).astype(np.float32)
