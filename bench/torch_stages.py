#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the time of torch_batch.py goes: microseconds per image for each stage, and ours compared with the loop in pairs.

On a shared machine the speed at which a CPU starts kernels changes by a third from one second to the next. That is more
than the difference to be measured. So one worker process measures both in turn, for a fraction of a second each. First
it processes 64 batches of 32 images that come as tasks. Then, inside process_batch(), it processes 64 batches in the
plain loop. The first batches of each turn are left out.

  between   in the loop: making 32 images; in the worker: from the return of process_batch to its next call
  stack, copy, model, fetch   numpy.stack, copying to the GPU, calling the model, fetching the answers
  user, system, faults        processor time and page faults of the main thread

usage: torch_stages.py [--pairs N] [--queue N] [--batch-wait SECONDS] [--rounds N]
"""
import argparse
import json
import os
import resource
import statistics
import tempfile
import time

import numpy
import torch_batch
from gpu_dispatch import BaseWorker, Dispatcher

BATCH, WARM_UP, TURN = 32, 16, 64  # numbers of images, batches and batches; WARM_UP uses up the items in the queue
STAGES = ("between", "stack", "copy", "model", "fetch")


def usage():
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return numpy.array([used.ru_utime * 1e6, used.ru_stime * 1e6, used.ru_minflt])


class Stages:
    """The model, with the time of each stage."""

    def __init__(self, model):
        self.model, self.batches, self.n, self.returned = model, 0, 0, 0.0
        self.spent, self.used, self.began = numpy.zeros(len(STAGES)), usage(), usage()

    def infer(self, images):
        import torch

        times = [self.returned, time.perf_counter()]
        with torch.inference_mode():
            stacked = numpy.stack(images)
            times.append(time.perf_counter())
            batch = torch.from_numpy(stacked).cuda()
            times.append(time.perf_counter())
            scores = self.model(batch.half().div_(255))
            times.append(time.perf_counter())
            answers = scores.argmax(1).tolist()
            times.append(time.perf_counter())
        self.count(times, len(images))
        self.returned = time.perf_counter()
        return answers

    def count(self, times, n):
        self.batches += 1
        if self.batches == WARM_UP:
            self.began = usage()
        elif self.batches > WARM_UP:
            self.spent += numpy.diff(times) * 1e6
            self.n += n
            self.used = usage()

    def figures(self):
        found = dict(zip(STAGES, self.spent / self.n)) | {"all": self.spent.sum() / self.n}
        found |= dict(zip(("user", "system", "faults"), (self.used - self.began) / self.n))
        return {name: round(float(figure), 2) for name, figure in found.items()}


def plain_turn(model):
    stages, waiting = Stages(model), []
    for image in torch_batch.images((WARM_UP + TURN) * BATCH):
        waiting.append(image)
        if len(waiting) == BATCH:
            stages.infer(waiting)
            waiting = []
    return stages.figures()


class StagesWorker(BaseWorker):
    def setup(self, gpu_id, seed, path):
        self.model, self.path, self.pairs = torch_batch.make_model(), path, []
        plain_turn(self.model)
        self.stages = Stages(self.model)

    def process(self, image):
        return self.process_batch([image])[0]

    def process_batch(self, items):
        answers = self.stages.infer(items)
        if self.stages.batches == WARM_UP + TURN:
            self.pairs.append((self.stages.figures(), plain_turn(self.model)))
            self.stages = Stages(self.model)
        return answers

    def cleanup(self):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.pairs, file)


def measure(args):
    errors = []
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "pairs.json")
        n = args.pairs * (WARM_UP + TURN) * BATCH
        Dispatcher(StagesWorker, [0], queue_size=args.queue, batch_size=BATCH, batch_wait=args.batch_wait).run(
            torch_batch.images(n), on_success=lambda *report: None,
            on_error=lambda task, error, worker: errors.append(error), path=path)
        if errors:
            raise SystemExit(errors[0])
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--queue", type=int, default=256)
    parser.add_argument("--batch-wait", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    for _ in range(args.rounds):
        pairs = measure(args)
        for name, turns in zip(("ours", "loop"), zip(*pairs)):
            means = {stage: round(statistics.mean(turn[stage] for turn in turns), 2) for stage in turns[0]}
            print(json.dumps({"name": name, "unit": "us/image"} | means))
        ratios = [loop["all"] / ours["all"] for ours, loop in pairs]
        print(json.dumps({"ours / loop": statistics.median(ratios), "pairs": len(ratios),
                          "quarters": statistics.quantiles(ratios)}), flush=True)


if __name__ == "__main__":
    main()
