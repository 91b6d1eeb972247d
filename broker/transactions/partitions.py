"""The partitions of a transaction: added by its producer, or by the leader that got the first batch, or looked up.

The first partition begins the transaction. Either all partitions of a request are added or none; one that does not
exist gets UNKNOWN_TOPIC_OR_PARTITION, and the others OPERATION_NOT_ATTEMPTED. To add what is there already changes
nothing. A group is added as the partition of `__consumer_offsets` that holds its offsets. Pure. Not here: what a leader
does about an answer (verification/).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

from broker.coordination.partition_of import partition_of
from broker.coordination.turn import Ticket, Turn
from broker.transactions.ending import TransactionEnding
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import HeldTransactions, TransactionCounters
from broker.transactions.transaction_metadata import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    VERSION_1,
    VERSION_2,
    TransactionMetadata,
)
from broker.transactions.transaction_records import RECORDS, TransactionLogKey, log_value
from broker.transactions.transactional_ids import check_not_reserved, check_transactional_id
from broker.transactions.waiting_adds import WaitingAdds
from metadata.internal_topics import CONSUMER_OFFSETS, check_write
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    OperationNotAttemptedError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.transactions.listing import TransactionState
from penstock.messages.transactions.producers import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionResult,
    TransactionPartitionResults,
    TransactionPartitions,
)
from penstock.types import TopicPartition

PARTITIONS_MAX: Final = 20_000
"""The most partitions of a transaction: each add writes the whole list."""
_PARTITION_RECORD_BYTES_MAX: Final = 280
"""The most bytes of a partition in a record, with the longest name of a topic. A record is measured only if it could be
too large by this estimate."""
_DECISION_BYTES_MAX: Final = 64
"""The bytes by which the record of the decision may be larger. It must fit, or the transaction could not be ended."""


class TransactionsPartitions:
    """Adds the partitions of transactions, or looks them up."""

    def __init__(
        self,
        config: TransactionConfig,
        held: HeldTransactions,
        ending: TransactionEnding,
        waiting: WaitingAdds,
        counters: TransactionCounters,
    ) -> None:
        self._config, self._held, self._ending = config, held, ending
        self._waiting, self._counters = waiting, counters

    def add(self, turn: Turn, ticket: Ticket, request: AddPartitionsToTxnRequest) -> None:
        if request.waits and len(request.transactions) == 1:
            (asked,) = request.transactions
            at_once = partial(self.add, ticket=ticket, request=replace(request, waits=False))
            if self._waits(turn, asked.transactional_id, asked.producer_id, ticket, at_once):
                return
        results = (self._results(turn, one) for one in request.transactions)
        turn.answer(ticket, AddPartitionsToTxnResponse(tuple(results)))

    def add_group(self, turn: Turn, ticket: Ticket, request: AddOffsetsToTxnRequest) -> None:
        def at_once(turn: Turn) -> None:
            try:
                self.add_group(turn, ticket, replace(request, waits=False))
            except ApiError as error:
                turn.answer(ticket, error.with_traceback(None))

        check_not_reserved(request.transactional_id)
        if request.waits and self._waits(turn, request.transactional_id, request.producer_id, ticket, at_once):
            return
        transaction = self._known(request.transactional_id, request.producer_id, request.producer_epoch)
        if not request.group_id:
            raise InvalidGroupIdError("the group id is empty; a group without a name has no offsets to commit")
        topic = turn.topics.by_name(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailableError(f"{CONSUMER_OFFSETS} is not there yet; ask again")
        partition = TopicPartition(CONSUMER_OFFSETS, partition_of(request.group_id, topic.partitions))
        self._add(turn, transaction, (partition,), VERSION_1)
        turn.answer(ticket, AddOffsetsToTxnResponse())

    def _waits(
        self, turn: Turn, transactional_id: str, producer_id: int, ticket: Ticket, again: Callable[[Turn], None]
    ) -> bool:
        """True if the request is decided when the last transaction is complete."""
        is_being_ended = _is_being_ended(self._held.by_id.get(transactional_id), producer_id)
        return is_being_ended and self._waiting.wait(turn, transactional_id, ticket, again)

    def _results(self, turn: Turn, asked: TransactionPartitions) -> TransactionPartitionResults:
        try:
            errors = self._errors(turn, asked)
        except ApiError as error:
            errors = dict.fromkeys(asked.partitions, error.with_traceback(None))
        results = (TransactionPartitionResult(partition, errors.get(partition)) for partition in asked.partitions)
        return TransactionPartitionResults(asked.transactional_id, tuple(results))

    def _errors(self, turn: Turn, asked: TransactionPartitions) -> dict[TopicPartition, ApiError]:
        """The errors of partitions that have one; an error that is raised is that of all."""
        check_transactional_id(asked.transactional_id)
        for one in asked.partitions:
            if one.topic != CONSUMER_OFFSETS:  # where a group's coordinator has it added, and writes its marker
                check_write(one.topic)
        unknown = {one for one in asked.partitions if not _exists(turn, one)}
        if unknown:
            return {one: _unknown(one) if one in unknown else _not_attempted(asked) for one in asked.partitions}
        transaction = self._known(asked.transactional_id, asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            return {one: _absent(transaction, one) for one in asked.partitions if one not in transaction.partitions}
        self._add(turn, transaction, asked.partitions, VERSION_2 if asked.bumps_epoch else VERSION_1)
        return {}

    def _known(self, transactional_id: str, producer_id: int, producer_epoch: int) -> TransactionMetadata:
        """The transaction that this producer may work on now."""
        check_transactional_id(transactional_id)
        found = self._held.by_id.get(transactional_id)
        if _is_being_ended(found, producer_id):
            raise ConcurrentTransactionsError(
                f"the last transaction of {transactional_id!r} is still being ended; ask again"
            )
        if found is None or found.producer_id != producer_id:
            raise InvalidProducerIdMappingError(
                f"transactional id {transactional_id!r} does not belong to producer {producer_id}"
            )
        if found.producer_epoch != producer_epoch or producer_epoch == EPOCH_MAX:
            raise found.fenced(producer_id, producer_epoch)
        return found

    def _add(
        self, turn: Turn, transaction: TransactionMetadata, partitions: Collection[TopicPartition], version: int
    ) -> None:
        is_open = transaction.state is TransactionState.ONGOING
        wanted = transaction.partitions.union(partitions) if is_open else frozenset(partitions)
        if not wanted or (is_open and len(wanted) == len(transaction.partitions)):
            return
        added = transaction.moved(
            TransactionState.ONGOING,
            turn.wall_ms,
            partitions=wanted,
            start_ms=transaction.start_ms if is_open else turn.wall_ms,
            last_producer_epoch=NO_PRODUCER_EPOCH,  # its producer has the answer that gave it this epoch
            version=version,
        )
        key = TransactionLogKey(transactional_id=transaction.transactional_id)
        self._check_size(key, added)
        self._held.must_have_room_for(transaction, added)
        turn.write(key, added)
        if not is_open:
            self._counters.begun += 1
            self._ending.opened(turn, added)

    def _check_size(self, key: TransactionLogKey, added: TransactionMetadata) -> None:
        """InvalidRequestError for a transaction that is too large, or whose record would be."""
        count, bytes_max = len(added.partitions), self._config.record_bytes_max
        if count > PARTITIONS_MAX:
            raise InvalidRequestError(
                f"a transaction has at most {PARTITIONS_MAX} partitions, and {added.transactional_id!r} would have"
                f" {count}; end it sooner"
            )
        is_near = (count + 4) * _PARTITION_RECORD_BYTES_MAX > bytes_max
        if is_near and RECORDS.size(key, log_value(added)) + _DECISION_BYTES_MAX > bytes_max:
            raise InvalidRequestError(
                f"the record of {added.transactional_id!r} with {count} partitions has more than {bytes_max} bytes;"
                " end the transaction sooner"
            )


def _is_being_ended(found: TransactionMetadata | None, producer_id: int) -> bool:
    """True if the producer's last transaction lacks markers."""
    return found is not None and found.is_prepared and producer_id in (found.producer_id, found.next_producer_id)


def _exists(turn: Turn, partition: TopicPartition) -> bool:
    topic = turn.topics.by_name(partition.topic)
    return topic is not None and 0 <= partition.partition < topic.partitions


def _unknown(partition: TopicPartition) -> ApiError:
    return UnknownTopicOrPartitionError(f"there is no partition {partition}; a transaction cannot have it")


def _not_attempted(asked: TransactionPartitions) -> ApiError:
    return OperationNotAttemptedError(
        f"nothing was added to {asked.transactional_id!r}, because another partition of the request does not exist"
    )


def _absent(transaction: TransactionMetadata, partition: TopicPartition) -> ApiError:
    return TransactionAbortableError(
        f"{partition} is not part of a transaction of {transaction.transactional_id!r}; abort, and begin again"
    )
