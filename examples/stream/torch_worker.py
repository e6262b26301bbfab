#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stream worker that keeps a PyTorch model on its GPU.

    seq 10000 | gpu-dispatch run --stream python3 torch_worker.py

Each worker sees only one device, so "cuda:0" is always its own. Without a GPU it runs on the CPU. The input is a number,
the seed of a random batch for the model. The output has the sum of the results, the device, and how many devices this
process sees (1, or 0 without a GPU).

The worker reports two special kinds of failure: "out_of_memory" if a task does not fit into memory, and "device_lost" if
the device cannot be used any more. After "device_lost" this process is replaced.
"""
import json
import sys


def load():
    """Everything that takes long and is done once: imports, weights, and a first run that compiles the kernels."""
    import torch

    count = torch.cuda.device_count()
    device = torch.device("cuda:0" if count else "cpu")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    model = model.to(device).eval()
    name = torch.cuda.get_device_name(0) if count else "cpu"
    print(f"torch_worker.py: torch {torch.__version__}, {count} visible device(s), using {name}", file=sys.stderr)
    with torch.inference_mode():
        model(torch.zeros(32, 256, device=device))
    return torch, model, device, count


def run(torch, model, device, count, text):
    generator = torch.Generator().manual_seed(int(text))
    batch = torch.randn(32, 256, generator=generator).to(device)
    with torch.inference_mode():
        total = model(batch).double().sum().item()
    return {"seed": int(text), "sum": round(total, 3), "device": str(device), "visible": count}


def failure(torch, error):
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, torch.cuda.OutOfMemoryError):
        torch.cuda.empty_cache()
        return {"error": message, "kind": "out_of_memory"}
    if isinstance(error, RuntimeError) and "CUDA error" in str(error):  # the CUDA context cannot be used any more
        return {"error": message, "kind": "device_lost"}
    if isinstance(error, ValueError):
        return {"error": message, "final": True}  # the input is not a number, so trying again is useless
    return {"error": message}


def main():
    try:
        torch, model, device, count = load()
    except Exception as error:
        print(json.dumps({"ready": False, "error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    print('{"ready":true}', flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer = {"output": run(torch, model, device, count, task["input"])}
        except Exception as error:
            answer = failure(torch, error)
        print(json.dumps({"id": task["id"], **answer}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
