"""gRPC at a listener with SASL: nothing is asked before a log-in, and nothing with another one's token.

The listeners, the handler and the mechanisms are those that ship, from the bytes on, in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.apis.security.sasl_authenticate import SaslAuthenticateApi
from broker.authentication.authentication import Authentication
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import LoginListener, Logins
from broker.authentication.sessions import CallerPlace, Sessions
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.callers import METADATA_MAX, SessionCallers
from broker.grpc.client_calls import client_calls
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.refused_calls import EndsConnection
from broker.load.busy_time import BusyTime, BusyTimes
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from penstock.errors import (
    ApiError,
    AuthenticationRequiredError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnknownTopicIdError,
    UnsupportedSaslMechanismError,
)
from penstock.messages.apis import APIS
from penstock.messages.produce import ProduceResponse
from penstock.messages.security.authentication import SaslAuthenticateResponse
from penstock.pb import broker_pb2 as pb
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from tests.support.raft_fakes import InlineExecutor
from tests.support.tokens import NamedTokens
from tests.support.virtual_time import VirtualTimeLoop, run_virtual

LIFETIME_MS = 60_000
PORT = 4711
HANDLED = UnknownTopicIdError
"""The answer to whatever got as far as a handler, but to a log-in."""


class Users:
    """Anna and Bert; the password is the name."""

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        if username in ("anna", "bert"):
            return ScramCredential.of_password(mechanism, username, b"salt", 4_096)
        return ScramCredential.stand_in(mechanism, username, b"s")


class Context:
    """A call or stream by the connection from a port, with a header if one is given."""

    def __init__(self, port: int = PORT, authorization: str | None = None, host: str = "10.0.0.1") -> None:
        self._port, self._host, self.authorization = port, host, authorization
        self.incoming: asyncio.Queue[bytes | Any] = asyncio.Queue()
        self.answers: list[pb.ProduceResponse] = []
        self.refused: ApiError | None = None
        self.status: grpc.StatusCode | None = None

    def peer(self) -> str:
        return f"ipv4:{self._host}:{self._port}"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        other = ("user-agent", "grpc")
        return (other,) if self.authorization is None else (other, ("authorization", self.authorization))

    async def read(self) -> Any:
        return await self.incoming.get()

    async def write(self, raw: bytes) -> None:
        self.answers.append(pb.ProduceResponse.FromString(raw))

    async def abort(self, code: grpc.StatusCode, details: str, trailer: Any) -> None:
        self.status, self.refused = code, error_in_trailer(trailer, details)
        raise grpc.aio.AbortError


class Bench:
    """One listener."""

    def __init__(self, *, has_sasl: bool = True) -> None:
        loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
        numbers = iter(range(1, 1_000))
        self.counts, self.sessions = AuthenticationCounts(), Sessions(100, lambda: f"token-{next(numbers)}")
        logins = Logins(
            Users(), lambda: f"nonce{next(numbers)}", InlineExecutor(), self.counts, 100, tokens=NamedTokens()
        )
        listeners = {"OUTSIDE": LoginListener("OUTSIDE", tuple(MECHANISMS), True)} if has_sasl else {}
        by = Authentication(listeners, lambda name: LIFETIME_MS, logins, self.sessions, self.counts)
        fail = FailedRequests(lambda error: None).fail
        self.api, self._fail = SaslAuthenticateApi(by, loop, fail), fail
        channel = self._channel = RequestChannel(100, BusyTimes(loop.now_ns), loop.now_ns)
        callers = SessionCallers("OUTSIDE", self.sessions, loop.now_ms) if has_sasl else None
        self.access = ListenerAccess("OUTSIDE", "INTERNAL", callers)
        self.access.open()
        memory, decoders = RequestMemory(1 << 20), RequestDecoders(1 << 20)
        limits = StreamLimits(decoders=decoders, connections=StreamQuotas(9, 9), requests=memory, node_requests=memory)
        self.handlers = StreamHandlers(channel, cast(Any, lambda host: self), limits, self.access)
        self.served: dict[str, Any] = {}
        calls = client_calls(channel, self.access)
        service = Service(
            name="any",
            calls=calls,
            streams=self.handlers.streams,
            decoders=decoders,
            memory=memory,
            busy=BusyTime(loop.now_ns),
            caller_of=self.access.caller,
        )
        add_calls(self, service)
        self.handled: list[Request] = []

    def close(self) -> None:
        """It is every fetch stream's session, too."""

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Each is registered by its name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.served |= handlers

    async def handle(self) -> None:
        while True:
            request = await self._channel.receive()
            if request.api == "SaslAuthenticate":
                try:
                    self.api.handle(request, cast(Any, request.body))
                except ApiError as error:
                    self._fail(request, error)
                continue
            self.handled.append(request)
            if request.api == "Produce":
                request.complete(ProduceResponse())
            else:
                request.fail(HANDLED())

    async def call(self, api: str, context: Context, message: bytes = b"") -> bytes:
        """The answer, or the error raised."""
        context.incoming.put_nowait(message)
        try:
            return cast(bytes, await self.served[api].stream_unary(None, context))
        except grpc.aio.AbortError:
            assert context.refused is not None
            raise context.refused from None

    async def step(self, context: Context, mechanism: str, message: bytes) -> SaslAuthenticateResponse:
        asked = pb.SaslAuthenticateRequest(mechanism=mechanism, auth_bytes=message).SerializeToString()
        answer = pb.SaslAuthenticateResponse.FromString(await self.call("SaslAuthenticate", context, asked))
        return SaslAuthenticateResponse(answer.auth_bytes, answer.token, answer.session_lifetime_ms)

    async def log_in(
        self, user: str = "anna", mechanism: str = "SCRAM-SHA-256", port: int = PORT, token: str | None = None
    ) -> str:
        """The token."""
        client, name = MECHANISMS[mechanism].client(user, user, "nonceofclient"), mechanism
        message = client.respond()
        while message is not None:
            context = Context(port, None if token is None else f"Bearer {token}")
            answer = await self.step(context, name, message)
            message, name = client.respond(answer.auth_bytes), ""
        assert client.is_done and answer.session_lifetime_ms == LIFETIME_MS
        return answer.token


def run(scenario: Callable[[Bench], Awaitable[None]], *, has_sasl: bool = True) -> None:
    async def main() -> None:
        bench = Bench(has_sasl=has_sasl)
        handling = asyncio.ensure_future(bench.handle())
        await scenario(bench)
        handling.cancel()

    run_virtual(main())


CALLS = sorted(
    name for name, api in APIS.items() if api.kind.at_broker and name not in ("Produce", "Fetch", "SaslAuthenticate")
)


def test_these_apis_alone_come_before_a_log_in() -> None:
    assert [name for name, api in APIS.items() if api.before_authentication] == ["SaslAuthenticate"]


@pytest.mark.parametrize("api", CALLS)
@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer token-9", "token-1", "Basic YW5uYTphbm5h"])
def test_no_call_is_handled_without_a_session(api: str, header: str | None) -> None:
    async def scenario(bench: Bench) -> None:
        context = Context(authorization=header)
        with pytest.raises(AuthenticationRequiredError, match="username, password"):
            await bench.call(api, context, b"not even read")
        assert context.incoming.qsize() == 1, "the message would be in memory before its sender is known"
        assert not bench.handled and context.status is grpc.StatusCode.UNAUTHENTICATED

    run(scenario)


@pytest.mark.parametrize("api", ["Produce", "Fetch"])
def test_no_stream_is_opened_without_a_session(api: str) -> None:
    async def scenario(bench: Bench) -> None:
        context = Context(authorization="Bearer token-9")
        context.incoming.put_nowait(b"")
        with pytest.raises(grpc.aio.AbortError):
            await bench.served[api].stream_stream(None, context)
        assert isinstance(context.refused, AuthenticationRequiredError) and not bench.handlers.peers_with_streams()
        assert not bench.handled and context.incoming.qsize() == 1

    run(scenario)


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_whoever_has_logged_in_calls_as_that_user(mechanism: str) -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in("anna", mechanism)
        with pytest.raises(HANDLED):
            await bench.call("ListGroups", Context(authorization=f"Bearer {token}"))
        assert [request.caller.principal for request in bench.handled] == ["User:anna"]

    run(scenario)


def test_a_token_is_of_no_use_by_another_connection() -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in()
        for elsewhere in (Context(PORT + 1, f"Bearer {token}"), Context(PORT, f"Bearer {token}", host="10.0.0.2")):
            with pytest.raises(AuthenticationRequiredError, match="has none of one that is open here"):
                await bench.call("Metadata", elsewhere)
        assert not bench.handled

    run(scenario)


def test_a_session_ends_with_its_time() -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in()
        await asyncio.sleep(LIFETIME_MS / 1000)
        with pytest.raises(AuthenticationRequiredError, match="has none of one that is open here"):
            await bench.call("Metadata", Context(authorization=f"Bearer {token}"))
        assert await bench.log_in() != token

    run(scenario)


def produced(number: int) -> bytes:
    return pb.ProduceRequest(correlation_id=number).SerializeToString()


async def stream(bench: Bench, token: str) -> tuple[Context, asyncio.Future[Any]]:
    context = Context(authorization=f"Bearer {token}")
    return context, asyncio.ensure_future(bench.served["Produce"].stream_stream(None, context))


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_a_stream_ends_with_the_session_after_the_answers_to_what_came_before() -> None:
    async def scenario(bench: Bench) -> None:
        context, served = await stream(bench, await bench.log_in())
        context.incoming.put_nowait(produced(1))
        await asyncio.sleep(LIFETIME_MS / 1000 - 1)
        context.incoming.put_nowait(produced(2))
        await settle()
        await asyncio.sleep(1)
        context.incoming.put_nowait(produced(3))
        await asyncio.gather(served, return_exceptions=True)
        assert [answer.correlation_id for answer in context.answers] == [1, 2]
        assert isinstance(context.refused, AuthenticationRequiredError)
        assert [request.correlation_id for request in bench.handled] == [1, 2], "the third one was not handled"

    run(scenario)


def test_a_session_renewed_in_time_keeps_its_token_and_its_streams() -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in()
        context, served = await stream(bench, token)
        for number in range(3):
            await asyncio.sleep(LIFETIME_MS / 1000 - 1)
            assert await bench.log_in(token=token) == token
            context.incoming.put_nowait(produced(number))
            await settle()
        context.incoming.put_nowait(grpc.aio.EOF)
        await served
        assert len(context.answers) == 3 and context.refused is None
        assert bench.counts.statistics()["OUTSIDE"].renewed == 3

    run(scenario)


def test_a_session_cannot_be_renewed_by_another_user_and_is_the_first_ones_still() -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in("anna")
        with pytest.raises(SaslAuthenticationFailedError, match="User:anna's, and cannot become User:bert's"):
            await bench.log_in("bert", token=token)
        with pytest.raises(HANDLED):
            await bench.call("Metadata", Context(authorization=f"Bearer {token}"))
        assert bench.handled[0].caller.principal == "User:anna"

    run(scenario)


def test_another_user_without_the_token_takes_the_connection_over_and_the_first_ones_streams_end() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.log_in("anna")
        context, served = await stream(bench, first)
        await settle()
        second = await bench.log_in("bert")
        with pytest.raises(AuthenticationRequiredError):
            await bench.call("Metadata", Context(authorization=f"Bearer {first}"))
        context.incoming.put_nowait(produced(1))
        await asyncio.gather(served, return_exceptions=True)
        assert isinstance(context.refused, AuthenticationRequiredError) and not bench.handled
        with pytest.raises(HANDLED):
            await bench.call("Metadata", Context(authorization=f"Bearer {second}"))
        assert bench.handled[0].caller.principal == "User:bert"

    run(scenario)


def test_a_session_is_over_when_its_connection_is() -> None:
    async def scenario(bench: Bench) -> None:
        token = await bench.log_in()
        await asyncio.sleep(1)
        now_ms = cast(VirtualTimeLoop, asyncio.get_running_loop()).now_ms()
        bench.handlers.looked([Endpoint("10.0.0.1", PORT + 1)], now_ms)
        with pytest.raises(AuthenticationRequiredError):
            await bench.call("Metadata", Context(authorization=f"Bearer {token}"))
        assert len(bench.sessions) == 0

    run(scenario)


STEPS: list[tuple[list[tuple[str, bytes]], type[ApiError], str]] = [
    ([("", b"anything")], IllegalSaslStateError, "no authentication under way"),
    ([("GSSAPI", b"")], UnsupportedSaslMechanismError, "it has SCRAM-SHA-256"),
    ([("SCRAM-SHA-256", b"")], SaslAuthenticationFailedError, "authentication failed"),
    ([("PLAIN", b"\0anna\0wrong")], SaslAuthenticationFailedError, "wrong"),
    ([("PLAIN", b"\0anna\0anna"), ("", b"more")], IllegalSaslStateError, "begin one by naming a mechanism"),
    ([("SCRAM-SHA-512", b"n,,n=anna,r=abcdef"), ("", b"c=biws,r=abcdef,p=")], SaslAuthenticationFailedError, "failed"),
    ([("SCRAM-SHA-512", b"n,,n=anna,r=abcdef"), ("GSSAPI", b""), ("", b"x")], UnsupportedSaslMechanismError, "GSSAPI"),
]


@pytest.mark.parametrize(("steps", "error", "words"), STEPS)
def test_a_dialogue_that_goes_wrong_has_a_typed_error_and_no_session(
    steps: list[tuple[str, bytes]], error: type[ApiError], words: str
) -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(error, match=words):
            for mechanism, message in steps:
                await bench.step(Context(), mechanism, message)
        with pytest.raises(AuthenticationRequiredError):
            await bench.call("Metadata", Context())
        with pytest.raises(IllegalSaslStateError):
            await bench.step(Context(), "", b"a dialogue is over with its first error")

    run(scenario)


def test_a_dialogue_goes_on_by_its_own_connection_only() -> None:
    async def scenario(bench: Bench) -> None:
        client = MECHANISMS["SCRAM-SHA-256"].client("anna", "anna", "nonceofclient")
        answer = await bench.step(Context(), "SCRAM-SHA-256", cast(bytes, client.respond()))
        last = cast(bytes, client.respond(answer.auth_bytes))
        with pytest.raises(IllegalSaslStateError):
            await bench.step(Context(PORT + 1), "", last)
        assert (await bench.step(Context(), "", last)).token
        with pytest.raises(IllegalSaslStateError):
            await bench.step(Context(), "", last)

    run(scenario)


def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(ApiError, match="SaslAuthenticate"):
            await bench.step(Context(), "PLAIN", b"x" * 25_000)

    run(scenario)


def test_a_listener_without_sasl_says_so_to_who_logs_in_and_asks_nobody_else() -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(IllegalSaslStateError, match="connect without them"):
            await bench.step(Context(), "PLAIN", b"\0anna\0anna")
        with pytest.raises(HANDLED):
            await bench.call("Metadata", Context(authorization="Bearer of another"))
        assert bench.handled[0].caller.principal == "User:ANONYMOUS"

    run(scenario, has_sasl=False)


def test_a_token_of_an_issuer_that_does_not_count_is_a_typed_error_at_once() -> None:
    """Without the step of RFC 7628 in which a client only says that it has understood."""

    async def scenario(bench: Bench) -> None:
        for _ in range(2):
            message = MECHANISMS["OAUTHBEARER"].client("", "eve", "").respond() or b""
            with pytest.raises(SaslAuthenticationFailedError, match="the token has expired"):
                await bench.step(Context(), "OAUTHBEARER", message)
            with pytest.raises(IllegalSaslStateError):
                await bench.step(Context(), "", b"\x01")
        assert bench.counts.statistics()["OUTSIDE"].failed == 2 and not len(bench.sessions)

    run(scenario)


def test_metadata_is_looked_at_only_by_a_connection_that_has_a_session_and_much_of_it_ends_that() -> None:
    looked: list[int] = []

    class Many(Context):
        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            looked.append(1)
            return (("a", ""),) * (METADATA_MAX + 1)

    sessions = Sessions(9, lambda: "token")
    callers = SessionCallers("OUTSIDE", sessions, lambda: 0)
    with pytest.raises(AuthenticationRequiredError):
        callers.caller(cast(Any, Many()), APIS["Metadata"])
    assert not looked
    sessions.begin(CallerPlace("OUTSIDE", Endpoint("10.0.0.1", PORT)), "User:anna", 0, 0)
    with pytest.raises(EndsConnection, match="a call has 1001 metadata"):
        callers.caller(cast(Any, Many()), APIS["Metadata"])
