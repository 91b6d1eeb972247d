"""Postpones what the metadata says of a replica while its log is being put into another log dir.

That takes some milliseconds, in which the log has no place: it cannot be deleted, nor can the replica take a role. What
comes meanwhile is done afterwards, in order. Not here: the swap (`broker/jobs/log_dir_moves/move_swap.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.types import TopicPartition


class HeldReplicas:
    """One per broker, on the event loop."""

    def __init__(self) -> None:
        self._postponed: dict[TopicPartition, list[Callable[[], None]]] = {}

    def hold(self, key: TopicPartition) -> None:
        self._postponed.setdefault(key, [])

    def postpones(self, key: TopicPartition, change: Callable[[], None]) -> bool:
        """Whether the replica is held; `change` is then called when it is released."""
        postponed = self._postponed.get(key)
        if postponed is None:
            return False
        postponed.append(change)
        return True

    def release(self, key: TopicPartition) -> None:
        """Do what was postponed; nothing if the replica is not held."""
        for change in self._postponed.pop(key, []):
            change()

    def __contains__(self, key: object) -> bool:
        return key in self._postponed

    def __len__(self) -> int:
        return len(self._postponed)

    def __repr__(self) -> str:
        return f"HeldReplicas({', '.join(map(str, self._postponed)) or 'none'})"
