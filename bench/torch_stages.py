#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the time of torch_batch.py goes, stage by stage, in microseconds per image.

One worker process runs the plain loop in setup, then the same images as tasks in batches of 32, then the loop again in
cleanup: the same process, so that what differs from process to process is left out.

  between   in the loop: making 32 images; in the worker: from the return of process_batch to its next call
  stack, copy, model, fetch   numpy.stack, to the card, the calls of the model, the answers back
  user, system, faults        of the main thread: processor time and page faults

usage: torch_stages.py [--images N] [--queue N] [--batch-wait SECONDS] [--rounds N]
"""
import argparse
import json
import os
import resource
import tempfile
import time

import numpy
import torch_batch
from gpu_dispatch import BaseWorker, Dispatcher

BATCH, WARM_UP = 32, 8  # images, batches
STAGES = ("between", "stack", "copy", "model", "fetch")


def usage():
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return numpy.array([used.ru_utime * 1e6, used.ru_stime * 1e6, used.ru_minflt])


class Stages:
    """The model with a clock between its stages."""

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


def plain_loop(model, n):
    stages, waiting = Stages(model), []
    for image in torch_batch.images(n):
        waiting.append(image)
        if len(waiting) == BATCH:
            stages.infer(waiting)
            waiting = []
    return stages.figures()


class StagesWorker(BaseWorker):
    def setup(self, gpu_id, seed, images, path):
        self.model, self.images, self.path = torch_batch.make_model(), images, path
        self.before = plain_loop(self.model, images)
        self.stages = Stages(self.model)

    def process(self, image):
        return self.stages.infer([image])[0]

    def process_batch(self, items):
        return self.stages.infer(items)

    def cleanup(self):
        found = {"before": self.before, "ours": self.stages.figures(), "after": plain_loop(self.model, self.images)}
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(found, file)


def one_round(args):
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stages.json")
        Dispatcher(StagesWorker, [0], queue_size=args.queue, batch_size=BATCH, batch_wait=args.batch_wait).run(
            torch_batch.images(args.images), on_success=lambda *report: None,
            on_error=lambda task, error, worker: errors.append(error), images=args.images // 2, path=path)
        if errors:
            raise SystemExit(errors[0])
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=16384)
    parser.add_argument("--queue", type=int, default=256)
    parser.add_argument("--batch-wait", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for _ in range(args.rounds):
        found = one_round(args)
        for name, figures in found.items():
            print(json.dumps({"name": name, "unit": "us/image"} | figures))
        loops = (found["before"]["all"] + found["after"]["all"]) / 2
        print(json.dumps({"ours / loop": round(loops / found["ours"]["all"], 3)}), flush=True)


if __name__ == "__main__":
    main()
