"""Judges a leader's next batch or marker of a producer by what its log remembers. Pure.

    the batch is one of them                 a duplicate: answered with the offsets and the time of its first append
    its epoch is below the known one         INVALID_PRODUCER_EPOCH: an attempt from before the producer's last bump
    its epoch is above                       its sequence must be 0, else OUT_OF_ORDER_SEQUENCE_NUMBER
    its epoch is the same                    its sequence must follow the last one, else OUT_OF_ORDER_SEQUENCE_NUMBER
    the producer is not known                its sequence must be 0, else UNKNOWN_PRODUCER_ID (Kafka since 2.5 takes
                                             any; here a lost state must not let a batch in twice, KIP-360)
    a transaction is open                    INVALID_TXN_STATE for a batch that is not transactional. Or has a higher
                                             epoch: it would be committed or aborted with batches that nobody ended

A marker of a lower coordinator epoch is TRANSACTION_COORDINATOR_FENCED: that coordinator has lost its partition. A
marker that the log does not need is not written, and counts as written, or its coordinator would ask for ever: a marker
that is there already, with nothing open behind it, and a marker that the log is past. The log is past a lower epoch
than the producer's, because no epoch begins while a transaction is open. With transaction version 2 a marker has the
epoch above that of its batches (KIP-890): what is open with the marker's own epoch is a later transaction, which it
must not end.

Not here: whether a transactional batch may come in at all (the broker asks the coordinator).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
)
from penstock.record.batch import BatchHeader
from penstock.record.markers import Marker, read_marker
from penstock.types import NO_EPOCH, NO_OFFSET
from storage.append.producer_state import KnownProducers, ProducerEntry
from storage.append.transaction_state import NO_TRANSACTION, ProducerTransaction
from storage.disk.file_system import Bytes

BUMPING_VERSION = 2
"""The transaction version from which every marker bumps the producer's epoch."""


def must_fit(header: BatchHeader, known: ProducerEntry | None) -> None:
    """Raises unless the batch, which is no duplicate, is the producer's next one."""
    epoch, sequence = header.producer_epoch, header.base_sequence
    if known is None:
        if sequence:
            raise UnknownProducerIdError(
                f"producer id {header.producer_id} is not known here, and its batch begins with sequence {sequence}, "
                "not 0: the log has lost or forgotten it; go on with a higher epoch"
            )
    elif epoch < known.epoch:
        raise _epoch_is_over(header.producer_id, epoch, known.epoch)
    else:
        expected = known.next_sequence() if epoch == known.epoch else 0
        if sequence != expected:
            raise OutOfOrderSequenceError(
                f"producer id {header.producer_id}, epoch {epoch}: the batch begins with sequence {sequence}, the next "
                f"one is {expected}"
            )
        must_fit_transaction(header, known)


def must_fit_transaction(header: BatchHeader, known: ProducerEntry) -> None:
    """Raises for a data batch that cannot be part of the producer's open transaction."""
    transaction = known.transaction
    if transaction is None or transaction.first_offset == NO_OFFSET:
        return
    if not header.is_transactional:
        raise InvalidTxnStateError(
            f"producer id {header.producer_id}: its transaction of epoch {known.epoch} that began at offset "
            f"{transaction.first_offset} is open, and the batch is not transactional"
        )
    _must_be_of_open(header.producer_id, header.producer_epoch, known, transaction)


def _must_be_of_open(producer_id: int, epoch: int, known: ProducerEntry, transaction: ProducerTransaction) -> None:
    if epoch > known.epoch and transaction.first_offset != NO_OFFSET:
        raise InvalidTxnStateError(
            f"producer id {producer_id}: its transaction of epoch {known.epoch} that began at offset "
            f"{transaction.first_offset} was never ended, and the batch has epoch {epoch}: abort "
            "the transaction that hangs (penstock transactions)"
        )


def must_fit_unnumbered(producer_id: int, epoch: int, known: ProducerEntry | None) -> None:
    """Raises unless a coordinator's transactional batch without a sequence fits."""
    if known is None:
        return
    if epoch < known.epoch:
        raise _epoch_is_over(producer_id, epoch, known.epoch)
    _must_be_of_open(producer_id, epoch, known, known.transaction or NO_TRANSACTION)


def must_fit_coordinators(
    records: Bytes, batches: Sequence[tuple[int, BatchHeader]], known_producers: KnownProducers
) -> None:
    """Raises unless a coordinator's transactional batches and markers fit what was known before them."""
    ended: set[int] = set()
    for position, header in batches:
        if header.producer_id < 0 or header.producer_id in ended:
            continue
        known = known_producers.get(header.producer_id)
        if not header.is_control:
            must_fit_unnumbered(header.producer_id, header.producer_epoch, known)
            continue
        marker = read_marker(records, position)
        if marker is None:
            raise InvalidRecordError(f"the control batch at byte {position} has a producer id, and is no marker")
        _must_fit_marker(marker, known)
        ended.add(header.producer_id)


def _must_fit_marker(marker: Marker, known: ProducerEntry | None) -> None:
    """Raises unless the marker may be written."""
    must_be_newest_coordinator(marker, known)
    if known is not None and marker.producer_epoch < known.epoch:
        raise _epoch_is_over(marker.producer_id, marker.producer_epoch, known.epoch)


def needless_marker(marker: Marker, known: ProducerEntry | None, transaction_version: int) -> int | None:
    """The offset with whose commit the marker counts as written, without being written; None if it is to be written.
    Raises for a marker of an earlier coordinator."""
    must_be_newest_coordinator(marker, known)
    if known is None:
        return None
    if marker.producer_epoch < known.epoch:
        return known.newest_offset
    if marker.producer_epoch > known.epoch:
        return None
    transaction = known.transaction or NO_TRANSACTION
    if transaction.first_offset != NO_OFFSET:
        return transaction.first_offset if transaction_version >= BUMPING_VERSION else None
    return transaction.unnumbered_offset if marker.coordinator_epoch == transaction.coordinator_epoch else None


def must_be_newest_coordinator(marker: Marker, known: ProducerEntry | None) -> None:
    newest = NO_EPOCH if known is None or known.transaction is None else known.transaction.coordinator_epoch
    if marker.coordinator_epoch < newest:
        raise TransactionCoordinatorFencedError(
            f"producer id {marker.producer_id}: coordinator epoch {marker.coordinator_epoch} is over, epoch "
            f"{newest} has written a marker"
        )


def _epoch_is_over(producer_id: int, epoch: int, known_epoch: int) -> InvalidProducerEpochError:
    return InvalidProducerEpochError(f"producer id {producer_id}: epoch {epoch} is over, epoch {known_epoch} has begun")
