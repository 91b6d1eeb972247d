"""RegisterBroker and UnregisterBroker, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.assign_replicas_to_dirs import hosted_from_pb, hosted_to_pb
from broker.grpc.codec.error import error_to_pb
from metadata.requests import (
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.error_message import error_in_message
from penstock.pb import broker_pb2, controller_pb2
from penstock.types import Endpoint, ListenerEndpoint


def request_from_pb(m: controller_pb2.RegisterBrokerRequest) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        m.cluster_id,
        m.broker_id,
        m.incarnation_id,
        m.host,
        m.port,
        m.rack,
        m.previous_broker_epoch,
        tuple(m.log_dirs),
        inter_broker_host=m.inter_broker_host,
        inter_broker_port=m.inter_broker_port,
        failed_log_dirs=m.failed_log_dirs,
        lost_log_dirs=tuple(m.lost_log_dirs),
        replicas=hosted_from_pb(m.replicas),
        flush_policy=m.flush_policy,
        listeners=tuple(ListenerEndpoint(one.name, Endpoint(one.host, one.port)) for one in m.listeners),
        inter_broker_listener=m.inter_broker_listener,
    )


def request_to_pb(r: RegisterBrokerRequest) -> controller_pb2.RegisterBrokerRequest:
    return controller_pb2.RegisterBrokerRequest(
        cluster_id=r.cluster_id,
        broker_id=r.broker_id,
        incarnation_id=r.incarnation_id,
        host=r.host,
        port=r.port,
        rack=r.rack,
        previous_broker_epoch=r.previous_broker_epoch,
        log_dirs=r.log_dirs,
        inter_broker_host=r.inter_broker_host,
        inter_broker_port=r.inter_broker_port,
        failed_log_dirs=r.failed_log_dirs,
        lost_log_dirs=r.lost_log_dirs,
        replicas=hosted_to_pb(r.replicas),
        flush_policy=r.flush_policy,
        listeners=[
            controller_pb2.ListenerEndpoint(name=one.name, host=one.endpoint.host, port=one.endpoint.port)
            for one in r.listeners
        ],
        inter_broker_listener=r.inter_broker_listener,
    )


def response_to_pb(r: RegisterBrokerResponse) -> controller_pb2.RegisterBrokerResponse:
    return controller_pb2.RegisterBrokerResponse(
        broker_epoch=r.broker_epoch, unknown_lost_log_dirs=r.unknown_lost_log_dirs
    )


def response_from_pb(m: controller_pb2.RegisterBrokerResponse) -> RegisterBrokerResponse:
    return RegisterBrokerResponse(m.broker_epoch, tuple(m.unknown_lost_log_dirs))


def unregister_from_pb(m: broker_pb2.UnregisterBrokerRequest) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(m.broker_id)


def unregister_to_pb(r: UnregisterBrokerRequest, timeout_ms: int) -> broker_pb2.UnregisterBrokerRequest:
    return broker_pb2.UnregisterBrokerRequest(broker_id=r.broker_id, timeout_ms=timeout_ms)


def unregister_response_to_pb(r: UnregisterBrokerResponse) -> broker_pb2.UnregisterBrokerResponse:
    return broker_pb2.UnregisterBrokerResponse(error=error_to_pb(r.error), metadata_offset=r.metadata_offset)


def unregister_response_from_pb(m: broker_pb2.UnregisterBrokerResponse) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_in_message(m.error), m.metadata_offset)
