"""DescribeQuorum, between protobuf and values. A broker forwards it to the controller."""

from __future__ import annotations

from broker.requests import QuorumReplicaView, QuorumView
from penstock.pb import broker_pb2 as pb


def response_to_pb(view: QuorumView) -> pb.DescribeQuorumResponse:
    return pb.DescribeQuorumResponse(
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        voters=[_replica_to_pb(r) for r in view.voters],
        observers=[_replica_to_pb(r) for r in view.observers],
        only_own_view=view.only_own_view,
    )


def response_from_pb(message: pb.DescribeQuorumResponse) -> QuorumView:
    return QuorumView(
        message.leader_id,
        message.leader_epoch,
        message.high_watermark,
        tuple(QuorumReplicaView(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in message.voters),
        tuple(QuorumReplicaView(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in message.observers),
        message.only_own_view,
    )


def _replica_to_pb(replica: QuorumReplicaView) -> pb.QuorumReplica:
    return pb.QuorumReplica(
        node_id=replica.node_id, log_end_offset=replica.log_end_offset, last_fetch_ms_ago=replica.last_fetch_ms_ago
    )
