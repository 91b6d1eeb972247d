"""A guest: a user who tries what it may do and what not, with the right password and others, and with no log-in at all.

It speaks to one broker at a time, over the client's own channel and streams, and asks each thing once: so each answer
is that broker's judgement. The values that it was refused to write are kept; nobody may ever read one.
"""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import TYPE_CHECKING

from penstock.client.wire.authenticated_channel import AuthenticatedChannel
from penstock.client.wire.connection import Connection, ConsumerFetchStream, ProduceStream
from penstock.client.wire.login import Login
from penstock.client.wire.transport import ByteStream, Channel, Metadata
from penstock.errors import (
    ApiError,
    AuthenticationRequiredError,
    PenstockError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from penstock.messages.client_apis import LIST_OFFSETS
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.messages.offsets import ListOffsetsPartition, ListOffsetsRequest
from penstock.messages.produce import PartitionRecords, ProduceRequest
from penstock.messages.security.acls import Operation
from penstock.record.builder import build_batch
from penstock.types import EARLIEST_TIMESTAMP, Endpoint, TopicPartition
from penstock.wire.message_codec import request_codec
from tests.simulation.cluster.security.registrar import TOPICS

if TYPE_CHECKING:
    from tests.simulation.cluster.security.secured import Secured

TIMEOUT_MS = 2_000
ANEW_SHARE, WRONG_SHARE, NOBODY_SHARE, LEADER_SHARE = 0.3, 0.25, 0.15, 0.8
MECHANISM = "SCRAM-SHA-256"
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)


class TappedChannel:
    """A Channel over another; keeps what shows that the user is logged in."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.token: Metadata = ()

    @property
    def is_connected(self) -> bool:
        return self._channel.is_connected

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        self.token = tuple(metadata) or self.token
        return await self._channel.call(method, request, timeout_ms, metadata)

    def open_stream(self, method: str, metadata: Metadata = ()) -> ByteStream:
        self.token = tuple(metadata) or self.token
        return self._channel.open_stream(method, metadata)

    async def close(self) -> None:
        await self._channel.close()


class Guest:
    """See the module."""

    def __init__(self, secured: Secured, user: str) -> None:
        self._secured, self._oracle, self.user = secured, secured.oracle, user
        self._draw = random.Random(secured.clients.network.scheduler.draw.getrandbits(64))
        self._session: Session | None = None
        self._numbers = count()

    async def work(self) -> None:
        """Until it is over."""
        clients, plan = self._secured.clients, self._secured.plan
        while not clients.is_over:
            await asyncio.sleep(plan.pause_s * (0.5 + self._draw.random()))
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1000):
                    await self._turn()
            except (PenstockError, TimeoutError):
                await self._leave()
        await self._leave()

    async def _leave(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _turn(self) -> None:
        topic = self._draw.choice(TOPICS)
        node_id = self._node_for(topic)
        if self._draw.random() < NOBODY_SHARE:
            await self._as_nobody(node_id, topic)
            return
        if self._session is not None and (self._session.node_id != node_id or self._draw.random() < ANEW_SHARE):
            await self._leave()
        if self._session is None:
            await self._log_in(node_id)
        if self._session is not None:
            await self._ask(self._session, topic, self._draw.choice(OPERATIONS))

    def _node_for(self, topic: str) -> int:
        """Mostly the leader of the topic's partition."""
        known = self._oracle.newest.partition(topic, 0)
        if known is not None and known.leader_id >= 0 and self._draw.random() < LEADER_SHARE:
            return known.leader_id
        return self._draw.choice(self._secured.clients.plan.brokers)

    # -- log-ins -------------------------------------------------------------------------------------------------------

    async def _log_in(self, node_id: int) -> None:
        known = self._secured.passwords[self.user]
        password = known[-1] or "there is no such user"
        if self._draw.random() < WRONG_SHARE:
            password = self._draw.choice(known) or "wrong"
        since_s = self._secured.now_s
        session = Session(self._secured, node_id, Login(self.user, password, MECHANISM))
        try:
            await session.describe(TOPICS[0])
        except SaslAuthenticationFailedError:
            self._oracle.logged_in(node_id, self.user, password, since_s, is_in=False)
            await session.close()
            return
        except BaseException:
            await session.close()
            raise
        self._oracle.logged_in(node_id, self.user, password, since_s, is_in=True)
        self._session = session

    async def _as_nobody(self, node_id: int, topic: str) -> None:
        """Without a log-in, or with the token of a session that another connection has."""
        token = self._session.token if self._session is not None and self._session.node_id == node_id else ()
        what = f"{self.user} by a connection without a log-in{', with the token of another one' if token else ''}"
        channel = self._secured.connect(node_id)
        request = request_codec(LIST_OFFSETS).encode(_question(topic))
        try:
            await channel.call(LIST_OFFSETS.method, request, TIMEOUT_MS, token)
            self._oracle.replayed(node_id, what)
        except AuthenticationRequiredError:
            self._oracle.count("stolen tokens refused" if token else "nobody refused")
        finally:
            await channel.close()

    # -- rights --------------------------------------------------------------------------------------------------------

    async def _ask(self, session: Session, topic: str, operation: Operation) -> None:
        since_s = self._secured.now_s
        value = f"{self.user} {next(self._numbers)}".encode()
        if operation is Operation.DESCRIBE:
            error = await session.describe(topic)
        elif operation is Operation.READ:
            error, has_records = await session.read(topic)
            if has_records and error is not None:
                self._oracle.report(f"I82: {self.user} was refused {topic} ({error!r}), and given records of it")
        else:
            error = await session.write(topic, value)
        is_allowed = not isinstance(error, TopicAuthorizationFailedError)
        self._oracle.answered(session.node_id, f"User:{self.user}", operation, topic, since_s, is_allowed)
        if operation is Operation.WRITE and not is_allowed:
            self._secured.refused_values.add(value)


class Session:
    """One guest at one broker, with its streams."""

    def __init__(self, secured: Secured, node_id: int, login: Login) -> None:
        self.node_id = node_id
        endpoint: Endpoint = secured.endpoint(node_id)
        self._tapped = TappedChannel(secured.connect(node_id))
        self._connection = Connection(AuthenticatedChannel(self._tapped, endpoint, login, TIMEOUT_MS), endpoint)
        self._produce: ProduceStream | None = None
        self._fetch: ConsumerFetchStream | None = None
        self._written = 0

    @property
    def token(self) -> Metadata:
        return self._tapped.token

    async def describe(self, topic: str) -> ApiError | None:
        answer = await self._connection.call(LIST_OFFSETS, _question(topic), TIMEOUT_MS)
        return answer.partitions[0].error

    async def read(self, topic: str) -> tuple[ApiError | None, bool]:
        """The error, and whether there were records with it. The stream is one fetch session."""
        if self._fetch is None:
            self._fetch = self._connection.open_fetch()
        wanted = FetchPartition(TopicPartition(topic, 0), "", 0)
        await self._fetch.write(FetchRequest(-1, -1, 0, 1, 1 << 20, (wanted,), (), is_full=True))
        answer = await self._fetch.read()
        if answer.error is not None:
            raise answer.error
        (result,) = answer.partitions
        return result.error, bool(result.records)

    async def write(self, topic: str, value: bytes) -> ApiError | None:
        if self._produce is None:
            self._produce = self._connection.open_produce()
        self._written += 1
        records = PartitionRecords(TopicPartition(topic, 0), "", build_batch([value], timestamps_ms=0))
        await self._produce.write(self._written, ProduceRequest(1, TIMEOUT_MS, [records]))
        _, answer = await self._produce.read()
        if answer.error is not None:
            raise answer.error
        return answer.partitions[0].error

    async def close(self) -> None:
        for stream in (self._produce, self._fetch):
            if stream is not None:
                stream.cancel()
        await self._connection.close()


def _question(topic: str) -> ListOffsetsRequest:
    return ListOffsetsRequest((ListOffsetsPartition(TopicPartition(topic, 0), "", EARLIEST_TIMESTAMP),))
