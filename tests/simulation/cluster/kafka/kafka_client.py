"""The common part of the simulated clients of Kafka's protocol: who leads what, and a connection to each node.

It behaves as Kafka's clients do: it asks any node for metadata, keeps the newer leader epoch of a topic id, opens a
connection with ApiVersions, and looks again after an error. Not here: one connection (connection.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.kafka.schemas.api_versions import ApiVersionsRequest
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.kafka_codec.structs import facts_of
from penstock.types import Endpoint
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.log_in import log_in
from tests.simulation.cluster.kafka.sockets import ClientEnd
from tests.simulation.cluster.network import CLIENTS

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

METADATA_VERSION = 12
BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX = 0.02, 0.2


class Leader(NamedTuple):
    """The leader of a partition, as far as the client knows."""

    node_id: int
    epoch: int
    topic_id: str


class Refused(Exception):
    """An answer with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


class KafkaClient:
    """One program; its name is its client id."""

    def __init__(self, clients: Clients, name: str) -> None:
        self.clients, self.name = clients, name
        self.draw = random.Random(clients.network.scheduler.draw.getrandbits(64))
        self._nodes: dict[int, Endpoint] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._open: dict[Endpoint, Connection] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}
        self.served: Mapping[int, int] = {}
        """By API key: the newest version that the node told of last."""

    def wrong(self, kind: str, text: str) -> None:
        self.clients.ledger.report(kind, f"{self.name}: {text}")

    # -- connections ---------------------------------------------------------------------------------------------------

    async def connection(self, endpoint: Endpoint) -> Connection:
        """An open one, which has asked for the versions; Broken if there can be none. Nobody uses one on which a user
        still logs in."""
        if self.clients.secured is None:
            return await self._connection(endpoint)
        async with self._opening.setdefault(endpoint, asyncio.Lock()):
            return await self._connection(endpoint)

    async def _connection(self, endpoint: Endpoint) -> Connection:
        found = self._open.get(endpoint)
        if found is not None and not found.is_broken:
            return found
        clients = self.clients
        if endpoint not in clients.kafka_endpoints:
            self.wrong("wrong-address", f"a client of the listener KAFKA is told of {endpoint}")
        end = ClientEnd(clients.network, clients.process, CLIENTS, endpoint)
        first = self.draw.randrange(1 << 31)
        connection = Connection(end, self.name, first, lambda text: clients.ledger.report("answers", text))
        connection.is_prompt = clients.is_flooded_alone()
        self._open[endpoint] = connection
        question = ApiVersionsRequest(client_software_name="simulated", client_software_version="1")
        versions = await connection.ask(question, 3)
        self.served = {api.api_key: api.max_version for api in versions.api_keys}
        if versions.error_code or not self.served:
            self.wrong("answers", f"ApiVersions is refused: {versions}")
        if clients.secured is not None and (why := await log_in(connection, **clients.secured.worker)):
            self.wrong("answers", why)
        return connection

    async def node(self, node_id: int) -> Connection:
        endpoint = self._nodes.get(node_id)
        if endpoint is None:
            raise Broken(f"the address of node {node_id} is not known")
        return await self.connection(endpoint)

    def version(self, cls: type[Any], wanted: int) -> int:
        """The wanted version, or the newest one of the node."""
        return min(wanted, self.served.get(facts_of(cls).key or 0, wanted))

    def drop(self) -> None:
        """Every connection ends."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    # -- metadata ------------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int) -> Leader | None:
        return self._leaders.get((topic, partition))

    async def leading(self, topic: str, partition: int) -> tuple[Leader, Connection]:
        """The leader and the connection to it, after as many looks as it takes."""
        while True:
            leader = self._leaders.get((topic, partition))
            try:
                if leader is not None and leader.node_id >= 0:
                    return leader, await self.node(leader.node_id)
            except Broken:
                await self.pause()
            await self.refresh(topic)

    async def refresh(self, topic: str) -> None:
        """Asks one node; if that fails, the next look asks another."""
        endpoint = self.draw.choice([*dict.fromkeys([*self._nodes.values(), *self.clients.kafka_endpoints])])
        with suppress(Broken):
            await self.refresh_at(await self.connection(endpoint), topic)
        await self.pause()

    async def refresh_at(self, connection: Connection, topic: str) -> MetadataResponse:
        """Asks this node."""
        question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer: MetadataResponse = await connection.ask(question, METADATA_VERSION)
        self._learn(answer)
        return answer

    def _learn(self, answer: MetadataResponse) -> None:
        for broker in answer.brokers:
            self._nodes[broker.node_id] = Endpoint(broker.host, broker.port)
        for topic in answer.topics:
            for partition in topic.partitions if topic.name is not None and not topic.error_code else ():
                place = topic.name, partition.partition_index
                before = self._leaders.get(place)
                found = Leader(partition.leader_id, partition.leader_epoch, topic.topic_id)
                if before is None or before.topic_id != found.topic_id or found.epoch >= before.epoch:
                    self._leaders[place] = found

    async def pause(self) -> None:
        await asyncio.sleep(self.draw.uniform(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX))

    def __repr__(self) -> str:
        return f"KafkaClient({self.name})"
