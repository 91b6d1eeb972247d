"""Describes the registered brokers, and forgets one that is gone for good (KIP-631).

A broker is forgotten by way of any broker, which forwards that to the controller; it is over when every broker in
service has heard of it. Not here: when that is allowed; the controller knows that.
"""

from __future__ import annotations

from collections import Counter

from penstock.client.admin.admin_types import BrokerDescription
from penstock.client.admin.cluster_views import newest_view
from penstock.client.admin.configs import wait_heard
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.errors import ApiError, BrokerIdNotRegisteredError
from penstock.types import NO_OFFSET


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
    maybe_done = False  # an attempt failed, and its outcome is unknown

    async def unregister(connection: Connection, timeout_ms: int) -> int:
        nonlocal maybe_done
        try:
            return await connection.unregister_broker(broker_id, timeout_ms)
        except BrokerIdNotRegisteredError:
            if not maybe_done:
                raise
            return NO_OFFSET
        except ApiError as error:
            maybe_done = maybe_done or outcome_unknown(error)
            raise

    await wait_heard(cluster, await cluster.ask_any(unregister, deadline_ms), deadline_ms)
