"""The releases of a plan: which nodes begin with an older one, and how often an operator rolls nodes or changes levels.
Plain data, as all of plan.py.

Not here: how it is drawn (drawn_levels.py), and what an operator does (level_operator.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """Nodes of two simulated releases. The older one supports `metadata.version` 1 alone, and says nothing."""

    old: tuple[int, ...]
    """The nodes that begin with the older release. Without any the cluster is formatted with this release's levels."""
    pause_s: float
    """About so often an operator does something."""
    rolls_share: float = 0.5
    """So much of that is a node that gets the other release; the rest are changes of levels."""
    rolls_back: bool = True
    """Nodes get the older release again, too, where the levels let them."""
