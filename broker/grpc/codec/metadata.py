"""Metadata and DescribeCluster, from values to protobuf: what the node's image shows of brokers and topics."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import ClusterView, MetadataResponse, NodeAddress, TopicView
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2


def metadata_to_pb(response: MetadataResponse) -> pb.MetadataResponse:
    return pb.MetadataResponse(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=[_node_to_pb(node) for node in response.brokers],
        topics=[_topic_to_pb(topic) for topic in response.topics],
        metadata_offset=response.metadata_offset,
    )


def cluster_to_pb(view: ClusterView) -> pb.DescribeClusterResponse:
    return pb.DescribeClusterResponse(
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        brokers=[_node_to_pb(node) for node in view.brokers],
        metadata_offset=view.metadata_offset,
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
            )
            for p in topic.partitions
        ],
        config=dict(topic.config),
    )
