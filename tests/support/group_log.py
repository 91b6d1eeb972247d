"""Record batches of groups' records, as the coordinator writes them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.record_log import Entry, LogPart, RecordRun, StateRecord, TransactionalRecord, TxnProducer
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.records.offset_records import OffsetCommitKey
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetWriter
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.markers import Marker

WALL_MS = 1_700_000_000_000


def written_batches(records: Iterable[StateRecord], batch_bytes: int = 1 << 20) -> list[bytes]:
    """Each of one append, with the offsets that a log gives them."""
    limits = TickLimits(batch_bytes, batch_bytes, Codec.NONE)
    turns = [[record] for record in records]
    return in_a_log(tick_batches(turns, UsualOffsetWriter().encode, WALL_MS, limits))


def in_a_log(appends: Iterable[bytes], offset: int = 0) -> list[bytes]:
    """The same, with offsets from this one on."""
    placed = []
    for append in appends:
        batches = bytearray(append)
        for at, header in iter_headers(append):
            batches[at : at + 8] = offset.to_bytes(8, "big")
            offset += header.last_offset_delta + 1
        placed.append(bytes(batches))
    return placed


def batch_of(key: bytes, value: bytes | None, producer: TxnProducer | None) -> bytes:
    """A batch with one record, perhaps of a transaction."""
    if producer is None:
        return build_batch([value], keys=[key], timestamps_ms=WALL_MS)
    return build_batch(
        [value],
        keys=[key],
        timestamps_ms=WALL_MS,
        is_transactional=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


def entries_of(part: LogPart) -> list[Entry]:
    """The entries, with the records of each run one by one."""
    found: list[Entry] = []
    for entry in part.records:
        if isinstance(entry, RecordRun):
            (group, topic), run = entry.key, entry.values
            found += [
                (OffsetCommitKey(group=group, topic=topic, partition=partition), value)
                for partition, value in run.items()
            ]
        else:
            found.append(entry)
    return found


def loaded_offsets(*parts: bytes) -> GroupOffsetsState:
    """The offsets of a log that is read in these parts."""
    state = GroupOffsetsState()
    for part in parts:
        for entry in read_group_records(part, 0).records:
            if isinstance(entry, Marker):
                state.replay_end(entry.producer_id, entry.is_committed)
            elif isinstance(entry, TransactionalRecord):
                state.replay_pending(entry.producer.producer_id, entry.key, entry.value)
            elif type(entry[0]) in state.replays:
                state.replays[type(entry[0])](*entry[:2])
    return state
