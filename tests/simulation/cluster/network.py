"""The network between simulated machines, and gRPC on it: calls and streams of bytes, delayed, cut and broken.

The messages of one exchange (a call, or a stream) in one direction keep their order; exchanges overtake each other. A
link is one direction between two machines. While it is cut, what was sent waits at the cut, as with TCP, until the link
is mended, or until gRPC's keepalive gives the connection up. The end of a process breaks its exchanges at once; a
machine without power says nothing, and its peers find out by keepalive. Not here: gRPC's Python objects (rpc.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc

from penstock.types import Endpoint
from tests.simulation.cluster.scheduler import Process, Scheduler

UNAVAILABLE, CANCELLED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED
CLIENTS = "clients"
"""The name of the machine on which all clients are."""
KEEPALIVE_SECONDS = 15.0
CONNECT_SECONDS = 3.0
CLOSE_SECONDS = 0.0005
LATE_SECONDS = 0.2
HELD_APART_SECONDS = 0.00001
"""Between two messages that a cut link had held: they lie in the socket of their sender."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How long messages take: mostly up to `usual_seconds`, and of a thousand `late_per_mille` up to `late_seconds`."""

    usual_seconds: float = 0.001
    late_seconds: float = 0.05
    late_per_mille: int = 5


@dataclass(frozen=True, slots=True)
class Status:
    """How an exchange ended."""

    code: grpc.StatusCode
    details: str = ""
    trailing: tuple[tuple[str, str | bytes], ...] = ()


OK = Status(grpc.StatusCode.OK)
Metadata = tuple[tuple[str, str], ...]
"""The headers of a call."""


@dataclass(slots=True)
class Connection:
    """Carries the exchanges of a channel, until one of them breaks. The server sees its client's address."""

    port: int
    host: str = "10.0.0.1"
    is_broken: bool = False


class Inbox:
    """The messages for one end of an exchange; used by the process of that end."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.status: Status | None = None

    def put(self, message: bytes) -> None:
        if self.status is None:
            self._messages.append(message)
            self._wake()

    def end(self, status: Status) -> None:
        """In order: what came before is still read. Only the first end counts."""
        if self.status is None:
            self.status = status
            self._wake()

    def break_off(self, status: Status) -> None:
        """Messages that came before, and were not read, are lost."""
        self._messages.clear()
        self.end(status)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def more(self) -> list[bytes]:
        """All other messages that are here."""
        found = list(self._messages)
        self._messages.clear()
        return found

    async def get(self) -> bytes | Status:
        while True:
            if self._messages:
                return self._messages.popleft()
            if self.status is not None:
                return self.status
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class Link:
    """One direction between two machines."""

    def __init__(self) -> None:
        self.is_cut, self.cuts, self.is_draining = False, 0, False
        self.breaks = 0
        """How often what the machines have open with each other was broken."""
        self.late_until_s = 0.0
        """A message that takes longer than LATE_SECONDS comes then."""
        self.held: deque[Callable[[], object]] = deque()


class Listener:
    """The methods that a process serves at an address, by path, each with the function that begins an exchange."""

    def __init__(
        self, process: Process, machine: str, serve: Mapping[str, Callable[[Exchange], asyncio.Task[None]]]
    ) -> None:
        self.process, self.machine, self.serve = process, machine, serve


class Network:
    """Machines by name, listeners by address. `machine_at` says whose an address is."""

    def __init__(self, scheduler: Scheduler, machine_at: Callable[[Endpoint], str]) -> None:
        self.scheduler, self.machine_at = scheduler, machine_at
        self.weather = Weather()
        self.listeners: dict[Endpoint, Listener] = {}
        self.without_power: set[str] = set()
        self.late_next: dict[tuple[str, str, bool], float] = {}
        """Seconds by node and method, which the node calls or clients call there: the next request, or (True) the next
        answer, takes so long."""
        self.carried = 0
        self.heard_s: dict[str, float] = {}
        """When the last request of a machine has come; it may have been sent by a process that is dead by then."""
        self.ports = count(40_000)
        self.certificates: dict[str, str] = {}
        """The URI in the certificate of each machine that shows one where nodes connect to each other."""
        self.links: dict[tuple[str, str], Link] = {}
        self._live: dict[Exchange, None] = {}
        self._process = self.manager = scheduler.process("network")
        """`manager`: for what happens on machines outside of their processes."""

    def link(self, source: str, target: str) -> Link:
        found = self.links.get((source, target))
        if found is None:
            found = self.links[source, target] = Link()
        return found

    # -- messages ------------------------------------------------------------------------------------------------------

    def _delay(self) -> float:
        draw, weather = self.scheduler.draw, self.weather
        if draw.random() * 1000 < weather.late_per_mille:
            return draw.random() * weather.late_seconds
        return draw.random() * weather.usual_seconds

    def lateness(self, machine: str, method: str, *, is_answer: bool) -> float:
        """The lateness of one message; those behind it in its exchange wait for it."""
        if not self.late_next:
            return 0.0
        return self.late_next.pop((machine, method.rpartition("/")[2], is_answer), 0.0)

    def carry(
        self,
        source: str,
        target: str,
        not_before_s: float,
        work: Callable[[], object],
        lost: Callable[[], object] = lambda: None,
    ) -> float:
        """Does `work` at the other machine when the message has come; returns when that will be, unless it is held.
        `lost` is called instead where that machine has no power then."""
        self.carried += 1
        link = self.link(source, target)
        due_s = max(self.scheduler.now_s + self._delay(), not_before_s)
        if due_s > self.scheduler.now_s + LATE_SECONDS:
            link.late_until_s = max(link.late_until_s, due_s)

        def arrive() -> None:
            if link.is_cut or link.held:
                link.held.append(work)
            elif target not in self.without_power:
                work()
            else:
                lost()

        self.scheduler.at(due_s, self._process, arrive)
        return due_s

    # -- faults --------------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if not link.is_cut:
            link.is_cut = True
            link.cuts += 1
            self._give_up_later(lambda e: (source, target) in e.route and self.link(source, target).is_cut)

    def mend(self, source: str, target: str) -> None:
        """The messages that were held come now, in their order, and those that are sent meanwhile behind them."""
        link = self.link(source, target)
        link.is_cut = False
        if not link.is_draining:
            self._drain(link, self._delay())

    def _drain(self, link: Link, delay_s: float) -> None:
        link.is_draining = bool(link.held) and not link.is_cut

        def comes() -> None:
            if not link.is_cut:
                link.held.popleft()()
            self._drain(link, HELD_APART_SECONDS)

        if link.is_draining:
            self.scheduler.at(self.scheduler.now_s + delay_s, self._process, comes)

    def _give_up_later(self, is_so: Callable[[Exchange], bool]) -> None:
        """As gRPC's keepalive: breaks every exchange of which it is still so then."""
        since = self.scheduler.now_s

        def give_up() -> None:
            for exchange in [e for e in self._live if e.began_s <= since and is_so(e)]:
                exchange.break_off("keepalive watchdog timeout")

        self.scheduler.at(since + KEEPALIVE_SECONDS, self._process, give_up)

    def break_between(self, one: str, other: str) -> None:
        """Every exchange between two machines ends in the middle of whatever it does."""
        self.link(one, other).breaks += 1
        for exchange in [e for e in self._live if {one, other} == set(e.route[0])]:
            exchange.break_off("Connection reset by peer")

    def process_ended(self, process: Process) -> None:
        """The system closes the sockets of a process that was killed, and the peers hear of it."""
        for endpoint in [at for at, listener in self.listeners.items() if listener.process is process]:
            del self.listeners[endpoint]
        for exchange in [e for e in self._live if process in (e.client, e.server)]:
            exchange.peer_closed(process)

    def power_cut(self, machine: str, processes: list[Process]) -> None:
        """The peers are not told; they give up after a while, or when the machine is back and knows nothing of them."""
        self.without_power.add(machine)
        for endpoint in [at for at, listener in self.listeners.items() if listener.process in processes]:
            del self.listeners[endpoint]
        lost = [e for e in self._live if e.client in processes or e.server in processes]
        self._give_up_later(lambda e: e in lost)

    def power_back(self, machine: str) -> None:
        """The systems of its peers send again what it did not hear, and get a reset."""
        self.without_power.discard(machine)
        for exchange in [e for e in self._live if machine in e.route[0]]:
            is_of_the_dead = exchange.server is not None and not exchange.server.is_alive
            if exchange.is_unheard or is_of_the_dead or not exchange.client.is_alive:
                exchange.break_off("Connection reset by peer")

    # -- exchanges -----------------------------------------------------------------------------------------------------

    def began(self, exchange: Exchange) -> None:
        self._live[exchange] = None

    def ended(self, exchange: Exchange) -> None:
        self._live.pop(exchange, None)

    def of_listener(self, listener: Listener) -> list[Exchange]:
        return [exchange for exchange in self._live if exchange.listener is listener]

    def of_clients(self) -> list[Exchange]:
        """The exchanges that clients have open."""
        return [exchange for exchange in self._live if exchange.route[0][0] == CLIENTS]

    def __repr__(self) -> str:
        return f"Network({len(self.listeners)} listeners, {len(self._live)} exchanges)"


class Exchange:
    """One call or stream, from `client` to whoever listens at the address when its first bytes arrive."""

    def __init__(
        self,
        network: Network,
        client: Process,
        machine: str,
        endpoint: Endpoint,
        method: str,
        connection: Connection | None = None,
        metadata: Metadata = (),
    ) -> None:
        """Without `connection` it has one of its own."""
        self._network, self.client, self.endpoint, self.method = network, client, endpoint, method
        self.connection = Connection(next(network.ports)) if connection is None else connection
        self.metadata, self.certificate = metadata, network.certificates.get(machine)
        self.channel: object = None
        """The channel of its client."""
        self.window: int | None = None
        """So many bytes more the sockets take of a server's stream; None: its client reads."""
        self.trailing: Metadata = ()
        """Set before the answer, with which the client has it."""
        self.server: Process | None = None
        self.is_unheard = False
        """Its beginning came to a machine without power."""
        self.listener: Listener | None = None
        there = network.machine_at(endpoint)
        self.route = ((machine, there), (there, machine))
        self.began_s = network.scheduler.now_s
        self.to_server, self.to_client = Inbox(), Inbox()
        self.is_connected: asyncio.Future[None] = _future_of(client)
        self._task: asyncio.Task[None] | None = None
        self._due_s = {"up": 0.0, "down": 0.0}
        self._is_late_up = False
        network.began(self)
        self._due_s["up"] = network.carry(*self.route[0], network.scheduler.now_s, self._arrive, self._not_heard)
        network.scheduler.at(self.began_s + CONNECT_SECONDS, client, self._connect_late)

    def _carry_up(self, work: Callable[[], object], late_s: float = 0.0) -> None:
        not_before_s = max(self._due_s["up"], self._network.scheduler.now_s + late_s)
        self._due_s["up"] = self._network.carry(*self.route[0], not_before_s, work)

    def _carry_end_up(self) -> None:
        """The requests that a dead process has sent are served: the server hears of its end a moment later."""
        self._due_s["up"] += CLOSE_SECONDS
        self._carry_up(self._end_server)

    def _carry_down(self, work: Callable[[], object], late_s: float = 0.0) -> None:
        not_before_s = max(self._due_s["down"], self._network.scheduler.now_s + late_s)
        self._due_s["down"] = self._network.carry(*self.route[1], not_before_s, work)

    def _lateness(self, *, is_answer: bool) -> float:
        machine, there = self.route[0]
        return self._network.lateness(there if machine == CLIENTS else machine, self.method, is_answer=is_answer)

    def _not_heard(self) -> None:
        self.is_unheard = True

    def _arrive(self) -> None:
        """At the other machine."""
        if self.to_client.status is not None:
            return
        listener = self._network.listeners.get(self.endpoint)
        if listener is None or not listener.process.is_alive:
            refused = Status(UNAVAILABLE, f"failed to connect to {self.endpoint}: connection refused")
            self._carry_down(lambda: self._end_client(refused))
            return
        self.listener, self.server = listener, listener.process
        self._carry_down(self._connected)
        begin = listener.serve.get(self.method)
        if begin is None:
            unknown = Status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            self._carry_down(lambda: self._end_client(unknown))
            return
        self._task = begin(self)

    def _connected(self) -> None:
        if not self.is_connected.done():
            self.is_connected.set_result(None)

    def _connect_late(self) -> None:
        if not self.is_connected.done():
            self._end_client(Status(UNAVAILABLE, f"failed to connect to {self.endpoint}: connection attempt timed out"))

    def _end_client(self, status: Status) -> None:
        self.to_client.end(status)
        self._connected()
        self._network.ended(self)

    # -- the client's end ----------------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        late_s = self._lateness(is_answer=False)
        self._is_late_up |= late_s > 0
        self._carry_up(lambda: self._come(message), late_s)

    def _come(self, message: bytes) -> None:
        self._network.heard_s[self.route[0][0]] = self._network.scheduler.now_s
        self.to_server.put(message)

    def end_input(self) -> None:
        """The client sends no more, and reads on."""
        self._carry_up(lambda: self.to_server.end(OK))

    def cancel(self, why: str = "Locally cancelled by application!") -> None:
        """The client wants no more: its end is over now. A message that is late is served all the same: the server
        hears of the end behind it."""
        if self.to_client.status is None:
            self.to_client.break_off(Status(CANCELLED, why))
            self._connected()
            if self._is_late_up:
                self._carry_end_up()
            else:
                self._carry_up(self._end_server)
        self._network.ended(self)

    # -- the server's end ----------------------------------------------------------------------------------------------

    def _end_server(self) -> None:
        self.to_server.end(Status(CANCELLED))
        if self._task is not None and self.server is not None and self.server.is_alive:
            self._task.cancel()

    def answer(self, message: bytes) -> None:
        self._carry_down(lambda: self.to_client.put(message), self._lateness(is_answer=True))

    def finish(self, status: Status) -> None:
        """The server is done; the client hears so behind all answers."""
        self._carry_down(lambda: self._end_client(status))

    # -- faults --------------------------------------------------------------------------------------------------------

    def break_off(self, why: str) -> None:
        """The connection is gone, for both ends at once."""
        self.connection.is_broken = True
        self.to_client.break_off(Status(UNAVAILABLE, why))
        self._connected()
        self._end_server()
        self._network.ended(self)

    def peer_closed(self, process: Process) -> None:
        """One end's process is dead, and its machine says so to the other."""
        self.connection.is_broken = True
        if process is self.client:
            self._carry_end_up()
            self._network.ended(self)
        else:
            self._carry_down(lambda: self._end_client(Status(UNAVAILABLE, "Socket closed")))

    def __repr__(self) -> str:
        return f"Exchange({self.client.name} → {self.endpoint} {self.method})"


def _future_of(process: Process) -> asyncio.Future[Any]:
    assert process.loop is not None
    return process.loop.create_future()
