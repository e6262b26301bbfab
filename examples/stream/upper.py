#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stream worker in Python: loads a model once, then turns each input into capital letters.

    seq 1000 | sed 's/^/clip /' | gpu-dispatch run --stream python3 upper.py

One such process runs for each GPU and stays alive. It does this, in this order:

  1. It loads everything that takes long to load, then writes the line {"ready":true}.
     If that fails, it writes {"ready":false,"error":"message"}, and this worker is not used.
  2. It reads a line {"id":7,"attempt":1,"input":"..."} for each task and answers it with a line {"id":7,"output":ANYTHING}
     or {"id":7,"error":"message"}. A failed task is tried again if retries are left, but not with "final":true.
  3. It exits at the end of its input.

stdout is only for the protocol; messages go to stderr. If this program crashes or is killed, its task is given to a new
process.
"""
import json
import os
import sys


def load_model():
    """An example for work that takes long: reading weights, building the network, a first run to warm up."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "none")  # the only device that this process sees
    print(f"upper.py: loading for device {device}", file=sys.stderr)
    return str.upper


def answer(model, task):
    text = task["input"]
    if not isinstance(text, str):
        return {"error": "the input is not a string", "final": True}
    # An input may contain bytes that are not UTF-8, for example in a file name. They arrive as lone surrogates, which
    # Python's functions for file names understand: open(text) works, and os.fsencode(text) returns the bytes.
    try:
        return {"output": model(text)}
    except Exception as error:  # a failed task must not end the process: the model would have to be loaded again
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

    # Several lines may be waiting. Read as much as possible, answer all lines, then flush once. With small tasks, one
    # write per line would take most of the time. (`for line in sys.stdin: ... print(..., flush=True)` is correct too,
    # and just as fast if a task takes a millisecond.)
    lines = sys.stdin.buffer
    rest = bytearray()
    while True:
        chunk = lines.read1(1 << 18)
        if not chunk:
            return 0
        rest += chunk
        if b"\n" not in chunk:  # the line is larger than one read
            continue
        *whole, rest = rest.split(b"\n")
        for line in whole:
            task = json.loads(line)
            result = {"id": task["id"], **answer(model, task)}
            out.write(json.dumps(result, separators=(",", ":")).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    sys.exit(main())
