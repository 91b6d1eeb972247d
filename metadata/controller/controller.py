"""The active controller of the cluster: one state, and one method for each decision.

The driver calls a decision, proposes the records of its result as one batch, replays them, and answers when they are
committed; one decision at a time. A decision changes nothing but soft state: sessions, and how far the balances of
leaders and replicas are. A refused request raises its error, or carries it in the item concerned. Nothing here waits,
writes or reads a clock: `now_ms` is an argument.

Not here: election, commit and forwarding (broker/), and the rules of each decision (the files beside this one).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from metadata.controller import acls, features, partitions, producer_ids, quotas, reassignments
from metadata.controller.balance.replica_balance import ReplicaBalance
from metadata.controller.balance.replica_counts import spread_of
from metadata.controller.brokers import directories, liveness, registration, unregistration
from metadata.controller.brokers.eligibility import ended_cleanly
from metadata.controller.config import ControllerConfig
from metadata.controller.configuration.alter_configs import alter_configs
from metadata.controller.configuration.cluster_defaults import ClusterDefaults
from metadata.controller.context import DecisionContext
from metadata.controller.elections import ordered_elections
from metadata.controller.elections.leader_balance import LeaderBalance
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.sessions import BrokerSessions
from metadata.controller.state import ControllerState, LeaderChange
from metadata.controller.topics import internal_topics, new_partitions, topics
from metadata.controller.users import alter_user_scram_credentials, bootstrap_users
from metadata.features import METADATA_VERSION, Finalized
from metadata.image import MetadataImage
from metadata.records import Record, UserScramCredentialRecord
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.ids import Ids, RandomIds
from penstock.messages.configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from penstock.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.messages.nodes.brokers import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.messages.nodes.partitions import AlterPartitionRequest, AlterPartitionResponse
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.messages.security.acls import CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse
from penstock.messages.security.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from penstock.messages.security.users import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from penstock.messages.topics import (
    CreateInternalTopicRequest,
    CreateInternalTopicResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.metric_fields import gauge, measured
from penstock.types import NO_OFFSET
from raft.voters import NO_VOTERS, VoterSet


@measured
class ControllerStatistics:
    """Figures for operators. Counters begin when this node became the controller."""

    brokers: int = 0
    active_brokers: int = gauge(
        "penstock_controller_active_brokers", "Brokers in service, by the active controller; 0 elsewhere.", default=0
    )
    fenced_brokers: int = 0
    led_elsewhere: int = gauge(
        "penstock_preferred_replica_imbalance",
        "Partitions that their preferred leader does not lead, by the active controller; 0 elsewhere.",
        default=0,
    )
    replica_spread: int = gauge(
        "penstock_replica_spread",
        "The most replicas of a broker in service minus the fewest, by the active controller; 0 elsewhere.",
        default=0,
    )
    reassigning_partitions: int = gauge(
        "penstock_reassigning_partitions",
        "Partitions whose replicas move to other brokers, by the active controller; 0 elsewhere.",
        default=0,
    )
    topics: int = gauge("penstock_controller_topics", "Topics, by the active controller; 0 elsewhere.", default=0)
    partitions: int = gauge(
        "penstock_controller_partitions", "Partitions, by the active controller; 0 elsewhere.", default=0
    )
    leaderless_partitions: int = 0
    unclean_elections: int = 0
    session_expirations: int = 0
    unclean_registrations: int = 0
    """Processes that came back without their clean-shutdown marker."""


class Controller:
    """Made from the committed image when this node becomes the quorum's leader; thrown away when it stops leading."""

    def __init__(
        self,
        image: MetadataImage,
        config: ControllerConfig,
        rng: random.Random,
        now_ms: int,
        ids: Ids | None = None,
        voters: Callable[[], VoterSet] = lambda: NO_VOTERS,
    ) -> None:
        """`ids` are those that must not be guessed; as random as `rng` where none are given. `voters` gives the
        quorum's voters at the moment of the call."""
        self._sessions = BrokerSessions(config.session_timeout_ms)
        self._state = ControllerState(image)
        cluster = ClusterDefaults(config, self._state)
        ids = ids or RandomIds(rng)
        self._context = DecisionContext(
            config=config, state=self._state, sessions=self._sessions, rng=rng, ids=ids, cluster=cluster, voters=voters
        )
        self._leader_balance = LeaderBalance(cluster, now_ms)
        self._replica_balance = ReplicaBalance(cluster, now_ms)
        self._completions = reassignments.Completions(self._context)
        self._internal_topics = internal_topics.InternalTopics(self._context)
        self._session_expirations = 0
        self._to_settle = [topics.settle_owners, liveness.settle_elrs]
        self._unclean_registrations = 0
        for broker in image.brokers.values():
            if not broker.fenced:
                self._sessions.touch(broker.broker_id, now_ms)

    def replay(self, record: Record, offset: int) -> None:
        """Takes one record of a result into the state; `offset` is its place in the metadata log."""
        self._state.replay(record, offset)

    def take_leader_changes(self) -> list[LeaderChange]:
        """The changes of leaders among the records that were replayed since the last call."""
        taken, self._state.leader_changes = self._state.leader_changes, []
        return taken

    def is_active(self, broker_id: int) -> bool:
        """True if the broker is registered, and neither fenced nor shutting down."""
        return self._state.is_active(broker_id)

    def find_broker(self, broker_id: int) -> BrokerRegistration | None:
        return self._state.find_broker(broker_id)

    def replica_is_online(self, broker_id: int, partition: PartitionRegistration) -> bool:
        """True if the broker is registered, fenced or not, and its replica's log dir is online."""
        return self._state.replica_is_online(broker_id, partition)

    def register_broker(
        self, request: RegisterBrokerRequest, now_ms: int, next_offset: int, unheard_from: int | None = None
    ) -> ControllerResult[RegisterBrokerResponse]:
        """`unheard_from`: no other process of the broker was sent a metadata record at this offset or behind it. None:
        that is not known."""
        existing = self._state.find_broker(request.broker_id)
        result = registration.register_broker(self._context, request, now_ms, next_offset, unheard_from)
        if existing is not None and result.records and not ended_cleanly(existing, request):
            self._unclean_registrations += existing.incarnation_id != request.incarnation_id
        return result

    def heartbeat(
        self, request: BrokerHeartbeatRequest, now_ms: int, committed_offset: int = NO_OFFSET, silent_ms: int = 0
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        return liveness.heartbeat(self._context, request, now_ms, committed_offset, silent_ms)

    def forgive_silence(self, ms: int, now_ms: int) -> None:
        """Prolongs all sessions by the time in which this node stood still itself, and heard of nobody."""
        self._sessions.prolong(ms, now_ms)

    def tick(self, now_ms: int) -> ControllerResult[TickResponse]:
        while self._to_settle:
            settled = self._to_settle.pop()(self._context)
            if settled.records:
                return settled
        result = liveness.tick(self._context, now_ms)
        self._session_expirations += len(result.response.fenced_broker_ids)
        if result.records:
            return result
        completed = self._completions.next() if self._state.reassigning_count else ()
        if completed:
            return ControllerResult(completed, result.response)
        elected = self._leader_balance.tick(self._context, now_ms)
        return elected if elected.records else self._replica_balance.tick(self._context, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do if no broker is heard from before; None if there is nothing to wait for."""
        balances = self._leader_balance.next_deadline_ms, self._replica_balance.next_deadline_ms
        deadlines = (self._sessions.next_deadline_ms(), *balances)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def decide(self, request: Any, now_ms: int) -> ControllerResult[Any]:
        """The decision about any request of DECISIONS."""
        return DECISIONS[type(request)](self, request, now_ms)

    def create_topics(self, request: CreateTopicsRequest, now_ms: int) -> ControllerResult[CreateTopicsResponse]:
        return topics.create_topics(self._context, request)

    def create_internal_topic(
        self, request: CreateInternalTopicRequest, now_ms: int
    ) -> ControllerResult[CreateInternalTopicResponse]:
        return self._internal_topics.create(request, now_ms)

    def create_partitions(
        self, request: CreatePartitionsRequest, now_ms: int
    ) -> ControllerResult[CreatePartitionsResponse]:
        return new_partitions.create_partitions(self._context, request)

    def delete_topics(self, request: DeleteTopicsRequest, now_ms: int) -> ControllerResult[DeleteTopicsResponse]:
        return topics.delete_topics(self._context, request)

    def alter_partition(self, request: AlterPartitionRequest, now_ms: int) -> ControllerResult[AlterPartitionResponse]:
        return partitions.alter_partition(self._context, request)

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, now_ms: int
    ) -> ControllerResult[AssignReplicasToDirsResponse]:
        return directories.assign_replicas_to_dirs(self._context, request)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, now_ms: int, leader_epoch: int
    ) -> ControllerResult[AllocateProducerIdsResponse]:
        return producer_ids.allocate_producer_ids(self._context, request, leader_epoch)

    def alter_configs(self, request: AlterConfigsRequest, now_ms: int) -> ControllerResult[AlterConfigsResponse]:
        return alter_configs(self._context, request)

    def elect_leaders(self, request: ElectLeadersRequest, now_ms: int) -> ControllerResult[ElectLeadersResponse]:
        return ordered_elections.elect_leaders(self._context, request)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, now_ms: int
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        return reassignments.alter_partition_reassignments(self._context, request)

    def unregister_broker(
        self, request: UnregisterBrokerRequest, now_ms: int
    ) -> ControllerResult[UnregisterBrokerResponse]:
        return unregistration.unregister_broker(self._context, request, now_ms)

    def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, now_ms: int
    ) -> ControllerResult[AlterUserScramCredentialsResponse]:
        return alter_user_scram_credentials(self._context, request)

    def bootstrap_users(self, users: Sequence[UserScramCredentialRecord]) -> ControllerResult[tuple[str, ...]]:
        """The users that a new cluster begins with, decided once its first levels are."""
        return bootstrap_users(self._context, users)

    def create_acls(self, request: CreateAclsRequest, now_ms: int) -> ControllerResult[CreateAclsResponse]:
        return acls.create_acls(self._context, request)

    def delete_acls(self, request: DeleteAclsRequest, now_ms: int) -> ControllerResult[DeleteAclsResponse]:
        return acls.delete_acls(self._context, request)

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest, now_ms: int
    ) -> ControllerResult[AlterClientQuotasResponse]:
        return quotas.alter_client_quotas(self._context, request)

    def first_levels(
        self, levels: Mapping[str, int], nodes: Sequence[features.HeardNode]
    ) -> ControllerResult[tuple[str, ...]]:
        """The levels of features with which a new cluster begins, BEFORE any other decision; the answer is lines for
        the node's log."""
        return features.first_levels(self._context, levels, nodes)

    def update_features(
        self, request: UpdateFeaturesRequest, nodes: Sequence[features.HeardNode]
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """`nodes`: all voters, and all others that fetch the metadata, with what they support."""
        return features.update_features(self._context, request, nodes)

    @property
    def levels(self) -> Finalized:
        """The feature levels that records have finalized, committed or not."""
        return self._state.levels

    def check_is_readable(self, records: Sequence[Record]) -> None:
        """InvariantViolation for a record that is above the finalized level."""
        table = self._context.config.features
        features.check_is_readable(records, table, table.level(self.levels, METADATA_VERSION))

    def to_image(self, epoch: int) -> MetadataImage:
        """The state as an image, uncommitted records included; costs as much as the cluster has metadata."""
        return self._state.to_image(epoch)

    def statistics(self) -> ControllerStatistics:
        """The counts of the cluster. May be called in any thread."""
        brokers = tuple(self._state.brokers.values())
        return ControllerStatistics(
            brokers=len(brokers),
            active_brokers=sum(broker.is_active for broker in brokers),
            fenced_brokers=sum(broker.fenced for broker in brokers),
            topics=len(self._state.topics),
            partitions=self._state.partition_count,
            leaderless_partitions=self._state.leaderless_count,
            led_elsewhere=self._state.preferred_leaders.elsewhere_count,
            replica_spread=spread_of(self._state.replica_counts.of([b.broker_id for b in brokers if b.is_active])),
            unclean_elections=self._state.unclean_elections,
            session_expirations=self._session_expirations,
            reassigning_partitions=self._state.reassigning_count,
            unclean_registrations=self._unclean_registrations,
        )

    def __repr__(self) -> str:
        return f"Controller({self._state!r}, {self._sessions!r})"


DECISIONS: Final[Mapping[type, Callable[[Controller, Any, int], ControllerResult[Any]]]] = {
    AlterClientQuotasRequest: Controller.alter_client_quotas,
    AlterConfigsRequest: Controller.alter_configs,
    AlterPartitionReassignmentsRequest: Controller.alter_partition_reassignments,
    AlterPartitionRequest: Controller.alter_partition,
    AlterUserScramCredentialsRequest: Controller.alter_user_scram_credentials,
    AssignReplicasToDirsRequest: Controller.assign_replicas_to_dirs,
    CreateAclsRequest: Controller.create_acls,
    CreateInternalTopicRequest: Controller.create_internal_topic,
    CreatePartitionsRequest: Controller.create_partitions,
    CreateTopicsRequest: Controller.create_topics,
    DeleteAclsRequest: Controller.delete_acls,
    DeleteTopicsRequest: Controller.delete_topics,
    ElectLeadersRequest: Controller.elect_leaders,
    UnregisterBrokerRequest: Controller.unregister_broker,
}
"""The decision of each request that is made with the time alone, in ms."""
