"""The parts of a node that plans may look at without asking the node. Reads only; the same for every listener."""

from __future__ import annotations

from broker.config.node_config import NodeConfig
from broker.kafka.rights import DoorRights
from broker.network.client_software import ClientSoftware
from broker.network.doors import BrokerService
from broker.network.fetcher_session import FetcherSession
from broker.network.named_sessions import NamedSessions
from metadata.image import MetadataImage
from raft.voters import VoterSet


class DoorParts:
    """Made once for all listeners of a node that speak Kafka's protocol."""

    def __init__(self, config: NodeConfig, service: BrokerService) -> None:
        self.config = config
        self.node_id = config.node_id
        self.cluster_id = service.cluster_id
        self.rights = DoorRights(service.permissions)
        self._service = service

    def image(self) -> MetadataImage:
        """The newest metadata that this node has."""
        return self._service.image()

    def voters(self) -> VoterSet:
        """The quorum's voters, as this node knows them now."""
        return self._service.voters()

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
        return f"DoorParts(node {self.node_id} of {self.cluster_id})"
