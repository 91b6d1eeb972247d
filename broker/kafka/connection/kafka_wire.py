"""Requests and answers in Kafka's protocol as frames: the language of one connection (`connection_loop.Wire`).

A request that is malformed, or of an API or a version that this node does not have, ends the connection, as in Kafka:
its client could not read an answer. ApiVersions has one for every version (KIP-511). Not here: the frames' own bytes
(frame_connection.py), the layout of messages (schemas/).
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Any

from broker.kafka.api_row import ApiRow, PrepareBody, failed_answer
from broker.kafka.connection.element_room import FREE, ElementRoom
from broker.kafka.connection.frame_connection import NO_FRAME, Frame
from broker.kafka.connection.login import KafkaLogin
from broker.kafka.connection.plan_run import KafkaCall, call_of
from broker.kafka.plan import Asked, ConnectionEnds, ConnectionMemory
from broker.kafka_codec.codec import decode_counted, encode, is_flexible
from broker.kafka_codec.headers import HeaderStart, read_header_rest, read_header_start, response_header
from broker.kafka_codec.primitives import TooManyElementsError
from broker.load.long_work import PIECE_NS
from broker.network.answer_turns import SMALL_ELEMENTS
from broker.network.connection_loop import Incoming
from broker.network.decoding_turns import LONG, DecodingTurns
from broker.network.parties import party_of
from broker.network.request_channel import Caller, Request
from penstock.errors import ApiError, InvalidRequestError, UnknownServerError

_log = logging.getLogger(__name__)
_SIZE = struct.Struct(">i")


class UnservedApiError(Exception):
    """A request of an API, or of a version of one, that this node does not serve."""

    def __init__(self, key: int, version: int, name: str) -> None:
        super().__init__(f"version {version} of {name} is not served")
        self.key, self.version = key, version


class RequestCounts:
    """Requests of all connections of a node, by API: their bytes, and those that were refused."""

    def __init__(self) -> None:
        self.received_bytes: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()


class KafkaWire:
    """The wire of one connection."""

    def __init__(
        self,
        rows: Mapping[int, ApiRow],
        caller: Caller,
        memory: ConnectionMemory,
        counts: RequestCounts,
        room: ElementRoom,
        turns: DecodingTurns,
        login: KafkaLogin | None = None,
    ) -> None:
        """`login`: that of a connection to a listener with SASL."""
        self._turns = turns
        self._rows, self._memory, self._counts, self._room, self._login = rows, memory, counts, room, login
        self.caller = caller
        """The caller, as it is known by now."""

    def decode(self, raw: memoryview) -> Incoming | Awaitable[Incoming]:
        start = read_header_start(raw)
        row = self._rows.get(start.api_key)
        if row is None:
            raise UnservedApiError(start.api_key, start.api_version, f"API key {start.api_key}")
        if self._login is not None:
            self._login.check(row.key, row.name)
        self._counts.received_bytes[row.name] += len(raw)
        if not row.serves(start.api_version):
            return self._of_another_version(row, start)
        if row.bytes_max is not None and len(raw) > row.bytes_max:
            self._counts.refused[row.name] += 1
            raise InvalidRequestError(f"{row.name} of {len(raw)} bytes; it may have {row.bytes_max} at most")
        if not self._turns.has_room(row.name, party_of(self.caller)):
            return self._when_its_answer_has_room(row, start, raw)
        return self._decoded(row, start, raw)

    async def _when_its_answer_has_room(self, row: ApiRow, start: HeaderStart, raw: memoryview) -> Incoming:
        await self._turns.room(row.name, party_of(self.caller))
        decoded = self._decoded(row, start, raw)
        return decoded if isinstance(decoded, Incoming) else await decoded

    def _decoded(self, row: ApiRow, start: HeaderStart, raw: memoryview) -> Incoming | Awaitable[Incoming]:
        may_have, party = self._room.now(row.elements_max), party_of(self.caller)
        if not self._turns.has_room(row.name, party, row.elements_max):
            may_have = min(may_have, SMALL_ELEMENTS)
        if not self._turns.is_free:
            may_have = min(may_have, LONG - 1)
        began_ns = self._turns.now_ns()
        try:
            incoming, elements = self._incoming(row, start, raw, may_have)
        except TooManyElementsError as error:
            return self._when_there_is_room(row, start, raw, may_have + error.missing)
        except ApiError:
            self._counts.refused[row.name] += 1
            raise
        if elements > FREE:
            incoming.body.elements = self._room.take(elements, is_paced=row.is_paced)
            incoming.body.is_large = elements >= LONG
            if incoming.body.is_large:
                self._turns.charge(party, began_ns)
        return incoming if row.prepare is None else self._prepared(row.prepare, incoming)

    async def _prepared(self, prepare: PrepareBody, incoming: Incoming) -> Incoming:
        """The request with the body that its plan gets; see `ApiRow.prepare`."""
        call: KafkaCall = incoming.body
        call.body = await prepare(call.asked, call.body)
        return incoming

    async def _when_there_is_room(self, row: ApiRow, start: HeaderStart, raw: memoryview, needed: int) -> Incoming:
        """The request read again, with room for the elements that it is known to need; or its error, if it has more
        than it ever may have."""
        turns, party = self._turns, party_of(self.caller)
        while True:
            needed = min(needed, row.elements_max)
            lease = await self._room.wait(needed, is_paced=row.is_paced)
            if not await turns.begins(row.name, party, needed):
                self._room.give_back(lease)  # others must not wait for it meanwhile
                await turns.room(row.name, party, needed)
                continue
            try:
                try:
                    incoming, elements = self._incoming(row, start, raw, needed)
                finally:
                    turns.done(party)
            except (ApiError, TooManyElementsError) as wrong:
                if isinstance(wrong, TooManyElementsError) and needed < row.elements_max:
                    self._room.give_back(lease)
                    needed = max(needed + wrong.missing, 2 * needed)  # so it is read few times, however deep its arrays
                    continue
                self._room.release(lease)
                self._counts.refused[row.name] += 1
                raise InvalidRequestError(str(wrong)) from None
            lease.resize(elements)
            incoming.body.elements, incoming.body.is_large = lease, elements >= LONG
            return incoming if row.prepare is None else await self._prepared(row.prepare, incoming)

    def _of_another_version(self, row: ApiRow, start: HeaderStart) -> Incoming:
        if row.other_versions is None:
            self._counts.refused[row.name] += 1
            first, last = row.versions
            raise UnservedApiError(row.key, start.api_version, f"{row.name} ({first} to {last} are)")
        asked = Asked(0, self.caller, "", self._memory)  # a header of an unknown version cannot be read further
        return Incoming(row.name, start.correlation_id, "", KafkaCall(row, asked, None, row.other_versions))

    def _incoming(self, row: ApiRow, start: HeaderStart, raw: memoryview, elements_max: int) -> tuple[Incoming, int]:
        """The request, and the number of its elements."""
        version = start.api_version
        client_id, at = read_header_rest(raw, is_flexible(row.request, version))
        body, _, elements = decode_counted(row.request, version, raw, at, elements_max)
        asked = Asked(version, self.caller, client_id or "", self._memory)
        return Incoming(
            row.name, start.correlation_id, asked.client_id, KafkaCall(row, asked, body, row.plan)
        ), elements

    def encode(self, request: Request, answer: Any) -> Frame:
        call = call_of(request)
        if request.error is not None:
            return self._framed(request, failed_answer(call.row, call.asked, call.body, request.error))
        if answer is None:
            return NO_FRAME
        if isinstance(answer, ConnectionEnds):
            raise answer
        try:
            return self._framed(request, answer)
        except Exception as error:  # a bug of the plan
            _log.error("%s cannot be answered", request, exc_info=error)
            wrong = UnknownServerError(f"{call.row.name}: {type(error).__name__}: {error}")
            return self._framed(request, failed_answer(call.row, call.asked, call.body, wrong))

    def _framed(self, request: Request, answer: Any) -> Frame:
        call = call_of(request)
        row, version = call.row, call.asked.version
        header = response_header(row.key, request.correlation_id, is_flexible(row.response, version))
        if request.throttle_ms and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = request.throttle_ms
        began_ns = self._turns.now_ns() if call.is_large else 0
        frame = Frame([b"", *encode(answer, version)])
        if call.is_large and self._turns.now_ns() - began_ns >= PIECE_NS:
            self._turns.charge(party_of(self.caller), began_ns)
        frame.parts[0] = _SIZE.pack(frame.size + len(header)) + header
        frame.size += len(frame.parts[0])
        return frame

    def __repr__(self) -> str:
        return f"KafkaWire({self.caller.peer})"
