"""Performs the plans of one connection: each thing that a plan asks for is a request of the node's own.

`PlanDriver` is the way of a connection's requests (`broker.network.connection_loop.Way`). The first question of a plan
is in the request channel before the next frame is read, so what clients send on one connection keeps its order; after
most requests the next one is read only when they are answered, as in Kafka (`ApiRow.is_pipelined`). Most
plans have one question, and its answer is the last step. The next questions of others go on in a task. A request of a
client is answered in its place among the others (network/processor.py), whenever its plan is done.

Not here: how a request and its answer look in bytes (kafka_wire.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from broker.kafka.api_row import ApiRow
from broker.kafka.connection.element_room import ElementRoom
from broker.kafka.errors import is_known
from broker.kafka.plan import PAUSE, Ask, Asked, ConnectionEnds, MakePlan, Plan
from broker.load.long_work import PIECE_NS
from broker.network.answer_turns import AnswerTurns, needs_room
from broker.network.connection_loop import Prepare
from broker.network.failed_requests import FailRequest
from broker.network.memory_budget import Lease
from broker.network.parties import party_of
from broker.network.request_channel import Request, RequestChannel
from penstock.errors import ResourceExhaustedError


class KafkaCall:
    """The body of a client's request on its way: how its plan is made, and what its answer needs to know."""

    __slots__ = ("asked", "asked_last", "body", "elements", "is_large", "make_plan", "row")

    def __init__(self, row: ApiRow, asked: Asked, body: Any, make_plan: MakePlan) -> None:
        self.row, self.asked, self.body, self.make_plan = row, asked, body, make_plan
        self.asked_last: Request | None = None
        """The newest request of the node's own that the plan asked for."""
        self.elements: Lease | None = None
        """The lease of the body's elements, if it has more than a few."""
        self.is_large = False
        """The body has LONG elements or more (element_room.py), or to make its answer takes longer than a piece."""


def call_of(request: Request) -> KafkaCall:
    """The body of a client's request."""
    return cast(KafkaCall, request.body)


class PlanDriver:
    """The driver of the plans of one connection."""

    def __init__(
        self,
        channel: RequestChannel,
        prepare: Prepare,
        fail: FailRequest,
        room: ElementRoom,
        turns: AnswerTurns | None = None,
    ) -> None:
        """`turns`: those in which its requests are worked on."""
        self.channel, self.prepare, self.fail, self.room, self.turns = channel, prepare, fail, room, turns
        self._open: dict[PlanRun, None] = {}
        self.newest_in_turn: Request | None = None
        """The newest question of its requests that waits for its turn, or is at work after that."""
        self._alone: tuple[Request, asyncio.Future[None]] | None = None
        """The request before whose answer no other one is read, and that its answer has left."""

    async def send(self, request: Request) -> None:
        """Perform the plan of a client's request, up to its first question; or, where requests of its API are not
        pipelined, until its answer has left."""
        run, call = PlanRun(self, request), call_of(request)
        self._open[run] = None
        await run.begin()
        if call.elements is not None:
            self.room.release_later(call.elements, lambda: run.has_had_its_turn)
        if not call.row.is_pipelined(call.body):
            left = asyncio.get_running_loop().create_future()
            self._alone = request, left
            await left

    def answer_encoded(self, request: Request) -> None:
        call = call_of(request)
        call.body = request.response = None
        asked = call.asked_last
        if asked is not None and asked.is_complete:
            self.channel.answer_encoded(asked)

    def request_sent(self, request: Request) -> None:
        """The answer has left the node. The last request of the node's own stands for it in the metrics."""
        if self._alone is not None and self._alone[0] is request:
            self._alone[1].set_result(None)
            self._alone = None
        call = call_of(request)
        if call.elements is not None:
            self.room.release_soon(call.elements)
        asked = call.asked_last
        self.channel.request_sent(request if asked is None or request.error is not None else asked)

    def worked_on(self, request: Request) -> Request:
        asked = call_of(request).asked_last
        return request if asked is None else asked

    def take_turn(self, request: Request, *, needs_room: bool) -> None:
        """The question waits if its answer needs room; else only behind one of the same API that does. Heartbeats
        overtake it: those of others must not be late."""
        before = self.newest_in_turn
        if needs_room:
            request.turns = self.turns
        elif before is not None and before.api == request.api and not before.handled_ns:
            request.turns, request.behind = self.turns, before

    def over(self, run: PlanRun) -> None:
        self._open.pop(run, None)

    def close(self) -> None:
        """The connection is gone: nobody waits for the answers."""
        for run in tuple(self._open):
            run.abandon()
        self._open.clear()
        self.newest_in_turn = None
        self.room.close()

    def __repr__(self) -> str:
        return f"PlanDriver({len(self._open)} open)"


class PlanRun:
    """A client's request, from its plan's first step to its last. The sink of what the plan asks for."""

    __slots__ = ("_body_bytes", "_call", "_driver", "_elements", "_is_paused", "_plan", "_request", "_task", "_theirs")

    def __init__(self, driver: PlanDriver, theirs: Request) -> None:
        """`theirs` is the client's request, which the answer of the plan completes."""
        self._driver, self._theirs = driver, theirs
        self._call = call_of(theirs)
        self._plan: Plan | None = None
        self._request: Request | None = None
        """The node's own that is open."""
        self._task: asyncio.Task[None] | None = None
        self._is_paused = False
        self._elements = 0 if self._call.elements is None else self._call.elements.size
        self._body_bytes = 0 if theirs.body_lease is None else theirs.body_lease.size
        theirs.dequeued_ns = theirs.handled_ns = theirs.received_ns

    @property
    def has_had_its_turn(self) -> bool:
        """False while its plan, or the node's own request, waits for the event loop."""
        return not self._is_paused and (self._request is None or self._request.dequeued_ns > 0)

    async def begin(self) -> None:
        """Goes as far as the first question."""
        if not self._call.is_large:
            channel = self._driver.channel
            channel.long_work.asked(channel.now_ns())  # many a plan asks the node for nothing
            ask = self._piece(self._first)
        else:
            ask = await self._in_turn(self._first)
        if ask is not None:
            await self._go_on(ask)

    async def _in_turn(self, step: Callable[[], Ask]) -> Ask | None:
        """A step of a plan that has much to do, in its turn."""
        work, party = self._driver.channel.long_work, party_of(self._theirs.caller)
        await work.turn(party)
        try:
            ask = self._step(step)
            while ask is PAUSE and not work.is_long:
                ask = self._step(self._resumed)
            return ask
        finally:
            work.done(party)

    def _piece(self, step: Callable[[], Ask]) -> Ask | None:
        """A step, and what follows it before the time of a piece is over."""
        now_ns = self._driver.channel.now_ns
        until_ns = now_ns() + PIECE_NS
        ask = self._step(step)
        while ask is PAUSE and now_ns() < until_ns:
            ask = self._step(self._resumed)
        return ask

    def _resumed(self) -> Ask:
        assert self._plan is not None, "a pause has a plan"
        return next(self._plan)

    def _first(self) -> Ask:
        call = self._call
        plan = self._plan = call.make_plan(call.asked, call.body)
        return next(plan)

    async def _ask(self, ask: Ask) -> None:
        theirs, driver = self._theirs, self._driver
        channel = driver.channel
        request = Request(
            ask.api, ask.body, self, theirs.caller, channel.now_ns, ask.session, theirs.correlation_id, theirs.client_id
        )
        before = self._call.asked_last
        if before is None:
            request.received_ns = theirs.received_ns
        else:
            request.throttle_ms = before.throttle_ms  # its client waits for what the first question took, too
        request.is_large = self._call.is_large
        request.is_strict = is_known(ResourceExhaustedError, theirs.api, self._call.asked.version)
        lease = theirs.body_lease
        if (
            lease is not None and lease.size != self._body_bytes
        ):  # an earlier question waited so long that it was given back
            lease.resize(self._body_bytes)
        request.body_lease, request.keeps_body = lease, True
        driver.take_turn(request, needs_room=needs_room(theirs.api, self._elements))
        self._call.asked_last = self._request = request
        try:
            preparing = driver.prepare(request)
            if preparing is not None:
                await preparing
            await channel.send(request)
            if request.turns is not None:
                driver.newest_in_turn = request
        except BaseException:  # no handler will give it back
            if lease is not None:
                lease.release()
            raise

    def response_ready(self, request: Request) -> None:
        """The answer to a question. Until the plan pauses, errors in it name the leader's endpoint at the listener of
        the client."""
        self._request = None
        if self._driver.newest_in_turn is request:
            self._driver.newest_in_turn = None
        ask = request.encoded(partial(self._answered, request.error))
        request.response = None
        if ask is not None:
            self._driver.channel.request_sent(request)
            self._task = asyncio.get_running_loop().create_task(self._go_on(ask))

    def part_ready(self, request: Request) -> None:
        """Kafka's protocol has no parts of answers: the whole is waited for."""

    def _answered(self, error: Exception | None, answer: Any) -> Ask | None:
        plan = self._plan
        assert plan is not None, "a question has a plan"
        step = partial(plan.send, answer) if error is None else partial(plan.throw, error)
        return self._step(step) if self._call.is_large else self._piece(step)

    async def _go_on(self, ask: Ask) -> None:
        try:
            following: Ask | None = ask
            while following is PAUSE:
                self._call.is_large = True  # its answer is, whatever it asked
                following = await self._in_turn(self._resumed)
            if following is not None:
                await self._ask(following)
        except Exception as error:
            self._failed(error)

    def _step(self, step: Callable[[], Ask]) -> Ask | None:
        """The next question; None at the end of the plan, and then the client's request is complete."""
        self._is_paused = False
        try:
            ask = step()
            self._is_paused = ask is PAUSE
            return ask
        except StopIteration as ended:
            self._complete(ended.value)
        except ConnectionEnds as ended:
            self._complete(ended)
        except Exception as error:
            self._failed(error)
        return None

    def _complete(self, answer: Any) -> None:
        self._over()
        self._theirs.complete(answer)

    def _failed(self, error: Exception) -> None:
        self._over()
        self._driver.fail(self._theirs, error)

    def _over(self) -> None:
        self._driver.over(self)
        asked = self._call.asked_last
        if asked is not None:  # its answer's bytes are in ours, and count until they are written
            self._theirs.response_lease, asked.response_lease = asked.response_lease, None

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._request is not None:
            self._request.abandoned()
        elif self._theirs.body_lease is not None:
            self._theirs.body_lease.release()
        if self._plan is not None:
            self._plan.close()

    def __repr__(self) -> str:
        return f"PlanRun({self._theirs})"
