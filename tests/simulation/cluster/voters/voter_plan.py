"""The voters of a plan: with whom a quorum begins, when a static one becomes dynamic, and how often somebody changes
them. Plain data, as all of plan.py.

Not here: how it is drawn (drawn_voters.py), and what an operator does (voter_operator.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VoterPlan:
    """A quorum that is dynamic, or becomes so. Every node with the controller role may be a voter of it."""

    first: tuple[int, ...]
    """The first voters of a quorum that begins dynamic; none: each file names all controllers, so it begins static."""
    pause_s: float
    """About so often an operator asks for a change."""
    dynamic_s: float = 0.0
    """A quorum that begins static is made dynamic from then on."""
    operators: int = 1
    """So many ask, each for one change after the other."""
    replaces: bool = False
    """They have disks replaced, too."""

    @property
    def begins_dynamic(self) -> bool:
        return bool(self.first)
