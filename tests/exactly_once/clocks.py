"""The calendars of the nodes of a cluster, each of which a test can set while its process runs.

A node's process finds by how many seconds it is off in a file beside its configuration, which survives its restarts
(tests/alerts_fire/clock_of_a_node/). The machine's own clock stays as it is. At any time the middle one of three
calendars is right: where two are wrong, one is ahead and one behind. Not here: what must hold meanwhile.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

OWN_CLOCKS: Final = Path(__file__).parents[1] / "alerts_fire" / "clock_of_a_node"
DAY_S: Final = 86_400
OFFS_S: Final = (8 * DAY_S, -8 * DAY_S, 30 * DAY_S, -30 * DAY_S, 2 * DAY_S, -2 * DAY_S, 56 * 365 * DAY_S)
"""Far apart. 1970 is one more."""
INSTANT_S: Final = 0.5


@contextmanager
def own_clocks() -> Iterator[None]:
    """Nodes that are started within have calendars of their own."""
    with patch.dict(os.environ, {"PYTHONPATH": str(OWN_CLOCKS)}):
        yield


class Clocks:
    """See the module. `changes` counts what was done to them."""

    def __init__(self, directory: Path, nodes: int, draw: random.Random) -> None:
        """`directory` is the cluster's, which need not be there yet. Node 1 is eight days ahead, and node 2 in 1970."""
        self._directory, self._draw = directory, draw
        self._offs_s = dict.fromkeys(range(nodes), 0)
        self.changes = Counter[str]()
        self.set(1, 8 * DAY_S)
        self.set(2, -int(time.time()))

    def set(self, node: int, off_s: int) -> None:
        """The node's calendar is off by so much from now on; its process need not run."""
        file = self._directory / f"node-{node}" / "clock-shift"
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(str(off_s))
        new.rename(file)
        self._offs_s[node] = off_s

    def change(self) -> str:
        """One calendar jumps, is set right, or is wrong for an instant; what was done."""
        wrong = [node for node, off_s in self._offs_s.items() if off_s]
        kind = self._draw.choice(["instant", "jump", *(["right"] if wrong else [])])
        node = self._draw.choice(wrong if kind == "right" or len(wrong) > 1 else list(self._offs_s))
        before_s = self._offs_s[node]
        self.changes[kind] += 1
        if kind == "right":
            self.set(node, 0)
            return f"node {node} is set right"
        self._jump(node)
        text = f"node {node} is off by {self._offs_s[node] / DAY_S:.0f} days"
        if kind == "instant":
            time.sleep(INSTANT_S)
            self.set(node, before_s)
            return f"{text} for an instant"
        return text

    def _jump(self, node: int) -> None:
        """To the other side of the right time than the one of the other calendar that is wrong."""
        other_s = next((off_s for other, off_s in self._offs_s.items() if other != node and off_s), 0)
        offs_s = [off_s for off_s in (*OFFS_S, -int(time.time())) if off_s * other_s <= 0]
        self.set(node, self._draw.choice([off_s for off_s in offs_s if off_s != self._offs_s[node]]))

    def all_right(self) -> None:
        for node in self._offs_s:
            self.set(node, 0)

    def __str__(self) -> str:
        return "days off: " + ", ".join(f"{off_s / DAY_S:.0f}" for off_s in self._offs_s.values())
