"""Produce, for batches of transactions: they are appended at once, or held until their coordinator has answered.

At once, if the producer has its transaction open in the partition already, in that epoch, if the batch is a duplicate,
or if nothing is verified and the producer has added the partition itself. Otherwise the partition must be part of the
transaction first (`broker/transactions/verification/`): added by this leader, or with transaction version 1 found in
it. The question has two thirds of the request's time, so that its error comes before the request's time is up, and some
time is left for the acks.

A held batch whose client has left meanwhile is not appended, like any request that was given up (produce.py).
"""

from __future__ import annotations

import logging

from broker.apis.producing.delayed_produce import DelayedProduce
from broker.network.parties import party_of
from broker.network.request_channel import Request
from broker.replication.leader.leader_appends import LeaderAppends, waiters_of
from broker.replication.leader.purgatory import Waiter
from broker.replication.partition import Partition
from broker.transactions.verification.held_batches import HeldBatches
from broker.transactions.verification.questions import InTransaction
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    NetworkError,
    UnknownServerError,
)
from penstock.messages.produce import PartitionProduceResult, ProduceRequest
from penstock.messages.security.acls import Operation
from penstock.record.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    PRODUCER_ID_AT,
    PRODUCER_ID_BYTES,
    TRANSACTIONAL_BIT,
    Buffer,
    read_header,
)
from penstock.throttled_lines import ThrottledLines
from storage.append.append_info import AppendInfo
from storage.append.append_origin import PRODUCER

_log = logging.getLogger(__name__)
_BIT_AT = ATTRIBUTES_AT + 1


def is_transactional(records: Buffer) -> bool:
    """Looks at one bit of the first batch. A batch of a producer is the only one for its partition."""
    return len(records) > _BIT_AT and bool(records[_BIT_AT] & TRANSACTIONAL_BIT)


def check_producers(body: ProduceRequest) -> None:
    """The batches of one transaction are of one producer: InvalidProducerIdMappingError, as in Kafka, before anything
    is appended."""
    producers = {
        bytes(records[PRODUCER_ID_AT : PRODUCER_ID_AT + PRODUCER_ID_BYTES])
        for _, _, records in body.partitions
        if len(records) >= HEADER_BYTES and is_transactional(records)
    }
    if len(producers) > 1:
        raise InvalidProducerIdMappingError(
            f"the request has batches of transactional id {body.transactional_id!r} from {len(producers)} producers;"
            " one transactional id has one producer; nothing was written"
        )


def note_append(result: PartitionProduceResult, info: AppendInfo) -> None:
    result.base_offset, result.log_append_time_ms = info.first_offset, info.log_append_time_ms


class TransactionalProduce:
    """Appends or holds the transactional batches of all requests. There is one per broker."""

    def __init__(self, held: HeldBatches, logs: LeaderAppends, clock: Clock) -> None:
        self._held, self._logs = held, logs
        self._lines = ThrottledLines(clock.now_ms)

    def holds(
        self, partition: Partition, records: Buffer, index: int, request: Request, answer: DelayedProduce
    ) -> bool:
        """False if the batch may be appended now. Otherwise the result of the partition with this place in the request
        is known later."""
        body: ProduceRequest = request.body  # type: ignore[assignment]
        if not body.transactional_id:
            raise InvalidRequestError(
                f"{partition.topic_partition}: the batch is part of a transaction, and the request has no transactional"
                " id; nothing was written"
            )
        if len(records) < HEADER_BYTES:
            return False  # the log says what is wrong with it
        header, log = read_header(records), partition.log
        producer_id, epoch = header.producer_id, header.producer_epoch
        leading = partition.leader_state()
        if producer_id < 0 or epoch < 0:
            return False
        transaction = InTransaction(body.transactional_id, producer_id, epoch, not body.adds_partitions)
        if not self._held.holds(partition, producer_id) and (
            log.transactions.is_open(producer_id, epoch)
            or log.producers.answer_duplicate(records) is not None
            or self._held.may_begin(transaction)
        ):
            return False
        partition.must_have_enough(leading, body.acks)
        batch = _Batch(self._held, self._logs, partition, records, transaction, index, request, answer, self._lines)
        self._held.hold(partition, batch)
        batch.is_held()
        return True


class _Batch:
    """A batch that is held (`HeldBatch`), and the waiters of its result until it is appended (`Waiters`)."""

    __slots__ = (
        "_acks",
        "_answer",
        "_held",
        "_index",
        "_lines",
        "_logs",
        "_partition",
        "_records",
        "_request",
        "_result",
        "_waiter",
        "in_transaction",
        "party",
        "size_bytes",
        "wait_ms",
    )

    def __init__(
        self,
        held: HeldBatches,
        logs: LeaderAppends,
        partition: Partition,
        records: Buffer,
        in_transaction: InTransaction,
        index: int,
        request: Request,
        answer: DelayedProduce,
        lines: ThrottledLines,
    ) -> None:
        body: ProduceRequest = request.body  # type: ignore[assignment]
        self._lines = lines
        self._held, self._logs, self._partition = held, logs, partition
        self._records = records if isinstance(records, bytes) else bytes(records)  # a view holds the whole request
        self._index, self._request, self._answer = index, request, answer
        self._acks, self._result = body.acks, answer.result(index)
        self._waiter: Waiter | None = None
        self.in_transaction = in_transaction
        self.size_bytes, self.party = len(records), party_of(request.caller)
        self.wait_ms = answer.left_ms * 2 / 3

    def is_held(self) -> None:
        if self._acks:
            self._waiter = self._answer.wait(self)

    def discard(self, waiter: Waiter) -> None:
        """The request's time is up."""
        self._held.discard(self._partition, self)

    def release(self, error: ApiError | None) -> None:
        """The coordinator has answered."""
        records, self._records = self._records, b""
        try:
            if error is None:
                self._append(records)
        except ApiError as refusal:
            error = refusal
        except Exception as defect:
            _log.exception("%s: appending a batch of %s", self._partition, self.in_transaction)
            error = UnknownServerError(f"Produce: {type(defect).__name__}: {defect}")
        if error is not None:
            self._fail(without_frames(error))

    def _append(self, records: Buffer) -> None:
        if self._acks and self._request.is_abandoned:
            raise NetworkError(
                "the client's stream ended while the batch waited for its coordinator; nothing was written"
            )
        rights = self._request.rights
        if rights is not None:  # an ACL may have changed while the batch waited
            refusal = rights.refusal(Operation.WRITE, self._partition.topic_partition.topic)
            if refusal is not None:
                raise refusal
        info = self._logs.append(self._partition, records, self._acks, PRODUCER)
        note_append(self._result, info)
        if self._waiter is not None:
            self._answer.waits_on(self._index, waiters_of(self._partition, self._acks))
        self._logs.when_acked(self._partition, info, self._acks, self._waiter)

    def _fail(self, error: ApiError) -> None:
        if self._waiter is None:  # with acks=0 nobody waits
            self._result.error = error
            if (more := self._lines.due(type(error).__name__)) is not None:
                _log.info("%s: %s%s", self._partition.topic_partition, error, more)
        else:
            self._waiter(error)

    def __repr__(self) -> str:
        return f"_Batch({self._partition.topic_partition}, {self.in_transaction}, {self.size_bytes} bytes)"
