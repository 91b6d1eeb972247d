"""Produce: append the records of every partition, and answer when as many disks have them as `acks` asks for.

acks=0 is answered at once; acks=1 AFTER this broker's flush; acks=all AFTER the high watermark passed the last record,
which is after the flush on every in-sync replica. With flush.policy=os a write counts as flushed at once. A partition
that fails does not stop the others of the request. A waiting request is a `DelayedProduce` in the purgatory of its
partitions; the handler goes on. A partition that waits for long holds up no other (delayed_produce.py).

A request that its client has given up is not appended: the client may have sent the records again, and later records
would come first in the log. A request counts as given up when its stream is gone, or when its time-out passed while it
was queued. Time that its bytes waited in the connection before they were read is not counted.

A batch of a transaction may have to wait for its coordinator before it is appended (transactional_produce.py); the
other partitions of its request are appended meanwhile.

A duplicate of an idempotent producer's batch is not appended. It is answered with the offsets of that batch, as if that
had just been appended: it waits for the same acks. Not here: appending, and acks (leader_appends.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.apis.producing.delayed_produce import DelayedProduce
from broker.apis.producing.transactional_produce import (
    TransactionalProduce,
    check_producers,
    is_transactional,
    note_append,
)
from broker.apis.served import Served
from broker.authorization.rules.records import produce_rule
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.leader_appends import ACKS_ALL, Flushes, LeaderAppends, waiters_of
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from broker.transactions.verification.held_batches import HeldBatches
from metadata.internal_topics import check_write
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    NetworkError,
    RequestTimedOutError,
)
from penstock.messages.client_apis import PRODUCE
from penstock.messages.produce import ProduceRequest
from penstock.messages.security.acls import Operation
from penstock.record.batch import Buffer
from storage.append.append_info import AppendInfo
from storage.append.append_origin import PRODUCER

TIMEOUT_MS_MAX = 600_000


class ProduceApi:
    """Handles produce requests."""

    def __init__(
        self, partitions: PartitionLookup, flushes: Flushes, traffic: Traffic, clock: Clock, held: HeldBatches
    ) -> None:
        """`held` has the batches that wait for the coordinators of their transactions."""
        self._partitions, self._logs = partitions, LeaderAppends(flushes, traffic, clock)
        self._transactional = TransactionalProduce(held, self._logs, clock)

    def handle(self, request: Request, body: ProduceRequest) -> None:
        if body.acks not in (0, 1, ACKS_ALL):
            raise InvalidRequiredAcksError(f"acks is {body.acks}; it must be 0, 1 or -1 (all)")
        if not 0 <= body.timeout_ms <= TIMEOUT_MS_MAX:
            raise InvalidRequestError(f"timeout_ms is {body.timeout_ms}; it must be between 0 and {TIMEOUT_MS_MAX}")
        if body.transactional_id:
            check_producers(body)
        rights = request.rights
        refused: Mapping[int, ApiError] = request.prepared or {}  # type: ignore[assignment]
        answer = DelayedProduce(request, body, _check_is_wanted(request, body))
        for index, (key, topic_id, records) in enumerate(body.partitions):
            result = answer.add(key)
            try:
                if rights is not None and (refusal := rights.refusal(Operation.WRITE, key.topic)) is not None:
                    raise refusal
                check_write(key.topic)
                partition = self._partitions.get(key, topic_id)
                result.log_start_offset = partition.log.log_start_offset
                if (
                    is_transactional(records)
                    and index not in refused
                    and self._transactional.holds(partition, records, index, request, answer)
                ):
                    continue
                info = self._appended(partition, records, body, index, refused)
                note_append(result, info)
                waiter = answer.wait(waiters_of(partition, body.acks)) if body.acks else None
                self._logs.when_acked(partition, info, body.acks, waiter)
            except ApiError as error:
                result.error = without_frames(error)
        body.partitions = []  # the records are in the log: do not hold them until the ack
        answer.all_added(body.acks)

    def _appended(
        self, partition: Partition, records: Buffer, body: ProduceRequest, index: int, refused: Mapping[int, ApiError]
    ) -> AppendInfo:
        """A batch that was refused on its way here may be a duplicate of one that was accepted."""
        refusal = refused.get(index)
        if refusal is None:
            return self._logs.append(partition, records, body.acks, PRODUCER)
        again = self._logs.answer_duplicate(partition, records, body.acks)  # not leading is the answer to any records
        if again is None:
            raise refusal
        return again


def _check_is_wanted(request: Request, body: ProduceRequest) -> float:
    """The rest of the request's time-out. With acks=0 it is not checked: the client does not wait."""
    waited_ms = max(request.dequeued_ns - request.received_ns, 0) / 1e6
    if body.acks and request.is_abandoned:
        raise NetworkError("the client's stream ended while the request was queued; it was not appended")
    if body.acks and 0 < body.timeout_ms < waited_ms:
        raise RequestTimedOutError(
            f"the request was queued for {waited_ms:.0f} ms, its timeout_ms is {body.timeout_ms}; it was not appended"
        )
    return max(body.timeout_ms - waited_ms, 0)


SERVED: Final = (
    Served(
        api=PRODUCE,
        rule=produce_rule,
        make=lambda parts: ProduceApi(parts.hosted, parts.durability, parts.traffic, parts.stamps, parts.held).handle,
        judged_in_parts=True,
    ),
)
