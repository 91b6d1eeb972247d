"""The input of a plan: brokers and partitions as they are, and the goals.

The planner needs nothing else, so it runs in a command and in a test alike. Not here: where it comes from
(penstock/cli/moves/), and what comes of it (plan.py).
"""

from __future__ import annotations

import enum

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass


class Goal(enum.StrEnum):
    """A goal: the thing to even over the brokers in service; for DIRS, over the log dirs of each
    (dirs/dir_planner.py)."""

    REPLICAS = "replicas"
    LEADERS = "leaders"
    BYTES = "bytes"
    DIRS = "dirs"


class DrainImpossibleError(PenstockError):
    """A broker cannot be drained: too few brokers are left for the replicas of a partition."""


@dataclass(frozen=True, slots=True)
class BalancedBroker:
    """A registered broker. Nothing goes to one that is not in service or is cordoned, and what it has stays there."""

    broker_id: int
    rack: str = ""  # "": a rack of its own
    in_service: bool = True
    draining: bool = False  # everything goes elsewhere, whether it is in service or not
    cordoned: bool = False  # KIP-1066

    @property
    def takes_replicas(self) -> bool:
        return self.in_service and not self.draining and not self.cordoned


@dataclass(frozen=True, slots=True)
class BalancedPartition:
    """A partition. A partition that is being reassigned is counted where it goes, and left alone."""

    topic: str
    index: int
    replicas: tuple[int, ...]  # in order of preference; while it is being reassigned, those that it will have
    leader_id: int = -1
    size_bytes: int | None = None  # of one replica; None: not known
    moving: bool = False
    topic_id: str = ""  # a topic that is created again has another

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Everything that a plan looks at. Invariant: no broker and no partition is there twice."""

    brokers: tuple[BalancedBroker, ...]
    partitions: tuple[BalancedPartition, ...]
