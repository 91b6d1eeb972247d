"""AsyncAdmin: topics, configs, records to delete, the cluster, the quorum and offsets, for an event loop.

A change goes to any broker and, where that one says NotController, to the one that it names. Creating, deleting and
configuring wait until every broker in service has heard of it, within the time limit, so that the next command does not
race the first. Not here: the requests about topics, configurations, offsets and records to delete (topic_changes.py,
configs.py, offsets.py, delete_records.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.admin import configs
from penstock.client.admin.admin_types import (
    ConfigEntry,
    ElectionResult,
    OffsetInfo,
    TopicDescription,
)
from penstock.client.admin.cluster_calls import ClusterCalls
from penstock.client.admin.configs import config_text
from penstock.client.admin.delete_records import delete_records
from penstock.client.admin.elections import order_elections
from penstock.client.admin.log_dirs import ReassignmentProgress, describe_log_dirs, progress
from penstock.client.admin.reassignments import alter_reassignments
from penstock.client.admin.topic_answers import description, existing
from penstock.client.admin.topic_changes import TopicChanges
from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_assignments,
    checked_mapping,
    checked_number,
    checked_partition,
    checked_partitions,
    checked_replicas,
    checked_topic,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.config import AdminConfig, admin_config
from penstock.client.cluster.foreign_words import ADMIN_METHODS, with_method_hints
from penstock.client.cluster.offsets import list_offsets
from penstock.client.cluster.option_text import with_option_help
from penstock.client.cluster.options import parse_bootstrap
from penstock.client.cluster.typed_options import AdminOptions
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.wire.messages import PartitionInfo, TopicInfo
from penstock.client.wire.topic_messages import NewTopic
from penstock.errors import ApiError, ClientClosedError
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, NO_LEADER, TopicPartition

P = ParamSpec("P")
T = TypeVar("T")

DESCRIBED_AT_ONCE = 16
"""Topics whose leaders are asked at the same time, when all are described."""
OFFSET_SPECS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "max-timestamp": MAX_TIMESTAMP}


class _Connections:
    """What is left of an admin client that its user dropped. To close it twice does nothing."""

    closed = False

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    def unacked_records(self) -> int:
        """It sends none."""
        return 0

    async def close_forgotten(self) -> None:
        await self._cluster.close()


@with_method_hints(ADMIN_METHODS)
@with_option_help(AdminConfig)
class AsyncAdmin(ClusterCalls):
    """Administers a cluster from one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "127.0.0.1:9192",
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._config: AdminConfig = admin_config(options)
        self._clock = environment.clock
        connection = self._config.connection()
        patience_ms = min(connection.bootstrap_timeout_ms, self._config.default_api_timeout_ms)
        connection = replace(connection, bootstrap_timeout_ms=patience_ms)
        self._cluster = ClusterClient(parse_bootstrap(bootstrap, "Admin"), connection, environment)
        self._topics = TopicChanges(self._cluster)
        self._closed = False
        self._is_bound = False
        forks.belongs_here(self)

    async def start(self) -> None:
        """Reaches the cluster; BootstrapError when it cannot."""
        self._check_open()
        if not self._is_bound:
            self._is_bound = True
            close_when_forgotten(self, repr(self), _Connections(self._cluster), OnLoop(asyncio.get_running_loop()))
        await self._cluster.wait_ready()

    async def until_closed(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call for another thread; ClientClosedError as soon as the client is closed."""
        return await self._cluster.until_closed(call, *args, **more)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("this admin client is closed; make a new one")

    async def _begin(self) -> int:
        """Reaches the cluster for a call; the deadline of that call."""
        deadline_ms = self._clock.now_ms() + self._config.default_api_timeout_ms
        await self.start()
        return deadline_ms

    def _left_ms(self, deadline_ms: int, most_ms: int = MAX_INT32) -> int:
        return min(max(deadline_ms - self._clock.now_ms(), 1), most_ms)

    # -- topics --------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> TopicDescription:
        """Creates a topic and waits until every partition has a leader that every broker knows.

        `assignments` are the brokers of each partition, the preferred leader first; then the two numbers can be left
        out. Without them a topic has one partition, and the cluster's default of replicas.
        """
        by_hand = checked_assignments(assignments)
        if partitions is None:
            partitions = -1 if by_hand else 1
        changes = checked_mapping("config", config, '{"retention.ms": 86400000}')
        topic = NewTopic(
            checked_topic(name),
            checked_number("partitions", partitions, -1, MAX_INT32),
            checked_number("replication_factor", replication_factor, -1, MAX_INT32),
            {key: config_text(value) for key, value in changes.items()},
            by_hand,
        )
        return await self._topics.create(topic, await self._begin())

    async def create_partitions(
        self,
        name: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Adds partitions to a topic until it has `total`, and waits until every broker in service has heard of them.

        `assignments` are the brokers of each new partition, the preferred leader first. Partitions cannot be removed.
        From now on producers map keys to all partitions: a key may go to another one than before. With `validate_only`
        nothing is changed, and the topic is returned as it is.
        """
        checked_topic(name)
        checked_number("total", total, 1, MAX_INT32)
        by_hand = checked_assignments(assignments)
        deadline_ms = await self._begin()
        return await self._topics.add_partitions(name, total, by_hand, deadline_ms, validate_only=validate_only)

    async def delete_topic(self, name: str) -> None:
        """Deletes the topic that has the name now, and waits until no broker in service knows it any more.

        A topic that is made anew under the name meanwhile stays.
        """
        checked_topic(name)
        await self._topics.delete(name, await self._begin())

    async def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        deadline_ms = await self._begin()
        topics = await self._cluster.list_topics(deadline_ms)
        return sorted(topic.name for topic in topics if topic.error is None)

    async def describe_topic(self, name: str) -> TopicDescription:
        """A topic as the answering broker has it; never older than what this client has seen of the cluster before.

        The metadata names a leader even for a partition whose last in-sync replica is lost. Only that leader knows what
        is wrong, so it is asked too.
        """
        deadline_ms = await self._begin()
        topic = existing(name, await self._cluster.list_topics(deadline_ms, (checked_topic(name),), True))
        return description(replace(topic, partitions=await self._with_errors_of_leaders(topic, deadline_ms)))

    async def describe_topics(self) -> list[TopicDescription]:
        """Every topic, sorted by name; each as `describe_topic` has it."""
        deadline_ms = await self._begin()
        topics = await self._cluster.list_topics(deadline_ms, include_log_dirs=True)
        at_once = asyncio.Semaphore(DESCRIBED_AT_ONCE)

        async def described(topic: TopicInfo) -> TopicDescription:
            async with at_once:
                return description(replace(topic, partitions=await self._with_errors_of_leaders(topic, deadline_ms)))

        known = [topic for topic in topics if topic.error is None]
        return sorted(await asyncio.gather(*map(described, known)), key=lambda topic: topic.name)

    async def _with_errors_of_leaders(self, topic: TopicInfo, deadline_ms: int) -> tuple[PartitionInfo, ...]:
        """The partitions, each with the error that its leader has for it, where that is the only in-sync replica."""
        alone = {
            p.leader_id for p in topic.partitions if p.error is None and p.leader_id != NO_LEADER and len(p.isr) < 2
        }
        endpoints = [at for node_id in sorted(alone) if (at := self._cluster.cache.endpoint(node_id)) is not None]
        told = {
            (p.partition, p.leader_id, p.leader_epoch): p.error
            for answer in await self._topics.ask_brokers(topic.name, endpoints, deadline_ms)
            if answer is not None and answer.topic_id == topic.topic_id
            for p in answer.partitions
            if p.error is not None
        }
        return tuple(
            replace(p, error=p.error or told.get((p.partition, p.leader_id, p.leader_epoch))) for p in topic.partitions
        )

    async def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes every record below the offset of each partition; -1 is everything that can be read now.

        The low watermark of each partition: below it nothing is left on any live replica.
        """
        before = checked_mapping("before_offsets", before_offsets, "{TopicPartition('orders', 0): 100}")
        wanted = {checked_partition(tp): checked_number("offset", offset, -1) for tp, offset in before.items()}
        deadline_ms = await self._begin()
        return await delete_records(self._cluster, wanted, self._left_ms(deadline_ms))

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ElectionResult]:
        """Makes the first replica of each partition its leader where it is in sync; None: of all partitions.

        `unclean` is for partitions without a leader instead: any replica in service leads, and acked records that only
        the others have ARE LOST. Of all partitions, those are left out of the result that need no election.
        """
        wanted = None if partitions is None else checked_partitions(partitions)
        deadline_ms = await self._begin()
        return await order_elections(self._cluster, wanted, unclean, deadline_ms)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begins to move the replicas of partitions to these brokers, the preferred leader first; None cancels a move.

        What became of each: None, or why nothing did. The copying goes on afterwards; `list_partition_reassignments`
        shows it. Until all replicas that come are in sync, those that go stay full members (KIP-455).
        """
        before = checked_mapping("replicas", replicas, "{TopicPartition('orders', 0): [1, 2, 3]}")
        wanted = {checked_partition(tp): checked_replicas(asked) for tp, asked in before.items()}
        deadline_ms = await self._begin()
        return await alter_reassignments(self._cluster, wanted, deadline_ms)

    async def list_partition_reassignments(self) -> dict[TopicPartition, PartitionInfo]:
        """The partitions that are being reassigned now, with their replicas, those that come and those that go."""
        deadline_ms = await self._begin()
        topics = await self._cluster.list_topics(deadline_ms)
        return {
            TopicPartition(topic.name, partition.partition): partition
            for topic in sorted(topics, key=lambda topic: topic.name)
            for partition in topic.partitions
            if partition.is_reassigning
        }

    async def reassignment_progress(self) -> dict[TopicPartition, ReassignmentProgress]:
        """Of each partition that is being reassigned now: how many bytes its copies lack."""
        deadline_ms = await self._begin()
        topics = await self._cluster.list_topics(deadline_ms)
        moving = {
            TopicPartition(topic.name, p.partition): p for topic in topics for p in topic.partitions if p.is_reassigning
        }
        if not moving:
            return {}
        ids = {topic.name: topic.topic_id for topic in topics}
        names = sorted({tp.topic for tp in moving})
        return progress(moving, ids, await describe_log_dirs(self._cluster, None, names, deadline_ms))

    # -- configs -------------------------------------------------------------------------------------------------------

    async def describe_topic_config(self, name: str) -> dict[str, ConfigEntry]:
        """Every effective key of a topic, and where its value comes from."""
        checked_topic(name)
        deadline_ms = await self._begin()
        return await configs.describe_topic(self._cluster, name, deadline_ms)

    async def describe_broker_config(self, node_id: int | None) -> dict[str, ConfigEntry]:
        """Every key of a broker, and where its value comes from; with None what was set for all brokers."""
        resource, deadline_ms = configs.broker_resource(node_id), await self._begin()
        return await configs.describe_broker(self._cluster, resource, deadline_ms)

    async def alter_topic_config(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        append: Mapping[str, Any] | None = None,
        subtract: Mapping[str, Any] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Sets keys of a topic, all or none; None returns a key to its default, `append` and `subtract` change lists.

        Over when every broker in service has heard of it.
        """
        checked_topic(name)
        wanted = configs.checked_changes('{"retention.ms": 86400000}', changes, append, subtract)
        resource, deadline_ms = configs.topic_resource(name), await self._begin()
        await configs.alter(self._cluster, resource, wanted, deadline_ms, validate_only=validate_only)

    async def alter_broker_config(
        self,
        node_id: int | None,
        changes: Mapping[str, Any],
        *,
        append: Mapping[str, Any] | None = None,
        subtract: Mapping[str, Any] | None = None,
        validate_only: bool = False,
    ) -> None:
        """As `alter_topic_config`, for a broker that runs, or with None for all brokers; the broker's own value wins.

        docs/configuration.md says which keys can change so.
        """
        resource = configs.broker_resource(node_id)
        wanted = configs.checked_changes('{"log.retention.ms": 86400000}', changes, append, subtract)
        deadline_ms = await self._begin()
        await configs.alter(self._cluster, resource, wanted, deadline_ms, validate_only=validate_only)

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def list_offsets(
        self, partitions: Mapping[TopicPartition, int | str] | Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetInfo]:
        """Offsets at a time in ms, 'earliest', 'latest' or 'max-timestamp'; a plain sequence of partitions means
        'latest'."""
        specs: Mapping[TopicPartition, int | str]
        specs = (
            partitions if isinstance(partitions, Mapping) else dict.fromkeys(checked_partitions(partitions), "latest")
        )
        wanted = {checked_partition(tp): _offset_spec(spec) for tp, spec in specs.items()}
        deadline_ms = await self._begin()
        return await list_offsets(self._cluster, wanted, self._left_ms(deadline_ms))

    def waiting_for(self) -> tuple[str, ...]:
        """The brokers in service that do not answer now, with their addresses, for a person; a call may wait for
        them."""
        return self._cluster.connections.unreachable()

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        self._closed = True
        await self._cluster.close()

    async def __aenter__(self) -> AsyncAdmin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAdmin({self._cluster!r})"


def _offset_spec(spec: int | str) -> int:
    if isinstance(spec, str):
        if spec not in OFFSET_SPECS:
            raise ValueError(
                f"offset spec {spec!r} must be 'earliest', 'latest', 'max-timestamp' or a time in ms since 1970"
            )
        return OFFSET_SPECS[spec]
    return checked_number("time_ms", spec, min(OFFSET_SPECS.values()))
