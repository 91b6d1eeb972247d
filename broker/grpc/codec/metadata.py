"""Metadata and DescribeCluster, from values to protobuf: what the node's image shows of brokers and topics."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import (
    ClusterView,
    MetadataResponse,
    NodeAddress,
    NodeStandingView,
    PartitionTroubleKind,
    PartitionTroubleView,
    TopicView,
)
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2

_KINDS = {
    PartitionTroubleKind.OFFLINE: pb.PARTITION_TROUBLE_KIND_OFFLINE,
    PartitionTroubleKind.UNDER_MIN_ISR: pb.PARTITION_TROUBLE_KIND_UNDER_MIN_ISR,
    PartitionTroubleKind.UNDER_REPLICATED: pb.PARTITION_TROUBLE_KIND_UNDER_REPLICATED,
    PartitionTroubleKind.UNSERVED: pb.PARTITION_TROUBLE_KIND_UNSERVED,
    PartitionTroubleKind.STALLED: pb.PARTITION_TROUBLE_KIND_STALLED,
}


def metadata_to_pb(response: MetadataResponse) -> pb.MetadataResponse:
    return pb.MetadataResponse(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=[_node_to_pb(node) for node in response.brokers],
        topics=[_topic_to_pb(topic) for topic in response.topics],
        metadata_offset=response.metadata_offset,
        metadata_age_ms=response.metadata_age_ms,
    )


def cluster_to_pb(view: ClusterView) -> pb.DescribeClusterResponse:
    return pb.DescribeClusterResponse(
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        brokers=[_node_to_pb(node) for node in view.brokers],
        metadata_offset=view.metadata_offset,
        standing=_standing_to_pb(view.standing),
        leaders=dict(view.leaders),
        offline_partitions=view.offline_partitions,
        troubles=[_trouble_to_pb(trouble) for trouble in view.troubles],
    )


def _standing_to_pb(standing: NodeStandingView) -> pb.NodeStanding:
    return pb.NodeStanding(
        node_id=standing.node_id,
        fenced=standing.fenced,
        metadata_age_ms=standing.metadata_age_ms,
        partitions=standing.partitions,
        leaders=standing.leaders,
        under_replicated=standing.under_replicated,
        under_min_isr=standing.under_min_isr,
        lost_replicas=standing.lost_replicas,
        failed_log_dirs=standing.failed_log_dirs,
        unserved=standing.unserved,
        refusing_appends=standing.refusing_appends,
        refusing_writes=standing.refusing_writes,
        silent_log_dirs=[
            pb.SilentLogDir(path=silent.path, silent_ms=silent.silent_ms, stalled=silent.stalled)
            for silent in standing.silent_log_dirs
        ],
        node_listeners=[
            pb.NodeListener(name=name, host=at.host, port=at.port, is_exposed=at.is_every_address)
            for name, at in standing.node_listeners
        ],
    )


def _trouble_to_pb(trouble: PartitionTroubleView) -> pb.PartitionTrouble:
    return pb.PartitionTrouble(
        topic=trouble.partition.topic,
        partition=trouble.partition.partition,
        kind=_KINDS[trouble.kind],
        replicas=trouble.replicas,
        in_sync=trouble.in_sync,
        min_insync_replicas=trouble.min_insync_replicas,
        reason=trouble.reason,
    )


def _node_to_pb(node: NodeAddress) -> common_pb2.Node:
    return common_pb2.Node(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack, fenced=node.fenced)


def _topic_to_pb(topic: TopicView) -> pb.TopicMetadata:
    return pb.TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id,
        error=error_to_pb(topic.error),
        partitions=[
            pb.PartitionMetadata(
                partition=p.partition,
                leader_id=p.leader_id,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                replicas=p.replicas,
                isr=p.isr,
                error=error_to_pb(p.error),
                elr=p.elr,
                log_dirs=p.log_dirs,
                adding_replicas=p.adding_replicas,
                removing_replicas=p.removing_replicas,
            )
            for p in topic.partitions
        ],
        config=dict(topic.config),
    )
