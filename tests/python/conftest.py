# SPDX-License-Identifier: MIT
"""The same devices on every machine: none, but for those that a test makes up."""
import os

os.environ["GPU_DISPATCH_NVML"] = "/nonexistent"
os.environ["GPU_DISPATCH_SYSFS"] = "/nonexistent"
