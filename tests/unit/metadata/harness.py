"""A controller with a log but without a quorum, for the tests of metadata/: whatever is decided is committed at once.

Every record goes through the codec, into the controller's state and into a delta, and the invariants of a partition are
checked after each of them, so that every test of a decision is a test of I8, I10 and I11 as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from metadata.codec import decode_record, encode_record
from metadata.controller.config import ControllerConfig
from metadata.controller.context import effective_min_isr
from metadata.controller.controller import Controller
from metadata.controller.result import ControllerResult
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import ALL_BROKERS, BROKER_RESOURCE, Record
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.config_keys import ConfigValue
from penstock.errors import ApiError
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from penstock.messages.elections import AlterPartitionReassignmentsRequest, ReassignedPartition, ReassignmentResult
from penstock.messages.nodes.brokers import (
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    HostedReplicas,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from penstock.messages.nodes.partitions import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrMember,
)
from penstock.messages.produce import AllocateProducerIdsRequest
from penstock.messages.security.acls import AclBinding, AclDeletion, AclFilter, CreateAclsRequest, DeleteAclsRequest
from penstock.messages.security.quotas import AlterClientQuotasRequest, QuotaAlteration
from penstock.messages.security.users import AlterUserScramCredentialsRequest, ScramDeletion, ScramUpsertion
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicResult,
)
from penstock.types import NO_LEADER
from raft.voters import NO_VOTERS, VoterSet

T = TypeVar("T")
CLUSTER_ID = "cluster-1"
SESSION_TIMEOUT_MS = 9_000
EPOCH = 1


class Cluster:
    """One controller, its log, its brokers' epochs, and the time."""

    def __init__(
        self,
        brokers: int = 0,
        config: ControllerConfig | None = None,
        seed: int = 1,
        voters: VoterSet = NO_VOTERS,
    ) -> None:
        self.config = config or ControllerConfig(CLUSTER_ID, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.voters = voters
        self.now_ms = 0
        self.log: list[Record] = []
        self.image: MetadataImage = EMPTY_IMAGE
        self.leaders: dict[tuple[PartitionKey, int], int] = {}
        self._rng = random.Random(seed)
        self._incarnations = 0
        self.unheard_from: int | None = None
        """No process of a broker before the one that registers was sent a record at this offset or behind it."""
        self.leader_epoch = 0  # of the quorum
        self.controller = self._activate()
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    # -- committing ----------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return len(self.log)

    def commit(self, result: ControllerResult[T]) -> T:
        self.controller.check_is_readable(result.records)
        for record in result.records:
            same = decode_record(encode_record(record))
            assert same == record
            before, delta = self.image, MetadataDelta(self.image)
            self.controller.replay(record, self.next_offset)
            delta.replay(same)
            self.image = delta.apply(self.next_offset, EPOCH)
            self.log.append(record)
            self._check(before)
        return result.response

    def commit_record(self, record: Record) -> None:
        """One that no decision of the test makes."""
        self.commit(ControllerResult((record,), None))

    def fail_over(self) -> None:
        """Another node becomes the controller, from the committed image."""
        self.controller = self._activate()

    def _activate(self) -> Controller:
        return Controller(self.image, self.config, self._rng, self.now_ms, voters=lambda: self.voters)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def register(self, broker_id: int, **fields: object) -> int:
        """A new process of the broker registers; its epoch."""
        self._incarnations += 1
        wanted: dict[str, object] = {
            "incarnation_id": f"process-{self._incarnations}",
            "host": f"host-{broker_id}",
            "flush_policy": "fsync",
        }
        request = RegisterBrokerRequest(CLUSTER_ID, broker_id, port=9192, **{**wanted, **fields})  # type: ignore[arg-type]
        registered = self.controller.register_broker(request, self.now_ms, self.next_offset, self.unheard_from)
        return self.commit(registered).broker_epoch

    def held_by(self, broker_id: int) -> tuple[HostedReplicas, ...]:
        """All replicas that the broker should have."""
        topics = self.image.topics_by_id.values()
        keys = [p.key for topic in topics for p in topic.partitions.values() if broker_id in p.replicas]
        return tuple(HostedReplicas(key.topic_id, (key.partition,)) for key in keys)

    def come_back(self, broker_id: int, **fields: object) -> int:
        """After an unclean stop and the end of its session, a new process registers with every replica that it had."""
        return self.register(broker_id, **{"replicas": self.held_by(broker_id), **fields})

    def heartbeat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        fence: bool = False,
        stop: bool = False,
        offline: tuple[str, ...] = (),
        calendar_ms: int = 0,
        cordoned: tuple[str, ...] = (),
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            CLUSTER_ID,
            broker_id,
            self.image.brokers[broker_id].broker_epoch,
            current_metadata_offset=self.image.offset if offset is None else offset,
            want_fence=fence,
            want_shut_down=stop,
            offline_log_dirs=offline,
            calendar_ms=calendar_ms,
            cordoned_log_dirs=cordoned,
        )
        return self.commit(self.controller.heartbeat(request, self.now_ms, self.image.offset))

    def start(self, broker_id: int, **fields: object) -> int:
        """The broker registers and is unfenced."""
        epoch = self.register(broker_id, **fields)
        assert not self.heartbeat(broker_id).is_fenced
        return epoch

    def let_die(self, *broker_ids: int) -> tuple[int, ...]:
        """These stop sending heartbeats, all others go on, until the sessions are over."""
        self.now_ms += SESSION_TIMEOUT_MS
        for broker_id in sorted(self.image.brokers.keys() - set(broker_ids)):
            if not self.image.brokers[broker_id].fenced:
                self.heartbeat(broker_id)
        return self.tick()

    def tick(self) -> tuple[int, ...]:
        return self.commit(self.controller.tick(self.now_ms)).fenced_broker_ids

    # -- topics --------------------------------------------------------------------------------------------------------

    def create(
        self, name: str, partitions: int = 1, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> TopicResult:
        return self.create_all(NewTopic(name, partitions, replication_factor, config or {}))[0]

    def create_all(
        self, *topics: NewTopic, validate_only: bool = False, principal: str = ""
    ) -> tuple[TopicResult, ...]:
        request = CreateTopicsRequest(topics, validate_only, principal=principal)
        return self.commit(self.controller.create_topics(request, self.now_ms)).topics

    def add_partitions(
        self, *topics: NewPartitions, validate_only: bool = False, principal: str = ""
    ) -> tuple[TopicResult, ...]:
        request = CreatePartitionsRequest(topics, validate_only, principal=principal)
        return self.commit(self.controller.create_partitions(request, self.now_ms)).topics

    def delete(self, *names: str) -> tuple[TopicResult, ...]:
        """A name that no topic has is taken for an id."""
        known = {name: topic.topic_id for name, topic in self.image.topics_by_name.items()}
        request = DeleteTopicsRequest(tuple(known.get(name, name) for name in names))
        return self.commit(self.controller.delete_topics(request, self.now_ms)).topics

    def configure(self, name: str, changes: Mapping[str, str | None], resource_type: str = "topic") -> Exception | None:
        """Sets each key, or returns it to its default where the value is None."""
        made = tuple(
            ConfigChange(key, ConfigOperation.SET, value)
            if value is not None
            else ConfigChange(key, ConfigOperation.DELETE)
            for key, value in changes.items()
        )
        return self.alter_configs(name, *made, resource_type=resource_type)

    def alter_configs(self, name: str, *changes: ConfigChange, resource_type: str = "topic") -> Exception | None:
        request = AlterConfigsRequest((AlterConfigsResource(resource_type, name, changes),))
        return self.commit(self.controller.alter_configs(request, self.now_ms)).resources[0].error

    def partition(self, name: str, partition: int = 0) -> PartitionRegistration:
        found = self.image.partition(name, partition)
        assert found is not None
        return found

    def proposal(self, name: str, isr: tuple[int, ...], partition: int = 0) -> AlterPartitionData:
        """The ISR change that an up-to-date leader would ask for."""
        now = self.partition(name, partition)
        members = tuple(IsrMember(member, self.image.brokers[member].broker_epoch) for member in isr)
        return AlterPartitionData(now.topic_id, partition, now.leader_epoch, now.partition_epoch, members)

    def alter(self, broker_id: int, *data: AlterPartitionData) -> tuple[AlterPartitionResult, ...]:
        request = AlterPartitionRequest(broker_id, self.image.brokers[broker_id].broker_epoch, data)
        return self.commit(self.controller.alter_partition(request, self.now_ms)).partitions

    def assign(self, broker_id: int, *replicas: HostedReplicas) -> tuple[ApiError | None, ...]:
        """The broker reports where it has its replicas."""
        request = AssignReplicasToDirsRequest(broker_id, self.image.brokers[broker_id].broker_epoch, replicas)
        answer = self.commit(self.controller.assign_replicas_to_dirs(request, self.now_ms))
        return tuple(assigned.error for assigned in answer.replicas)

    def allocate(self, broker_id: int) -> range:
        """The block of producer ids that the broker gets."""
        request = AllocateProducerIdsRequest(broker_id, self.image.brokers[broker_id].broker_epoch)
        block = self.commit(self.controller.allocate_producer_ids(request, self.now_ms, self.leader_epoch))
        return range(block.first_producer_id, block.first_producer_id + block.count)

    def create_acls(self, *acls: AclBinding) -> list[ApiError | None]:
        answer = self.commit(self.controller.create_acls(CreateAclsRequest(acls), self.now_ms))
        return [one.error for one in answer.results]

    def alter_quotas(self, *alterations: QuotaAlteration) -> list[ApiError | None]:
        answer = self.commit(self.controller.alter_client_quotas(AlterClientQuotasRequest(alterations), self.now_ms))
        return [one.error for one in answer.results]

    def delete_acls(self, *filters: AclFilter) -> tuple[AclDeletion, ...]:
        return self.commit(self.controller.delete_acls(DeleteAclsRequest(filters), self.now_ms)).results

    def alter_users(self, *changes: ScramDeletion | ScramUpsertion) -> dict[str, ApiError | None]:
        deletions = tuple(change for change in changes if isinstance(change, ScramDeletion))
        upsertions = tuple(change for change in changes if isinstance(change, ScramUpsertion))
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        answer = self.commit(self.controller.alter_user_scram_credentials(request, self.now_ms))
        return {one.user: one.error for one in answer.users}

    def reassign(self, name: str, replicas: tuple[int, ...] | None, partition: int = 0) -> ApiError | None:
        """The partition is to have these replicas; None cancels."""
        return self.reassign_all(ReassignedPartition(name, partition, replicas))[0].error

    def reassign_all(self, *partitions: ReassignedPartition) -> tuple[ReassignmentResult, ...]:
        request = AlterPartitionReassignmentsRequest(partitions)
        return self.commit(self.controller.alter_partition_reassignments(request, self.now_ms)).partitions

    @property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        for_all = self.image.configs.get(ConfigResource(BROKER_RESOURCE, ALL_BROKERS), {})
        return {**self.config.topic_defaults, **self.config.broker_configs.in_force(for_all, ALL_BROKERS)}

    def unregister(self, broker_id: int) -> ApiError | None:
        """The broker is to be forgotten."""
        request = UnregisterBrokerRequest(broker_id)
        return self.commit(self.controller.unregister_broker(request, self.now_ms)).error

    # -- invariants ----------------------------------------------------------------------------------------------------

    def _check(self, before: MetadataImage) -> None:
        for topic_id, topic in self.image.topics_by_id.items():
            if topic is not before.topics_by_id.get(topic_id):
                for partition in topic.partitions.values():
                    self._check_partition(partition, before)
        if not before.brokers.keys() <= self.image.brokers.keys():
            self._check_replicas()
        if self.image.brokers is not before.brokers or self.image.configs is not before.configs:
            for topic in self.image.topics_by_id.values():
                for partition in topic.partitions.values():
                    self._check_isr(partition)

    def _check_replicas(self) -> None:
        for topic in self.image.topics_by_id.values():
            for partition in topic.partitions.values():
                assert set(partition.replicas) <= self.image.brokers.keys(), f"I43: on no broker: {partition}"

    def _check_partition(self, partition: PartitionRegistration, before: MetadataImage) -> None:
        self._check_isr(partition)
        topic = before.topics_by_id.get(partition.topic_id)
        earlier = topic.partitions.get(partition.partition) if topic else None
        if earlier is not None and earlier is not partition:
            assert partition.leader_epoch >= earlier.leader_epoch, "I10: the leader epoch fell"
            next_epoch = earlier.partition_epoch + (replace(earlier, directories=partition.directories) != partition)
            assert partition.partition_epoch == next_epoch, "I10: the partition epoch is not the next"
            self._check_move(earlier, partition)
        if partition.leader_id != NO_LEADER:
            leader = self.leaders.setdefault((partition.key, partition.leader_epoch), partition.leader_id)
            assert leader == partition.leader_id, "I10: two leaders in one epoch"

    def _check_move(self, earlier: PartitionRegistration, partition: PartitionRegistration) -> None:
        """A record that takes replicas away: nothing that was acked has fewer copies than its topic asks for."""
        gone = set(earlier.replicas) - set(partition.replicas)
        if not gone:
            return
        assert partition.leader_epoch > earlier.leader_epoch, f"fetches of {gone} still count: {partition}"
        overrides = self.image.topic_config(self.image.topic_name(partition.topic_id) or "")
        min_isr = effective_min_isr(partition, overrides, self.topic_defaults)
        copies = gone.intersection((*earlier.isr, *earlier.elr))
        assert len(partition.isr) >= min_isr or not copies, f"a move took the copies {copies}: {partition}"
        assert partition.has_leader or not earlier.has_leader, f"a move took the leader: {partition}"
        assert set(partition.isr) <= set(earlier.isr), f"a move brought a replica in sync: {partition}"

    def _check_isr(self, partition: PartitionRegistration) -> None:
        fenced = [member for member in partition.isr if self.image.brokers[member].fenced]
        assert partition.isr and set(partition.isr) <= set(partition.replicas), "I11: the ISR is not of the replicas"
        assert not fenced or len(partition.isr) == 1, f"I11: fenced {fenced} in the ISR of {partition}"
        offline = [
            member
            for member in partition.isr
            if partition.directory_of(member) in self.image.brokers[member].offline_log_dirs
        ]
        assert not offline or partition.isr == tuple(offline), f"I11: {offline} is in a failed log dir: {partition}"
        assert partition.leader_id not in offline, f"a replica in a failed log dir leads: {partition}"
        assert partition.leader_id in (NO_LEADER, *partition.isr), "I11: the leader is not in the ISR"
        assert partition.leader_id not in fenced, "a fenced broker leads"
        overrides = self.image.topic_config(self.image.topic_name(partition.topic_id) or "")
        min_isr = effective_min_isr(partition, overrides, self.topic_defaults)
        may_commit = partition.leader_id != NO_LEADER and len(partition.isr) >= min_isr
        assert not (partition.elr and may_commit), f"I32: an ELR stands in the way of {partition}"


def is_error(error: Exception | None, kind: type[Exception], *words: str) -> bool:
    """True if an item's error is of exactly this type and says these words."""
    return type(error) is kind and all(word in str(error) for word in words)


def raised_by(action: Callable[[], object]) -> Exception:
    """The error of a request that is refused as a whole."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
