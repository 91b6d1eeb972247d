"""A reserve of open descriptors, so that a log can open a file when the process has none left.

Connections take descriptors as they come, and no system call gives them a limit of their own. So the process holds some
in reserve from the start: an open that finds no descriptor closes one of the reserve and tries again. `refill` is
called regularly and takes free ones. If the reserve is used up, the open fails with EMFILE, a shortage like a full
disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from storage.disk.disk_errors import OUT_OF_DESCRIPTORS

T = TypeVar("T")

SPARE_DESCRIPTORS = 32
"""A new partition opens five files, a flush of a directory one; a refill comes every quarter of a second."""


class SpareDescriptors:
    """A reserve of `count`; empty until `refill`. May be used from any thread."""

    def __init__(self, count: int = SPARE_DESCRIPTORS) -> None:
        self._count = count
        self._spare: list[int] = []
        self.used = 0

    def refill(self) -> None:
        """Open descriptors until the reserve is full, or none is free."""
        while len(self._spare) < self._count:
            try:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                return

    def opened(self, make: Callable[[], T]) -> T:
        """The result of `make`, which opens something; a descriptor of the reserve is freed for it if there is no
        other."""
        while True:
            try:
                return make()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._spare:
                    raise
                os.close(self._spare.pop())
                self.used += 1

    def close(self) -> None:
        """Give all of them back."""
        while self._spare:
            os.close(self._spare.pop())

    def __len__(self) -> int:
        return len(self._spare)

    def __repr__(self) -> str:
        return f"SpareDescriptors({len(self._spare)} of {self._count})"


SPARE = SpareDescriptors()
"""The process's: descriptors are the process's, too. A process that is no node never fills it."""
