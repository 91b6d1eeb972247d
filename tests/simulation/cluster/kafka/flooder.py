"""A flooder: connections in Kafka's protocol that take as much of a broker's memory as they can.

Its frames are requests for topics that do not exist: what is whole is a request, and its answer is as large. A
connection that was cut is replaced after a while. It breaks no rule that a broker does not enforce, so nothing that it
is told is judged; what it may take of others is share_invariants.py's. Its randomness is its own.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic
from broker.kafka_codec.codec import encode
from broker.kafka_codec.headers import HeaderStart, request_header
from tests.simulation.cluster.flood_plan import FloodKind, FloodOrigin, FloodPlan
from tests.simulation.cluster.kafka.connection import SIZE, Broken, Connection
from tests.simulation.cluster.kafka.log_in import log_in
from tests.simulation.cluster.kafka.sockets import ClientEnd
from tests.simulation.cluster.network import CLIENTS

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

METADATA, VERSION = 3, 12
NAME_BYTES = 240
STEP_SECONDS = 0.5
"""Between two pieces of a frame that comes slowly, and two looks for the end of a connection."""
BACKOFF_SECONDS = 1.0
DEAF_REQUESTS, DEAF_SECONDS = 3, 4.0
"""So many questions for each connection that reads no answer; all of them ask at the same time, about so often."""
ELEMENTS_BYTES = 30_000
"""Some 1,300 elements."""
FRAME_SECONDS, BYTES_PER_S_MIN = 60.0, 1_000.0
"""The product's rule: a frame is whole in this time, and no frame is slower than that."""


class Flooder:
    """See the module. Floods are numbered within their plan."""

    def __init__(self, clients: Clients, number: int, plan: FloodPlan) -> None:
        self._clients, self._number, self._plan = clients, number, plan
        self._draw = random.Random(f"flooder {clients.plan.seed} {number}")

    async def work(self) -> None:
        """Until it is over."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._plan.connections):
                group.create_task(self._flood(number))

    async def _flood(self, number: int) -> None:
        clients = self._clients
        while not clients.is_over:
            await asyncio.sleep(self._draw.uniform(0.0, BACKOFF_SECONDS))
            endpoint = clients.kafka_endpoints[(number + self._number) % len(clients.kafka_endpoints)]
            end = ClientEnd(clients.network, clients.process, CLIENTS, endpoint, self.host(number))
            connection = Connection(end, f"flooder-{self._number}", 0, lambda text: None)
            try:
                if self._plan.logs_in and clients.secured is not None:
                    await log_in(connection, **clients.secured.tenant)
                connection.is_ignored = True
                await self._send(end)
            except Broken:
                pass
            finally:
                connection.close()

    def host(self, number: int) -> str:
        if self._plan.origin is FloodOrigin.ONE_64:
            return f"2001:db8:0:{self._number + 1:x}::{number + 1:x}"
        return f"10.0.{self._number + 1}.{1 if self._plan.origin is FloodOrigin.ONE else number + 1}"

    async def _send(self, end: ClientEnd) -> None:
        kind, size = self._plan.kind, self._plan.frame_bytes
        if kind is FloodKind.ANNOUNCE:
            end.send(_frame(size)[: SIZE.size + 8])
            await self._wait(end, FRAME_SECONDS)
        elif kind is FloodKind.DEAF:
            end.read_no_more()
            end.send(_frame(size)[:-1])
            await self._wait(end, DEAF_SECONDS - asyncio.get_running_loop().time() % DEAF_SECONDS)
            end.send(_frame(size)[-1:] + (DEAF_REQUESTS - 1) * _frame(size))
            await self._wait(end, FRAME_SECONDS)
        elif kind is FloodKind.ELEMENTS:
            end.send(_frame(ELEMENTS_BYTES, name_bytes=3))
            await self._wait(end, self._draw.uniform(1.0, 4.0))
        elif kind is FloodKind.RUSH:
            end.send(_frame(size))
            await self._wait(end, self._draw.uniform(0.5, 2.0))
        elif kind is FloodKind.HOLD:
            frame = _frame(size)
            end.send(frame[:-1])
            await self._wait(end, min(FRAME_SECONDS, size / BYTES_PER_S_MIN) - 2 * STEP_SECONDS)
            end.send(frame[-1:])
            await self._wait(end, STEP_SECONDS)
        else:
            share = 1.2 if kind is FloodKind.PACE else 0.5
            await self._drip(end, _frame(size), share * max(BYTES_PER_S_MIN, size / FRAME_SECONDS))

    async def _drip(self, end: ClientEnd, frame: bytes, bytes_per_s: float) -> None:
        step = max(1, int(bytes_per_s * STEP_SECONDS))
        for at in range(0, len(frame), step):
            end.send(frame[at : at + step])
            await self._wait(end, STEP_SECONDS)

    async def _wait(self, end: ClientEnd, seconds: float) -> None:
        """Broken if the connection is over."""
        clients, left_s = self._clients, seconds
        while left_s > 0 and not clients.is_over:
            await asyncio.sleep(min(left_s, STEP_SECONDS))
            left_s -= STEP_SECONDS
            if end.is_over:
                raise Broken("it was cut")
        if clients.is_over:
            raise Broken("the story is over")


def _frame(size: int, name_bytes: int = NAME_BYTES) -> bytes:
    """A request of about so many bytes."""
    names = (f"{number:x}".ljust(name_bytes, "-") for number in range(size // (name_bytes + 20) or 1))
    topics = [MetadataRequestTopic(name=name) for name in names]
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    header = request_header(HeaderStart(METADATA, VERSION, 1), "flooder", True)
    body = b"".join((header, *map(bytes, encode(message, VERSION))))
    return SIZE.pack(len(body)) + body
