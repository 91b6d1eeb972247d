"""A client's connection in Kafka's protocol: requests go out one behind the other, and answers come in their order.

It speaks through the product's codec, and checks what a client of Kafka takes for granted (I58): an answer belongs to
the oldest request that waits for one, has its correlation id, and is a whole message; a node that serves ends no
connection, unless a Produce with acks=0 has failed on it. Not here: who leads what (kafka_client.py),
and what clients send (writers.py, readers.py).
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.fetch import FetchRequest, FetchResponse
from broker.kafka.schemas.groups.classic import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.kafka.schemas.groups.consumer import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse
from broker.kafka.schemas.offsets import ListOffsetsRequest, ListOffsetsResponse
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.kafka.schemas.producers import InitProducerIdRequest, InitProducerIdResponse
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from broker.kafka.schemas.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
)
from broker.kafka_codec.codec import decode, encode, is_flexible
from broker.kafka_codec.headers import HeaderStart, read_response_header, request_header
from broker.kafka_codec.structs import facts_of
from penstock.errors import InvalidRequestError
from tests.simulation.cluster.kafka.sockets import ClientEnd, ClosedByNode

REQUEST_SECONDS = 5.0
"""A client ends a connection that has not answered for so long."""
PROMPT_SECONDS = 3.0
"""Beside flooders, where nothing else is wrong, answers take at most so long (I88)."""
SIZE = struct.Struct(">i")
RESPONSES: dict[type[Any], type[Any]] = {
    ApiVersionsRequest: ApiVersionsResponse,
    FetchRequest: FetchResponse,
    InitProducerIdRequest: InitProducerIdResponse,
    ListOffsetsRequest: ListOffsetsResponse,
    MetadataRequest: MetadataResponse,
    ProduceRequest: ProduceResponse,
    FindCoordinatorRequest: FindCoordinatorResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
    DeleteGroupsRequest: DeleteGroupsResponse,
    AddPartitionsToTxnRequest: AddPartitionsToTxnResponse,
    EndTxnRequest: EndTxnResponse,
    SaslHandshakeRequest: SaslHandshakeResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
}
WANTED = {
    ApiVersionsRequest: 3,
    MetadataRequest: 12,
    ListOffsetsRequest: 5,
    InitProducerIdRequest: 4,
}
"""The versions that these clients use where it does not matter."""
PROMPT = (ApiVersionsRequest, MetadataRequest, ProduceRequest)
"""Requests that a broker answers at once if all is well."""


class Broken(Exception):
    """The connection has ended, or was ended for want of an answer: the outcome of what was asked is unknown."""


class _Asked(NamedTuple):
    number: int
    request: type[Any]
    version: int
    answer: asyncio.Future[Any]
    since_s: float


class Connection:
    """Belongs to the loop of the clients' process."""

    def __init__(self, end: ClientEnd, client_id: str, first: int, wrong: Callable[[str], None]) -> None:
        """`first`: the correlation id of the first request; `wrong` is told of what breaks I58."""
        self._end, self._client_id, self._number, self._wrong = end, client_id, first, wrong
        self._waiting: deque[_Asked] = deque()
        self._why = ""
        self._is_ending = self._had_no_acks = False
        self.is_prompt = False
        """True if each Metadata and Produce has to be answered in time."""
        self.is_ignored = False
        """True if what comes is thrown away."""
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_broken(self) -> bool:
        """True if nothing can be asked any more."""
        return bool(self._why) or self._is_ending

    def send(self, message: Any, version: int, *, is_answered: bool = True) -> asyncio.Future[Any]:
        """Writes the request; its answer comes in the future, or Broken. It has none if it is not answered."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_broken:
            answer.set_exception(Broken(self._why or "its client has ended its half"))
            answer.exception()  # nobody may ask for it
            return answer
        self._number = (self._number + 1) & 0x7FFF_FFFF
        if is_answered:
            since_s = asyncio.get_running_loop().time()
            self._waiting.append(_Asked(self._number, type(message), version, answer, since_s))
        else:
            answer.set_result(None)
            self._had_no_acks = True
        self._end.send(self._frame(message, version))
        return answer

    def _frame(self, message: Any, version: int) -> bytes:
        facts = facts_of(type(message))
        start = HeaderStart(facts.key or 0, version, self._number)
        header = request_header(start, self._client_id, version in facts.flexible)
        body = b"".join((header, *map(bytes, encode(message, version))))
        return SIZE.pack(len(body)) + body

    async def ask(self, message: Any, version: int) -> Any:
        """The answer; Broken when there is none in time."""
        return await self.answer_of(self.send(message, version))

    async def answer_of(self, answer: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await answer
        except TimeoutError:
            self._check_prompt(*self._waiting)
            self.close("a request was not answered in time")
            raise Broken(self._why) from None

    async def _read(self) -> None:
        here = bytearray()
        try:
            while True:
                here += await self._end.receive()
                if self.is_ignored:
                    here.clear()
                while len(here) >= SIZE.size and len(here) - SIZE.size >= (size := SIZE.unpack_from(here)[0]):
                    frame = bytes(here[SIZE.size : SIZE.size + size])
                    del here[: SIZE.size + size]
                    self._take(memoryview(frame))
        except ClosedByNode as error:
            is_done = self._is_ending and not self._waiting
            if not (is_done or self._had_no_acks):
                self._wrong(f"I58: {self._client_id}: {error}, with {len(self._waiting)} requests open")
            self._over(str(error))
        except ConnectionError as error:
            self._over(str(error))

    def _take(self, frame: memoryview) -> None:
        if not self._waiting:
            self._break(f"an answer of {len(frame)} bytes, and no request waits for one")
            return
        asked = self._waiting[0]
        response = RESPONSES[asked.request]
        flexible = is_flexible(response, asked.version)
        try:
            number, at = read_response_header(frame, facts_of(response).key or 0, flexible)
            if number != asked.number:
                self._break(f"correlation id {number}, and {asked.request.__name__} {asked.number} is the oldest")
                return
            answer, end = decode(response, asked.version, frame, at)
        except InvalidRequestError as error:
            self._break(f"the answer to {asked.request.__name__} v{asked.version} is no message: {error}")
            return
        if end != len(frame):
            self._break(f"the answer to {asked.request.__name__} v{asked.version} has {len(frame) - end} bytes more")
            return
        self._check_prompt(self._waiting.popleft())
        if not asked.answer.done():
            asked.answer.set_result(answer)

    def _check_prompt(self, *asked: _Asked) -> None:
        now_s = asyncio.get_running_loop().time()
        for each in asked:
            if self.is_prompt and each.request in PROMPT and now_s - each.since_s > PROMPT_SECONDS:
                waited = f"{each.request.__name__} waits {now_s - each.since_s:.1f} s"
                self._wrong(f"I88: {self._client_id}: beside flooders {waited} for its answer")

    def _break(self, what: str) -> None:
        self._wrong(f"I58: {self._client_id}: {what}")
        self.close(what)

    def _over(self, why: str) -> None:
        self._why = self._why or why or "it was closed"
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(Broken(self._why))
                answer.exception()  # nobody may ask for it

    def end_input(self) -> None:
        """Sends no more; what is open is answered."""
        self._is_ending = True
        self._end.half_close()

    def close(self, why: str = "closed by its client") -> None:
        """At once."""
        self._over(why)
        self._end.close()
        self._reader.cancel()

    def cut_inside(self, message: Any, version: int, share: float) -> None:
        """Ends in the middle of a request, as a client that is killed."""
        frame = self._frame(message, version)
        self._end.send(frame[: max(1, int(len(frame) * share))])
        self.close()

    def __repr__(self) -> str:
        return f"Connection({self._client_id}, {len(self._waiting)} requests wait)"
