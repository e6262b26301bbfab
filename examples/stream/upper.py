#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stream worker in Python: loads a model once, then turns each input into capitals.

    seq 1000 | sed 's/^/clip /' | gpu-dispatch run --stream python3 upper.py

One process like this runs per GPU and is kept alive. What it has to do, in this order:

  1. load what takes long to load, then write the line {"ready":true}
     (or {"ready":false,"error":"words"}, which takes this worker out of use);
  2. read a line {"id":7,"attempt":1,"input":"..."} per task and answer it with a line {"id":7,"output":ANYTHING} or
     {"id":7,"error":"words"}, which is tried again if retries are left ("final":true: not again);
  3. end when its input does.

stdout belongs to the protocol: messages go to stderr. If this program crashes or is killed, the task it was on is given
to a new one.
"""
import json
import os
import sys


def load_model():
    """Stands for what takes long: reading weights, building the network, a first run to warm up."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "none")  # the one device this process may see
    print(f"upper.py: loading for device {device}", file=sys.stderr)
    return str.upper


def answer(model, task):
    text = task["input"]
    if not isinstance(text, str):
        return {"error": "the input is no string", "final": True}
    # An input that is no UTF-8 (a file name may be anything) has its odd bytes as lone surrogates, which is what
    # Python's own functions for file names use too: open(text) works, os.fsencode(text) gives the bytes.
    try:
        return {"output": model(text)}
    except Exception as error:  # a task that fails is no reason to lose the model
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    try:
        model = load_model()
    except Exception as error:
        print(json.dumps({"ready": False, "error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    out = sys.stdout.buffer
    out.write(b'{"ready":true}\n')
    out.flush()

    # Several lines may be waiting. Take what one read gives, answer all of it, then flush once: with small tasks most
    # of the time would go into one write per line. (`for line in sys.stdin: ... print(..., flush=True)` is right too,
    # and just as fast where a task takes a millisecond.)
    lines = sys.stdin.buffer
    rest = bytearray()
    while True:
        chunk = lines.read1(1 << 18)
        if not chunk:
            return 0
        rest += chunk
        if b"\n" not in chunk:  # a line larger than a read
            continue
        *whole, rest = rest.split(b"\n")
        for line in whole:
            task = json.loads(line)
            result = {"id": task["id"], **answer(model, task)}
            out.write(json.dumps(result, separators=(",", ":")).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    sys.exit(main())
