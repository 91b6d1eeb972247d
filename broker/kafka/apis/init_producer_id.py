"""InitProducerId (key 22): an id for a producer that numbers its batches (KIP-98).

A producer without a transactional id gets a fresh id at epoch 0, also if it names its last one to have the epoch raised
(KIP-360): nobody can fence it, so a new id is as good, and Kafka answers so too. A transactional id is refused at once
with the code that every client takes for final: transactions are not supported yet.
"""

from __future__ import annotations

from broker.kafka.errors import Code, code_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.producers import InitProducerIdRequest, InitProducerIdResponse
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages import produce as messages
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def init_producer_id_plan(asked: Asked, body: InitProducerIdRequest) -> Plan:
    if body.transactional_id:
        return _refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    names_one_of_two = (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH)
    if body.transactional_id is not None or names_one_of_two:
        return _refused(InvalidRequestError.code)
    made = yield Ask(INIT_PRODUCER_ID.name, messages.InitProducerIdRequest())
    return InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


def init_producer_id_failed(asked: Asked, body: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return _refused(code_of(error, INIT_PRODUCER_ID.name, asked.version))


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
