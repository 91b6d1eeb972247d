"""InitProducerId, for clients, and AllocateProducerIds, between nodes, between protobuf and values."""

from __future__ import annotations

from broker.requests import InitProducerIdResponse
from metadata.requests import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.pb import broker_pb2, controller_pb2


def request_from_pb(m: controller_pb2.AllocateProducerIdsRequest) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(m.broker_id, m.broker_epoch)


def request_to_pb(r: AllocateProducerIdsRequest) -> controller_pb2.AllocateProducerIdsRequest:
    return controller_pb2.AllocateProducerIdsRequest(broker_id=r.broker_id, broker_epoch=r.broker_epoch)


def response_to_pb(r: AllocateProducerIdsResponse) -> controller_pb2.AllocateProducerIdsResponse:
    return controller_pb2.AllocateProducerIdsResponse(first_producer_id=r.first_producer_id, count=r.count)


def response_from_pb(m: controller_pb2.AllocateProducerIdsResponse) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(m.first_producer_id, m.count)


def init_response_to_pb(r: InitProducerIdResponse) -> broker_pb2.InitProducerIdResponse:
    return broker_pb2.InitProducerIdResponse(producer_id=r.producer_id, producer_epoch=r.producer_epoch)
