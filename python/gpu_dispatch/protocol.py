"""Message classes for the events of tasks and workers.

The dispatcher itself calls functions (on_success and so on) with the same fields as arguments. These classes are for
code that stores these events or passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CleanupFailed", "SetupFailed", "TaskError", "TaskStarted", "TaskSuccess", "TaskTimeout"]


@dataclass
class TaskSuccess:
    """A task succeeded."""

    task_id: int  # its position in the generator, from 0
    data: Any  # what process() returned
    worker_id: int


@dataclass
class TaskError:
    """A task failed."""

    task_id: int
    error: str  # the traceback, or what happened to its worker
    worker_id: int


@dataclass
class SetupFailed:
    """A worker could not be set up."""

    gpu_id: int
    error: str  # the traceback


@dataclass
class CleanupFailed:
    """A worker's cleanup() failed."""

    gpu_id: int
    error: str  # the traceback


@dataclass
class TaskTimeout:
    """A task exceeded its time limit."""

    task_id: int
    timeout: float  # the limit, in seconds
    worker_id: int


@dataclass
class TaskStarted:
    """A worker is about to process a task."""

    task_id: int
    worker_id: int
