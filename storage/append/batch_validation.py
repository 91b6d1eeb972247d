"""Every check of an append, made before any byte is written. Pure.

A leader checks batches strictly (header_check.py: which batches each origin may write). A follower takes batches as the
leader placed them (placing.py), and checks that they continue its log and are undamaged. Only a leader looks at the
records inside a batch, once: that they can be read, and which time is the largest (record_validation.py), and that they
have keys where the topic is compacted (key_validation.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import CorruptMessageError, MessageTooLargeError, RecordListTooLargeError
from penstock.record.batch import BatchHeader, iter_headers, verify_crc
from penstock.record.verifier import WRONG_CHECKSUM, count_fault, epoch_order_fault, offset_fault
from storage.append.append_origin import PRODUCER, AppendOrigin
from storage.append.header_check import check_fetched_room, check_produced_batch, from_leader
from storage.append.key_validation import check_keys
from storage.append.record_validation import readable, to_look_at
from storage.append.time_validation import check_times
from storage.disk.file_system import Bytes
from storage.log_config import MAX_SEGMENT_BYTES, LogConfig
from storage.segment.offset_index import MAX_RELATIVE_OFFSET


def whole_batches(records: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; CorruptMessageError if there is no batch, or bytes are left over."""
    end = 0
    for position, header in iter_headers(records):
        yield position, header
        end = position + header.size_bytes
    if end == 0 or end != len(records):
        raise CorruptMessageError(
            f"{len(records)} bytes are not whole record batches: {len(records) - end} are left over"
        )


def check_produced(
    records: Bytes, config: LogConfig, now_ms: int, *, may_take_long: bool = False, origin: AppendOrigin = PRODUCER
) -> tuple[Bytes, list[tuple[int, BatchHeader]]]:
    """The batches of one append, after every check of the leader, each with the largest timestamp of its records in its
    header. They are the same bytes where that was so. `may_take_long`: not on the event loop.

    The topic's limits on sizes are for clients. A coordinator bounds the growth of its own state; what the state has
    already must find room in its log, or a limit that is lowered would end a whole partition's service."""
    if len(records) > (config.segment_bytes if origin is PRODUCER else MAX_SEGMENT_BYTES):
        raise RecordListTooLargeError(
            f"{len(records)} bytes do not fit into a segment of segment.bytes = {config.segment_bytes}"
        )
    batches = list(whole_batches(records))
    stamps, offsets = config.message_timestamp_type == "LogAppendTime", 0
    for position, header in batches:
        if origin is PRODUCER:
            check_size(header, config)
        if not verify_crc(records, position, header):
            raise CorruptMessageError(f"the batch at byte {position} {WRONG_CHECKSUM}")
        check_produced_batch(header, records, position, stamps=stamps, origin=origin)
        offsets += header.record_count
    if offsets > MAX_RELATIVE_OFFSET:
        raise RecordListTooLargeError(
            f"{offsets} records do not fit into a segment, whose index holds offsets up to {MAX_RELATIVE_OFFSET}"
        )
    if origin is PRODUCER and (seen := readable(records, to_look_at(batches, config))) is not records:
        records, batches = seen, list(whole_batches(seen))
    if not stamps:
        for position, header in batches:
            check_times(records, position, header, config, now_ms, may_take_long=may_take_long)
    if config.is_compacted:
        check_keys(records, batches)
    return records, batches


def check_size(header: BatchHeader, config: LogConfig, when: str = "") -> None:
    """max.message.bytes, which counts a batch as it is stored, and is a limit for data."""
    if header.size_bytes > config.max_message_bytes:
        raise MessageTooLargeError(
            f"a batch of {header.size_bytes} bytes{when} is larger than max.message.bytes = {config.max_message_bytes}"
        )


def check_fetched(records: Bytes, log_end_offset: int, latest_epoch: int) -> list[tuple[int, BatchHeader]]:
    """A leader's batches, after checking that they are undamaged, continue the log, and have epochs that never fall."""
    batches = list(whole_batches(records))
    expected, epoch = log_end_offset, latest_epoch
    for position, header in batches:
        fault = (
            offset_fault(header.base_offset, expected)
            or epoch_order_fault(header.leader_epoch, epoch)
            or (None if verify_crc(records, position, header) else WRONG_CHECKSUM)
            or count_fault(header)
        )
        if fault is not None:
            raise CorruptMessageError(from_leader(header.base_offset, fault))
        check_fetched_room(header)
        expected, epoch = header.next_offset, header.leader_epoch
    return batches
