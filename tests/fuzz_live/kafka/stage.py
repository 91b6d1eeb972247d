"""The tools of an attack on the listeners of Kafka's protocol: connections, drawn requests, and good ones to damage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.fetch import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic
from broker.kafka.schemas.metadata import MetadataRequest
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka.schemas.table import REQUESTS
from broker.kafka_codec.structs import facts_of
from tests.fuzz_live.hostile import TOPICS, Known
from tests.fuzz_live.kafka.client import Answers, Link, Sent, sent
from tests.fuzz_live.kafka.hostile import Drawing

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 9
"""The newest in which topics have names."""
ACKS_TIMEOUT_MS = 2_000


@dataclass(slots=True)
class Stage:
    """The tools of one attack. `ports` are those of Kafka's clients, one a node."""

    host: str
    ports: Sequence[int]
    pids: Sequence[int]
    answers: Answers
    known: Known
    source: Random
    served: Mapping[int, tuple[int, int]]
    """Versions by API, as the node tells."""
    drawing: Drawing = field(init=False)
    _links: list[Link] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        self.drawing = Drawing(self.source, self.known)

    @property
    def port(self) -> int:
        """That of any node."""
        return self.source.choice(self.ports)

    async def link(self, port: int | None = None) -> Link | None:
        """A new connection, to any node or to this one. Closed at the end, if it is not before."""
        link = await Link.open(self.host, self.port if port is None else port, self.answers)
        if link is not None:
            self._links.append(link)
        return link

    async def links(self, count: int) -> list[Link]:
        """So many, to all nodes in turn."""
        opened = await asyncio.gather(*(self.link(self.ports[n % len(self.ports)]) for n in range(count)))
        return [link for link in opened if link is not None]

    def leave(self, links: Iterable[Link]) -> None:
        """At once."""
        for link in links:
            link.close()
            self._links.remove(link)

    async def close(self) -> None:
        """Leaves everything."""
        self.leave(list(self._links))

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, message: Any, version: int) -> Sent:
        """A request with a number of its own."""
        self._number += 1
        return sent(message, version, self._number)

    def draw(self, key: int | None = None, version: int | None = None, *, may_wait: bool = False) -> Sent:
        """A wild request that a node serves."""
        key = self.source.choice(sorted(self.served)) if key is None else key
        version = self.source.randint(*self.served[key]) if version is None else version
        return self.ask(self.drawing.request(key, version, may_wait=may_wait), version)

    def draw_unserved(self) -> Sent:
        """A request whose API or version the node does not have."""
        declared = [(key, version) for key, cls in REQUESTS.items() for version in _versions(cls)]
        unserved = [
            (key, version)
            for key, version in declared
            if key not in self.served or not self.served[key][0] <= version <= self.served[key][1]
        ]
        key, version = self.source.choice(unserved)
        return self.ask(self.drawing.request(key, version), version)

    def produce(self, records: bytes, acks: int = -1, topic: str | None = None) -> Sent:
        """To partition 0 of a topic that anybody may write."""
        name = self.source.choice(TOPICS) if topic is None else topic
        data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])]
        return self.ask(ProduceRequest(acks=acks, timeout_ms=ACKS_TIMEOUT_MS, topic_data=data), PRODUCE_VERSION)

    def fetch(
        self,
        topic: str,
        partitions: int = 1,
        offset: int = 0,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        **more: Any,
    ) -> Sent:
        """A fetch of the partitions 0…n-1 of a topic; without a session, unless `more` says so."""
        wanted = [
            FetchRequestFetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes)
            for number in range(partitions)
        ]
        fields = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": max_bytes, "session_epoch": -1} | more
        topics = [FetchRequestFetchTopic(topic=topic, partitions=wanted)]
        return self.ask(FetchRequest(topics=topics, **fields), FETCH_VERSION)  # type: ignore[arg-type]

    def metadata_of_all(self) -> Sent:
        return self.ask(MetadataRequest(topics=None), METADATA_VERSION)


async def served_by(host: str, ports: Sequence[int], answers: Answers) -> Mapping[int, tuple[int, int]]:
    """The versions by API, as the first node tells them that does."""
    for port in ports:
        link = await Link.open(host, port, answers)
        if link is None:
            continue
        found = await link.answer_to(sent(ApiVersionsRequest(), 0, 1), ApiVersionsResponse)
        link.close()
        if found is not None:
            return {api.api_key: (api.min_version, api.max_version) for api in found.api_keys}
    raise RuntimeError("no node tells which APIs it serves")


def _versions(cls: type) -> range:
    first, last = facts_of(cls).versions
    return range(first, last + 1)
