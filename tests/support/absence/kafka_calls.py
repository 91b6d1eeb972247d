"""A small client of Kafka's protocol for the acts: it asks one of the nodes that are present, a connection a question.

An answer with an error code is `Refused`, by the name of the code; a code that only says "ask again" is asked again, as
by any client of Kafka. Not here: the questions (acts_by_kafka.py).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic
from broker.kafka.schemas.table import REQUESTS, RESPONSES
from broker.kafka_codec.codec import decode, encode, is_flexible
from broker.kafka_codec.headers import HeaderStart, read_response_header, request_header
from broker.kafka_codec.structs import facts_of
from penstock.errors import ERRORS
from penstock.types import Endpoint
from tests.simulation.cluster.kafka.sockets import ClientEnd
from tests.simulation.cluster.network import CLIENTS, Network
from tests.simulation.cluster.scheduler import Process

SIZE = struct.Struct(">i")
AGAIN = frozenset({3, 5, 6, 7, 13, 14, 15, 16, 27, 41, 51, 72, 74, 75, 100, 103})
"""Codes that pass: no leader yet, no coordinator yet, a transaction that still ends, and the like."""
AGAIN_SECONDS = 0.05
GROUP, TRANSACTION = 0, 1


class Refused(Exception):
    """An answer has this error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = code
        self.name = ERRORS[code].kafka_name if code in ERRORS else str(code)
        super().__init__(f"{self.name}: {message}")


class KafkaCalls:
    """The listeners KAFKA of the nodes."""

    def __init__(self, network: Network, process: Process, endpoint: Callable[[int], Endpoint]) -> None:
        self._network, self._process, self._endpoint = network, process, endpoint
        self._asked = 0

    async def ask(self, request: Any, version: int | None = None, node: int = 0) -> Any:
        """The answer of that node, in the newest version or another one; Refused if it has an error code that stays."""
        facts = facts_of(type(request))
        wanted = facts.versions.last if version is None else version
        while True:
            answer = await self._once(request, wanted, node)
            codes = list(_errors_in(answer))
            if not codes:
                return answer
            if any(code not in AGAIN for code, _ in codes):
                raise next(Refused(*error) for error in codes if error[0] not in AGAIN)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _once(self, request: Any, version: int, node: int) -> Any:
        facts = facts_of(type(request))
        response = RESPONSES[next(key for key, of in REQUESTS.items() if of is type(request))]
        self._asked += 1
        start = HeaderStart(facts.key or 0, version, self._asked)
        header = request_header(start, "absence", version in facts.flexible)
        body = b"".join((header, *map(bytes, encode(request, version))))
        end = ClientEnd(self._network, self._process, CLIENTS, self._endpoint(node))
        try:
            end.send(SIZE.pack(len(body)) + body)
            here = b""
            while len(here) < SIZE.size or len(here) < SIZE.size + SIZE.unpack_from(here)[0]:
                here += await end.receive()
        finally:
            end.close()
        frame = memoryview(here[SIZE.size :])
        _, at = read_response_header(frame, facts_of(response).key or 0, is_flexible(response, version))
        return decode(response, version, frame, at)[0]

    async def coordinator(self, key: str, kind: int) -> int:
        """The node that coordinates the group or the transactional id."""
        answer = await self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        return int(answer.coordinators[0].node_id)

    async def ask_coordinator(self, key: str, kind: int, request: Any, version: int) -> Any:
        """The answer of whoever coordinates it by then."""
        return await self.ask(request, version, await self.coordinator(key, kind))

    async def topic(self, name: str, *, may_be_made: bool = False) -> Any:
        """The topic's metadata, once it is there with all its leaders."""
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_be_made)
        return (await self.ask(asked, 12)).topics[0]

    async def leader(self, name: str) -> int:
        """The leader of the topic's first partition."""
        return next(one.leader_id for one in (await self.topic(name)).partitions if one.partition_index == 0)


def _errors_in(value: Any) -> Iterator[tuple[int, str | None]]:
    """Every error code of an answer that is not 0, with its message."""
    if isinstance(value, list):
        for one in value:
            yield from _errors_in(one)
    for name in getattr(type(value), "__slots__", ()):
        found = getattr(value, name)
        if name in ("error_code", "partition_error_code") and found:
            yield found, getattr(value, "error_message", None)
        yield from _errors_in(found)
