"""A listener of Kafka's protocol without sockets: its connections have transports that are told what the network does.

The node behind it is a request channel, and a dispatcher that gives each question of a plan to a function of the test.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

from broker.authentication.authentication import Authentication
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import CreationRate, SharedConnections
from broker.connections.turns import AddressQuotas
from broker.kafka.api_row import ApiRow, always_pipelined
from broker.kafka.apis.api_versions import api_versions
from broker.kafka.connection.bound_sockets import bind_on_loop
from broker.kafka.connection.element_room import ElementBudgets
from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.kafka_listener import Bind, KafkaListener
from broker.kafka.connection.kafka_wire import RequestCounts
from broker.kafka.connection.served_connection import ServedConnection
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.kafka_codec.codec import decode, encode, is_flexible
from broker.kafka_codec.headers import HeaderStart, read_response_header, request_header
from broker.kafka_codec.structs import facts_of
from broker.load.busy_time import BusyTimes
from broker.network.client_names import ClientNames
from broker.network.dispatcher import Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.fetcher_session import Session
from broker.network.listeners import BrokerService
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.tls.material import ListenerCertificates
from metadata.features import TABLE
from penstock.clock import ManualClock
from penstock.throttled_lines import CLIENTS_SUBJECTS_MAX, ThrottledLines
from penstock.types import Endpoint
from tests.support.voters import voters_of

LIMITS = ListenerLimits(1 << 20, 1 << 24, 600_000, 10, 5, 30_000)
MEMORY_BYTES = 1 << 24
VERSION = 9
"""The version of the requests that a test sends."""


def no_session(host: str) -> Session:
    raise AssertionError("no plan here fetches")


class FarSide:
    """One connection: the transport that a protocol is given, and the client at its other end."""

    def __init__(self, bench: ListenerBench, peer: Endpoint) -> None:
        self._peer, self._bench = peer, bench
        self.protocol = bench.listener._new_connection()
        self.written: list[bytes] = []
        self.takes = True
        self.is_reading, self.is_closed, self.is_cut = True, False, False
        """`is_cut`: ended without TLS's farewell."""
        self._unsent = bytearray()
        self._unwritten = 0
        self.protocol.connection_made(self)  # type: ignore[arg-type]

    # -- the transport -------------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str) -> Any:
        return tuple(self._peer) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return self._unwritten

    def writelines(self, parts: Iterable[bytes]) -> None:
        assert not self.is_closed
        self.written.append(b"".join(parts))
        if not self.takes:
            self._unwritten += len(self.written[-1])
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True
        self._deliver()

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self.is_cut = True
        self._end()

    def _end(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    # -- the client ----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Bytes that the protocol does not read wait, as in a socket."""
        self._unsent += data
        self._deliver()

    def _deliver(self) -> None:
        while self._unsent and self.is_reading and not self.is_closed:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(self._unsent))
            buffer[:count] = self._unsent[:count]
            del self._unsent[:count]
            self.protocol.buffer_updated(count)

    def end(self) -> None:
        """It sends no more, and reads on."""
        self.protocol.eof_received()

    def reset(self) -> None:
        self.is_closed = True
        self.protocol.connection_lost(ConnectionResetError())

    def takes_again(self, count: int | None = None) -> None:
        """The client has read so many bytes, or all."""
        self._unwritten -= self._unwritten if count is None else count
        if not self._unwritten:
            self.takes = True
            self.protocol.resume_writing()

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def frames(self) -> list[memoryview]:
        """All that was written, without the sizes."""
        view, found = memoryview(b"".join(self.written)), []
        while view:
            (size,) = struct.unpack_from(">i", view)
            found.append(view[4 : 4 + size])
            view = view[4 + size :]
            assert len(found[-1]) == size
        return found

    def answers(self, cls: type[Any], version: int) -> list[tuple[int, Any]]:
        """All that was written, as correlation ids and responses."""
        return [answer_in(frame, cls, version) for frame in self.frames()]


class ListenerBench:
    """A listener, and the node behind it. `handle` takes what plans ask for."""

    def __init__(
        self,
        handle: Callable[[Request], None] = lambda request: request.complete(request.body),
        limits: ListenerLimits = LIMITS,
        rows: Iterable[ApiRow] = (),
        shared: SharedConnections | None = None,
        prepare: Any = lambda request: None,
        queued_max: int = 100,
        bind: Bind = bind_on_loop,
        certificates: ListenerCertificates | None = None,
        authentication: Authentication | None = None,
        address_quotas: AddressQuotas | None = None,
    ) -> None:
        self.clock = ManualClock(1)
        self.channel = RequestChannel(queued_max, BusyTimes(self.clock.now_ns), self.clock.now_ns, self._sent)
        self.sent: list[str] = []
        self.memory = RequestMemory(MEMORY_BYTES)
        self.shared = shared or SharedConnections(100, CreationRate(1_000))
        self.fatal: list[BaseException] = []
        failed = FailedRequests(self.fatal.append)
        self.service = BrokerService(
            channel=self.channel,
            new_session=no_session,
            prepare=prepare,
            client_requests=self.memory,
            node_requests=self.memory,
            client_connections_max=100,
            node_connections_max=100,
            shared=self.shared,
            names=ClientNames(() if authentication is None else authentication.listeners),
            fail=failed.fail,
            authentication=authentication,
        )
        self.dispatcher = Dispatcher(self.channel, handle, failed.fail)
        table = list({row.key: row for row in (METADATA, PRODUCE, *rows)}.values())
        software = self.service.names.software
        image = SimpleNamespace(offset=41, levels={})
        known = {"image": lambda: image, "voters": lambda: voters_of(1), "features": TABLE}
        parts = cast(PlanParts, SimpleNamespace(software=software, **known))
        table.append(api_versions(tuple(table)).over(parts))
        self.rows = {row.key: row for row in table}
        self.counts, self.lines = RequestCounts(), ThrottledLines(self.clock.now_ms, CLIENTS_SUBJECTS_MAX)
        self.elements = ElementBudgets()
        self.listener = KafkaListener(
            "KAFKA",
            Endpoint("127.0.0.1", 9092),
            limits,
            self.shared,
            self._serve,
            self.clock,
            self.fatal.append,
            bind,
            certificates,
            address_quotas,
        )
        if bind is bind_on_loop:
            self.listener.open()

    def _sent(self, request: Request, sent_ns: int) -> None:
        self.sent.append(request.api)

    def _serve(self, connection: FrameConnection, listener: str) -> ServedConnection:
        return ServedConnection(connection, listener, self.rows, self.service, self.counts, self.lines, self.elements)

    def connect(self, host: str = "10.0.0.1", port: int = 4711) -> FarSide:
        return FarSide(self, Endpoint(host, port))

    async def settle(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)

    async def ends(self, far: FarSide) -> None:
        """Until the node has ended that connection."""
        while not far.is_closed:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def check_all_is_given_back(self) -> None:
        """After the last connection has ended."""
        assert self.memory.statistics().used_bytes == 0 == self.memory.statistics().waiting
        assert self.elements.statistics().used_bytes == 0 == self.elements.statistics().waiting
        found = self.channel.statistics()
        assert (found.connections, found.response_queue_size, sum(found.waiting.values())) == (0, 0, 0)
        assert self.listener.statistics().open == 0


def _metadata(asked: Asked, body: MetadataRequest) -> Plan:
    """Asks once for each topic, and answers with the cluster id that the last answer was; none without a topic."""
    answer = "none"
    for topic in body.topics or ():
        answer = yield Ask("Metadata", topic.name)
    return MetadataResponse(cluster_id=answer)


def _produce(asked: Asked, body: ProduceRequest) -> Plan:
    yield Ask("Produce", body)
    return ProduceResponse() if body.acks else None


METADATA = ApiRow(3, "Metadata", MetadataRequest, MetadataResponse, (0, 12), _metadata, is_pipelined=always_pipelined)
PRODUCE = ApiRow(
    0, "Produce", ProduceRequest, ProduceResponse, (3, 13), _produce, bytes_max=None, is_pipelined=always_pipelined
)


def answer_in(frame: memoryview, cls: type[Any], version: int) -> tuple[int, Any]:
    """The correlation id and the response."""
    number, at = read_response_header(frame, facts_of(cls).key or 0, is_flexible(cls, version))
    answer, end = decode(cls, version, frame, at)
    assert end == len(frame)
    return number, answer


def frame(message: Any, version: int, number: int = 1, client_id: str = "somebody", key: int | None = None) -> bytes:
    """A request as its bytes; `key` instead of its own."""
    facts = facts_of(type(message))
    header = request_header(
        HeaderStart(facts.key if key is None else key, version, number), client_id, version in facts.flexible
    )
    body = header + b"".join(bytes(part) for part in encode(message, version))
    return struct.pack(">i", len(body)) + body


def metadata(number: int, *topics: str, client_id: str = "somebody") -> bytes:
    asked = [MetadataRequestTopic(name=topic) for topic in topics]
    return frame(MetadataRequest(topics=asked), VERSION, number, client_id)


def answers(far: FarSide) -> list[tuple[int, str | None]]:
    return [(number, answer.cluster_id) for number, answer in far.answers(MetadataResponse, VERSION)]


def run_to_the_end(scenario: Callable[[], Awaitable[ListenerBench]], run: Callable[[Any], Any] = asyncio.run) -> None:
    """A scenario in whose end every connection is gone; `run` may be that of virtual time."""

    async def main() -> None:
        bench = await scenario()
        await bench.dispatcher.stop()
        bench.check_all_is_given_back()

    run(main())


async def bench_of(handle: Callable[[Request], None] | None = None, **settings: object) -> ListenerBench:
    bench = ListenerBench(**settings) if handle is None else ListenerBench(handle, **settings)  # type: ignore[arg-type]
    bench.dispatcher.start()
    return bench
