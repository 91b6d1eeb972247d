"""A channel that logs in: once for all calls and streams of a connection, again on a new one, and before an end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from penstock.client.wire.authenticated_channel import AuthenticatedChannel
from penstock.client.wire.login import Login
from penstock.client.wire.transport import Metadata
from penstock.errors import (
    ApiError,
    AuthenticationRequiredError,
    IllegalSaslStateError,
    NetworkError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from penstock.messages.client_apis import SASL_AUTHENTICATE
from penstock.messages.security.authentication import SaslAuthenticateResponse
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS, SaslServer
from penstock.sasl.refusal import SaslRefusedError
from penstock.types import Endpoint
from penstock.wire.message_codec import request_codec, response_codec
from tests.support.virtual_time import run_virtual

HERE = Endpoint("broker", 1)
PASSWORD = "correct horse"
CALL, STREAM = "/penstock.v1.Test/Call", "/penstock.v1.Test/Stream"
ALICE = Login("alice", PASSWORD, "SCRAM-SHA-256")
SALT = b"salt of alice" * 2
KNOWN = {mechanism: ScramCredential.of_password(mechanism, PASSWORD, SALT, 4_096) for mechanism in ScramMechanism}


class Users:
    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        if username == "alice":
            return KNOWN[mechanism]
        return ScramCredential.stand_in(mechanism, username, b"secret")


@dataclass
class Broker:
    """A broker behind one channel; `reconnect` is gRPC's new connection, on which nobody is logged in."""

    lifetime_ms: int = 0
    takes_ms: int = 0
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    tokens: dict[str, float] = field(default_factory=dict)
    dialogues: int = 0
    renewed: int = 0
    refused: int = 0
    handled: list[bytes] = field(default_factory=list)
    is_connected: bool = True
    """False until the next call, where the client has heard that its connection was lost."""
    breaks: int = 0
    """So many dialogues lose their connection in the middle."""
    _half: SaslServer | None = None
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def lose(self) -> None:
        """The connection, as its client hears."""
        self.reconnect()
        self.is_connected = False

    def reconnect(self) -> None:
        self.tokens.clear()
        self._half = None

    def check(self, metadata: Metadata) -> str:
        token = dict(metadata).get("authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, -1.0) < asyncio.get_running_loop().time():
            self.refused += 1
            raise AuthenticationRequiredError("log in first")
        return token

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        await asyncio.sleep(self.takes_ms / 1000)
        self.is_connected = True
        if method == SASL_AUTHENTICATE.method:
            return response_codec(SASL_AUTHENTICATE).encode(self._authenticate(request, metadata))
        self.check(metadata)
        self.handled.append(request)
        return request

    def _authenticate(self, raw: bytes, metadata: Metadata) -> SaslAuthenticateResponse:
        request = request_codec(SASL_AUTHENTICATE).decode(raw)
        if request.mechanism:
            self.dialogues += 1
            if request.mechanism not in self.mechanisms:
                raise UnsupportedSaslMechanismError("it takes SCRAM-SHA-512 alone")
            self._half = MECHANISMS[request.mechanism].server(Users(), "server-nonce")
        elif self.breaks:
            self.breaks -= 1
            self.reconnect()
        if self._half is None:
            raise IllegalSaslStateError("no dialogue is under way")
        try:
            answer = self._half.respond(request.auth_bytes)
        except SaslRefusedError as refused:
            raise SaslAuthenticationFailedError(str(refused)) from None
        if not self._half.is_done:
            return SaslAuthenticateResponse(answer)
        token = self.check(metadata) if metadata else f"token-{next(self._numbers)}"
        self.renewed += bool(metadata)
        end = asyncio.get_running_loop().time() + self.lifetime_ms / 1000 if self.lifetime_ms else float("inf")
        self.tokens[token] = end
        return SaslAuthenticateResponse(answer, token, self.lifetime_ms)

    def open_stream(self, method: str, metadata: Metadata = ()) -> Stream:
        return Stream(self, metadata)

    async def close(self) -> None:
        pass


@dataclass
class Stream:
    """Echoes, as long as its session is open."""

    broker: Broker
    metadata: Metadata
    written: list[bytes] = field(default_factory=list)
    is_cancelled: bool = False

    async def write(self, message: bytes) -> None:
        self.broker.check(self.metadata)
        self.written.append(message)

    async def read(self) -> bytes:
        self.broker.check(self.metadata)
        return self.written.pop(0)

    def cancel(self) -> None:
        self.is_cancelled = True


Story = Callable[[AuthenticatedChannel], Awaitable[None]]


def run(story: Story, broker: Broker, login: Login = ALICE) -> None:
    async def main() -> None:
        channel = AuthenticatedChannel(broker, HERE, login, 5_000)
        try:
            await story(channel)
        finally:
            await channel.close()

    run_virtual(main())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_one_log_in_serves_all_calls_and_streams_of_a_connection(mechanism: str) -> None:
    broker = Broker(mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"), takes_ms=10)

    async def story(channel: AuthenticatedChannel) -> None:
        stream = channel.open_stream(STREAM)
        calls = [channel.call(CALL, b"%d" % n, 1_000) for n in range(10)]
        answers = await asyncio.gather(stream.write(b"s"), *calls)
        assert answers[1:] == [b"%d" % n for n in range(10)]
        assert await stream.read() == b"s"

    run(story, broker, Login("alice", PASSWORD, mechanism))
    assert broker.dialogues == 1


def test_a_call_on_a_new_connection_logs_in_again_and_is_handled_once() -> None:
    broker = Broker()

    async def story(channel: AuthenticatedChannel) -> None:
        await channel.call(CALL, b"a", 1_000)
        broker.reconnect()
        assert await channel.call(CALL, b"b", 1_000) == b"b"

    run(story, broker)
    assert (broker.dialogues, broker.handled) == (2, [b"a", b"b"])


def test_calls_and_streams_after_a_lost_connection_log_in_once_and_show_no_token_of_before() -> None:
    broker = Broker(takes_ms=10)

    async def story(channel: AuthenticatedChannel) -> None:
        await channel.call(CALL, b"a", 1_000)
        broker.lose()
        stream = channel.open_stream(STREAM)
        await asyncio.gather(stream.write(b"s"), *(channel.call(CALL, b"b", 1_000) for _ in range(10)))
        assert await stream.read() == b"s"

    run(story, broker)
    assert (broker.dialogues, broker.refused) == (2, 0)


def test_a_stream_of_an_old_connection_breaks_with_a_retriable_error_and_the_next_one_logs_in() -> None:
    broker = Broker()

    async def story(channel: AuthenticatedChannel) -> None:
        stream = channel.open_stream(STREAM)
        await stream.write(b"a")
        broker.reconnect()
        with pytest.raises(NetworkError, match="the session of user 'alice' by SCRAM-SHA-256 has ended"):
            await stream.read()
        stream = channel.open_stream(STREAM)
        await stream.write(b"b")
        assert await stream.read() == b"b"

    run(story, broker)
    assert broker.dialogues == 2


def test_a_session_is_renewed_before_its_end_so_that_its_streams_live_on() -> None:
    broker = Broker(lifetime_ms=60_000)

    async def story(channel: AuthenticatedChannel) -> None:
        stream = channel.open_stream(STREAM)
        for _ in range(600):
            await stream.write(b"a")
            assert await stream.read() == b"a"
            await asyncio.sleep(1)

    run(story, broker)
    assert broker.renewed == 600 // 51 and len(broker.tokens) == 1


def test_a_dialogue_whose_connection_breaks_is_begun_anew() -> None:
    broker = Broker(breaks=2)

    async def story(channel: AuthenticatedChannel) -> None:
        assert await channel.call(CALL, b"a", 1_000) == b"a"

    run(story, broker)
    assert broker.dialogues == 3


@pytest.mark.parametrize(
    ("login", "broker", "error", "says"),
    [
        (Login("alice", "guess", "SCRAM-SHA-256"), Broker(), SaslAuthenticationFailedError, "the password is wrong"),
        (Login("bob", PASSWORD, "SCRAM-SHA-256"), Broker(), SaslAuthenticationFailedError, "the password is wrong"),
        (ALICE, Broker(mechanisms=("SCRAM-SHA-512",)), UnsupportedSaslMechanismError, "it takes SCRAM-SHA-512 alone"),
        (ALICE, Broker(breaks=100), IllegalSaslStateError, "no dialogue is under way"),
    ],
)
def test_a_refusal_is_fatal_and_names_who_could_not_log_in_where(
    login: Login, broker: Broker, error: type[ApiError], says: str
) -> None:
    async def story(channel: AuthenticatedChannel) -> None:
        stream = channel.open_stream(STREAM)
        for refused in (channel.call(CALL, b"a", 1_000), stream.write(b"a"), channel.open_stream(STREAM).read()):
            with pytest.raises(error, match=says) as raised:
                await refused
            text = str(raised.value)
            assert text.startswith(f"broker:1: user {login.username!r} by SCRAM-SHA-256 cannot log in: ")
            assert PASSWORD not in text and "guess" not in text
            assert not raised.value.retriable and raised.value.nothing_written

    run(story, broker, login)
    assert broker.handled == []


def test_a_call_waits_for_a_log_in_no_longer_than_for_its_answer() -> None:
    async def story(channel: AuthenticatedChannel) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimedOutError, match="no log-in within 500 ms"):
            await channel.call(CALL, b"a", 500)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)

    run(story, Broker(takes_ms=10_000))


def test_what_waits_for_a_log_in_ends_when_the_channel_closes_or_the_stream_is_cancelled() -> None:
    async def story(channel: AuthenticatedChannel) -> None:
        cancelled, closed = channel.open_stream(STREAM), channel.open_stream(STREAM)
        readers = [asyncio.ensure_future(one.read()) for one in (cancelled, closed)]
        call = asyncio.ensure_future(channel.call(CALL, b"a", 60_000))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(NetworkError, match="cancelled"):
            await readers[0]
        await channel.close()
        for waiting in (readers[1], call, channel.call(CALL, b"b", 1_000)):
            with pytest.raises(NetworkError, match="cancelled"):
                await waiting

    run(story, Broker(takes_ms=10_000))


def test_a_stream_that_is_cancelled_does_not_end_the_log_in_of_others() -> None:
    broker = Broker(takes_ms=100)

    async def story(channel: AuthenticatedChannel) -> None:
        stream = channel.open_stream(STREAM)
        reader = asyncio.ensure_future(stream.read())
        call = asyncio.ensure_future(channel.call(CALL, b"a", 60_000))
        await asyncio.sleep(0.05)
        stream.cancel()
        assert await call == b"a"
        with pytest.raises(NetworkError):
            await reader

    run(story, broker)
    assert broker.dialogues == 1


def test_no_text_of_a_login_has_the_password() -> None:
    assert PASSWORD not in f"{ALICE} {ALICE!r}"
