"""InitProducerId (key 22): an id for a producer that numbers its batches, or the next epoch of a transactional id
(KIP-98).

    3   a producer that goes on names its id and epoch (KIP-360)
    4   the clients know PRODUCER_FENCED
    5   …and TRANSACTION_ABORTABLE

A producer without a transactional id gets a fresh id at epoch 0, also if it names its last one to have the epoch
raised: nobody can fence it, so a new id is as good, and Kafka answers so too. Not here: what a coordinator does before
it answers (`broker/transactions/`).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import RECORD_ELEMENTS_MAX, alone, serves
from broker.kafka.errors import code_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.producers import InitProducerIdRequest, InitProducerIdResponse
from penstock.errors import ApiError
from penstock.messages import produce as messages
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.record.batch import NO_PRODUCER_EPOCH


def init_producer_id_plan(asked: Asked, body: InitProducerIdRequest) -> Plan:
    request = messages.InitProducerIdRequest(
        body.transactional_id, body.transaction_timeout_ms, body.producer_id, body.producer_epoch
    )
    made: messages.InitProducerIdResponse = yield Ask(INIT_PRODUCER_ID.name, request)
    return InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


def init_producer_id_failed(asked: Asked, body: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code_of(error, INIT_PRODUCER_ID.name, asked.version), producer_epoch=NO_PRODUCER_EPOCH
    )


SERVED: Final = (
    serves(
        InitProducerIdRequest,
        InitProducerIdResponse,
        (0, 5),
        alone(init_producer_id_plan),
        failed=init_producer_id_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
)
