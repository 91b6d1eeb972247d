"""The acts of honest clients in a time, and the memory, descriptors and threads of the node meanwhile.

Pure, but for the look at /proc.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

PAGES_PER_MIB: Final = (1 << 20) // os.sysconf("SC_PAGE_SIZE")
LOOK_S: Final = 0.1


class Acts:
    """The acts of each kind: when each succeeded, and the errors. Written by one thread, read by another."""

    def __init__(self) -> None:
        self._at: dict[str, list[float]] = defaultdict(list)
        self._failed: list[tuple[float, str, str]] = []

    def heard(self, line: str) -> None:
        """A line of an honest process. One that was cut by its end says nothing."""
        if not line.endswith("\n"):
            return
        word, kind, at, *error = line.split(maxsplit=3)
        if word == "ok":
            self._at[kind].append(float(at))
        else:
            self._failed.append((float(at), kind, error[0].strip() if error else ""))

    def since(self, kind: str, at: float) -> int:
        return sum(1 for one in list(self._at[kind]) if one >= at)

    def rate(self, kind: str, began: float, ended: float) -> float:
        """Acts a second between two times."""
        return sum(1 for at in list(self._at[kind]) if began <= at < ended) / max(ended - began, 1e-9)

    def pause(self, kind: str, began: float, ended: float) -> float:
        """The longest time without an act; one that began before the first time counts from there."""
        points = [began, *(at for at in list(self._at[kind]) if began <= at < ended), ended]
        return max(after - before for before, after in pairwise(points))

    def errors(self, began: float, ended: float) -> list[str]:
        return [f"{kind}: {error}" for at, kind, error in list(self._failed) if began <= at < ended]


class Node(NamedTuple):
    """The resources of a process."""

    memory_mib: float
    descriptors: int
    threads: int

    def above(self, other: Node) -> Node:
        return Node(
            self.memory_mib - other.memory_mib, self.descriptors - other.descriptors, self.threads - other.threads
        )


GONE: Final = Node(0, 0, 0)


def look_at(pid: int) -> Node:
    """GONE where there is no such process."""
    place = Path(f"/proc/{pid}")
    try:
        pages = int((place / "statm").read_text().split()[1])
        return Node(pages / PAGES_PER_MIB, len(os.listdir(place / "fd")), len(os.listdir(place / "task")))
    except OSError:
        return GONE


class Watch:
    """The most that a process had, of each, within `with`."""

    def __init__(self, pid: int) -> None:
        self._pid, self._ended = pid, threading.Event()
        self.before = self.most = look_at(pid)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.most = Node(*map(max, self.most, look_at(self._pid)))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()


@dataclass(frozen=True)
class Beside:
    """A kind's acts a second alone and beside a flood, and its longest pause beside it."""

    alone: float
    beside: float
    pause_s: float

    @property
    def part(self) -> float:
        return self.beside / self.alone if self.alone else 0.0


def compared(
    acts: Acts, kinds: Mapping[str, float], alone: tuple[float, float], beside: tuple[float, float]
) -> dict[str, Beside]:
    """Every kind, by its name."""
    return {
        kind: Beside(acts.rate(kind, *alone), acts.rate(kind, *beside), acts.pause(kind, *beside)) for kind in kinds
    }
