"""The memory that the groups of this broker take, estimated, and the share of the node's that they may have.

Estimates follow the state (group_sizes.py for members, offsets/offsets_state.py for offsets). Above the share no group
and no member is added; those that are there go on. Not here: who is refused (shard.py).
"""

from __future__ import annotations

from penstock.errors import GroupMaxSizeReachedError


class GroupMemory:
    """One per broker, shared by its shards."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def changed(self, by: int) -> None:
        """Some state came (`by` is positive) or went."""
        self.used += by

    def must_have_room(self) -> None:
        """GroupMaxSizeReachedError if nothing may be added."""
        if self.used >= self.bytes_max:
            raise GroupMaxSizeReachedError(
                f"the groups of this broker take about {self.used} bytes of memory, and"
                f" group.coordinator.memory.max.bytes is {self.bytes_max}: raise it, or delete groups"
            )

    def __repr__(self) -> str:
        return f"GroupMemory({self.used} of {self.bytes_max})"
