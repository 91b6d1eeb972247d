"""InitProducerId, between protobuf and values; the request has no fields."""

from __future__ import annotations

from broker.requests import InitProducerIdResponse
from penstock.pb import broker_pb2


def response_to_pb(r: InitProducerIdResponse) -> broker_pb2.InitProducerIdResponse:
    return broker_pb2.InitProducerIdResponse(producer_id=r.producer_id, producer_epoch=r.producer_epoch)
