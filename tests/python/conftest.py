# SPDX-License-Identifier: MIT
"""The same devices on every machine: none, but for those that a test makes up."""
import atexit
import os
import shutil
import tempfile

os.environ["GPU_DISPATCH_NVML"] = "/nonexistent"
os.environ["GPU_DISPATCH_SYSFS"] = "/nonexistent"
os.environ["GPU_DISPATCH_JOBS"] = tempfile.mkdtemp(prefix="gd_jobs_")  # nobody else's runs
atexit.register(shutil.rmtree, os.environ["GPU_DISPATCH_JOBS"], True)
