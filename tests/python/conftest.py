# SPDX-License-Identifier: MIT
"""Gives the tests the same environment on every machine and for every user. There are only simulated devices. Settings
of the user for the package and for Rich are removed. Signals have the handlers and the mask that a shell gives a
program."""
import atexit
import os
import shutil
import signal
import tempfile
import threading

FOREIGN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "COLUMNS", "LINES", "PYTHONUNBUFFERED",
           "PYTHONWARNINGS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
for name in list(os.environ):
    if name in FOREIGN or name.startswith(("GD_FAULT", "GD_KILL", "GPU_DISPATCH_")) and name != "GPU_DISPATCH_HOST":
        del os.environ[name]

os.environ["GPU_DISPATCH_NVML"] = "/nonexistent"
os.environ["GPU_DISPATCH_SYSFS"] = "/nonexistent"
for name in ("GPU_DISPATCH_JOBS", "GPU_DISPATCH_LOCKS"):  # hides other runs on this machine, and their locks of GPUs
    os.environ[name] = tempfile.mkdtemp(prefix="gd_")
    atexit.register(shutil.rmtree, os.environ[name], True)

# In the background of a script, or under nohup, these signals are ignored. Then Python has no handler for Ctrl-C.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
