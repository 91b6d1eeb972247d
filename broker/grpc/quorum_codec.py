"""Between protobuf and what nodes say to each other on the controller listener. An edge: no decisions here.

Quorum messages are `raft.messages`, controller calls are `metadata.requests`. Fields mirror the protos one to one.
"""

from __future__ import annotations

from typing import Any

from broker.grpc.codec import error_from_pb, error_to_pb
from metadata.requests import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    HostedReplicas,
    IsrMember,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from penstock.pb import common_pb2, controller_pb2, quorum_pb2
from penstock.types import EpochEndOffset
from raft import messages as raft

# -- quorum ------------------------------------------------------------------------------------------------------------


def _raft_error(code: int, message: str) -> common_pb2.Error | None:
    return common_pb2.Error(code=code, message=message) if code != raft.NO_ERROR else None


def vote_from_pb(m: quorum_pb2.VoteRequest) -> raft.VoteRequest:
    return raft.VoteRequest(
        m.cluster_id, m.candidate_epoch, m.candidate_id, m.voter_id, m.last_epoch, m.last_epoch_end_offset, m.pre_vote
    )


def begin_from_pb(m: quorum_pb2.BeginQuorumEpochRequest) -> raft.BeginQuorumEpochRequest:
    return raft.BeginQuorumEpochRequest(m.cluster_id, m.leader_id, m.leader_epoch, m.voter_id)


def end_from_pb(m: quorum_pb2.EndQuorumEpochRequest) -> raft.EndQuorumEpochRequest:
    return raft.EndQuorumEpochRequest(m.cluster_id, m.leader_id, m.leader_epoch, tuple(m.preferred_successors))


def fetch_from_pb(m: quorum_pb2.FetchMetadataRequest) -> raft.FetchRequest:
    return raft.FetchRequest(
        m.cluster_id,
        m.replica_id,
        m.current_leader_epoch,
        m.fetch_offset,
        m.last_fetched_epoch,
        m.max_wait_ms,
        m.max_bytes,
    )


def request_to_pb(request: raft.Request) -> Any:
    """The message of any quorum request."""
    match request:
        case raft.VoteRequest():
            return quorum_pb2.VoteRequest(
                cluster_id=request.cluster_id,
                candidate_epoch=request.candidate_epoch,
                candidate_id=request.candidate_id,
                voter_id=request.voter_id,
                last_epoch=request.last_epoch,
                last_epoch_end_offset=request.last_epoch_end_offset,
                pre_vote=request.pre_vote,
            )
        case raft.BeginQuorumEpochRequest():
            return quorum_pb2.BeginQuorumEpochRequest(
                cluster_id=request.cluster_id,
                leader_id=request.leader_id,
                leader_epoch=request.leader_epoch,
                voter_id=request.voter_id,
            )
        case raft.EndQuorumEpochRequest():
            return quorum_pb2.EndQuorumEpochRequest(
                cluster_id=request.cluster_id,
                leader_id=request.leader_id,
                leader_epoch=request.leader_epoch,
                preferred_successors=request.preferred_successors,
            )
        case raft.FetchRequest():
            return quorum_pb2.FetchMetadataRequest(
                cluster_id=request.cluster_id,
                replica_id=request.replica_id,
                current_leader_epoch=request.current_leader_epoch,
                fetch_offset=request.fetch_offset,
                last_fetched_epoch=request.last_fetched_epoch,
                max_wait_ms=request.max_wait_ms,
                max_bytes=request.max_bytes,
            )


def vote_to_pb(r: raft.VoteResponse) -> quorum_pb2.VoteResponse:
    return quorum_pb2.VoteResponse(
        error=_raft_error(r.error_code, r.error_message),
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        vote_granted=r.vote_granted,
    )


def begin_to_pb(r: raft.BeginQuorumEpochResponse) -> quorum_pb2.BeginQuorumEpochResponse:
    error = _raft_error(r.error_code, r.error_message)
    return quorum_pb2.BeginQuorumEpochResponse(error=error, leader_id=r.leader_id, leader_epoch=r.leader_epoch)


def end_to_pb(r: raft.EndQuorumEpochResponse) -> quorum_pb2.EndQuorumEpochResponse:
    error = _raft_error(r.error_code, r.error_message)
    return quorum_pb2.EndQuorumEpochResponse(error=error, leader_id=r.leader_id, leader_epoch=r.leader_epoch)


def fetch_to_pb(r: raft.FetchResponse) -> quorum_pb2.FetchMetadataResponse:
    message = quorum_pb2.FetchMetadataResponse(
        error=_raft_error(r.error_code, r.error_message),
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        high_watermark=r.high_watermark,
        log_start_offset=r.log_start_offset,
        records=r.records,
        log_end_offset=r.log_end_offset,
    )
    if r.diverging_epoch is not None:
        message.diverging_epoch.epoch, message.diverging_epoch.end_offset = r.diverging_epoch
    if r.snapshot_id is not None:
        message.snapshot_id.epoch, message.snapshot_id.end_offset = r.snapshot_id
    return message


def response_from_pb(message: Any) -> raft.Response:
    """Any quorum response."""
    code, text = message.error.code, message.error.message
    match message:
        case quorum_pb2.VoteResponse():
            return raft.VoteResponse(message.leader_id, message.leader_epoch, message.vote_granted, code, text)
        case quorum_pb2.BeginQuorumEpochResponse():
            return raft.BeginQuorumEpochResponse(message.leader_id, message.leader_epoch, code, text)
        case quorum_pb2.EndQuorumEpochResponse():
            return raft.EndQuorumEpochResponse(message.leader_id, message.leader_epoch, code, text)
        case _:
            return raft.FetchResponse(
                message.leader_id,
                message.leader_epoch,
                message.high_watermark,
                message.log_start_offset,
                message.records,
                _epoch_end(message, "diverging_epoch"),
                _epoch_end(message, "snapshot_id"),
                code,
                text,
                message.log_end_offset,
            )


def _epoch_end(message: Any, field: str) -> EpochEndOffset | None:
    if not message.HasField(field):
        return None
    found = getattr(message, field)
    return EpochEndOffset(found.epoch, found.end_offset)


# -- controller --------------------------------------------------------------------------------------------------------


def register_from_pb(m: controller_pb2.RegisterBrokerRequest) -> RegisterBrokerRequest:
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
        replicas=tuple(HostedReplicas(held.topic_id, tuple(held.partitions)) for held in m.replicas),
    )


def register_to_pb(r: RegisterBrokerRequest) -> controller_pb2.RegisterBrokerRequest:
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
        replicas=[controller_pb2.HostedReplicas(topic_id=i, partitions=numbers) for i, numbers in r.replicas],
    )


def register_response_to_pb(r: RegisterBrokerResponse) -> controller_pb2.RegisterBrokerResponse:
    return controller_pb2.RegisterBrokerResponse(
        broker_epoch=r.broker_epoch, unknown_lost_log_dirs=r.unknown_lost_log_dirs
    )


def register_response_from_pb(m: controller_pb2.RegisterBrokerResponse) -> RegisterBrokerResponse:
    return RegisterBrokerResponse(m.broker_epoch, tuple(m.unknown_lost_log_dirs))


def heartbeat_from_pb(m: controller_pb2.BrokerHeartbeatRequest) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        m.cluster_id, m.broker_id, m.broker_epoch, m.current_metadata_offset, m.want_fence, m.want_shut_down
    )


def heartbeat_to_pb(r: BrokerHeartbeatRequest) -> controller_pb2.BrokerHeartbeatRequest:
    return controller_pb2.BrokerHeartbeatRequest(
        cluster_id=r.cluster_id,
        broker_id=r.broker_id,
        broker_epoch=r.broker_epoch,
        current_metadata_offset=r.current_metadata_offset,
        want_fence=r.want_fence,
        want_shut_down=r.want_shut_down,
    )


def heartbeat_response_to_pb(r: BrokerHeartbeatResponse) -> controller_pb2.BrokerHeartbeatResponse:
    return controller_pb2.BrokerHeartbeatResponse(
        is_caught_up=r.is_caught_up, is_fenced=r.is_fenced, should_shut_down=r.should_shut_down
    )


def heartbeat_response_from_pb(m: controller_pb2.BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(m.is_caught_up, m.is_fenced, m.should_shut_down)


def alter_partition_from_pb(m: controller_pb2.AlterPartitionRequest) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        m.broker_id,
        m.broker_epoch,
        tuple(
            AlterPartitionData(
                p.topic_id,
                p.partition,
                p.leader_epoch,
                p.partition_epoch,
                tuple(IsrMember(i.broker_id, i.broker_epoch) for i in p.new_isr),
            )
            for p in m.partitions
        ),
    )


def alter_partition_to_pb(r: AlterPartitionRequest) -> controller_pb2.AlterPartitionRequest:
    return controller_pb2.AlterPartitionRequest(
        broker_id=r.broker_id,
        broker_epoch=r.broker_epoch,
        partitions=[
            controller_pb2.AlterPartitionData(
                topic_id=p.topic_id,
                partition=p.partition,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                new_isr=[
                    controller_pb2.IsrMember(broker_id=i.broker_id, broker_epoch=i.broker_epoch) for i in p.new_isr
                ],
            )
            for p in r.partitions
        ],
    )


def alter_partition_response_to_pb(r: AlterPartitionResponse) -> controller_pb2.AlterPartitionResponse:
    return controller_pb2.AlterPartitionResponse(
        partitions=[
            controller_pb2.AlterPartitionResult(
                topic_id=p.topic_id,
                partition=p.partition,
                error=error_to_pb(p.error) if p.error is not None else None,
                leader_id=p.leader_id,
                leader_epoch=max(0, p.leader_epoch),
                partition_epoch=max(0, p.partition_epoch),
                isr=p.isr,
            )
            for p in r.partitions
        ]
    )


def alter_partition_response_from_pb(m: controller_pb2.AlterPartitionResponse) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        tuple(
            AlterPartitionResult(
                p.topic_id,
                p.partition,
                error_from_pb(p.error) if p.HasField("error") else None,
                p.leader_id,
                p.leader_epoch,
                p.partition_epoch,
                tuple(p.isr),
            )
            for p in m.partitions
        )
    )
