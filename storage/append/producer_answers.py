"""Answers a producer's batch before it is written: a duplicate with its offsets, one that does not fit with an error.

Writes nothing. It counts, and for a producer that is new here one that was silent for long may be forgotten. The rules
are in producer_rules.py and producer_state.py. Not here: when the state is loaded and changed
(storage/log/producers/producer_log.py).
"""

from __future__ import annotations

import contextlib

from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from penstock.record.batch import BatchHeader, read_header, verify_crc
from storage.append.append_info import AppendInfo
from storage.append.producer_ids import ProducerIds
from storage.append.producer_rules import must_fit
from storage.append.producer_state import KnownProducers
from storage.disk.file_system import Bytes


def answer(header: BatchHeader, producers: KnownProducers, ids: ProducerIds | None) -> AppendInfo | None:
    """The answer to a producer's checked batch if it is a duplicate; None if it is to be written. Raises if it does not
    fit. `ids`: None for a log that takes none."""
    if ids is None:
        raise InvalidRecordError("this log takes no batches of idempotent producers")
    known = producers.get(header.producer_id)
    if known is not None and known.goes_on_with(header):
        return None
    if known is not None and (first := known.has(header)) is not None:
        ids.counts.duplicates += 1
        return AppendInfo(
            first_offset=first.base_offset,
            last_offset=first.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
            log_append_time_ms=first.append_time_ms,
            record_count=header.record_count,
            size_bytes=header.size_bytes,
            is_duplicate=True,
        )
    try:
        must_fit(header, known)
    except ApiError as refusal:
        _count(ids, refusal)
        raise
    if known is None:
        ids.make_room(producers)
    return None


def answer_again(records: Bytes, producers: KnownProducers, ids: ProducerIds | None) -> AppendInfo | None:
    """The answer to records that the log's present configuration refuses, if they are a duplicate, which was accepted
    once; None if they are not."""
    with contextlib.suppress(CorruptMessageError):
        header = read_header(records)
        known = producers.get(header.producer_id)
        if known is not None and known.has(header) is not None:
            is_whole = header.size_bytes == len(records) and verify_crc(records, 0, header)
            return answer(header, producers, ids) if is_whole else None
    return None


def _count(ids: ProducerIds, refusal: ApiError) -> None:
    counts = ids.counts
    counts.out_of_order += isinstance(refusal, OutOfOrderSequenceError)
    counts.fenced += isinstance(refusal, InvalidProducerEpochError)
    counts.unknown += isinstance(refusal, UnknownProducerIdError)
