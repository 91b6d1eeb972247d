"""Decides which block of producer ids a broker gets: always the next ones, so that no id is ever given twice (KIP-730).

A broker asks again when an answer was lost, and forgets its block when it stops; those ids are then nobody's. Each
epoch of the quorum has 2^32 ids of its own. So a quorum that is made anew from an older metadata log, and has forgotten
which ids were given, gives none of them again, as long as its epochs are new (ops/procedures/lose-the-quorum.md). Not
here: how a broker gives its ids to producers (broker/producer_ids/).
"""

from __future__ import annotations

from typing import Final

from metadata.controller.brokers.liveness import registered_broker
from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.records import ProducerIdsRecord
from penstock.errors import UnknownServerError
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1_000
"""The number of ids in one block, as in Kafka: one metadata record for this many producers."""
IDS_PER_EPOCH: Final = 1 << 32
"""A block each millisecond for 71 minutes; an epoch that needs more goes on into what the next ones skip. An epoch has
31 bits, so every epoch has its ids."""
NEXT_PRODUCER_ID_MAX: Final = (1 << 63) - 1
"""A batch has a producer id of 64 bits with a sign, and so has the metadata record."""


def allocate_producer_ids(
    context: DecisionContext, request: AllocateProducerIdsRequest, leader_epoch: int
) -> ControllerResult[AllocateProducerIdsResponse]:
    """The next block, for a registered broker under its present epoch; `leader_epoch` is that of the quorum."""
    broker = registered_broker(context, request.broker_id, request.broker_epoch)
    first = max(context.state.next_producer_id, leader_epoch * IDS_PER_EPOCH)
    if first > NEXT_PRODUCER_ID_MAX - BLOCK_SIZE:
        raise UnknownServerError(
            f"no producer ids are left: the next one is {first}, and none is above {NEXT_PRODUCER_ID_MAX}; move the"
            " topics to a new cluster"
        )
    record = ProducerIdsRecord(first + BLOCK_SIZE, broker.broker_id, broker.broker_epoch)
    return ControllerResult((record,), AllocateProducerIdsResponse(first, BLOCK_SIZE))
