"""Between protobuf and the values of the other administrative calls: configs, records to delete, the quorum. An edge.

One function per message and direction, as in grpc/codec.py, which has topics, the cluster and errors.
"""

from __future__ import annotations

from broker.grpc.codec import error_from_pb, error_to_pb
from broker.requests import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResult,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    QuorumReplicaView,
    QuorumView,
)
from metadata.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
)
from penstock.pb import broker_pb2 as pb
from penstock.pb import configs_pb2
from penstock.types import TopicPartition

# -- configs -----------------------------------------------------------------------------------------------------------


def alter_configs_from_pb(message: configs_pb2.AlterConfigsRequest) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        tuple(
            AlterConfigsResource(
                r.resource_type,
                r.resource_name,
                tuple(ConfigChange(c.key, int(c.operation), c.value) for c in r.changes),
            )
            for r in message.resources
        ),
        message.validate_only,
    )


def alter_configs_to_pb(request: AlterConfigsRequest, timeout_ms: int) -> configs_pb2.AlterConfigsRequest:
    message = configs_pb2.AlterConfigsRequest(timeout_ms=timeout_ms, validate_only=request.validate_only)
    for resource in request.resources:
        entry = message.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
        for change in resource.changes:
            # An enum is open on the wire: a number that is not known travels on, to be judged by the controller.
            made = configs_pb2.ConfigChange(key=change.key, value=change.value)
            made.operation = change.operation  # type: ignore[assignment]
            entry.changes.append(made)
    return message


def alter_configs_response_to_pb(response: AlterConfigsResponse) -> configs_pb2.AlterConfigsResponse:
    return configs_pb2.AlterConfigsResponse(
        resources=[
            configs_pb2.AlterConfigsResult(
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                error=error_to_pb(r.error) if r.error is not None else None,
            )
            for r in response.resources
        ],
        metadata_offset=response.metadata_offset,
    )


def alter_configs_response_from_pb(message: configs_pb2.AlterConfigsResponse) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        tuple(
            AlterConfigsResult(
                r.resource_type, r.resource_name, error_from_pb(r.error) if r.HasField("error") else None
            )
            for r in message.resources
        ),
        message.metadata_offset,
    )


def describe_configs_from_pb(message: configs_pb2.DescribeConfigsRequest) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        tuple(DescribeConfigsResource(r.resource_type, r.resource_name, tuple(r.keys)) for r in message.resources)
    )


def describe_configs_to_pb(response: DescribeConfigsResponse) -> configs_pb2.DescribeConfigsResponse:
    return configs_pb2.DescribeConfigsResponse(
        resources=[_described(result) for result in response.resources], metadata_offset=response.metadata_offset
    )


def _described(result: DescribeConfigsResult) -> configs_pb2.DescribeConfigsResult:
    message = configs_pb2.DescribeConfigsResult(
        resource_type=result.resource_type,
        resource_name=result.resource_name,
        error=error_to_pb(result.error) if result.error is not None else None,
    )
    for entry in result.configs:
        message.configs.add(
            key=entry.key,
            value=entry.value,
            source=configs_pb2.ConfigSource.Name(entry.source),
            type=entry.type,
            documentation=entry.documentation,
        )
    return message


# -- records to delete -------------------------------------------------------------------------------------------------


def delete_records_from_pb(message: pb.DeleteRecordsRequest) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        tuple(
            DeleteRecordsPartition(TopicPartition(p.topic, p.partition), p.topic_id, p.before_offset)
            for p in message.partitions
        ),
        message.timeout_ms,
    )


def delete_records_to_pb(results: list[DeleteRecordsResult]) -> pb.DeleteRecordsResponse:
    return pb.DeleteRecordsResponse(
        partitions=[
            pb.DeleteRecordsResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error) if r.error is not None else None,
                low_watermark=r.low_watermark,
            )
            for r in results
        ]
    )


# -- the quorum --------------------------------------------------------------------------------------------------------


def quorum_to_pb(view: QuorumView) -> pb.DescribeQuorumResponse:
    return pb.DescribeQuorumResponse(
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        voters=[_quorum_replica_to_pb(r) for r in view.voters],
        observers=[_quorum_replica_to_pb(r) for r in view.observers],
    )


def _quorum_replica_to_pb(replica: QuorumReplicaView) -> pb.QuorumReplica:
    return pb.QuorumReplica(
        node_id=replica.node_id, log_end_offset=replica.log_end_offset, last_fetch_ms_ago=replica.last_fetch_ms_ago
    )


def quorum_from_pb(message: pb.DescribeQuorumResponse) -> QuorumView:
    return QuorumView(
        message.leader_id,
        message.leader_epoch,
        message.high_watermark,
        tuple(QuorumReplicaView(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in message.voters),
        tuple(QuorumReplicaView(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in message.observers),
    )
