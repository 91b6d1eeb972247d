"""Admin: the plain face of AsyncAdmin; every call blocks until it is done or out of time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.admin.admin_types import AdminStatistics
from penstock.client.admin.async_admin import AsyncAdmin
from penstock.client.admin.client_metrics_calls import ClientMetricsCalls
from penstock.client.admin.feature_calls import FeatureCalls
from penstock.client.admin.groups.group_calls import GroupCalls
from penstock.client.admin.log_dir_calls import LogDirCalls
from penstock.client.admin.metadata_content import MetadataCalls
from penstock.client.admin.quorum_calls import QuorumCalls
from penstock.client.admin.security.acl_calls import AclCalls
from penstock.client.admin.security.quota_calls import QuotaCalls
from penstock.client.admin.security.user_calls import UserCalls
from penstock.client.admin.transactions.transaction_admin_calls import TransactionAdminCalls
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import at_once, blocking, blocking_awaited, face
from penstock.client.options.config import AdminConfig
from penstock.client.options.foreign_words import ADMIN_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import AdminOptions

P = ParamSpec("P")
T = TypeVar("T")


@face(AdminConfig, ADMIN_METHODS)
class Admin:
    """Administers a cluster; thread-safe."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._calls = AsyncAdmin(bootstrap, environment=environment, **options)
        self._background = environment.background()
        self._background.add(self)
        forks.belongs_here(self)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread closes the client."""
        return self._background.run(self._calls._core.cluster.waiting_calls.until_closed(call, *args, **more))

    create_topic = blocking(AsyncAdmin.create_topic)
    create_topics = blocking(AsyncAdmin.create_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    create_partitions_of_topics = blocking(AsyncAdmin.create_partitions_of_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    delete_topic = blocking(AsyncAdmin.delete_topic)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topic = blocking(AsyncAdmin.describe_topic)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    delete_records = blocking(AsyncAdmin.delete_records)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    reassignment_progress = blocking(AsyncAdmin.reassignment_progress)
    describe_topic_config = blocking(AsyncAdmin.describe_topic_config)
    describe_broker_config = blocking(AsyncAdmin.describe_broker_config)
    alter_topic_config = blocking(AsyncAdmin.alter_topic_config)
    alter_topic_configs = blocking(AsyncAdmin.alter_topic_configs)
    alter_broker_config = blocking(AsyncAdmin.alter_broker_config)
    describe_client_metrics = blocking_awaited(ClientMetricsCalls.describe_client_metrics, "_client_metrics")
    alter_client_metrics = blocking_awaited(ClientMetricsCalls.alter_client_metrics, "_client_metrics")
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_brokers = blocking(AsyncAdmin.describe_brokers)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    cluster_health = blocking(AsyncAdmin.cluster_health)
    describe_quorum = blocking(AsyncAdmin.describe_quorum)
    metadata_digests = blocking_awaited(MetadataCalls.metadata_digests, "_metadata")
    describe_metadata = blocking_awaited(MetadataCalls.describe_metadata, "_metadata")
    add_voter = blocking_awaited(QuorumCalls.add_voter, "_quorum")
    remove_voter = blocking_awaited(QuorumCalls.remove_voter, "_quorum")
    unregister_controller = blocking_awaited(QuorumCalls.unregister_controller, "_quorum")
    make_quorum_dynamic = blocking_awaited(QuorumCalls.make_quorum_dynamic, "_quorum")
    describe_features = blocking_awaited(FeatureCalls.describe_features, "_features")
    upgrade_features = blocking_awaited(FeatureCalls.upgrade_features, "_features")
    downgrade_features = blocking_awaited(FeatureCalls.downgrade_features, "_features")
    alter_user_scram_credentials = blocking_awaited(UserCalls.alter_user_scram_credentials, "_users")
    describe_user_scram_credentials = blocking_awaited(UserCalls.describe_user_scram_credentials, "_users")
    check_may_alter_cluster = blocking_awaited(AclCalls.check_may_alter_cluster, "_acls")
    create_acls = blocking_awaited(AclCalls.create_acls, "_acls")
    delete_acls = blocking_awaited(AclCalls.delete_acls, "_acls")
    describe_acls = blocking_awaited(AclCalls.describe_acls, "_acls")
    alter_client_quotas = blocking_awaited(QuotaCalls.alter_client_quotas, "_quotas")
    describe_client_quotas = blocking_awaited(QuotaCalls.describe_client_quotas, "_quotas")
    describe_log_dirs = blocking_awaited(LogDirCalls.describe_log_dirs, "_log_dirs")
    alter_replica_log_dirs = blocking_awaited(LogDirCalls.alter_replica_log_dirs, "_log_dirs")
    list_offsets = blocking(AsyncAdmin.list_offsets)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    list_groups = blocking_awaited(GroupCalls.list_groups)
    describe_group = blocking_awaited(GroupCalls.describe_group)
    describe_groups = blocking_awaited(GroupCalls.describe_groups)
    group_offsets = blocking_awaited(GroupCalls.group_offsets)
    group_lag = blocking_awaited(GroupCalls.group_lag)
    group_lags = blocking_awaited(GroupCalls.group_lags)
    alter_group_offsets = blocking_awaited(GroupCalls.alter_group_offsets)
    reset_group_offsets = blocking_awaited(GroupCalls.reset_group_offsets)
    delete_groups = blocking_awaited(GroupCalls.delete_groups)
    delete_group_offsets = blocking_awaited(GroupCalls.delete_group_offsets)
    list_transactions = blocking_awaited(TransactionAdminCalls.list_transactions, "_transactions")
    describe_transaction = blocking_awaited(TransactionAdminCalls.describe_transaction, "_transactions")
    describe_transactions = blocking_awaited(TransactionAdminCalls.describe_transactions, "_transactions")
    fence_producer = blocking_awaited(TransactionAdminCalls.fence_producer, "_transactions")
    find_hanging_transactions = blocking_awaited(TransactionAdminCalls.find_hanging_transactions, "_transactions")
    abort_hanging_transaction = blocking_awaited(TransactionAdminCalls.abort_hanging_transaction, "_transactions")

    def waiting_for(self) -> tuple[str, ...]:
        """Brokers in service that do not answer now, or make the client wait for its quota, with their addresses, for a
        person; a call may wait for them. May be called in any thread.
        """

        async def on_loop() -> tuple[str, ...]:
            return self._calls.waiting_for()

        return self._background.run(on_loop())

    metrics = at_once(AsyncAdmin.metrics)

    def statistics(self) -> AdminStatistics:
        """Counts since the client was made. May be called in any thread."""
        return self._calls.statistics()

    def close(self, timeout: float | None = None) -> None:
        """Closes every connection, within `timeout` seconds. Idempotent."""
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._calls.close(), timeout)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Admin({self._calls!r})"
