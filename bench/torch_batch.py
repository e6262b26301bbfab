#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A real model on a real GPU: the dispatcher compared with the same model in a plain loop.

The model is a residual network with the shape of ResNet-18 in half precision, for images of 224 x 224 bytes. Its
weights are random, because only the time is measured. Each image is a task. The answer is the index of the largest
output. All variants get the same images and must give the same answers.

  loop_32, loop_1   one process and no tasks: stack a batch, copy it to the GPU, run the model, fetch the answers
  ours_32           Dispatcher with process_batch; the dispatcher makes batches of 32
  ours_1            Dispatcher, one image at a time
  seed_1            a simple pool with multiprocessing.Queue, like queue_pool in peers.py, one image at a time; the
                    worker also reports the start of each task

The measurement begins when the last warm-up image is answered, and ends with the last answer. So starting, loading and
the first kernels are not included. The rates depend on how fast the CPU starts the kernels, and this speed changes from
one second to the next. So loop_32 runs before and after ours_32 in each round, and ours_32 is compared with the mean of
the two. torch_stages.py shows where the time goes.

usage: torch_batch.py [--images N] [--rounds N]
"""
import argparse
import json
import multiprocessing
import statistics
import time

import numpy

SIDE, WARM_UP = 224, 256


def make_model():
    """A network with the shape of ResNet-18, without torchvision."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))
            self.two = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.skip = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.two(torch.relu(self.one(x))) + self.skip(x))

    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    model = nn.Sequential(*layers).cuda().half().eval()
    infer(model, [numpy.zeros((3, SIDE, SIDE), numpy.uint8)] * 32)
    infer(model, [numpy.zeros((3, SIDE, SIDE), numpy.uint8)])
    return model


def infer(model, images):
    import torch

    with torch.inference_mode():
        batch = torch.from_numpy(numpy.stack(images)).cuda()
        return model(batch.half().div_(255)).argmax(1).tolist()


def images(n):
    """A hundred different images, over and over. Each is a new array, as if it were read from a file."""
    random = numpy.random.default_rng(7)
    stock = random.integers(0, 256, (100, 3, SIDE, SIDE), numpy.uint8)
    for i in range(n):
        yield stock[i % 100].copy()


class Clock:
    """Collects answers by number, and measures the time from the last warm-up answer to the last answer."""

    def __init__(self, n):
        self.n, self.answers, self.began, self.ended = n, {}, 0.0, 0.0

    def take(self, number, answer):
        self.answers[number] = answer
        if len(self.answers) == WARM_UP:
            self.began = time.perf_counter()
        elif len(self.answers) == self.n:
            self.ended = time.perf_counter()

    def rate(self):
        if len(self.answers) != self.n:
            raise SystemExit(f"torch_batch.py: {len(self.answers)} answers to {self.n} images")
        return (self.n - WARM_UP) / (self.ended - self.began)


def loop(n, batch):
    model, clock, waiting = make_model(), Clock(n), []
    for i, image in enumerate(images(n)):
        waiting.append(image)
        if len(waiting) == batch or i == n - 1:
            for k, answer in enumerate(infer(model, waiting)):
                clock.take(i + 1 - len(waiting) + k, answer)
            waiting = []
    return clock


def in_own_process(n, batch):
    """Runs the loop in its own process, so that it has the GPU to itself, like the others."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(loop, (n, batch))


def ours(n, batch):
    from gpu_dispatch import Dispatcher

    clock = Clock(n)
    dispatcher = Dispatcher(torch_worker(), [0], queue_size=256, batch_size=batch)
    errors = []
    dispatcher.run(images(n), on_success=lambda task, answer, worker: clock.take(task, answer),
                   on_error=lambda task, error, worker: errors.append(error))
    if errors:
        raise SystemExit(errors[0])
    return clock


def torch_worker():
    from torch_batch_worker import TorchWorker
    return TorchWorker


def seed_process(tasks, results):
    model = make_model()
    while (item := tasks.get()) is not None:
        number, image = item
        results.put(("started", number, None))
        results.put(("done", number, infer(model, [image])[0]))
    results.put(("end", None, None))


def seed(n):
    context, clock = multiprocessing.get_context("spawn"), Clock(n)
    tasks, results = context.Queue(256), context.Queue()
    worker = context.Process(target=seed_process, args=(tasks, results))
    worker.start()

    def feed():
        for item in enumerate(images(n)):
            tasks.put(item)
        tasks.put(None)

    import threading
    threading.Thread(target=feed, daemon=True).start()
    while (message := results.get())[0] != "end":
        if message[0] == "done":
            clock.take(message[1], message[2])
    worker.join()
    return clock


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    kinds = {"loop_32": lambda n: in_own_process(n, 32), "ours_32": lambda n: ours(n, 32),
             "loop_1": lambda n: in_own_process(n // 4, 1), "ours_1": lambda n: ours(n // 4, 1),
             "seed_1": lambda n: seed(n // 4)}
    rates, answers = {name: [] for name in kinds}, {}
    for _ in range(args.rounds):
        for name in ("loop_32", "ours_32", "loop_32", "loop_1", "ours_1", "seed_1"):
            clock = kinds[name](args.images)
            rates[name].append(clock.rate())
            answers[name] = clock.answers
    for name, found in rates.items():
        print(json.dumps({"name": name, "unit": "images/s", "median": statistics.median(found), "repeats": found}))
    same = {a: sum(answers[a][i] == answers[b][i] for i in answers[a]) for a, b in (("ours_32", "loop_32"), ("ours_1", "loop_1"))}
    print(json.dumps({"same_answers": same, "of": {name: len(found) for name, found in answers.items()}}))
    loops = [statistics.mean(rates["loop_32"][i:i + 2]) for i in range(0, len(rates["loop_32"]), 2)]
    ratio = [o / l for o, l in zip(rates["ours_32"], loops)]
    print(json.dumps({"ours_32 / loop_32": statistics.median(ratio), "least": min(ratio), "most": max(ratio),
                      "ours_32 / seed_1": statistics.median(rates["ours_32"]) / statistics.median(rates["seed_1"])}))


if __name__ == "__main__":
    main()
