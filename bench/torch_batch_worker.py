# SPDX-License-Identifier: MIT
"""The worker of torch_batch.py. It has its own module so that workers do not import the whole benchmark."""
import torch_batch
from gpu_dispatch import BaseWorker


class TorchWorker(BaseWorker):
    def setup(self, gpu_id, seed):
        self.model = torch_batch.make_model()

    def process(self, image):
        return torch_batch.infer(self.model, [image])[0]

    def process_batch(self, items):
        return torch_batch.infer(self.model, items)
