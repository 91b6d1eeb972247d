"""Every RPC of every gRPC listener, asked by each attacker. An attacker is its credentials and its token."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from cryptography.x509 import UniformResourceIdentifier as URI
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from broker.grpc.refused_calls import OF_CONNECTION_MAX, OF_NETWORK_MAX, WINDOW_MS
from penstock.certs.authority import Authority
from penstock.certs.node_identity import NodeIdentity
from penstock.client.wire.login import Login
from penstock.messages.apis import APIS
from penstock.testing.ports import HOST
from penstock.wire.error_trailer import ERROR_CODE_KEY
from tests.attack.requests import placed, requests_of
from tests.attack.stage import MALLORY, MALLORYS, MEMBER, MEMBERS, Stage
from tests.attack.verdict import CODES, HOLE, NO_SUCH, RIGHTS, SENDER, TLS, TOLD, Outcome, Table, of_own_group
from tests.fuzz_live.surface import Method, all_methods
from tests.support.certificates import general_name, key_and_chain

ANSWER_S: Final = 20.0
HOLDERS: Final = {"BROKER": ("Broker",), "INTERNAL": ("Replication",), "CONTROLLER": ("Quorum", "Controller")}
"""The services of each listener."""
SASL: Final = "/penstock.v1.Broker/SaslAuthenticate"
TOLD_TO_ALL: Final = {"Metadata", "DescribeCluster", "ListGroups", "ListTransactions"}
"""They leave out what their caller may not know, and refuse nothing as a whole."""
VOLATILE: Final = frozenset({"metadata_age_ms", "metadata_offset"})
"""Fields of answers that differ from one moment to the next."""
NOT_ATTEMPTED: Final = 55
"""OPERATION_NOT_ATTEMPTED: of the parts beside the one that was refused."""
CALLS_OF_CONNECTION = OF_CONNECTION_MAX * 3 // 4
SECONDS_A_CALL = WINDOW_MS / 1000 / OF_NETWORK_MAX * 4 / 3
_PLACES: dict[str, float] = {}
"""When the next call may be made at each listener, by the event loop's time."""
RACE, PAUSES_S = "INTERNAL None Internal error from Core", (0.0, 0.1, 0.5, 2.0)
"""The status of gRPC's own library for a write to a stream that the node is ending. Who waits before the first write
gets the node's."""
REFLECTION: Final = ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", b"\x3a\x01*")
HEALTH: Final = ("/grpc.health.v1.Health/Check", b"")


@dataclass(frozen=True)
class Attacker:
    """`listeners` are those where it is worth a call; `speaks` tells whether it asks a method there. Where
    `is_refused_unheard`, the connection or its token is refused, whatever it asks."""

    name: str
    listeners: tuple[str, ...]
    keystore: bytes | None = None
    is_plain: bool = False
    token: str = ""
    user: tuple[str, str] | None = None
    speaks: Callable[[Method], bool] = lambda method: True
    is_refused_unheard: bool = False


EVERYWHERE: Final = tuple(HOLDERS)
BETWEEN: Final = ("INTERNAL", "CONTROLLER")


def says_its_name(method: Method) -> bool:
    """A request between nodes names its sender; others are those that any node of the cluster may ask."""
    api = APIS[method.name]
    return method.service == "Broker" or (api.sender or api.replica_id) is not None


def names_a_topic(method: Method) -> bool:
    """A request about topics. The others do what their caller may, to a group of its own."""
    return method.service == "Broker" and _names_a_topic(method.request)


def _names_a_topic(message: Descriptor) -> bool:
    return any(
        "topic" in field.name
        or field.name == "resource_name"
        or (field.message_type and _names_a_topic(field.message_type))
        for field in message.fields
    )


def attackers(stage: Stage, stolen_token: str) -> list[Attacker]:
    other = Authority.create(stage.directory / "unknown-ca", stage.cluster.cluster_id)
    own = stage.signing()
    elsewhere, here = NodeIdentity("A" * 22, 0), NodeIdentity(stage.cluster.cluster_id, 0)
    foreign = own.leaf("node-0", [URI(elsewhere.uri), general_name(HOST)])
    expired = own.leaf("node-0", [URI(here.uri), general_name(HOST)], days=-2)
    two = own.leaf("node-0", [URI(here.uri), URI(NodeIdentity(here.cluster_id, 1).uri), general_name(HOST)])
    return [
        Attacker("nobody", EVERYWHERE),
        Attacker("no-rights", ("BROKER",), user=(MALLORY, MALLORYS)),
        Attacker("no-topics", ("BROKER",), user=(MEMBER, MEMBERS), speaks=names_a_topic),
        Attacker("forged-token", ("BROKER",), token=secrets.token_urlsafe(32), is_refused_unheard=True),
        Attacker("replayed-token", ("BROKER",), token=stolen_token, is_refused_unheard=True),
        Attacker("client-cert", EVERYWHERE, stage.client_certificate()),
        Attacker("other-CA", EVERYWHERE, stage.node_keystore(other, 0), is_refused_unheard=True),
        Attacker("other-cluster", EVERYWHERE, foreign, is_refused_unheard=True),
        Attacker("expired", BETWEEN, expired, is_refused_unheard=True),
        Attacker("two-names", BETWEEN, two, is_refused_unheard=True),
        Attacker("as-another", EVERYWHERE, stage.stolen(), speaks=says_its_name),
        Attacker("plaintext", EVERYWHERE, is_plain=True, is_refused_unheard=True),
    ]


def channel_to(stage: Stage, listener: str, attacker: Attacker) -> grpc.aio.Channel:
    address = f"{HOST}:{getattr(stage.ports, listener.lower())}"
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    if attacker.is_plain:
        return grpc.aio.insecure_channel(address, options=options)
    key, chain = key_and_chain(attacker.keystore) if attacker.keystore else (None, None)
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(stage.ca, key, chain), options=options)


async def log_in(channel: grpc.aio.Channel, user: str, password: str) -> str:
    """The token of a new session."""
    methods = {method.path: method for method in all_methods()}
    request = methods[SASL].new_request()
    half = Login(user, password, "SCRAM-SHA-256").dialogue()
    answer, mechanism, message = None, "SCRAM-SHA-256", half.respond(None)
    while message is not None:
        request = type(request)(mechanism=mechanism, auth_bytes=message)  # type: ignore[call-arg]
        raw = await channel.unary_unary(SASL)(request.SerializeToString(), timeout=ANSWER_S)
        answer, mechanism = methods[SASL].parse_response(raw), ""
        message = half.respond(answer.auth_bytes)  # type: ignore[attr-defined]
    return str(answer.token)  # type: ignore[union-attr]


@asynccontextmanager
async def token_of(stage: Stage, user: str, password: str) -> AsyncIterator[str]:
    """The token of a session which stays open."""
    channel = channel_to(stage, "BROKER", Attacker("", ()))
    try:
        yield await log_in(channel, user, password)
    finally:
        await channel.close()


async def attack(stage: Stage, table: Table, one_of: int) -> None:
    """Every attacker at every listener. Those that are refused unheard ask one of so many methods."""
    password = stage.who["password_file"]
    with open(password, encoding="utf-8") as file:  # noqa: ASYNC230 - nothing else runs here
        secret = file.read().strip()
    async with token_of(stage, "admin", secret) as stolen:
        for attacker in attackers(stage, stolen):
            methods = all_methods()[:: one_of if attacker.is_refused_unheard else 1]
            await asyncio.gather(*(_at(stage, table, attacker, listener, methods) for listener in attacker.listeners))


class _Line:
    """An attacker's way to a listener: a connection that is made anew before the node cuts it for what it refused."""

    def __init__(self, stage: Stage, listener: str, attacker: Attacker) -> None:
        self._stage, self._listener, self._attacker = stage, listener, attacker
        self._channel: grpc.aio.Channel | None = None
        self._metadata: list[tuple[str, str]] = []
        self._calls, self._places = 0, _PLACES

    async def next(self) -> tuple[grpc.aio.Channel, list[tuple[str, str]]]:
        """The channel and the metadata of the next call. A network has so many refused calls before it is cut."""
        loop, places = asyncio.get_running_loop(), self._places
        places[self._listener] = max(places.get(self._listener, 0.0) + SECONDS_A_CALL, loop.time())
        await asyncio.sleep(places[self._listener] - loop.time())
        self._calls += 1
        if self._channel is None or self._calls >= CALLS_OF_CONNECTION:
            await self.close()
            self._channel, self._calls = channel_to(self._stage, self._listener, self._attacker), 0
            token = self._attacker.token
            if self._attacker.user is not None:
                token = await log_in(self._channel, *self._attacker.user)
            self._metadata = [("authorization", f"Bearer {token}")] if token else []
        return self._channel, self._metadata

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


async def _at(stage: Stage, table: Table, attacker: Attacker, listener: str, methods: Sequence[Method]) -> None:
    line = _Line(stage, listener, attacker)
    try:
        for method in methods:
            is_served = method.service in HOLDERS[listener]
            if not attacker.speaks(method):
                continue
            outcomes = {}
            there, missing = stage.names, stage.missing
            if attacker.name == "no-topics":
                there, missing = there.with_own_group(), missing.with_own_group()
            for variant, raw in requests_of(method, there, missing):
                channel, metadata = await line.next()
                outcome = await ask(channel, method, raw, metadata)
                outcomes[variant] = of_own_group(outcome) if attacker.name == "no-topics" else outcome
                if not is_served:
                    break
            may_be_told = (attacker.user is not None and method.name in TOLD_TO_ALL) or method.path == SASL
            row = f"{listener} {method}" if is_served else f"{listener} (of another listener)"
            table.judge(row, attacker.name, outcomes, stage.secrets, may_be_told=may_be_told)
        for path, raw in (HEALTH, REFLECTION):
            channel, metadata = await line.next()
            outcome = await _raw(channel, path, raw, metadata, is_stream=path == REFLECTION[0])
            row = f"{listener} {path.split('.')[1]}"
            table.judge(row, attacker.name, {"there": outcome}, stage.secrets, may_be_told=True)
    finally:
        await line.close()


async def ask(channel: grpc.aio.Channel, method: Method, raw: bytes, metadata: list[tuple[str, str]]) -> Outcome:
    for pause_s in PAUSES_S:
        found = await _raw(channel, method.path, raw, metadata, is_stream=method.takes_stream, pause_s=pause_s)
        if not found.why.startswith(RACE):
            break
    if found.kind != TOLD:
        return found
    answer = method.parse_response(found.received)
    codes = set(_codes(answer))
    for name in VOLATILE & {field.name for field in answer.DESCRIPTOR.fields}:
        answer.ClearField(name)
    placed(answer, 0)  # it echoes the partition that was asked for
    received = answer.SerializeToString(deterministic=True)
    if not codes:
        return Outcome(TOLD, received)
    kinds = {CODES.get(code, HOLE) for code in codes - {NOT_ATTEMPTED} or codes}
    return Outcome(min(kinds), received, f"codes {sorted(codes)}")


async def _raw(
    channel: grpc.aio.Channel,
    path: str,
    raw: bytes,
    metadata: list[tuple[str, str]],
    *,
    is_stream: bool,
    pause_s: float = 0.0,
) -> Outcome:
    try:
        if not is_stream:
            return Outcome(TOLD, await channel.unary_unary(path)(raw, timeout=ANSWER_S, metadata=metadata))
    except grpc.aio.AioRpcError as error:
        return _refused(error.code(), error.details(), error.trailing_metadata())
    call = channel.stream_stream(path)(timeout=ANSWER_S, metadata=metadata)
    if pause_s:
        await asyncio.sleep(pause_s)
    try:
        await call.write(raw)
        answer = await call.read()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        answer = grpc.aio.EOF  # a write to a call that was refused has no status of its own
    if answer is grpc.aio.EOF:
        return _refused(await call.code(), await call.details(), await call.trailing_metadata())
    call.cancel()
    return Outcome(TOLD, answer)


def _refused(status: grpc.StatusCode, words: str | None, trailing: Any) -> Outcome:
    details, trailer = words or "", dict(trailing or ())
    code = trailer.get(ERROR_CODE_KEY)
    received, why = details.encode(), f"{status.name} {code} {details[:200]}"
    if code is not None:
        kind = CODES.get(int(code), HOLE)
        is_of_nodes = "certificate" in details or "nodes of cluster" in details
        return Outcome(SENDER if kind == RIGHTS and is_of_nodes else kind, received, why)
    if status is grpc.StatusCode.UNAVAILABLE:
        return Outcome(TLS, b"", why)  # the library's own words have times and addresses
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return Outcome(NO_SUCH, received, why)
    return Outcome(HOLE, received, why)


def _codes(message: Message) -> list[int]:
    """The codes of all errors in an answer."""
    found: list[int] = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else [value]:
            found += [one.code] if field.message_type.name == "Error" and one.code else _codes(one)
    return found
