"""Tells parts of this node which partitions it began and ceased to lead: AFTER the image, in order, on the loop.

A part that keeps its state in the logs that this broker leads loads it when a lead begins, and drops it when the lead
ends. It hears of

    began    the broker leads the partition in this leader epoch, and requests may come
    ceased   the lead of that epoch is over: another leads, the partition is deleted or moved away, its disk failed, or
             this broker leads on in a newer epoch, which has then begun

Between two events of one partition there is always the other. A lead that has ended before it could be told is not
told. The roles of one image are all taken BEFORE any of them is told, because the callback runs in a later turn of the
loop. Not here: when a role is taken (replica_roles.py); requests that wait for acks (leader/leader_appends.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker.replication.leader.leader_state import LeaderState
from broker.replication.partition import Partition
from penstock.types import TopicPartition


class Lead(NamedTuple):
    """One partition that this broker leads, in one leader epoch."""

    partition: Partition
    leader_epoch: int


class RoleListener(Protocol):
    """A part of the node that hears of leads. It must not raise, nor take long."""

    def began_to_lead(self, lead: Lead) -> None: ...

    def ceased_to_lead(self, lead: Lead) -> None: ...


class RoleNews:
    """Notifies the listeners of leads that began and ended. There is one per broker, on the event loop."""

    def __init__(self, listeners: Sequence[RoleListener], on_fatal: Callable[[BaseException], None]) -> None:
        """`on_fatal` is told of a listener's error, for which no caller waits."""
        self._listeners, self._on_fatal = tuple(listeners), on_fatal
        self.led: dict[TopicPartition, Lead] = {}
        """The leads that listeners were notified of; kept without listeners, too, so that the simulator sees them."""
        self._changed: dict[TopicPartition, Partition] = {}
        self.past_isr_shrinks = 0
        """Changes of ISRs in the leads that have ended."""
        self.past_isr_expands = 0

    def lead_changed(self, partition: Partition, ended: LeaderState | None) -> None:
        """The partition leads in a new epoch, or leads no longer (`PartitionReports`)."""
        if ended is not None:
            self.past_isr_shrinks += ended.isr_shrinks
            self.past_isr_expands += ended.isr_expands
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._announce_all)
        self._changed[partition.topic_partition] = partition

    @property
    def is_announced(self) -> bool:
        """Everything that has changed."""
        return not self._changed

    def _announce_all(self) -> None:
        changed, self._changed = self._changed, {}
        try:
            for key, partition in changed.items():
                self._announce(key, partition)
        except Exception as bug:
            self._on_fatal(bug)

    def _announce(self, key: TopicPartition, partition: Partition) -> None:
        leading, announced = partition.leading, self.led.get(key)
        now = Lead(partition, leading.leader_epoch) if leading is not None else None
        if now == announced:
            return
        if announced is not None:
            del self.led[key]
            for listener in self._listeners:
                listener.ceased_to_lead(announced)
        if now is not None:
            self.led[key] = now
            for listener in self._listeners:
                listener.began_to_lead(now)

    def __repr__(self) -> str:
        return f"RoleNews({len(self.led)} leads told, {len(self._changed)} changes to tell)"
