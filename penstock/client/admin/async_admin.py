"""AsyncAdmin: topics, configs, records to delete, the cluster, the quorum, offsets, groups and transactions, for
an event loop.

Each method checks what the user gave, reaches the cluster, and leaves the rest to the module of its subject. A change
goes to any broker and, where that one says NotController, to the one that it names. It is over when every broker in
service has heard of it, within the time limit, so that the next command does not race the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from penstock.client import forks
from penstock.client.admin import cluster_views, configs, elections, reassignments, topic_views
from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.admin_types import (
    AdminStatistics,
    BrokerDescription,
    ConfigEntry,
    ElectionResult,
    OffsetInfo,
    TopicDescription,
    admin_metrics,
)
from penstock.client.admin.client_metrics_calls import ClientMetricsCalls
from penstock.client.admin.delete_records import checked_deletions, delete_records
from penstock.client.admin.feature_calls import FeatureCalls
from penstock.client.admin.groups.group_calls import GroupCalls
from penstock.client.admin.health.health_check import ClusterHealth
from penstock.client.admin.health.judge import judge
from penstock.client.admin.log_dir_calls import LogDirCalls
from penstock.client.admin.log_dirs import ReassignmentProgress
from penstock.client.admin.metadata_content import MetadataCalls
from penstock.client.admin.quorum_calls import QuorumCalls
from penstock.client.admin.security.acl_calls import AclCalls
from penstock.client.admin.security.quota_calls import QuotaCalls
from penstock.client.admin.security.user_calls import UserCalls
from penstock.client.admin.topic_changes import TopicChanges, checked_topics, new_topic
from penstock.client.admin.transactions.transaction_admin_calls import TransactionAdminCalls
from penstock.client.cluster import arguments
from penstock.client.cluster.known_producers import KnownProducersOf, ask_known_producers
from penstock.client.cluster.offsets import list_offsets
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import awaited, face
from penstock.client.metrics.client_metric import ClientMetric
from penstock.client.options.config import AdminConfig
from penstock.client.options.foreign_words import ADMIN_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import AdminOptions
from penstock.errors import ApiError
from penstock.messages.cluster import ClusterInfo
from penstock.messages.metadata import PartitionInfo
from penstock.messages.quorum import QuorumInfo
from penstock.messages.topics import NewTopic
from penstock.types import TopicPartition


@face(AdminConfig, ADMIN_METHODS)
class AsyncAdmin:
    """Administers a cluster from one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._core = AdminCore(bootstrap, options, given_or_system(environment))
        self._cluster = self._core.cluster
        self._topics = TopicChanges(self._cluster)
        self._calls = GroupCalls(self._core)
        self._log_dirs, self._metadata = LogDirCalls(self._core), MetadataCalls(self._core)
        self._users, self._acls, self._quotas = UserCalls(self._core), AclCalls(self._core), QuotaCalls(self._core)
        self._transactions, self._quorum = TransactionAdminCalls(self._core), QuorumCalls(self._core)
        self._features = FeatureCalls(self._core)
        self._client_metrics = ClientMetricsCalls(self._core)
        forks.belongs_here(self)

    def _bind(self) -> None:
        self._core.bind(self)

    async def start(self) -> None:
        """Reaches the cluster; BootstrapError when it cannot."""
        await self._core.start(self)

    async def _begin(self) -> int:
        """Reaches the cluster for a call; the deadline of that call."""
        deadline_ms = self._core.deadline_ms()
        await self.start()
        return deadline_ms

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        exist_ok: bool = False,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Creates a topic and waits until every broker in service knows a leader of each partition.

        `assignments` are the brokers of each partition, the preferred leader first; then the two numbers can be left
        out. Without them a topic has one partition, and the cluster's default of replicas. With `exist_ok` a topic that
        has the name already is returned as it is, whatever its partitions and configs are. With `validate_only` nothing
        is created, and the description has neither an id nor partitions.
        """
        topic = new_topic(name, partitions, replication_factor, config, assignments)
        if validate_only:
            return await self._topics.check(topic, await self._begin(), exist_ok=exist_ok)
        return await self._topics.create(topic, await self._begin(), exist_ok=exist_ok)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Creates many topics in few requests. The result for each by its name: None, or why it was not created.

        Returns when every broker in service has heard of those that were. Some may be created where others, or a later
        request, fail; again, those have TopicExistsError. With `validate_only` nothing is created.
        """
        wanted = checked_topics(topics)
        return await self._topics.create_all(wanted, await self._begin(), validate_only=validate_only)

    async def create_partitions(
        self, name: str, total: int, assignments: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
    ) -> TopicDescription:
        """Adds partitions to a topic until it has `total`, and waits until every broker in service has heard of them.

        `assignments` are the brokers of each new partition, the preferred leader first. Partitions cannot be removed.
        From now on producers map keys to all partitions: a key may go to another one than before. With `validate_only`
        nothing is changed, and the topic is returned as it is.
        """
        arguments.checked_topic(name)
        arguments.checked_number("total", total, 1, arguments.MAX_INT32)
        by_hand = arguments.checked_assignments(assignments)
        deadline_ms = await self._begin()
        return await self._topics.add_partitions(name, total, by_hand, deadline_ms, validate_only=validate_only)

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """Deletes the topic that has the name now, and waits until no broker in service knows it any more. A topic that
        is made anew under the name meanwhile stays. With `missing_ok` it is no error that there is no such topic."""
        await self._topics.delete(arguments.checked_topic(name), await self._begin(), missing_ok=missing_ok)

    async def create_partitions_of_topics(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Adds partitions to many topics in few requests, each until it has its total.

        The result for each by its name: None, or why none was added. Returns when every broker in service has heard of
        them. With `validate_only` nothing is changed.
        """
        wanted = {
            arguments.checked_topic(name): arguments.checked_number("total", total, 1, arguments.MAX_INT32)
            for name, total in arguments.checked_mapping("totals", totals, '{"orders": 12}').items()
        }
        return await self._topics.add_to_all(wanted, await self._begin(), validate_only=validate_only)

    async def delete_topics(self, names: Sequence[str], *, missing_ok: bool = False) -> dict[str, ApiError | None]:
        """Deletes many topics in few requests. The result for each by its name: None, or why it was not deleted; with
        `missing_ok` it is no error that there is no such topic. Returns when no broker in service knows them any
        more."""
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise TypeError(f"names must be a list, like ['orders'], not {names!r}")
        wanted = tuple(dict.fromkeys(map(arguments.checked_topic, names)))
        return await self._topics.delete_all(wanted, await self._begin(), missing_ok=missing_ok)

    async def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return await topic_views.list_names(self._cluster, await self._begin())

    async def describe_topic(self, name: str) -> TopicDescription:
        """A topic with its partitions and the configs that it overrides, never older than what this client has seen.

        The metadata names a leader even for a partition whose last in-sync replica is lost. Only that leader knows what
        is wrong, so it is asked too.
        """
        return await topic_views.describe_one(self._cluster, arguments.checked_topic(name), await self._begin())

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, ask_leaders: bool = True
    ) -> list[TopicDescription]:
        """The topics of these names, or all, sorted by name; each as `describe_topic` has it. A name that no topic has
        is left out. Without `ask_leaders` as the metadata of one broker has them, in one call: nothing of what only the
        leader of a lonely replica knows."""
        wanted = None if names is None else arguments.checked_topic_names(names)
        return await topic_views.describe_many(self._cluster, wanted, await self._begin(), ask_leaders=ask_leaders)

    async def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes every record below the offset of each partition; -1 is everything that can be read now. The low
        watermark of each partition: below it nothing is left on any live replica."""
        wanted = checked_deletions(before_offsets)
        return await delete_records(self._cluster, wanted, self._core.left_ms(await self._begin()))

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ElectionResult]:
        """Makes the first replica of each partition its leader where it is in sync; None: of all partitions.

        `unclean` is for partitions without a leader instead: any replica in service leads, and acked records that only
        the others have ARE LOST. If all are asked for, the result leaves out partitions that need no election.
        """
        wanted = None if partitions is None else arguments.checked_partitions(partitions)
        return await elections.order_elections(self._cluster, wanted, unclean, await self._begin())

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begins to move the replicas of partitions to these brokers, the preferred leader first; None cancels a move.

        The result for each is None, or why nothing was done. The copying goes on; `list_partition_reassignments`
        shows it. Until all replicas that come are in sync, those that go stay full members (KIP-455).
        """
        wanted = reassignments.checked_reassignments(replicas)
        return await reassignments.alter_reassignments(self._cluster, wanted, await self._begin())

    async def list_partition_reassignments(self) -> dict[TopicPartition, PartitionInfo]:
        """The partitions that are being reassigned now, with their replicas, those that come and those that go."""
        return await reassignments.reassigned(self._cluster, await self._begin())

    async def reassignment_progress(self) -> dict[TopicPartition, ReassignmentProgress]:
        """How many bytes its copies lack, for each partition that is being reassigned now."""
        return await reassignments.reassignment_progress(self._cluster, await self._begin())

    async def describe_topic_config(self, name: str) -> dict[str, ConfigEntry]:
        """Every effective key of a topic, and where its value comes from."""
        return await configs.describe_topic(self._cluster, arguments.checked_topic(name), await self._begin())

    async def describe_broker_config(self, node_id: int | None) -> dict[str, ConfigEntry]:
        """Every key of a broker, and where its value comes from; with None what was set for all brokers."""
        return await configs.describe_broker(self._cluster, configs.broker_resource(node_id), await self._begin())

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
        Returns when every broker in service has heard of it."""
        resource = configs.topic_resource(arguments.checked_topic(name))
        wanted = configs.checked_changes('{"retention.ms": 86400000}', changes, append, subtract)
        await configs.alter(self._cluster, resource, wanted, await self._begin(), validate_only=validate_only)

    async def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, Any]], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Sets keys of many topics in few requests, of each topic all or none; None returns a key to its default.

        The result for each topic by its name: None, or why nothing of it was changed. Returns when every broker in
        service has heard of those that were. With `validate_only` nothing is changed.
        """
        example = '{"orders": {"retention.ms": 86400000}}'
        wanted = {
            arguments.checked_topic(name): configs.checked_changes(example, values, None, None)
            for name, values in arguments.checked_mapping("changes", changes, example).items()
        }
        return await configs.alter_topics(self._cluster, wanted, await self._begin(), validate_only=validate_only)

    async def alter_broker_config(
        self,
        node_id: int | None,
        changes: Mapping[str, Any],
        *,
        append: Mapping[str, Any] | None = None,
        subtract: Mapping[str, Any] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Changes the configuration of a running broker, or with None of all brokers, as `alter_topic_config` does; the
        broker's own value wins.

        docs/configuration.md says which keys can change at run time.
        """
        resource = configs.broker_resource(node_id)
        wanted = configs.checked_changes('{"log.retention.ms": 86400000}', changes, append, subtract)
        await configs.alter(self._cluster, resource, wanted, await self._begin(), validate_only=validate_only)

    async def describe_cluster(self) -> ClusterInfo:
        """Id, controller and every registered broker, fenced ones too, by the broker that has heard the latest."""
        return await cluster_views.newest_view(self._cluster, await self._begin())

    async def describe_brokers(self) -> tuple[BrokerDescription, ...]:
        """Every registered broker by its id, fenced ones too, with the numbers of its replicas and leaders."""
        return await cluster_views.describe_brokers(self._cluster, await self._begin())

    async def unregister_broker(self, broker_id: int) -> None:
        """Forgets a broker that is gone for good: stopped, and without any replica. Returns when all others know it.

        PolicyViolationError while it runs or has replicas: move them away first. A process with its id that comes back
        later is a new broker. A voter of the quorum that has the id stays one.
        """
        arguments.checked_number("broker_id", broker_id, 0, arguments.MAX_INT32)
        await cluster_views.forget_broker(self._cluster, broker_id, await self._begin())

    async def cluster_health(self) -> ClusterHealth:
        """The faults of the cluster, by what every broker says of itself, and the remedy of each."""
        return judge(*await cluster_views.views_and_quorum(self._cluster, await self._begin()))

    async def describe_quorum(self) -> QuorumInfo:
        """The quorum's leader, voters and observers; without a leader, what a broker knows by itself."""
        return await cluster_views.quorum_view(self._cluster, await self._begin())

    async def list_offsets(
        self, partitions: Mapping[TopicPartition, int | str] | Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetInfo]:
        """Offsets at a time in ms, 'earliest', 'latest' or 'max-timestamp'; a plain sequence means 'latest'."""
        wanted = arguments.checked_offset_specs(partitions)
        return await list_offsets(self._cluster, wanted, self._core.left_ms(await self._begin()))

    async def describe_producers(self, partitions: Sequence[TopicPartition]) -> KnownProducersOf:
        """The idempotent producers that each partition's leader knows, the longest silent first."""
        wanted = arguments.checked_partitions(partitions)
        return await ask_known_producers(self._cluster, wanted, self._core.left_ms(await self._begin()))

    metadata_digests = awaited(MetadataCalls.metadata_digests, "_metadata")
    describe_metadata = awaited(MetadataCalls.describe_metadata, "_metadata")
    add_voter = awaited(QuorumCalls.add_voter, "_quorum")
    remove_voter = awaited(QuorumCalls.remove_voter, "_quorum")
    unregister_controller = awaited(QuorumCalls.unregister_controller, "_quorum")
    make_quorum_dynamic = awaited(QuorumCalls.make_quorum_dynamic, "_quorum")
    describe_client_metrics = awaited(ClientMetricsCalls.describe_client_metrics, "_client_metrics")
    alter_client_metrics = awaited(ClientMetricsCalls.alter_client_metrics, "_client_metrics")
    describe_features = awaited(FeatureCalls.describe_features, "_features")
    upgrade_features = awaited(FeatureCalls.upgrade_features, "_features")
    downgrade_features = awaited(FeatureCalls.downgrade_features, "_features")
    alter_user_scram_credentials = awaited(UserCalls.alter_user_scram_credentials, "_users")
    describe_user_scram_credentials = awaited(UserCalls.describe_user_scram_credentials, "_users")
    check_may_alter_cluster = awaited(AclCalls.check_may_alter_cluster, "_acls")
    create_acls = awaited(AclCalls.create_acls, "_acls")
    delete_acls = awaited(AclCalls.delete_acls, "_acls")
    describe_acls = awaited(AclCalls.describe_acls, "_acls")
    alter_client_quotas = awaited(QuotaCalls.alter_client_quotas, "_quotas")
    describe_client_quotas = awaited(QuotaCalls.describe_client_quotas, "_quotas")
    describe_log_dirs = awaited(LogDirCalls.describe_log_dirs, "_log_dirs")
    alter_replica_log_dirs = awaited(LogDirCalls.alter_replica_log_dirs, "_log_dirs")
    list_groups = awaited(GroupCalls.list_groups)
    describe_group = awaited(GroupCalls.describe_group)
    describe_groups = awaited(GroupCalls.describe_groups)
    group_offsets = awaited(GroupCalls.group_offsets)
    group_lag = awaited(GroupCalls.group_lag)
    group_lags = awaited(GroupCalls.group_lags)
    alter_group_offsets = awaited(GroupCalls.alter_group_offsets)
    reset_group_offsets = awaited(GroupCalls.reset_group_offsets)
    delete_groups = awaited(GroupCalls.delete_groups)
    delete_group_offsets = awaited(GroupCalls.delete_group_offsets)
    list_transactions = awaited(TransactionAdminCalls.list_transactions, "_transactions")
    describe_transaction = awaited(TransactionAdminCalls.describe_transaction, "_transactions")
    describe_transactions = awaited(TransactionAdminCalls.describe_transactions, "_transactions")
    fence_producer = awaited(TransactionAdminCalls.fence_producer, "_transactions")
    find_hanging_transactions = awaited(TransactionAdminCalls.find_hanging_transactions, "_transactions")
    abort_hanging_transaction = awaited(TransactionAdminCalls.abort_hanging_transaction, "_transactions")

    def waiting_for(self) -> tuple[str, ...]:
        """Brokers in service that do not answer now, or make the client wait for its quota, with their addresses, for a
        person; a call may wait for them."""
        connections = self._cluster.connections
        return (*connections.unreachable(), *connections.throttled())

    def metrics(self) -> tuple[ClientMetric, ...]:
        """The counts for a monitoring system, with labels; `penstock.MetricsCollector` shows them to Prometheus. Asks
        nobody; in any thread."""
        return admin_metrics(self.statistics(), {"client_id": self._core.client_id}, self._cluster.connections.count)

    def statistics(self) -> AdminStatistics:
        """Counts since the client was made."""
        return AdminStatistics(*self._cluster.connections.throttle_times_ms())

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        await self._core.close()

    async def __aenter__(self) -> AsyncAdmin:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAdmin({self._cluster!r})"
