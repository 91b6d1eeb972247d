"""The answer to one question about a cluster's health, and the words that the answers share.

Not here: the questions (judge.py, listener_checks.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.lazy_dataclass import dataclass

HEALTHY, DEGRADED, CRITICAL = "healthy", "degraded", "critical"
OK, WARNING = "ok", "warning"
RANKS = (OK, WARNING, DEGRADED, CRITICAL)
PARTITIONS_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One question about the cluster, and its answer."""

    name: str
    status: str
    """ok, warning, degraded or critical."""
    summary: str
    remedy: str = ""
    details: tuple[str, ...] = ()
    """The faults, one by one; not all of many."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """All checks, and the worst of them as the status: healthy, degraded or critical."""

    status: str
    checks: tuple[HealthCheck, ...]


def seconds(milliseconds: int) -> str:
    """A length of time for people."""
    return f"{milliseconds / 1000:.0f} s" if milliseconds >= 1000 else f"{milliseconds} ms"


def listed(ids: Iterable[int]) -> str:
    """Ids for people."""
    return ", ".join(map(str, ids)) or "none"


def nodes_listed(ids: list[int]) -> str:
    """Nodes by their ids, for people."""
    return f"node {ids[0]}" if len(ids) == 1 else f"nodes {listed(ids)}"
