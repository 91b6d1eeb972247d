"""Admin: the plain face of AsyncAdmin; every call blocks until it is done or out of time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.admin.admin_types import (
    BrokerDescription,
    ConfigEntry,
    ElectionResult,
    OffsetInfo,
    PartitionInfo,
    TopicDescription,
)
from penstock.client.admin.async_admin import AsyncAdmin
from penstock.client.admin.health import ClusterHealth
from penstock.client.admin.log_dirs import BrokerLogDirs, ReassignmentProgress
from penstock.client.admin.metadata_content import MetadataContent, MetadataDigest
from penstock.client.cluster.config import AdminConfig
from penstock.client.cluster.foreign_words import ADMIN_METHODS, with_method_hints
from penstock.client.cluster.option_text import with_option_help
from penstock.client.cluster.typed_options import AdminOptions
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.wire.messages import ClusterInfo, QuorumInfo
from penstock.errors import ApiError
from penstock.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")


@with_method_hints(ADMIN_METHODS)
@with_option_help(AdminConfig)
class Admin:
    """Administers a cluster; thread-safe."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "127.0.0.1:9192",
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._admin = AsyncAdmin(bootstrap, environment=environment, **options)
        self._background = environment.background()
        self._background.add(self)
        forks.belongs_here(self)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread closes the client."""
        return self._background.run(self._admin.until_closed(call, *args, **more))

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> TopicDescription:
        """Creates a topic and waits until every broker knows a leader of each partition.

        `assignments` are the brokers of each partition, the preferred leader first; then the two numbers can be left
        out. Without them a topic has one partition, and the cluster's default of replicas.
        """
        return self._run(
            self._admin.create_topic, name, partitions, replication_factor, config, assignments=assignments
        )

    def create_partitions(
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
        return self._run(self._admin.create_partitions, name, total, assignments, validate_only=validate_only)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and waits until no broker in service knows it any more."""
        self._run(self._admin.delete_topic, name)

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._run(self._admin.list_topics)

    def describe_topic(self, name: str) -> TopicDescription:
        """A topic with its partitions and the configs that it overrides."""
        return self._run(self._admin.describe_topic, name)

    def describe_topics(self) -> list[TopicDescription]:
        """Every topic, sorted by name; each as `describe_topic` has it."""
        return self._run(self._admin.describe_topics)

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes every record below the offset of each partition; -1 is everything that can be read now.

        The low watermark of each partition: below it nothing is left on any live replica.
        """
        return self._run(self._admin.delete_records, before_offsets)

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ElectionResult]:
        """Makes the first replica of each partition its leader where it is in sync; None: of all partitions.

        `unclean` is for partitions without a leader instead: any replica in service leads, and acked records that only
        the others have ARE LOST. Of all partitions, those are left out of the result that need no election.
        """
        return self._run(self._admin.elect_leaders, partitions, unclean=unclean)

    def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begins to move the replicas of partitions to these brokers, the preferred leader first; None cancels a move.

        What became of each: None, or why nothing did. The copying goes on afterwards; `list_partition_reassignments`
        shows it. Until all replicas that come are in sync, those that go stay full members (KIP-455).
        """
        return self._run(self._admin.alter_partition_reassignments, replicas)

    def list_partition_reassignments(self) -> dict[TopicPartition, PartitionInfo]:
        """The partitions that are being reassigned now, with their replicas, those that come and those that go."""
        return self._run(self._admin.list_partition_reassignments)

    def reassignment_progress(self) -> dict[TopicPartition, ReassignmentProgress]:
        """Of each partition that is being reassigned now: how many bytes its copies lack."""
        return self._run(self._admin.reassignment_progress)

    def describe_topic_config(self, name: str) -> dict[str, ConfigEntry]:
        """Every effective key of a topic, and where its value comes from."""
        return self._run(self._admin.describe_topic_config, name)

    def describe_broker_config(self, node_id: int | None) -> dict[str, ConfigEntry]:
        """Every key of a broker, and where its value comes from; with None what was set for all brokers."""
        return self._run(self._admin.describe_broker_config, node_id)

    def alter_topic_config(
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
        self._run(
            self._admin.alter_topic_config, name, changes, append=append, subtract=subtract, validate_only=validate_only
        )

    def alter_broker_config(
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
        self._run(
            self._admin.alter_broker_config,
            node_id,
            changes,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
        )

    def describe_cluster(self) -> ClusterInfo:
        """Id, controller and every registered broker, fenced ones too, by the broker that has heard the latest."""
        return self._run(self._admin.describe_cluster)

    def describe_brokers(self) -> tuple[BrokerDescription, ...]:
        """Every registered broker by its id, fenced ones too, with the numbers of its replicas and leaders."""
        return self._run(self._admin.describe_brokers)

    def unregister_broker(self, broker_id: int) -> None:
        """Forgets a broker that is gone for good: stopped, and without any replica. Over when all others know it.

        PolicyViolationError while it runs or has replicas: move them away first. A process with its id that comes back
        later is a new broker. A voter of the quorum that has the id stays one.
        """
        self._run(self._admin.unregister_broker, broker_id)

    def cluster_health(self) -> ClusterHealth:
        """What is wrong with the cluster, by what every broker says of itself, and what to do about it."""
        return self._run(self._admin.cluster_health)

    def describe_quorum(self) -> QuorumInfo:
        """The quorum's leader, voters and observers; without a leader, what a broker knows by itself."""
        return self._run(self._admin.describe_quorum)

    def metadata_digests(self, at_offset: int | None = None) -> tuple[MetadataDigest, ...]:
        """A digest of the cluster's metadata by the files of each registered broker, at one offset of the metadata log.

        None: the newest offset that every broker that answers has. At equal offsets all digests are equal.
        """
        return self._run(self._admin.metadata_digests, at_offset)

    def describe_metadata(self, at_offset: int | None = None, node_id: int | None = None) -> MetadataContent:
        """The records that make the metadata at an offset, by the files of this broker, or of any. None: the newest
        offset that it has."""
        return self._run(self._admin.describe_metadata, at_offset, node_id)

    def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, topics: Iterable[str] = ()
    ) -> dict[int, BrokerLogDirs]:
        """What brokers have in their log dirs: of these, or of all; of these topics, or of all."""
        return self._run(self._admin.describe_log_dirs, broker_ids, topics)

    def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """Has a broker move replicas that it has to other log dirs of its own, given by their paths there.

        Each replica's error, or None: its move has begun and goes on by itself, also after a restart of the broker.
        `describe_log_dirs` tells how far it is. A replica that is in that log dir stays; a move of it ends.
        """
        return self._run(self._admin.alter_replica_log_dirs, broker_id, wanted)

    def list_offsets(
        self, partitions: Mapping[TopicPartition, int | str] | Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetInfo]:
        """Offsets at a time in ms, 'earliest', 'latest' or 'max-timestamp'; a plain sequence of partitions means
        'latest'."""
        return self._run(self._admin.list_offsets, partitions)

    def waiting_for(self) -> tuple[str, ...]:
        """The brokers in service that do not answer now, with their addresses, for a person; a call may wait for
        them. May be called in any thread."""

        async def on_loop() -> tuple[str, ...]:
            return self._admin.waiting_for()

        return self._background.run(on_loop())

    def close(self, timeout: float | None = None) -> None:
        """Closes every connection. Idempotent."""
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._admin.close(), timeout)

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Admin({self._admin!r})"
