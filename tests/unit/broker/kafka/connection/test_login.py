"""Promises of a connection to a listener with SASL: it is nobody until it has proved who it is, and then that user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from broker.authentication.authentication import Authentication
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import LoginListener, Logins
from broker.authentication.sessions import Sessions
from broker.connections.listener_limits import ListenerLimits
from broker.kafka.apis.authentication import sasl
from broker.kafka.apis.authentication.sasl import BYTES_MAX
from broker.kafka.connection import served_connection
from broker.kafka.connection.login import FRAME_MS_MAX, LOGIN_MS_MAX
from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.metadata import MetadataResponse
from broker.kafka.schemas.produce import ProduceRequest
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from broker.network.client_names import OTHERS
from broker.network.request_channel import Request
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS, SaslClient
from penstock.sasl.oauthbearer import REFUSAL
from penstock.sasl.refusal import SaslRefusedError
from penstock.sasl.scram import WRONG
from tests.support.kafka_listener import (
    LIMITS,
    VERSION,
    FarSide,
    ListenerBench,
    answer_in,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)
from tests.support.kafka_plans import parts_of
from tests.support.kafka_rows import rows_over
from tests.support.tokens import NamedTokens

SHA_256, SHA_512, PLAIN, OAUTHBEARER = MECHANISMS
REAUTH_MS = 60_000


@pytest.fixture(autouse=True)
def ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_connection, "FAREWELL_SECONDS", 0.0)


class Users:
    """The password of each is her name backwards."""

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        if username not in ("anna", "bob"):
            return ScramCredential.stand_in(mechanism, username, b"secret")
        return ScramCredential.of_password(mechanism, username[::-1], b"salt", 4096)


def authentication(lifetime_ms: int = 0, *, is_tls: bool = False, delay_ms: int = 0) -> Authentication:
    counts = AuthenticationCounts()
    logins = Logins(Users(), lambda: "nonce-of-node", ThreadPoolExecutor(1), counts, delay_ms, tokens=NamedTokens())
    listener = LoginListener("KAFKA", tuple(MECHANISMS), is_tls)
    sessions = Sessions(10, lambda: "token")
    return Authentication(
        {"KAFKA": listener}, lambda dialogue: dialogue.ends_ms or lifetime_ms, logins, sessions, counts
    )


class Client:
    """A client at its end of a connection."""

    def __init__(self, bench: ListenerBench, far: FarSide) -> None:
        self.bench, self.far = bench, far
        self._number = self._read = 0

    async def ask(self, request: object, version: int, answer: type[Any]) -> Any:
        """The answer; None if the connection ended without one."""
        self._number += 1
        self.far.send(frame(request, version, self._number))
        for _ in range(400):
            await self.bench.settle()
            if len(self.far.frames()) > self._read:
                break
            if self.far.is_closed:
                return None
            await asyncio.sleep(0.001)
        number, found = answer_in(self.far.frames()[self._read], answer, version)
        self._read += 1
        assert number == self._number
        await self.bench.settle()
        return found

    async def handshake(self, mechanism: str = SHA_256, version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)

    async def step(self, data: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=data), version, SaslAuthenticateResponse)

    async def log_in(self, user: str = "anna", password: str = "anna"[::-1], mechanism: str = SHA_256) -> Any:
        """The last answer."""
        await self.handshake(mechanism)
        half: SaslClient = MECHANISMS[mechanism].client(user, password, "nonce-of-client")
        message, answer = half.respond(), None
        while message is not None:
            answer = await self.step(message)
            if answer is None or answer.error_code:
                return answer
            message = half.respond(bytes(answer.auth_bytes))
        return answer

    async def is_served(self) -> bool:
        self._number += 1
        before = len(self.far.frames())
        self.far.send(metadata(self._number, "t"))
        await self.bench.settle()
        self._read = len(self.far.frames())
        return self._read > before


def scenario(
    work: Callable[[Client], Awaitable[None]],
    given: Authentication | None = None,
    handle: Callable[[Request], None] | None = None,
    limits: ListenerLimits = LIMITS,
) -> ListenerBench:
    """With a connection to a listener with SASL."""
    made: list[ListenerBench] = []

    async def main() -> ListenerBench:
        bench = await bench_of(
            handle, rows=rows_over(parts_of(), sasl), authentication=given or authentication(), limits=limits
        )
        made.append(bench)
        far = bench.connect()
        await work(Client(bench, far))
        if not far.is_closed:
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(main)
    return made[0]


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_whoever_proves_it_is_that_user_from_then_on(mechanism: str) -> None:
    principals: list[str] = []

    def handle(request: Request) -> None:
        principals.append(request.caller.principal)
        request.complete(request.body)

    async def work(client: Client) -> None:
        answer = await client.log_in("bob", "bob"[::-1], mechanism)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        assert await client.is_served()

    given = authentication()
    scenario(work, given, handle)
    assert principals == ["User:bob"]
    assert given.counts.statistics()["KAFKA"].succeeded == 1


def test_a_listener_without_sasl_says_so_and_serves_on() -> None:
    async def work(bench: ListenerBench) -> None:
        client = Client(bench, bench.connect())
        answer = await client.handshake()
        assert (answer.error_code, answer.mechanisms) == (34, [])
        answer = await client.step(b"n,,n=anna,r=x")
        assert answer.error_code == 34 and "no SASL" in answer.error_message
        assert await client.is_served()
        client.far.reset()
        await bench.settle()

    async def main() -> ListenerBench:
        bench = await bench_of(rows=rows_over(parts_of(), sasl))
        await work(bench)
        return bench

    run_to_the_end(main)


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_nothing_is_served_before(begun: int, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[object] = []

    async def work(client: Client) -> None:
        if begun:
            await client.handshake()
        if begun > 1:
            await client.step(b"n,,n=anna,r=x")
        assert not await client.is_served()
        assert client.far.is_closed

    with caplog.at_level(logging.WARNING):
        scenario(work, handle=lambda request: asked.append(request))
    assert asked == []
    assert "Metadata before it has logged in; this listener has SASL (SCRAM-SHA-256, SCRAM-SHA-512)" in caplog.text


def test_a_produce_without_an_answer_is_not_taken_either() -> None:
    asked: list[object] = []

    async def work(client: Client) -> None:
        client.far.send(frame(ProduceRequest(acks=0), 9, 1))
        await client.bench.settle()
        assert client.far.is_closed

    scenario(work, handle=lambda request: asked.append(request))
    assert asked == []


def test_what_the_node_serves_may_be_asked_before() -> None:
    async def work(client: Client) -> None:
        asked = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        answer = await client.ask(asked, 3, ApiVersionsResponse)
        ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        assert ranges[17] == (0, 1) and ranges[36] == (0, 2)
        assert (await client.log_in()).error_code == 0

    scenario(work)


@pytest.mark.parametrize(("user", "password"), [("anna", "wrong"), ("nobody", "x"), ("", "x")])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answer_and_the_end(user: str, password: str) -> None:
    async def work(client: Client) -> None:
        if not user:
            await client.handshake()
            answer = await client.step(b"rubbish")
        else:
            answer = await client.log_in(user, password)
            assert WRONG in answer.error_message
        assert answer.error_code == 58
        assert client.far.is_closed

    given = authentication()
    scenario(work, given)
    assert given.counts.statistics()["KAFKA"].failed == 1


def test_a_mechanism_that_there_is_not_is_named_with_those_that_there_are() -> None:
    async def work(client: Client) -> None:
        answer = await client.handshake("GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (33, [SHA_256, SHA_512])
        assert client.far.is_closed

    scenario(work)


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_password_is_shown_over_tls_alone(is_tls: bool) -> None:
    async def work(client: Client) -> None:
        answer = await client.handshake(PLAIN)
        assert (PLAIN in answer.mechanisms) == is_tls
        if is_tls:
            assert (await client.step(b"\0bob\0bib")).error_code == 58

    scenario(work, authentication(is_tls=is_tls))


def test_plain_logs_in_over_tls() -> None:
    async def work(client: Client) -> None:
        assert (await client.log_in(mechanism=PLAIN)).error_code == 0
        assert await client.is_served()

    scenario(work, authentication(is_tls=True))


def test_messages_come_after_a_mechanism() -> None:
    async def work(client: Client) -> None:
        answer = await client.step(b"n,,n=anna,r=x")
        assert answer.error_code == 34
        assert client.far.is_closed

    scenario(work)


def test_an_older_handshake_is_answered_and_not_served() -> None:
    async def work(client: Client) -> None:
        assert (await client.handshake(version=0)).error_code == 35

    scenario(work)


def test_a_connection_logs_in_again_before_its_time_is_over() -> None:
    async def work(client: Client) -> None:
        clock = client.bench.clock
        answer = await client.log_in()
        assert answer.session_lifetime_ms == REAUTH_MS
        clock.advance(REAUTH_MS - 1)
        assert await client.is_served()
        assert (await client.log_in()).session_lifetime_ms == REAUTH_MS
        clock.advance(REAUTH_MS - 1)
        assert await client.is_served()
        clock.advance(1)
        assert not await client.is_served()
        assert client.far.is_closed

    given = authentication(REAUTH_MS)
    scenario(work, given)
    found = given.counts.statistics()["KAFKA"]
    assert (found.succeeded, found.renewed) == (2, 1)


def test_a_connection_whose_time_is_over_may_still_log_in_again() -> None:
    async def work(client: Client) -> None:
        await client.log_in()
        client.bench.clock.advance(2 * REAUTH_MS)
        assert (await client.log_in()).error_code == 0
        assert await client.is_served()

    scenario(work, authentication(REAUTH_MS))


def test_a_connection_stays_the_user_that_it_is() -> None:
    async def work(client: Client) -> None:
        await client.log_in()
        answer = await client.log_in("bob", "bob"[::-1])
        assert answer.error_code == 58 and "User:anna" in answer.error_message
        assert client.far.is_closed

    scenario(work)


def test_a_connection_keeps_its_mechanism() -> None:
    async def work(client: Client) -> None:
        await client.log_in()
        assert (await client.handshake(SHA_512)).error_code == 34
        assert client.far.is_closed

    scenario(work)


def test_nothing_more_is_served_after_a_failed_renewal_not_even_what_was_sent_with_it() -> None:
    asked: list[str] = []

    def handle(request: Request) -> None:
        asked.append(request.api)
        request.complete(request.body)

    async def work(client: Client) -> None:
        await client.log_in()
        await client.handshake()
        client.far.send(frame(SaslAuthenticateRequest(auth_bytes=b"rubbish"), 2, 99) + metadata(100, "t"))
        await client.bench.settle()
        await client.bench.settle()
        assert client.far.is_closed

    scenario(work, handle=handle)
    assert asked == []


def test_requests_are_small_before_the_log_in_and_may_be_large_after_it() -> None:
    async def work(client: Client) -> None:
        client.far.send((BYTES_MAX + 1).to_bytes(4, "big"))
        await client.bench.settle()
        assert client.far.is_closed
        other = Client(client.bench, client.bench.connect(port=4712))
        await other.log_in()
        other.far.send(metadata(9, *["x" * 30_000] * 3))
        await client.bench.settle()
        await client.bench.settle()
        number, found = answer_in(other.far.frames()[-1], MetadataResponse, VERSION)
        assert (number, found.cluster_id) == (9, "x" * 30_000)
        other.far.reset()
        await client.bench.settle()

    scenario(work)


def test_what_strangers_send_takes_no_room_of_users() -> None:
    """Frames of strangers that are half there, more of them than there is room for."""

    async def work(client: Client) -> None:
        bench = client.bench
        users, strangers = bench.service.client_requests, bench.service.requests_before_log_in
        half = BYTES_MAX.to_bytes(4, "big") + bytes(BYTES_MAX // 2)
        room = strangers.small.statistics().bytes_max
        many = [bench.connect("10.0.0.2", port) for port in range(90)]
        for far in many:
            far.send(half)
        await bench.settle()
        assert room / 4 < strangers.statistics().used_bytes <= room / 2
        assert users.statistics().used_bytes == users.statistics().waiting == 0
        await client.log_in()
        assert await client.is_served(), "a log-in waits for no stranger of another network"
        for far in (*many, client.far):
            far.reset()
        await bench.settle()

    scenario(work, limits=replace(LIMITS, connections_max=100, connections_max_per_ip=100))


def test_frames_of_a_stranger_that_never_end_keep_nobody_behind_its_address_from_a_log_in() -> None:
    async def work(client: Client) -> None:
        bench = client.bench
        announced = BYTES_MAX.to_bytes(4, "big") + bytes(2_200)
        many = [bench.connect(port=port) for port in range(1, 41)]
        for far in many:
            far.send(announced)
        await bench.settle()
        assert bench.service.requests_before_log_in.statistics().waiting, "the network has its share of announcements"
        assert (await client.log_in()).error_code == 0 and await client.is_served()
        for far in (*many, client.far):
            far.reset()
        await bench.settle()

    scenario(work, limits=replace(LIMITS, connections_max=100, connections_max_per_ip=100))


def test_a_request_before_a_log_in_has_a_few_seconds_to_be_whole() -> None:
    async def work(client: Client) -> None:
        bench, user = client.bench, Client(client.bench, client.bench.connect(port=4712))
        await user.log_in()
        size, sent = 60_000, 10_000
        for far in (client.far, user.far):
            far.send(size.to_bytes(4, "big") + bytes(sent))
        await bench.settle()
        bench.clock.advance(FRAME_MS_MAX)
        bench.listener.sweep(bench.clock.now_ms())
        assert not client.far.is_closed
        bench.clock.advance(1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert not user.far.is_closed, "whoever has logged in may be slow"
        assert client.far.is_closed and client.far.is_cut, "TLS's farewell would keep its memory for seconds more"
        user.far.reset()
        await bench.settle()

    scenario(work)


def test_whoever_has_logged_in_is_not_cut_for_strangers() -> None:
    limits = replace(LIMITS, connections_max=8, connections_max_per_ip=8)

    async def work(client: Client) -> None:
        bench = client.bench
        await client.log_in()
        strangers = [bench.connect("10.0.0.9", port) for port in range(20)]
        strangers += [bench.connect(f"10.0.1.{network}") for network in range(8)]
        await bench.settle()
        assert not client.far.is_closed and sum(not far.is_closed for far in strangers) == 7
        for far in strangers:
            if not far.is_closed:
                far.reset()
        await bench.settle()

    scenario(work, limits=limits)


def test_who_does_not_log_in_is_closed_in_the_end() -> None:
    async def work(client: Client) -> None:
        bench = client.bench
        other = Client(bench, bench.connect(port=4712))
        await other.log_in()
        bench.clock.advance(LOGIN_MS_MAX)
        bench.listener.sweep(bench.clock.now_ms())
        assert not client.far.is_closed
        bench.clock.advance(1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert client.far.is_closed and not other.far.is_closed
        other.far.reset()
        await bench.settle()

    scenario(work)


def test_a_refusal_is_held_back_and_holds_up_nobody_else() -> None:
    async def work(client: Client) -> None:
        bench = client.bench
        await client.handshake()
        client.far.send(frame(SaslAuthenticateRequest(auth_bytes=b"rubbish"), 2, 7))
        await bench.settle()
        other = Client(bench, bench.connect(port=4712))
        assert (await other.log_in()).error_code == 0
        assert len(client.far.frames()) == 1
        async with asyncio.timeout(5):
            await client.bench.ends(client.far)
        assert len(client.far.frames()) == 2
        other.far.reset()
        await bench.settle()

    scenario(work, authentication(delay_ms=1_000))


def test_a_client_that_is_gone_meanwhile_leaves_nothing() -> None:
    given = authentication(delay_ms=60_000)

    async def work(client: Client) -> None:
        await client.handshake()
        client.far.send(frame(SaslAuthenticateRequest(auth_bytes=b"rubbish"), 2, 7))
        await client.bench.settle()
        assert len(given.logins.attempts) == 1 and given.counts.statistics()["KAFKA"].failed == 1
        client.far.reset()
        await client.bench.settle()
        assert not len(given.logins.attempts), "its place is given back before the delay is over"

    scenario(work, given)


def test_the_node_proves_that_it_knows_the_user() -> None:
    half = MECHANISMS[SHA_256].client("anna", "other", "nonce-of-client")

    async def work(client: Client) -> None:
        await client.handshake()
        first = half.respond()
        assert first is not None
        challenge = (await client.step(first)).auth_bytes
        half.respond(bytes(challenge))
        with pytest.raises(SaslRefusedError):
            half.respond(b"v=AAAA")

    scenario(work)


def test_answers_of_all_versions_have_what_the_version_has() -> None:
    async def work(client: Client) -> None:
        for version in (0, 1, 2):
            await client.handshake()
            answer = await client.step(b"n,,n=anna,r=x", version)
            assert bytes(answer.auth_bytes).startswith(b"r=xnonce-of-node,s=")

    scenario(work)


def test_a_token_logs_in_for_as_long_as_it_counts_and_a_newer_one_again() -> None:
    async def work(client: Client) -> None:
        clock = client.bench.clock
        for _ in range(2):
            answer = await client.log_in("", "anna", OAUTHBEARER)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, 5_000)
            clock.advance(4_999)
            assert await client.is_served()
        clock.advance(1)
        assert not await client.is_served()

    given = authentication(REAUTH_MS, is_tls=True)
    scenario(work, given)
    assert given.counts.statistics()["KAFKA"].renewed == 1


def test_a_token_that_does_not_count_is_refused_in_two_steps() -> None:
    """RFC 7628, 3.2.2: first the mechanism's own words, then, when the client has answered, the error."""

    async def work(client: Client) -> None:
        await client.handshake(OAUTHBEARER)
        half = MECHANISMS[OAUTHBEARER].client("", "eve", "")
        answer = await client.step(half.respond() or b"")
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, REFUSAL)
        answer = await client.step(half.respond(REFUSAL) or b"")
        assert answer.error_code == 58 and "the token has expired" in answer.error_message
        assert client.far.is_closed

    given = authentication(is_tls=True)
    scenario(work, given)
    assert given.counts.statistics()["KAFKA"].failed == 1, "once, not twice"


@pytest.mark.parametrize("before", ["", "anna"])
def test_a_client_that_was_refused_can_do_nothing_else(before: str) -> None:
    async def refused(client: Client) -> None:
        if before:
            assert (await client.log_in("", before, OAUTHBEARER)).error_code == 0
        await client.handshake(OAUTHBEARER)
        await client.step(MECHANISMS[OAUTHBEARER].client("", "eve", "").respond() or b"")

    async def asks(client: Client) -> None:
        await refused(client)
        assert not await client.is_served()
        assert client.far.is_closed

    async def begins_anew(client: Client) -> None:
        await refused(client)
        assert (await client.handshake(OAUTHBEARER)).error_code == 58
        assert client.far.is_closed

    scenario(asks, authentication(is_tls=True))
    scenario(begins_anew, authentication(is_tls=True))


def test_a_token_of_another_user_does_not_renew() -> None:
    async def work(client: Client) -> None:
        assert (await client.log_in("", "anna", OAUTHBEARER)).error_code == 0
        answer = await client.log_in("", "bob", OAUTHBEARER)
        assert answer.error_code == 58 and client.far.is_closed

    scenario(work, authentication(is_tls=True))


def test_nobody_is_named_in_the_metrics_before_the_log_in_and_whoever_has_logged_in_is() -> None:
    async def work(client: Client) -> None:
        names = client.bench.service.names

        def named() -> set[str]:
            software = {name for (name, _), count in names.software.statistics().items() if count}
            return software | {one.name for one in names.statistics() if one.streams}

        request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.0")
        await client.ask(request, 3, ApiVersionsResponse)
        await client.handshake()
        assert named() == {OTHERS}
        await client.log_in()
        assert await client.is_served()
        assert "librdkafka" in named() and OTHERS not in named() and len(named()) == 2

    scenario(work)
