"""The racks of a simulated cluster: of its nodes, and those that its consumers name (KIP-392)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any


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

    def rack(self) -> str:
        return "" if self._plan is None else self._draw.choice(self._plan.consumers)

    def options(self) -> dict[str, Any]:
        """Options of a consumer of ours."""
        rack = self.rack()
        return {"client_rack": rack} if rack else {}
