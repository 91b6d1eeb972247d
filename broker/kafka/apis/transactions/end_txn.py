"""AddOffsetsToTxn 0 to 4 and EndTxn 0 to 5 (keys 25 and 26): a group becomes part of a transaction; commit and abort.

    2   the clients know PRODUCER_FENCED
    4   …and TRANSACTION_ABORTABLE
    5   EndTxn of transaction version 2 (KIP-890): the answer has the id and epoch of the next transaction

An error is in the answer's `error_code`. Not here: when an end is answered (`broker/transactions/`).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
)
from penstock.messages.transactions import producers as messages
from penstock.messages.transactions.transaction_apis import ADD_OFFSETS_TO_TXN, END_TXN

FIRST_WITH_NEXT_EPOCH: Final = 5


def add_offsets_to_txn(asked: Asked, body: AddOffsetsToTxnRequest) -> Plan:
    request = messages.AddOffsetsToTxnRequest(
        body.transactional_id, body.producer_id, body.producer_epoch, body.group_id, waits=True
    )
    yield Ask(ADD_OFFSETS_TO_TXN.name, request)
    return AddOffsetsToTxnResponse()


def end_txn(asked: Asked, body: EndTxnRequest) -> Plan:
    request = messages.EndTxnRequest(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        body.committed,
        bumps_epoch=asked.version >= FIRST_WITH_NEXT_EPOCH,
    )
    made: messages.EndTxnResponse = yield Ask(END_TXN.name, request)
    return EndTxnResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


SERVED: Final = (
    serves(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, (0, 4), alone(add_offsets_to_txn)),
    serves(EndTxnRequest, EndTxnResponse, (0, 5), alone(end_txn)),
)
