#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A command that is run once for each input and computes on its GPU.

    gpu-dispatch run python3 examples/torch_task.py {} ::: 100 200 300

Multiplies two random matrices of the given size and prints one line of JSON. With one process per task, importing PyTorch
and creating the CUDA context takes seconds each time. For many small tasks see stream/torch_worker.py.
"""
import json
import os
import sys

import torch


def main():
    size = int(sys.argv[1])
    count = torch.cuda.device_count()
    device = torch.device("cuda:0" if count else "cpu")
    torch.manual_seed(size)
    product = torch.randn(size, size, device=device) @ torch.randn(size, size, device=device)
    print(json.dumps({
        "size": size,
        "mean": product.abs().mean().item(),
        "visible": count,
        "device": torch.cuda.get_device_name(0) if count else "cpu",
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "task": os.environ.get("GPU_DISPATCH_TASK_ID"),
        "worker": os.environ.get("GPU_DISPATCH_WORKER_ID"),
        "gpu": os.environ.get("GPU_DISPATCH_GPU_ID"),
    }))


if __name__ == "__main__":
    main()
