"""Decides which block of producer ids a broker gets: always the next ones, so that no id is ever given twice (KIP-730).

A broker asks again when an answer was lost, and forgets its block when it stops; those ids are then nobody's. At a
block every millisecond, 2^63 ids last 290,000 years. Not here: how a broker gives its ids to producers
(broker/producer_ids/).
"""

from __future__ import annotations

from typing import Final

from metadata.controller.context import DecisionContext
from metadata.controller.liveness import registered_broker
from metadata.controller.result import ControllerResult
from metadata.records import ProducerIdsRecord
from metadata.requests import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.errors import UnknownServerError

BLOCK_SIZE: Final = 1_000
"""Ids of one block, as in Kafka: one metadata record for so many producers."""
NEXT_PRODUCER_ID_MAX: Final = (1 << 63) - 1
"""A batch has a producer id of 64 bits with a sign, and so has the metadata record."""


def allocate_producer_ids(
    context: DecisionContext, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """The next block, for a registered broker under its present epoch."""
    broker = registered_broker(context, request.broker_id, request.broker_epoch)
    first = context.state.next_producer_id
    if first > NEXT_PRODUCER_ID_MAX - BLOCK_SIZE:
        raise UnknownServerError(
            f"no producer ids are left: the next one is {first}, and none is above {NEXT_PRODUCER_ID_MAX}; move the"
            " topics to a new cluster"
        )
    record = ProducerIdsRecord(first + BLOCK_SIZE, broker.broker_id, broker.broker_epoch)
    return ControllerResult((record,), AllocateProducerIdsResponse(first, BLOCK_SIZE))
