"""The object that a worker gets instead of an item that could not be pickled. The task fails with pickle's error
message."""

from __future__ import annotations

import traceback
from typing import Any, NoReturn


class Unsendable:
    """Unpickling it calls raise_unsendable()."""

    def __init__(self, error: BaseException) -> None:
        self._text = "".join(traceback.format_exception(error)).rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_unsendable, (self._text,)


def raise_unsendable(text: str) -> NoReturn:
    raise TypeError(f"the item could not be sent to a worker:\n{text}")
