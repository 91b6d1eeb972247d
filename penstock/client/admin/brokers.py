"""Describes the registered brokers, and forgets one that is gone for good (KIP-631).

A broker is forgotten by way of any broker, which forwards that to the controller; it is over when every broker in
service has heard of it. Not here: when that is allowed; the controller knows that.
"""

from __future__ import annotations

from collections import Counter

from penstock.client.admin.admin_types import BrokerDescription
from penstock.client.admin.changes import change
from penstock.client.admin.cluster_views import newest_view
from penstock.client.admin.configs import wait_heard
from penstock.client.cluster.cluster import ClusterClient
from penstock.messages.client_apis import UNREGISTER_BROKER
from penstock.messages.nodes.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse


async def describe_brokers(cluster: ClusterClient, deadline_ms: int) -> tuple[BrokerDescription, ...]:
    """Each with its numbers of replicas and leaders, by a broker that has heard of the latest."""
    found = await newest_view(cluster, deadline_ms)
    topics = await cluster.list_topics(deadline_ms)
    replicas = Counter(replica for topic in topics for partition in topic.partitions for replica in partition.replicas)
    leaders = Counter(partition.leader_id for topic in topics for partition in topic.partitions)
    brokers = sorted(found.brokers, key=lambda broker: broker.node_id)
    return tuple(BrokerDescription(b, replicas[b.node_id], leaders[b.node_id]) for b in brokers)


async def forget_broker(cluster: ClusterClient, broker_id: int, deadline_ms: int) -> None:
    """The error of the controller where it refuses."""
    answer = await change(cluster, UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id), deadline_ms, _refusal)
    await wait_heard(cluster, answer.metadata_offset, deadline_ms)


def _refusal(answer: UnregisterBrokerResponse) -> None:
    if answer.error is not None:
        raise answer.error
