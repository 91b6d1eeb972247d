"""BrokerHeartbeat, between protobuf and values."""

from __future__ import annotations

from metadata.requests import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.pb import controller_pb2


def request_from_pb(m: controller_pb2.BrokerHeartbeatRequest) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        m.cluster_id,
        m.broker_id,
        m.broker_epoch,
        m.current_metadata_offset,
        m.want_fence,
        m.want_shut_down,
        tuple(m.offline_log_dirs),
    )


def request_to_pb(r: BrokerHeartbeatRequest) -> controller_pb2.BrokerHeartbeatRequest:
    return controller_pb2.BrokerHeartbeatRequest(
        cluster_id=r.cluster_id,
        broker_id=r.broker_id,
        broker_epoch=r.broker_epoch,
        current_metadata_offset=r.current_metadata_offset,
        want_fence=r.want_fence,
        want_shut_down=r.want_shut_down,
        offline_log_dirs=r.offline_log_dirs,
    )


def response_to_pb(r: BrokerHeartbeatResponse) -> controller_pb2.BrokerHeartbeatResponse:
    return controller_pb2.BrokerHeartbeatResponse(
        is_caught_up=r.is_caught_up,
        is_fenced=r.is_fenced,
        should_shut_down=r.should_shut_down,
        offline_log_dirs=r.offline_log_dirs,
    )


def response_from_pb(m: controller_pb2.BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(m.is_caught_up, m.is_fenced, m.should_shut_down, tuple(m.offline_log_dirs))
