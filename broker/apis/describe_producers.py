"""DescribeProducers: the idempotent producers that the partitions led here know, each with its last batch, and with the
first offset of its open transaction (KIP-664).

It helps to find the producer that is fenced, whose sequences have a gap, or whose transaction hangs. Leaders answer:
what a follower knows may be older. A follower answers where the request says `of_replicas`: Kafka's clients may name
the broker, and its tools ask one broker for every partition of which it has a replica. A partition knows 5,000
producers at most (`producer.id.max.per.partition`), and an answer has `producers_max`. The partitions that have no room
in it are to be asked for again. Not here: which producers are remembered, and for how long
(storage/append/producer_state.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import in_parts, of_partition
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from penstock.base_error import without_frames
from penstock.errors import ApiError, ResourceExhaustedError
from penstock.messages.admin_apis import DESCRIBE_PRODUCERS
from penstock.messages.produce import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
    ProducerState,
)
from penstock.messages.security.acls import Operation
from penstock.record.batch import NO_SEQUENCE
from penstock.types import NO_EPOCH, NO_OFFSET
from storage.append.producer_state import KnownProducers
from storage.append.transaction_state import NO_TRANSACTION

PRODUCERS_MAX: Final = 20_000
"""A handler works 2 µs for each before the next request has its turn, and the answer has less than 1 MiB."""


class DescribeProducersApi:
    """Handles descriptions of producers."""

    def __init__(self, partitions: PartitionLookup, producers_max: int = PRODUCERS_MAX) -> None:
        self._partitions, self._producers_max = partitions, producers_max

    def handle(self, request: Request, body: DescribeProducersRequest) -> None:
        results: list[PartitionProducers] = []
        room = self._producers_max
        for asked in body.partitions:
            result = self._one(asked, room, is_first=room == self._producers_max, of_replicas=body.of_replicas)
            room -= len(result.producers)
            results.append(result)
        request.complete(DescribeProducersResponse(tuple(results)), results)

    def _one(
        self, asked: DescribeProducersPartition, room: int, *, is_first: bool, of_replicas: bool
    ) -> PartitionProducers:
        try:
            partition = self._partitions.get(asked.partition, asked.topic_id)
            if not of_replicas:
                partition.leader_state()
            known = partition.log.producers.known_now()
            if len(known) > room and not is_first:
                raise ResourceExhaustedError(
                    f"{asked.partition} knows {len(known)} producers, and the answer has no room for them: ask again"
                )
            return PartitionProducers(asked.partition, None, tuple(_states(known)))
        except ApiError as error:
            return PartitionProducers(asked.partition, without_frames(error))


def _states(known: KnownProducers) -> Iterator[ProducerState]:
    for producer_id, entry in known.items():
        last_sequence = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
        transaction = entry.transaction or NO_TRANSACTION
        yield ProducerState(
            producer_id,
            entry.epoch,
            last_sequence,
            entry.silent_since_ms,
            transaction.coordinator_epoch if transaction.coordinator_epoch != NO_EPOCH else None,
            transaction.first_offset if transaction.first_offset != NO_OFFSET else None,
        )


SERVED: Final = (
    Served(
        api=DESCRIBE_PRODUCERS,
        rule=in_parts(
            "partitions",
            DescribeProducersResponse(),
            of_partition(Operation.READ),
            lambda part, error: PartitionProducers(part.partition, error),
        ),
        make=lambda parts: DescribeProducersApi(parts.hosted).handle,
    ),
)
