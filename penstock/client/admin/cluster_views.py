"""The cluster as its brokers see it: every broker is asked for its picture, because one that is cut off shows an old
one.

Each has VIEW_MS to answer, or what is left of the call if that is less. The registered brokers are described by the
newest picture. A broker that is gone for good is forgotten by way of any broker, which forwards that to the controller
(KIP-631); it is over when every broker in service has heard of it. Not here: when that is allowed (the controller
knows), and what the answers mean (health/judge.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from penstock.client.admin import changes
from penstock.client.admin.admin_types import BrokerDescription
from penstock.client.admin.changes import change
from penstock.client.admin.configs import wait_heard
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import ServerErrors
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.errors import ApiError, AuthorizationFailedError, BootstrapError, ListenerNotFoundError
from penstock.lazy_dataclass import dataclass
from penstock.messages.admin_apis import DESCRIBE_CLUSTER, DESCRIBE_QUORUM
from penstock.messages.api import Api
from penstock.messages.client_apis import UNREGISTER_BROKER
from penstock.messages.cluster import ClusterInfo, DescribeClusterRequest, NodeStanding, PartitionTrouble
from penstock.messages.feature_apis import DESCRIBE_FEATURES
from penstock.messages.features import DescribeFeaturesRequest, FeaturesInfo
from penstock.messages.metadata import BrokerInfo
from penstock.messages.nodes.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from penstock.topic_names import reading_order
from penstock.types import Endpoint

VIEW_MS = METADATA_ATTEMPT_MS

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class ClusterViews:
    """The answer of every broker, and why the others gave none."""

    by_node: Mapping[int, ClusterInfo]
    """The views by node id; at least one."""
    silent: Mapping[int, str] = field(default_factory=dict)
    """Registered brokers that did not answer: what happened instead."""

    @property
    def newest(self) -> ClusterInfo:
        return max(self.by_node.values(), key=lambda view: view.freshness)

    @property
    def statuses(self) -> list[NodeStanding]:
        """The standings by node id."""
        return [self.by_node[node_id].standing for node_id in sorted(self.by_node)]

    @property
    def leading(self) -> list[NodeStanding]:
        """The standings of the brokers whose word on what they lead counts. A fenced one was replaced as a leader, and
        may not know it; the newest picture counts even if it is that of a fenced one."""
        newest = self.newest
        fenced = {broker.node_id for broker in newest.brokers if broker.fenced} - {newest.standing.node_id}
        return [standing for standing in self.statuses if standing.node_id not in fenced]

    def troubles(self, *kinds: str) -> list[tuple[int, PartitionTrouble]]:
        """The troubles of these kinds, each with the node that tells it; those of users' own topics come first."""
        found = [(node_id, t) for node_id, view in self.by_node.items() for t in view.troubles if t.kind in kinds]
        return sorted(found, key=lambda one: (reading_order(one[1].topic), one[1].partition, one[0]))


async def newest_view(cluster: ClusterClient, deadline_ms: int) -> ClusterInfo:
    """One broker's picture if it has heard from the quorum just now, otherwise the newest that any broker has."""
    one = await changes.ask(cluster, DESCRIBE_CLUSTER, DescribeClusterRequest(), deadline_ms)
    if one.controller_id >= 0 and one.standing.metadata_age_ms < METADATA_OLD_MS:
        return one
    return (await every_view(cluster, deadline_ms)).newest


async def every_view(cluster: ClusterClient, deadline_ms: int) -> ClusterViews:
    """The picture of every broker that answers; BootstrapError if none does. A broker without a listener of the name of
    the one that this client uses is not asked, and is not silent."""
    endpoints = {*cluster.bootstrap, *(broker.endpoint for broker in cluster.cache.brokers)}
    answers = await _ask(cluster, endpoints, deadline_ms)
    for answer in tuple(answers.values()):  # fenced brokers are in no client's metadata
        if isinstance(answer, ClusterInfo):
            others = {broker.endpoint for broker in answer.brokers if broker.host} - answers.keys()
            answers |= await _ask(cluster, others, deadline_ms)
    by_node = {answer.standing.node_id: answer for answer in answers.values() if isinstance(answer, ClusterInfo)}
    if not by_node:
        raise BootstrapError("no broker answered: " + "; ".join(str(error) for error in answers.values()))
    registered = ClusterViews(by_node).newest.brokers
    asked = [broker for broker in registered if broker.host and broker.node_id not in by_node]
    silent = {broker.node_id: _why(answers[broker.endpoint], broker.endpoint) for broker in asked}
    return ClusterViews(by_node, silent)


def not_here(node_id: int) -> ListenerNotFoundError:
    """The error of a broker that cannot be asked at the listener of this client."""
    return ListenerNotFoundError(
        f"broker {node_id} has no listener of the name of the one that this client uses; give the address of a listener"
        " that it has"
    )


def _why(answer: ClusterInfo | ApiError, endpoint: Endpoint) -> str:
    """Why this is not the answer of the broker that is registered there."""
    return str(answer) if isinstance(answer, ApiError) else f"node {answer.standing.node_id} answers at {endpoint}"


def _view_ms(cluster: ClusterClient, deadline_ms: int) -> int:
    return min(VIEW_MS, cluster.config.request_timeout_ms, max(deadline_ms - cluster.clock.now_ms(), 1))


async def _ask(
    cluster: ClusterClient, endpoints: Iterable[Endpoint], deadline_ms: int
) -> dict[Endpoint, ClusterInfo | ApiError]:
    async def ask(endpoint: Endpoint) -> tuple[Endpoint, ClusterInfo | ApiError]:
        try:
            connection, timeout_ms = cluster.connection_to(endpoint), _view_ms(cluster, deadline_ms)
            view = await connection.call(DESCRIBE_CLUSTER, DescribeClusterRequest(), timeout_ms)
            cluster.cache.note_offset(view.cluster_id, view.metadata_offset)
            return endpoint, view
        except ApiError as error:
            return endpoint, error

    return dict(await asyncio.gather(*map(ask, sorted(endpoints))))


async def quorum_view(cluster: ClusterClient, deadline_ms: int) -> QuorumInfo:
    """The quorum as its leader has it; if no broker reaches a leader, as the broker with the newest epoch has it."""
    one = await changes.ask(cluster, DESCRIBE_QUORUM, DescribeQuorumRequest(), deadline_ms)
    if one.has_leader:
        return one

    async def ask(endpoint: Endpoint) -> QuorumInfo | None:
        try:
            connection, timeout_ms = cluster.connection_to(endpoint), _view_ms(cluster, deadline_ms)
            return await connection.call(DESCRIBE_QUORUM, DescribeQuorumRequest(), timeout_ms)
        except ApiError:
            return None

    endpoints = sorted({*cluster.bootstrap, *(broker.endpoint for broker in cluster.cache.brokers)})
    found = [one, *(view for view in await asyncio.gather(*map(ask, endpoints)) if view is not None)]
    return max(found, key=lambda view: (view.has_leader, view.leader_epoch))


async def views_and_quorum(
    cluster: ClusterClient, deadline_ms: int
) -> tuple[ClusterViews, QuorumInfo | None, FeaturesInfo | None]:
    """The views of all brokers, that of the quorum, and the feature levels, asked for at once; None for what the user
    may not describe, and for levels where the nodes are of an older release, or no controller answers."""

    async def quorum() -> QuorumInfo | None:
        try:
            return await quorum_view(cluster, deadline_ms)
        except AuthorizationFailedError:
            return None

    async def features() -> FeaturesInfo | None:
        try:
            found = await changes.ask(cluster, DESCRIBE_FEATURES, DescribeFeaturesRequest(), deadline_ms)
        except ApiError:
            return None
        return None if found.only_own_view else found

    return await asyncio.gather(every_view(cluster, deadline_ms), quorum(), features())


async def ask_every_broker(
    cluster: ClusterClient, api: Api[Any, A], request: Any, deadline_ms: int
) -> list[tuple[int, A]]:
    """The answer of each broker in service, with its id: its part of a list. At the deadline the error of one that does
    not answer.

    They are the answers of one round: while a coordinator loads, or a broker is gone and what it had has not moved yet,
    all are asked again.
    """

    async def part_of(broker: BrokerInfo) -> tuple[int, A | ApiError]:
        if not broker.host:
            return broker.node_id, not_here(broker.node_id)
        left_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), cluster.config.request_timeout_ms)
        try:
            return broker.node_id, await cluster.connection_to(broker.endpoint).call(api, request, left_ms)
        except ApiError as error:
            return broker.node_id, error

    reported = ServerErrors[int]()
    attempt = 0
    while True:
        attempt += 1
        brokers = [broker for broker in (await newest_view(cluster, deadline_ms)).brokers if not broker.fenced]
        answers = await asyncio.gather(*(part_of(broker) for broker in brokers))
        errors = {node_id: answer for node_id, answer in answers if isinstance(answer, ApiError)}
        if not errors:
            return [(node_id, answer) for node_id, answer in answers if not isinstance(answer, ApiError)]
        if final := next((error for error in errors.values() if not error.retriable), None):
            raise final
        for node_id, error in errors.items():
            reported.note(node_id, error)
        wait_ms = cluster.backoff.wait_ms(attempt)
        if cluster.clock.now_ms() + wait_ms >= deadline_ms:
            raise reported.for_user(*next(iter(errors.items())))
        await asyncio.sleep(max(wait_ms, 1) / 1000)


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
