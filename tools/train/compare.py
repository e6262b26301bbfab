#!/usr/bin/env python3
"""Compares the network in model.py, from log-mel to logits, with that of whisper.cpp on the same samples.

usage: compare.py LIBWHISPER.so MODEL.npz MODEL-f16.bin CLIP.wav...         make the .bin with export.py --type f16
"""

import ctypes
import sys
import wave

import numpy as np
import torch

import features
import model as network
import words

START = [words.SOT]


def samples_of(path):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def floats(values):
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


def logits_of(library, context):
    tokens = (ctypes.c_int * len(START))(*START)
    library.whisper_get_logits.restype = ctypes.POINTER(ctypes.c_float)
    if library.whisper_encode(context, 0, 1) or library.whisper_decode(context, tokens, len(START), 0, 1):
        raise SystemExit("compare: whisper.cpp failed")
    logits = np.ctypeslib.as_array(library.whisper_get_logits(context), (len(START), words.VOCABULARY))
    return logits[-1, words.USED].copy()


def log_mel(samples):
    window = torch.zeros(1, features.SAMPLES)
    window[0, : len(samples)] = torch.from_numpy(samples)
    power = features.mel_power(window, torch.from_numpy(features.mel_filters()))
    return features.normalise(power, torch.tensor([len(samples)])).contiguous()


@torch.no_grad()
def ours(net, mel):
    weights = net.weights(False)
    audio = net.encode(weights, mel)
    return net.decode(weights, torch.tensor([[words.ROW[t] for t in START]]), audio)[0, -1, :-1].numpy()


def apart(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.whisper_init_from_file.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.whisper_init_from_file(sys.argv[3].encode()))
    net = network.Whisper()
    net.load(np.load(sys.argv[2]))
    by_mel, by_network = [], []
    for path in sys.argv[4:]:
        samples = samples_of(path)
        mel = log_mel(samples)
        library.whisper_pcm_to_mel(context, floats(samples), len(samples), 1)
        theirs = logits_of(library, context)
        library.whisper_set_mel(context, floats(mel.numpy()), mel.shape[2], mel.shape[1])
        with_our_mel = logits_of(library, context)
        by_mel.append(apart(theirs, with_our_mel))
        by_network.append(apart(with_our_mel, ours(net, mel)))
    print(f"compare: logits, largest relative difference: by features {max(by_mel):.1e}, by network {max(by_network):.1e}")
    sys.exit(max(by_mel) > 0.01 or max(by_network) > 0.1)


if __name__ == "__main__":
    main()
