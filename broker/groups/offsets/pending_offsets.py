"""The offsets that wait for the end of their transactions (KIP-98, KIP-447), beside the committed ones.

A place is a partition of a topic in a group. Several producers may have an offset there, each its own. Of all records
of a place, committed at once or by a transaction, the one that stands last in the log counts: so it is after the log
was compacted, too. An offset that a later one has replaced waits on without a value, since the transaction of its
producer is not decided: the place is not stable. A tombstone forgets everything that waited there before it.

Nothing is kept of a producer without such offsets. An offset whose commit will make its group larger reserves memory
that lasts, because the end of its transaction is not refused; any other one takes memory until that end alone. Not
here: the committed offsets (offsets_state.py), and whether a producer may commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.coordination.held_memory import NO_UNIT, UNIT_BYTES, Grown, text_bytes, uncounted
from broker.groups.records.offset_records import OffsetCommitValue
from penstock.types import TopicPartition

GROUP_BYTES: Final = 200 + UNIT_BYTES
"""The memory of a group with an offset that waits, about."""
PRODUCER_BYTES: Final = 200
"""…of a producer."""
ENTRY_BYTES: Final = 740
"""…of an offset, without its text. With these figures an estimate is within a tenth of what tracemalloc counts."""


class DecidedOffset(NamedTuple):
    """An offset of a transaction that was committed. `order` says which records of its place are later ones."""

    group_id: str
    place: TopicPartition
    value: OffsetCommitValue
    order: int


class _Pending:
    """`value` None: a later record of the place counts."""

    __slots__ = ("order", "reserved", "value")

    def __init__(self, order: int, value: OffsetCommitValue, reserved: int) -> None:
        self.order, self.reserved = order, reserved
        self.value: OffsetCommitValue | None = value

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES if self.value is None else entry_bytes(self.value)


def entry_bytes(value: OffsetCommitValue) -> int:
    return ENTRY_BYTES + text_bytes(value.metadata)


class PendingOffsets:
    """The offsets of one shard that wait for the end of their transactions."""

    def __init__(self, grown: Grown = uncounted, grown_for_now: Grown = uncounted) -> None:
        self._grown, self._grown_for_now = grown, grown_for_now
        self._groups: dict[str, dict[TopicPartition, dict[int, _Pending]]] = {}
        self._producers: dict[int, dict[tuple[str, TopicPartition], None]] = {}
        self._order = 0
        self._entries = 0
        self.bytes = 0
        """An estimate of the memory."""

    # -- in ------------------------------------------------------------------------------------------------------------

    def put(
        self, producer_id: int, group_id: str, place: TopicPartition, value: OffsetCommitValue, reserved: int = 0
    ) -> None:
        """The next record of the place; instead of that producer's last one. `reserved`: bytes of memory that lasts."""
        self._order += 1
        self._drop(producer_id, group_id, place)
        places = self._groups.get(group_id)
        if places is None:
            places = self._groups[group_id] = {}
            self._changed(group_id, GROUP_BYTES + text_bytes(group_id))
        keys = self._producers.get(producer_id)
        if keys is None:
            keys = self._producers[producer_id] = {}
            self._changed(NO_UNIT, PRODUCER_BYTES)
        entry = places.setdefault(place, {})[producer_id] = _Pending(self._order, value, reserved)
        keys[group_id, place] = None
        self._entries += 1
        self._count(group_id, entry, 1)

    def replaced(self, group_id: str, place: TopicPartition, order: int | None = None) -> None:
        """An offset is committed there; those that stand before it will not count. `order` is that of an offset that
        has waited itself."""
        for entry in self._groups.get(group_id, {}).get(place, {}).values():
            if entry.value is not None and (order is None or entry.order < order):
                self._count(group_id, entry, -1)
                entry.value, entry.reserved = None, 0
                self._count(group_id, entry, 1)

    def forget(self, group_id: str, place: TopicPartition) -> None:
        """A tombstone: nothing waits there any more."""
        for producer_id in list(self._groups.get(group_id, {}).get(place, ())):
            self._drop(producer_id, group_id, place)

    def decided(self, producer_id: int) -> list[DecidedOffset]:
        """The offsets of this producer that count if its transaction is committed now."""
        decided = []
        for group_id, place in self._producers.get(producer_id, ()):
            entry = self._groups[group_id][place][producer_id]
            if entry.value is not None:
                decided.append(DecidedOffset(group_id, place, entry.value, entry.order))
        return decided

    def ended(self, producer_id: int) -> None:
        """Removes the offsets of this producer: its transaction has ended. Called AFTER they were committed, so the
        party that holds the memory of a group which they make holds it before and after."""
        for group_id, place in list(self._producers.get(producer_id, ())):
            self._drop(producer_id, group_id, place)

    def _drop(self, producer_id: int, group_id: str, place: TopicPartition) -> None:
        places = self._groups.get(group_id, {})
        entry = places.get(place, {}).pop(producer_id, None)
        if entry is None:
            return
        self._entries -= 1
        self._count(group_id, entry, -1)
        if not places[place]:
            del places[place]
        if not places:
            del self._groups[group_id]
            self._changed(group_id, -GROUP_BYTES - text_bytes(group_id))
        keys = self._producers[producer_id]
        del keys[group_id, place]
        if not keys:
            del self._producers[producer_id]
            self._changed(NO_UNIT, -PRODUCER_BYTES)

    def _changed(self, unit: str, by: int) -> None:
        self.bytes += by
        self._grown_for_now(unit, by)

    def _count(self, group_id: str, entry: _Pending, sign: int) -> None:
        if entry.reserved:
            self.bytes += sign * entry.bytes
            self._grown(group_id, sign * entry.reserved)
        else:
            self._changed(group_id, sign * entry.bytes)

    # -- out -----------------------------------------------------------------------------------------------------------

    def has(self, group_id: str, place: TopicPartition) -> bool:
        """True if a transaction that is not decided has an offset there: the committed one may change."""
        return place in self._groups.get(group_id, ())

    def places_of(self, group_id: str) -> Iterable[TopicPartition]:
        return self._groups.get(group_id, {}).keys()

    def counted(self, producer_id: int, group_id: str, place: TopicPartition) -> tuple[int, int]:
        """The bytes of the producer's offset there: those that are reserved, and those that end with the
        transaction."""
        entry = self._groups.get(group_id, {}).get(place, {}).get(producer_id)
        if entry is None:
            return 0, 0
        return (entry.reserved, 0) if entry.reserved else (0, entry.bytes)

    def values_at(self, group_id: str, place: TopicPartition) -> Iterator[OffsetCommitValue]:
        """The offsets there that may come to count."""
        for entry in self._groups.get(group_id, {}).get(place, {}).values():
            if entry.value is not None:
                yield entry.value

    def group_ids(self) -> Iterable[str]:
        return self._groups.keys()

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        """Offsets of all producers."""
        return self._entries

    def __repr__(self) -> str:
        return f"PendingOffsets({len(self)} of {len(self._producers)} producers, {len(self._groups)} groups)"
