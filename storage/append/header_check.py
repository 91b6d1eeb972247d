"""Checks a batch's header against its bytes, before anything of it is written. Pure, of constant cost for a batch.

The checksum proves that a batch is what its producer wrote, not that its header is true. A header of 61 bytes can
announce 2^31 records, or an unpacked size that no reader takes. These must hold:

    records       as many as offsets, one at least; each takes 7 bytes of the body, or of its largest unpacked size
    compression   the body begins as the codec's streams do, and announces no more than readers unpack
    attributes    the codec, and the log-append-time bit on topics that stamp batches anyway; others are a
                  coordinator's (control), the cleaner's (delete horizon), a producer's with an id (transactional) or
                  unknown
    producer id,  the id is -1, and the others mean nothing (some clients count sequences without an id), or none of
    epoch,        them is negative (an idempotent producer; for the log see `producer_rules.py`). A coordinator's
    sequence      control batch has no sequence: it may end a producer's transaction, and is no batch of it.
                  A coordinator's transactional batch has none either

For a leader's batch, a follower checks here only that the body has room for the records: compacted batches have fewer
records than offsets. It accepts everything else that the leader accepted, because replicas are equal.

Not here: the records (`record_validation.py`), and sizes, times and checksums (`batch_validation.py`).
"""

from __future__ import annotations

from penstock.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
)
from penstock.record.announced import MAX_RATIOS, NOT_A_STREAM, announced_bytes
from penstock.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MIN_BATCH_LENGTH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from penstock.record.codecs import codec_from_id
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES
from penstock.record.verifier import dense_count_fault, room_fault
from storage.append.append_origin import COORDINATOR, PRODUCER, AppendOrigin
from storage.disk.file_system import Bytes

MAX_UNPACKED_BYTES = DEFAULT_MAX_DECOMPRESSED_BYTES
"""The limit of one unpacked batch, and of all compressed batches of one append together. A larger batch would be in the
log, but no reader would unpack it."""
_MAX_CODEC_ID = len(MAX_RATIOS) - 1


def check_produced_batch(
    header: BatchHeader, records: Bytes, at: int, *, stamps: bool, origin: AppendOrigin = PRODUCER
) -> None:
    """The batch at `records[at:]`, as it came from its origin; `stamps`: the topic has LogAppendTime."""
    fault = dense_count_fault(header)
    if fault is not None:
        raise InvalidRecordError(f"the batch at byte {at} {fault}")
    if (
        header.producer_id != NO_PRODUCER_ID
        or header.producer_epoch != NO_PRODUCER_EPOCH
        or header.base_sequence != NO_SEQUENCE
    ):
        if origin is COORDINATOR and header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            _check_unnumbered(header, at)
        elif header.producer_id != NO_PRODUCER_ID:
            _check_producer(header, at, len(records))
    attributes, room_bytes = header.attributes, header.batch_length - MIN_BATCH_LENGTH
    if attributes:
        if attributes & ~CODEC_MASK:
            _check_attributes(header, at, stamps=stamps, origin=origin)
        _check_body(attributes & CODEC_MASK, records, at, at + header.size_bytes)
        room_bytes = _room(attributes & CODEC_MASK, room_bytes)
    fault = room_fault(header.record_count, room_bytes)
    if fault is not None:
        raise InvalidRecordError(f"the batch at byte {at} {fault}")


def check_fetched_room(header: BatchHeader) -> None:
    """A batch as the leader sent it: CorruptMessageError when it cannot have the records that it announces."""
    room_bytes = header.batch_length - MIN_BATCH_LENGTH
    if header.attributes & CODEC_MASK:
        room_bytes = _room(header.attributes & CODEC_MASK, room_bytes)
    fault = room_fault(header.record_count, room_bytes)
    if fault is not None:
        what = from_leader(header.base_offset, fault)
        raise CorruptMessageError(f"{what}; delete the records up to {header.last_offset} to go past it")


def check_unpacked(header: BatchHeader, body_bytes: int) -> None:
    """A body that was unpacked: it has room for the records."""
    fault = room_fault(header.record_count, body_bytes)
    if fault is not None:
        raise InvalidRecordError(f"a batch that unpacks to {body_bytes} bytes {fault}")


def from_leader(offset: int, fault: str) -> str:
    """The fault of a batch that a follower got, as a sentence."""
    return f"the leader's batch at offset {offset} {fault}"


def _check_producer(header: BatchHeader, at: int, size_bytes: int) -> None:
    producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
    if producer_id < 0 or epoch < 0 or sequence < 0:
        raise InvalidRecordError(
            f"the batch at byte {at} has producer id {producer_id}, epoch {epoch} and sequence {sequence}: none of "
            "them may be negative, unless the producer id is -1"
        )
    if header.size_bytes != size_bytes:
        raise InvalidRecordError(
            f"the batch at byte {at} has producer id {producer_id}, and is not the only one for its partition in the "
            "request: an idempotent producer sends one batch at a time"
        )


def _check_unnumbered(header: BatchHeader, at: int) -> None:
    producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
    if sequence != NO_SEQUENCE or producer_id < 0 or epoch < 0:
        kind = "control" if header.is_control else "transactional"
        raise InvalidRecordError(
            f"the {kind} batch at byte {at} has producer id {producer_id}, epoch {epoch} and sequence {sequence}: the "
            "sequence must be -1, and the others both -1 or both not negative"
        )


def _room(codec_id: int, body_bytes: int) -> int:
    """The largest size to which a compressed body can unpack."""
    ratio = MAX_RATIOS[codec_id] if codec_id <= _MAX_CODEC_ID else 0
    return min(ratio * body_bytes, MAX_UNPACKED_BYTES)


def _check_body(codec_id: int, records: Bytes, at: int, end: int) -> None:
    if codec_id > _MAX_CODEC_ID:
        codec_from_id(codec_id)  # raises UnsupportedCompressionTypeError
    announced = announced_bytes(codec_id, records, at + HEADER_BYTES, end)
    if announced == NOT_A_STREAM:
        name = codec_from_id(codec_id).name.lower()
        raise CorruptMessageError(f"the header of the batch at byte {at} says {name}, but its body is no {name} stream")
    if announced > MAX_UNPACKED_BYTES and codec_id:
        raise MessageTooLargeError(
            f"the batch at byte {at} unpacks to {announced} bytes, the limit is {MAX_UNPACKED_BYTES}: send smaller "
            "batches"
        )


def _check_attributes(header: BatchHeader, at: int, *, stamps: bool, origin: AppendOrigin) -> None:
    what, attributes = f"the batch at byte {at}", header.attributes
    is_control = bool(attributes & CONTROL_BIT)
    if is_control and origin is not COORDINATOR:
        raise InvalidRecordError(f"{what} is a control batch; clients may not write them")
    if attributes & DELETE_HORIZON_BIT:
        raise InvalidRecordError(f"{what} has a delete horizon (attribute bit 6); only the log cleaner sets it")
    if attributes & TRANSACTIONAL_BIT and header.producer_id == NO_PRODUCER_ID:
        raise InvalidRecordError(f"{what} is transactional (attribute bit 4), and has no producer id")
    if attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT):
        raise InvalidRecordError(f"{what} has attributes {attributes:#x}, of which some bits are not known")
    if attributes & LOG_APPEND_TIME_BIT and not stamps:
        raise InvalidTimestampError(
            f"{what} says LogAppendTime (attribute bit 3), but the topic has message.timestamp.type=CreateTime"
        )
