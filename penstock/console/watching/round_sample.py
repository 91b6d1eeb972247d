"""One round's answers about a cluster, as the sampler hands them to the core, frozen.

A round has several parts, each asked by itself: a part that was not asked for, or that nobody answered, is None or
empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from penstock.admin import ClusterInfo, TopicDescription
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group as it was read: its state, the number of its members, its committed offsets and its lags."""

    state: str
    members: int
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The lag of each partition whose end is known."""


@dataclass(frozen=True, slots=True)
class RoundSample:
    """The parts of a round."""

    cluster: ClusterInfo | None = None
    topics: Sequence[TopicDescription] | None = None
    """All topics that the console's user may see."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end offsets of the partitions that were asked for, and answered."""
    record_bytes: Mapping[str, float] | None = None
    """About how many bytes a record of each topic takes on disk, by the sizes of its leaders' logs."""
    listed_groups: Collection[str] | None = None
    """All groups that the console's user may see."""
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    probes: Mapping[int, float | None] = field(default_factory=dict)
    """How many ms the console waited for a small question to each broker; None for one that did not answer."""
