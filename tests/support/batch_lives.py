"""The parts of a campaign of atomic batches: lives of applications, their writers, and what they decide."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.types import ProducerIdAndEpoch, TopicPartition


@dataclass(eq=False)
class Writer:
    """One writer of one version. It is done once it decides to write no more."""

    name: str
    identity: ProducerIdAndEpoch
    data: list[tuple[TopicPartition, object]] = field(default_factory=list)
    waits: bool = False
    is_broken: bool = False
    is_done: bool = False


@dataclass(eq=False)
class Decision:
    """One commit, asked until it is told. `reported`: True for committed, False for refused."""

    application: str
    version: int
    writers: tuple[Writer, ...]
    reported: bool | None = None


@dataclass(eq=False)
class Life:
    """One run of an application: it writes the versions after the last one that it knows."""

    application: str
    run: str
    version: int
    writers: list[Writer] = field(default_factory=list)
    decision: Decision | None = None
    waits: int = 0
    is_over: bool = False
    has_begun: bool = False
    is_replaced: bool = False
