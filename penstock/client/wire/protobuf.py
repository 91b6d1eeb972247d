"""The client's messages as protobuf, and back: only this module and connection.py see `penstock.pb`.

One function per message and direction; no decision is taken here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.wire.log_dirs import SilentLogDir
from penstock.client.wire.messages import (
    PRODUCER_EPOCH_MAX,
    BrokerInfo,
    ClusterInfo,
    ClusterSnapshot,
    ConfigAnswer,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResult,
    DeleteRecordsPart,
    DeleteRecordsResult,
    ElectionAnswer,
    ElectionResult,
    FetchAnswer,
    FetchCall,
    FetchResult,
    NodeListener,
    NodeStanding,
    PartitionInfo,
    PartitionTrouble,
    ProduceAnswer,
    ProduceCall,
    ProduceResult,
    ProducerIdAndEpoch,
    QuorumInfo,
    QuorumReplicaInfo,
    ReassignmentAnswer,
    TopicInfo,
)
from penstock.client.wire.topic_messages import NewPartitions, NewTopic, TopicAnswer, TopicOutcome
from penstock.error_message import error_in_message
from penstock.errors import ApiError, RecordError, UnknownServerError
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2, configs_pb2, elections_pb2, reassignments_pb2
from penstock.records_field import RecordsField
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_OFFSET, EpochEndOffset, TopicPartition

_PRODUCED = RecordsField(pb.ProduceRequest)
_FETCHED = RecordsField(pb.FetchResponse)


def encode_produce(call: ProduceCall) -> bytes:
    """A ProduceRequest's bytes."""
    request = pb.ProduceRequest(
        correlation_id=call.correlation_id,
        acks=call.acks,
        timeout_ms=call.timeout_ms,
        client_id=call.client_id,
        answer_in_parts=call.acks != 0,
    )
    for part in call.parts:
        request.partitions.add(topic=part.topic, partition=part.partition, topic_id=part.topic_id)
    return _PRODUCED.join(request, [part.records for part in call.parts])


def decode_produce(response: pb.ProduceResponse) -> ProduceAnswer:
    results = tuple(
        ProduceResult(r.topic, r.partition, _produce_error(r), r.base_offset, r.log_append_time_ms)
        for r in response.partitions
    )
    error = error_in_message(response.error)
    return ProduceAnswer(response.correlation_id, results, error, response.more_follows)


def _produce_error(result: pb.PartitionProduceResult) -> ApiError | None:
    error = error_in_message(result.error)
    if error is not None and result.record_errors:
        error.record_errors = tuple(RecordError(bad.batch_index, bad.message) for bad in result.record_errors)
    return error


def encode_fetch(call: FetchCall) -> pb.FetchRequest:
    request = pb.FetchRequest(
        correlation_id=call.correlation_id,
        replica_id=CONSUMER_REPLICA_ID,
        broker_epoch=NO_EPOCH,
        max_wait_ms=call.max_wait_ms,
        min_bytes=call.min_bytes,
        max_bytes=call.max_bytes,
        client_id=call.client_id,
    )
    for part in call.changed:
        request.partitions.add(
            topic=part.topic,
            partition=part.partition,
            topic_id=part.topic_id,
            fetch_offset=part.fetch_offset,
            current_leader_epoch=part.current_leader_epoch,
            last_fetched_epoch=part.last_fetched_epoch,
            log_start_offset=NO_OFFSET,
            max_bytes=part.max_bytes,
        )
    for topic, partition in call.forgotten:
        request.forgotten.add(topic=topic, partition=partition)
    return request


def decode_fetch(raw: bytes) -> FetchAnswer:
    """A FetchResponse; DecodeError where the bytes are none."""
    response, all_records = _FETCHED.split(raw)
    results = tuple(
        FetchResult(
            r.topic,
            r.partition,
            r.topic_id,
            error_in_message(r.error),
            r.high_watermark,
            r.log_start_offset,
            records,
            EpochEndOffset(r.diverging_epoch.epoch, r.diverging_epoch.end_offset)
            if r.HasField("diverging_epoch")
            else None,
            r.fetch_offset,
        )
        for r, records in zip(response.partitions, all_records, strict=True)
    )
    return FetchAnswer(response.correlation_id, results, error_in_message(response.error))


def encode_metadata(topics: Sequence[str] | None, include_log_dirs: bool = False) -> pb.MetadataRequest:
    """None: all topics."""
    return pb.MetadataRequest(topics=topics or (), all_topics=topics is None, include_log_dirs=include_log_dirs)


def decode_metadata(response: pb.MetadataResponse) -> ClusterSnapshot:
    return ClusterSnapshot(
        response.cluster_id,
        response.controller_id,
        tuple(map(_broker, response.brokers)),
        tuple(_topic(topic, response.metadata_age_ms) for topic in response.topics),
        response.metadata_offset,
        response.metadata_age_ms,
    )


def _broker(node: common_pb2.Node) -> BrokerInfo:
    return BrokerInfo(node.node_id, node.host, node.port, node.rack, node.fenced)


def _topic(topic: pb.TopicMetadata, age_ms: int) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(
            p.partition,
            p.leader_id,
            p.leader_epoch,
            p.partition_epoch,
            tuple(p.replicas),
            tuple(p.isr),
            error_in_message(p.error),
            tuple(p.elr),
            tuple(p.log_dirs),
            tuple(p.adding_replicas),
            tuple(p.removing_replicas),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition)
    )
    return TopicInfo(topic.name, topic.topic_id, partitions, dict(topic.config), error_in_message(topic.error), age_ms)


def encode_create_topics(topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool) -> pb.CreateTopicsRequest:
    request = pb.CreateTopicsRequest(timeout_ms=timeout_ms, validate_only=validate_only)
    for topic in topics:
        request.topics.add(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.config),
            assignment=_assignment(dict(enumerate(topic.assignment))),
        )
    return request


def encode_create_partitions(
    topics: Iterable[NewPartitions], timeout_ms: int, validate_only: bool
) -> pb.CreatePartitionsRequest:
    request = pb.CreatePartitionsRequest(timeout_ms=timeout_ms, validate_only=validate_only)
    for topic in topics:
        request.topics.add(
            name=topic.name, topic_id=topic.topic_id, total=topic.total, assignment=_assignment(topic.assignment)
        )
    return request


def _assignment(replicas: Mapping[int, Sequence[int]]) -> list[pb.ReplicaAssignment]:
    return [pb.ReplicaAssignment(partition=number, replicas=assigned) for number, assigned in replicas.items()]


def encode_delete_topics(topic_ids: Iterable[str], timeout_ms: int) -> pb.DeleteTopicsRequest:
    return pb.DeleteTopicsRequest(topic_ids=list(topic_ids), timeout_ms=timeout_ms)


def decode_topics(
    response: pb.CreateTopicsResponse | pb.CreatePartitionsResponse | pb.DeleteTopicsResponse,
) -> TopicAnswer:
    outcomes = (
        TopicOutcome(t.name, t.topic_id, error_in_message(t.error), t.partitions, t.replication_factor)
        for t in response.topics
    )
    return TopicAnswer(tuple(outcomes), response.metadata_offset)


def encode_delete_records(parts: Iterable[DeleteRecordsPart], timeout_ms: int) -> pb.DeleteRecordsRequest:
    request = pb.DeleteRecordsRequest(timeout_ms=timeout_ms)
    for topic, partition, topic_id, before_offset in parts:
        request.partitions.add(topic=topic, partition=partition, topic_id=topic_id, before_offset=before_offset)
    return request


def decode_delete_records(response: pb.DeleteRecordsResponse) -> tuple[DeleteRecordsResult, ...]:
    return tuple(
        DeleteRecordsResult(r.topic, r.partition, error_in_message(r.error), r.low_watermark)
        for r in response.partitions
    )


def decode_init_producer_id(response: pb.InitProducerIdResponse) -> ProducerIdAndEpoch:
    """UnknownServerError if a batch has no room for it."""
    if response.producer_id < 0 or not 0 <= response.producer_epoch <= PRODUCER_EPOCH_MAX:
        raise UnknownServerError(
            f"the broker answered with producer id {response.producer_id} in epoch {response.producer_epoch}"
        )
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


def encode_alter_configs(
    changes: Mapping[ConfigResource, Iterable[ConfigChange]], timeout_ms: int, validate_only: bool
) -> configs_pb2.AlterConfigsRequest:
    request = configs_pb2.AlterConfigsRequest(timeout_ms=timeout_ms, validate_only=validate_only)
    for (resource_type, resource_name), of_one in changes.items():
        entry = request.resources.add(resource_type=resource_type, resource_name=resource_name)
        for key, operation, value in of_one:
            entry.changes.add(key=key, operation=f"CONFIG_OPERATION_{operation.name}", value=value)
    return request


def decode_alter_configs(response: configs_pb2.AlterConfigsResponse) -> ConfigAnswer:
    results = tuple(
        ConfigResult(ConfigResource(r.resource_type, r.resource_name), error_in_message(r.error))
        for r in response.resources
    )
    return ConfigAnswer(results, response.metadata_offset)


def encode_elect_leaders(
    partitions: Mapping[str, Iterable[int]] | None, unclean: bool, timeout_ms: int
) -> elections_pb2.ElectLeadersRequest:
    request = elections_pb2.ElectLeadersRequest(
        election_type="ELECTION_TYPE_UNCLEAN" if unclean else "ELECTION_TYPE_PREFERRED",
        all_partitions=partitions is None,
        timeout_ms=timeout_ms,
    )
    for topic, numbers in (partitions or {}).items():
        request.topics.add(topic=topic, partitions=numbers)
    return request


def decode_elect_leaders(response: elections_pb2.ElectLeadersResponse) -> ElectionAnswer:
    results = {
        TopicPartition(r.topic, r.partition): ElectionResult(r.leader_id, error_in_message(r.error))
        for r in response.partitions
    }
    return ElectionAnswer(results, response.metadata_offset)


def encode_reassignments(
    wanted: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> reassignments_pb2.AlterPartitionReassignmentsRequest:
    request = reassignments_pb2.AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms)
    for (topic, partition), replicas in wanted.items():
        request.partitions.add(topic=topic, partition=partition, replicas=replicas or (), cancel=replicas is None)
    return request


def decode_reassignments(response: reassignments_pb2.AlterPartitionReassignmentsResponse) -> ReassignmentAnswer:
    results = {TopicPartition(r.topic, r.partition): error_in_message(r.error) for r in response.partitions}
    return ReassignmentAnswer(results, response.metadata_offset)


def decode_unregister_broker(response: pb.UnregisterBrokerResponse) -> int:
    if (error := error_in_message(response.error)) is not None:
        raise error
    return response.metadata_offset


def encode_describe_configs(resources: Iterable[ConfigResource]) -> configs_pb2.DescribeConfigsRequest:
    request = configs_pb2.DescribeConfigsRequest()
    for resource_type, resource_name in resources:
        request.resources.add(resource_type=resource_type, resource_name=resource_name)
    return request


_CONFIG_SOURCES = {number: name.removeprefix("CONFIG_SOURCE_") for name, number in configs_pb2.ConfigSource.items()}


def decode_describe_configs(response: configs_pb2.DescribeConfigsResponse) -> ConfigAnswer:
    results = tuple(
        ConfigResult(
            ConfigResource(r.resource_type, r.resource_name),
            error_in_message(r.error),
            tuple(
                ConfigEntry(
                    c.key,
                    c.value,
                    _CONFIG_SOURCES.get(c.source, "UNKNOWN"),
                    c.type,
                    c.documentation,
                    c.is_read_only,
                )
                for c in r.configs
            ),
        )
        for r in response.resources
    )
    return ConfigAnswer(results, response.metadata_offset)


def decode_cluster(response: pb.DescribeClusterResponse) -> ClusterInfo:
    standing = response.standing
    return ClusterInfo(
        response.cluster_id,
        response.controller_id,
        tuple(map(_broker, response.brokers)),
        response.metadata_offset,
        NodeStanding(
            standing.node_id,
            standing.fenced,
            standing.metadata_age_ms,
            standing.partitions,
            standing.leaders,
            standing.under_replicated,
            standing.under_min_isr,
            standing.lost_replicas,
            tuple(standing.failed_log_dirs),
            standing.unserved,
            standing.refusing_appends,
            standing.refusing_writes,
            tuple(SilentLogDir(found.path, found.silent_ms, found.stalled) for found in standing.silent_log_dirs),
            tuple(NodeListener(at.name, at.host, at.port, at.is_exposed) for at in standing.node_listeners),
        ),
        dict(response.leaders),
        response.offline_partitions,
        tuple(map(_trouble, response.troubles)),
    )


_TROUBLE_KINDS = {
    number: name.removeprefix("PARTITION_TROUBLE_KIND_").lower() for name, number in pb.PartitionTroubleKind.items()
}


def _trouble(trouble: pb.PartitionTrouble) -> PartitionTrouble:
    return PartitionTrouble(
        trouble.topic,
        trouble.partition,
        _TROUBLE_KINDS.get(trouble.kind, "unspecified"),
        tuple(trouble.replicas),
        tuple(trouble.in_sync),
        trouble.min_insync_replicas,
        trouble.reason,
    )


def decode_quorum(response: pb.DescribeQuorumResponse) -> QuorumInfo:
    return QuorumInfo(
        response.leader_id,
        response.leader_epoch,
        response.high_watermark,
        tuple(QuorumReplicaInfo(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in response.voters),
        tuple(QuorumReplicaInfo(r.node_id, r.log_end_offset, r.last_fetch_ms_ago) for r in response.observers),
        response.only_own_view,
    )
