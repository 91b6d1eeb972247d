"""The committed offsets of one group in one topic, in few bytes: a coordinator may hold millions of them.

    partitions   int32 each, ascending
    entries      OFFSET_ENTRY each, in the order of `partitions`: as their records have them, so that a load copies them

What most commits do not have (a text, a time of expiry, another topic's id) is kept aside, by partition. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.coordination.held_memory import text_bytes
from broker.groups.records.offset_records import OFFSET_ENTRY, OffsetCommitValue, OffsetRun
from penstock.types import NO_EPOCH, NO_TIMESTAMP

_ENTRY: Final = OFFSET_ENTRY
_SIZE: Final = _ENTRY.size
TOPIC_BYTES: Final = 500
"""The memory of an object without entries, about."""
ENTRY_BYTES: Final = _SIZE + 4 + 4
"""…of an entry, with what the arrays keep free."""
EXTRA_BYTES: Final = 200
"""…of what is kept aside, without the text."""


class StoredOffset(NamedTuple):
    """`expire_ms` is a client's own, else -1 (offsets.retention.minutes counts)."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_ms: int = NO_TIMESTAMP
    expire_ms: int = NO_TIMESTAMP
    topic_id: str = ""


class _Extra(NamedTuple):
    metadata: str
    expire_ms: int
    topic_id: str


class TopicOffsets:
    """The committed offsets of one group in one topic. `topic_id` is that of the first commit; other ids are kept
    aside."""

    __slots__ = ("_entries", "_extras", "_partitions", "topic_id")

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self._partitions = array("i")
        self._entries = bytearray()
        self._extras: dict[int, _Extra] | None = None

    def put(self, partition: int, value: OffsetCommitValue) -> int:
        """Keep the offset instead of that partition's last one; the bytes by which this object has grown."""
        offset, leader_epoch, commit_ms = value.offset, value.leader_epoch, value.commit_timestamp
        partitions, grown = self._partitions, 0
        at = self._place_of(partition)
        if at < len(partitions) and partitions[at] == partition:
            _ENTRY.pack_into(self._entries, at * _SIZE, offset, leader_epoch, commit_ms)
        else:
            partitions.insert(at, partition)
            self._entries[at * _SIZE : at * _SIZE] = _ENTRY.pack(offset, leader_epoch, commit_ms)
            grown = ENTRY_BYTES
        if value.metadata or value.expire_timestamp != NO_TIMESTAMP or value.topic_id != self.topic_id:
            extra = _Extra(value.metadata, value.expire_timestamp, value.topic_id)
            return grown + self._put_extra(partition, extra)
        return grown + (self._drop_extra(partition) if self._extras is not None else 0)

    def growth(self, partition: int, value: OffsetCommitValue) -> int:
        """The bytes that `put` would say."""
        partitions, at = self._partitions, self._place_of(partition)
        grown = 0 if at < len(partitions) and partitions[at] == partition else ENTRY_BYTES
        if value.metadata or value.expire_timestamp != NO_TIMESTAMP or value.topic_id != self.topic_id:
            grown += EXTRA_BYTES + text_bytes(value.metadata)
        before = None if self._extras is None else self._extras.get(partition)
        return grown if before is None else grown - EXTRA_BYTES - text_bytes(before.metadata)

    def put_run(self, run: OffsetRun) -> int:
        """`put` of each of its offsets. In one piece where they are all new and the last ones, or all that are here."""
        partitions, count = self._partitions, len(run.partitions)
        if run.topic_id == self.topic_id and not self._extras:
            if not partitions or partitions[-1] < run.partitions[0]:
                partitions.extend(run.partitions)
                self._entries += run.entries
                return count * ENTRY_BYTES
            if partitions == run.partitions:
                self._entries[:] = run.entries
                return 0
        return sum(self.put(partition, value) for partition, value in run.items())

    def pop(self, partition: int) -> int:
        """Forget the partition; the bytes by which this object has grown, which are not positive."""
        at = self._place_of(partition)
        if at >= len(self._partitions) or self._partitions[at] != partition:
            return 0
        del self._partitions[at]
        del self._entries[at * _SIZE : (at + 1) * _SIZE]
        return self._drop_extra(partition) - ENTRY_BYTES

    def get(self, partition: int) -> StoredOffset | None:
        at = self._place_of(partition)
        if at >= len(self._partitions) or self._partitions[at] != partition:
            return None
        return self._made(partition, *_ENTRY.unpack_from(self._entries, at * _SIZE))

    def items(self) -> Iterator[tuple[int, StoredOffset]]:
        """The offsets by partition; of a copy, so what is iterated may change meanwhile."""
        entries = _ENTRY.iter_unpack(bytes(self._entries))
        for partition, entry in zip(self._partitions.tolist(), entries, strict=True):
            yield partition, self._made(partition, *entry)

    def has_other_id(self, topic_id: str) -> bool:
        """True if an offset may be of a topic with another id."""
        return bool(self._extras) or self.topic_id not in ("", topic_id)

    def _made(self, partition: int, offset: int, leader_epoch: int, commit_ms: int) -> StoredOffset:
        extra = None if self._extras is None else self._extras.get(partition)
        metadata, expire_ms, topic_id = ("", NO_TIMESTAMP, self.topic_id) if extra is None else extra
        return StoredOffset(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)

    def _place_of(self, partition: int) -> int:
        """The place where it is, or belongs; at once where all partitions from 0 on are there."""
        partitions = self._partitions
        if partition < len(partitions) and partitions[partition] == partition:
            return partition
        return bisect_left(partitions, partition)

    def _put_extra(self, partition: int, extra: _Extra) -> int:
        if self._extras is None:
            self._extras = {}
        grown = self._drop_extra(partition)
        self._extras[partition] = extra
        return grown + EXTRA_BYTES + text_bytes(extra.metadata)

    def _drop_extra(self, partition: int) -> int:
        extra = None if self._extras is None else self._extras.pop(partition, None)
        return 0 if extra is None else -EXTRA_BYTES - text_bytes(extra.metadata)

    def __len__(self) -> int:
        return len(self._partitions)

    def __repr__(self) -> str:
        return f"TopicOffsets({len(self)} partitions)"
