"""The parts of a node that plans may look at without asking the node. Reads only; the same for every listener.

The rights of the clients of Kafka's protocol are here, for what its plans look up by themselves: names in the metadata,
and the operations that are told (KIP-430). Without an authorizer everybody may do everything. What a plan asks of the
node is judged on its way (`broker/apis/router.py`), not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.config.node_config import NodeConfig
from broker.network.client_software import ClientSoftware
from broker.network.fetcher_session import FetcherSession
from broker.network.listeners import BrokerService, Permissions
from broker.network.named_sessions import NamedSessions
from broker.network.request_channel import Caller
from broker.network.telemetry.client_telemetry import ClientTelemetry
from metadata.features import FeatureTable
from metadata.image import MetadataImage
from penstock.messages.security.acls import CLUSTER_NAME, Operation, ResourceType
from raft.voters import VoterSet

OPERATION_CODES: Final = {operation: code for code, operation in enumerate(Operation)}
"""Kafka's numbers; those of the words of ACLs are in the order of their enums."""


class PlanRights:
    """The rights of all clients of one node."""

    def __init__(self, permissions: Permissions | None) -> None:
        self._permissions = permissions

    def check_topic(self, caller: Caller, api: str, operation: Operation, name: str) -> None:
        """Raises the refusal: before it is looked whether there is such a topic."""
        self._check(caller, api, operation, ResourceType.TOPIC, name)

    def check_cluster(self, caller: Caller, api: str, operation: Operation) -> None:
        self._check(caller, api, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def seen(self, caller: Caller, topics: Iterable[str]) -> list[str]:
        """The topics that the caller may know of."""
        permissions = self._permissions
        if permissions is None:
            return list(topics)
        return [name for name in topics if permissions.may(caller, Operation.DESCRIBE, ResourceType.TOPIC, name)]

    def may(self, caller: Caller, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self._permissions is None or self._permissions.may(caller, operation, resource, name)

    def operations(self, caller: Caller, resource: ResourceType, every: int, name: str = CLUSTER_NAME) -> int:
        """The bits among `every` of the operations that the caller may do. The operations on the cluster are shown only
        to a caller that may describe it."""
        permissions = self._permissions
        if permissions is None:
            return every
        may_see = resource is not ResourceType.CLUSTER or permissions.may(caller, Operation.DESCRIBE, resource, name)
        if not may_see:
            return 0
        bits = 0
        for operation, code in OPERATION_CODES.items():
            if every >> code & 1 and permissions.may(caller, operation, resource, name):
                bits |= 1 << code
        return bits

    def check_group(self, caller: Caller, api: str, operation: Operation, group_id: str) -> None:
        """Checks the right to the group before its topics are looked at, so that topics are refused only to a caller
        that may ask for the group."""
        self._check(caller, api, operation, ResourceType.GROUP, group_id)

    def check_transactional_id(self, caller: Caller, api: str, name: str) -> None:
        self._check(caller, api, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)

    def _check(self, caller: Caller, api: str, operation: Operation, resource: ResourceType, name: str) -> None:
        if self._permissions is not None:
            error = self._permissions.refusal(caller, api, operation, resource, name)
            if error is not None:
                raise error

    def __repr__(self) -> str:
        return f"PlanRights({self._permissions!r})"


class PlanParts:
    """Made once for all listeners of a node that speak Kafka's protocol."""

    def __init__(self, config: NodeConfig, service: BrokerService) -> None:
        self.config = config
        self.node_id = config.node_id
        self.cluster_id = service.cluster_id
        self.rights = PlanRights(service.permissions)
        self._service = service

    def image(self) -> MetadataImage:
        """The newest metadata that this node has."""
        return self._service.image()

    def voters(self) -> VoterSet:
        """The quorum's voters, as this node knows them now."""
        return self._service.voters()

    @property
    def features(self) -> FeatureTable:
        """The feature levels that this node knows."""
        return self._service.features

    def wall_ms(self) -> int:
        """The calendar: milliseconds since 1970."""
        return self._service.wall_ms()

    def topic_id(self, name: str) -> str | None:
        """None for a topic that there is not."""
        topic = self.image().topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: str) -> str | None:
        """None for an id that no topic has (any more)."""
        return self.image().topic_name(topic_id)

    def new_session(self, party: str) -> FetcherSession:
        """A fetch session for a client of that party. The caller closes it."""
        return self._service.new_session(party, is_stream=False)

    @property
    def telemetry(self) -> ClientTelemetry:
        """The clients that push their metrics."""
        return self._service.telemetry

    @property
    def software(self) -> ClientSoftware:
        """Counts connections by the libraries of their clients."""
        return self._service.names.software

    @property
    def named_sessions(self) -> NamedSessions:
        return self._service.named_sessions

    def now_ms(self) -> int:
        """Monotonic."""
        return self._service.channel.now_ns() // 1_000_000

    def __repr__(self) -> str:
        return f"PlanParts(node {self.node_id} of {self.cluster_id})"
