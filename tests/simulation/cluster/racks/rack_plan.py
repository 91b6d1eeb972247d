"""The racks of a simulated cluster: of its nodes, and those that its consumers name (KIP-392)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

NAMED_MS = 900
"""Every second consumer asks its leader anew after this time at a follower; by default a story would be over before."""


@dataclass(frozen=True, slots=True)
class RackPlan:
    """A node has the rack of its position, and `replica.selector.class` if it selects. Each new consumer draws one of
    the consumers' racks; "" is none."""

    nodes: tuple[str, ...]
    selects: tuple[bool, ...]
    consumers: tuple[str, ...]

    def config(self, index: int) -> dict[str, object]:
        """The keys that the node has in its file besides."""
        is_known = index < len(self.nodes)
        return {
            "broker.rack": self.nodes[index] if is_known else "",
            "replica.selector.class": "rack-aware" if is_known and self.selects[index] else "",
        }


class RackDraw:
    """Draws the racks of a story's consumers, one after the other."""

    def __init__(self, plan: RackPlan | None, seed: int) -> None:
        self._plan, self._draw = plan, random.Random(f"consumers' racks {seed}")
        self._made = 0

    def rack(self) -> str:
        return "" if self._plan is None else self._draw.choice(self._plan.consumers)

    def options(self) -> dict[str, Any]:
        """Options of a consumer of ours."""
        rack = self.rack()
        self._made += 1
        ages = {"metadata_max_age_ms": NAMED_MS} if self._made % 2 == 0 else {}
        return {"client_rack": rack, **ages} if rack else {}
