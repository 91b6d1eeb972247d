"""One connection of Kafka's protocol with everything that belongs to it, from its first byte to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from broker.connections.draining import Draining
from broker.connections.turns import Turn
from broker.kafka.api_row import ApiRow
from broker.kafka.apis.authentication.sasl import BYTES_MAX
from broker.kafka.connection.element_room import ElementBudgets, ElementRoom
from broker.kafka.connection.frame_connection import Frame, FrameConnection
from broker.kafka.connection.kafka_wire import KafkaWire, RequestCounts, UnservedApiError
from broker.kafka.connection.login import KafkaLogin
from broker.kafka.connection.named_partitions import arrivals_of
from broker.kafka.connection.plan_run import PlanDriver
from broker.kafka.plan import ConnectionEnds, ConnectionMemory
from broker.network.connection_loop import ConnectionLoop
from broker.network.decoding_turns import DecodingTurns
from broker.network.listeners import BrokerService
from broker.network.parties import party_of
from broker.network.request_channel import Caller
from penstock.errors import ApiError
from penstock.throttled_lines import ThrottledLines
from penstock.types import ListenerType

_log = logging.getLogger(__name__)

FAREWELL_SECONDS = 0.5
"""The time that a connection whose log-in failed is left to its client: kafka-python reads no answer that comes
together with the end of its connection."""
PIPELINED_MAX = 16
"""Open requests of one connection. A client has five produce requests on their way by default, and a few others."""


class ServedConnection:
    """Begun when the connection was accepted, ended when it is gone."""

    __slots__ = (
        "_draining",
        "_driver",
        "_has_begun",
        "_lines",
        "_listener",
        "_login",
        "_loop",
        "_memory",
        "_room",
        "_wire",
        "connection",
        "quiet_since_ms",
        "spoke_strangely",
        "task",
    )

    def __init__(
        self,
        connection: FrameConnection,
        listener: str,
        rows: Mapping[int, ApiRow],
        service: BrokerService,
        counts: RequestCounts,
        lines: ThrottledLines,
        elements: ElementBudgets,
    ) -> None:
        """`elements` is the room of the whole node; `lines` are those about connections that were closed, of all
        listeners together."""
        self.connection, self._listener, self._lines = connection, listener, lines
        caller = Caller(connection.peer, listener, connection.principal, ListenerType.KAFKA)
        self._room = room = ElementRoom(elements, party_of(caller))
        self._login = self._new_login(service, caller)
        self._memory, turns = ConnectionMemory(self._login), service.client_requests.turns
        decoding = DecodingTurns(turns, service.channel.long_work)
        self._wire = KafkaWire(
            rows=rows, caller=caller, memory=self._memory, counts=counts, room=room, turns=decoding, login=self._login
        )
        self._driver = driver = PlanDriver(service.channel, service.prepare, service.fail, room, turns)
        self._loop: ConnectionLoop[memoryview, Frame] = ConnectionLoop(
            channel=service.channel,
            caller=caller,
            connection=connection,
            wire=self._wire,
            memory=service.client_requests if self._login is None else service.requests_before_log_in,
            pipelined_max=PIPELINED_MAX,
            prepare=arrivals_of(service.arrivals, service.image),
            names=service.names,
            way=driver,
            quotas=service.quotas,
        )
        self._draining = Draining()
        self.quiet_since_ms = -1
        """The time of its last byte, if a sweep has found since that it neither reads, writes nor waits: until more
        comes, a sweep need not look at it."""
        self.task: asyncio.Task[None] | None = None
        self._has_begun = False
        self.spoke_strangely = False
        """True if it is closed for what it sent."""

    def _new_login(self, service: BrokerService, caller: Caller) -> KafkaLogin | None:
        """None at a listener without SASL."""
        authentication = service.authentication
        sasl = None if authentication is None else authentication.listeners.get(self._listener)
        if authentication is None or sasl is None:
            return None
        connection, channel = self.connection, service.channel
        size_max, connection.size_max = connection.size_max, BYTES_MAX

        def logged_in(principal: str) -> None:
            self._wire.caller = caller._replace(principal=principal)
            self._loop.identified(self._wire.caller, service.client_requests)
            self._room.move(party_of(self._wire.caller))
            connection.size_max = size_max
            connection.identified(principal)

        return KafkaLogin(
            listener=sasl,
            logins=authentication.logins,
            counts=authentication.counts,
            lifetime_ms=authentication.lifetime_ms,
            peer=connection.peer,
            now_ms=lambda: channel.now_ns() // 1_000_000,
            on_login=logged_in,
            on_failure=lambda: asyncio.get_running_loop().call_later(FAREWELL_SECONDS, connection.end_input),
        )

    def is_late(self, now_ms: int) -> bool:
        """True if the client should have logged in long ago, or sent the rest of the request that it has begun."""
        frame = self.connection.frame
        return self._login is not None and self._login.is_late(now_ms, None if frame is None else frame.began_ms)

    def begin(self, turn: Turn | None = None) -> None:
        """`turn` is waited for before anything is read."""
        self.task = asyncio.get_running_loop().create_task(self._run(turn))

    def end(self) -> None:
        """The connection is gone. A task that has not begun ends by itself: cancelled, it would give nothing back."""
        if self.task is not None and self._has_begun:
            self.task.cancel()

    @property
    def is_idle(self) -> bool:
        """True if it waits for no answer."""
        return self._loop.is_idle

    def stands_since_ms(self, now_ms: int) -> int | None:
        """The time since when its client reads its answers too slowly, as far as sweeps can tell; None if no answer is
        under way."""
        connection = self.connection
        return self._draining.look(connection.left, connection.unwritten, connection.answer_bytes, now_ms)

    async def _run(self, turn: Turn | None) -> None:
        self._has_begun = True
        try:
            await self._loop.run(turn)
        except UnservedApiError as error:
            self.spoke_strangely = True
            self._tell((error.key, error.version), error)
        except ApiError as error:
            self.spoke_strangely = True
            self._tell(type(error).__name__, error)
        except ConnectionEnds as error:
            self._tell(ConnectionEnds, error)
        except OSError as error:
            _log.debug("%s: %s: %r", self._listener, self.connection.peer, error)
        except Exception as error:
            _log.error("%s: the connection of %s failed", self._listener, self.connection.peer, exc_info=error)
        finally:
            self._driver.close()  # BEFORE what its requests stand on is closed
            self._memory.close()
            self.connection.close()

    def _tell(self, kind: object, error: Exception) -> None:
        more = self._lines.due(kind)
        if more is not None:
            peer, name = self.connection.peer, self._loop.client_name
            of_whom = f"{peer} (client.id {name})" if name else str(peer)
            _log.warning("%s: closed the connection of %s: %s%s", self._listener, of_whom, error, more)

    def __repr__(self) -> str:
        return f"ServedConnection({self._listener}, {self.connection.peer})"
