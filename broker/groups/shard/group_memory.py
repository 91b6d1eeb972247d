"""The memory of this broker's groups: its limit, and how more is refused.

State that lasts is groups, members, subscriptions, assignments and committed offsets, and the offsets that a
transaction commits where none was committed before. State that ends with its transaction is the offsets that will
replace committed ones. Not here: the share of each party (coordination/memory_shares.py), estimates (group_sizes.py for
members, offsets/offsets_state.py for offsets).
"""

from __future__ import annotations

from typing import Final

from broker.coordination.memory_shares import CoordinatorMemory, MemoryWords
from penstock.errors import GroupMaxSizeReachedError, ResourceExhaustedError

_WORDS: Final = MemoryWords(
    "the groups",
    "group.coordinator.memory.max.bytes",
    GroupMaxSizeReachedError,
    "delete groups and offsets that are used no more, commit shorter metadata, or raise the limit",
    ResourceExhaustedError,
    "send it again when other transactions have ended, commit fewer offsets in one, or raise the limit",
)


def group_memory(bytes_max: int) -> CoordinatorMemory:
    """The memory of groups. There is one per broker, shared by its shards."""
    return CoordinatorMemory(bytes_max, _WORDS)
