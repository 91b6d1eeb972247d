"""Tokens that do not count, shown at both doors (OAUTHBEARER): forged, unsigned, of another time, for others, and huge.

Each is shown on a connection of its own, which asks for the topics after that: it must be nobody's still. They would be
the administrator's if they counted. A token that counts is shown, too: what refuses everything has refused nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc.aio

from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from broker.kafka_codec.codec import encode
from penstock.messages.client_apis import METADATA
from penstock.sasl.oauthbearer import MESSAGE_BYTES_MAX, NAME, REFUSAL, TOKEN_BYTES_MAX
from penstock.testing.ports import HOST
from tests.attack import grpc_door, kafka_door
from tests.attack.stage import ADMIN, MALLORY, Stage
from tests.attack.verdict import CODES, HOLE, LARGE, LOGIN, TOLD, Outcome, Table
from tests.fuzz_live.surface import all_methods
from tests.support.issuer import Issuer, ec_key, rsa_key

ATTACKER: Final = "bad-token"
SOURCE: Final = "127.0.0.3"
"""The address of who shows them at Kafka's door."""
AT_A_TIME: Final = 8
"""Half of what an address may have under way."""
FRAME: Final = 2 << 20
HOUR_S, SOON_S = 3_600, 600
INVALID_REQUEST: Final = 42
"""The error for a request over its limit."""


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _message(token: str, acts_as: str = "") -> bytes:
    as_whom = f"a={acts_as}" if acts_as else ""
    return f"n,{as_whom},\x01auth=Bearer {token}\x01\x01".encode()


def bad_messages(issuer: Issuer) -> dict[str, bytes]:
    """By what is wrong with each."""
    now_s, stranger = int(time.time()), rsa_key("stranger")
    real = issuer.keys[-1]
    times = {"iat": now_s, "exp": now_s + SOON_S}
    good = issuer.token(sub=MALLORY, **times)
    claims = json.dumps(issuer.claims(sub=ADMIN, **times)).encode()
    header, _, signature = good.split(".")

    def headed(**fields: Any) -> str:
        return f"{_encoded(json.dumps({'typ': 'JWT', **fields}).encode())}.{_encoded(claims)}"

    def signed(**changed: Any) -> str:
        return issuer.token(**({"sub": ADMIN} | times | changed))

    by_public_key = headed(alg="HS256", kid=real.kid)
    mac = hmac.digest(real.as_pem(private=False), by_public_key.encode(), hashlib.sha256)
    own_key = {"kid": None, "jwk": stranger.as_dict(private=False)}
    own_place = {"jku": "https://127.0.0.1:1/keys"}
    tokens = {
        "signed by another key": issuer.token({"kid": real.kid}, stranger, sub=ADMIN, **times),
        "of a key nobody knows": issuer.token(None, ec_key("nowhere"), sub=ADMIN, **times),
        "with a key of its own": issuer.token(own_key, stranger, sub=ADMIN, **times),
        "with a place for keys": issuer.token({**own_place, "kid": "there"}, stranger, sub=ADMIN, **times),
        "alg none": f"{headed(alg='none')}.",
        "alg none, signed": f"{headed(alg='none')}.{signature}",
        "alg HS256 by the public key": f"{by_public_key}.{_encoded(mac)}",
        "changed after signing": f"{header}.{_encoded(claims)}.{signature}",
        "signed with zeros": f"{headed(alg='RS256', kid=real.kid)}.{_encoded(bytes(256))}",
        "encrypted": f"{_encoded(b'{}')}.a.b.c.d",
        "expired": signed(iat=now_s - 2 * HOUR_S, exp=now_s - HOUR_S),
        "not valid yet": signed(nbf=now_s + HOUR_S, exp=now_s + 2 * HOUR_S),
        "without an end": signed(exp=None),
        "for another audience": signed(aud="another"),
        "for nobody": signed(aud=None),
        "of another issuer": signed(iss="https://another.example"),
        "of no user": signed(sub=None),
        "deep": f"{_encoded(b'[' * 8_000)}.{_encoded(claims)}.{signature}",
        "as large as may be": f"{'a' * (TOKEN_BYTES_MAX - len(good) - 1)}.{good}"[:TOKEN_BYTES_MAX],
        "larger, and well signed": signed(groups=["group"] * 2_000),
        "no token": "",
    }
    messages = {what: _message(token) for what, token in tokens.items()}
    messages["to act as another"] = _message(good, ADMIN)
    messages["without a form"] = b"\x00" * 100
    messages["as large as a frame"] = _message("a" * (60 << 10))
    messages["larger than a frame"] = _message("a" * FRAME)
    return messages


def attack(stage: Stage, table: Table) -> tuple[str, list[str]]:
    """A line of what was tried, and what a good token did not get; the other holes are the table's."""
    messages = bad_messages(stage.issuer)
    good = _message(stage.issuer.token(sub=MALLORY, iat=int(time.time()), exp=int(time.time()) + SOON_S))
    asyncio.run(_at_grpcs_door(stage, table, messages))
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        found = list(threads.map(lambda message: _at_kafkas_door(stage, message), messages.values()))
    _judge(stage, table, "KAFKA", dict(zip(messages, found, strict=True)))
    counts = {"KAFKA": _at_kafkas_door(stage, good), "BROKER": asyncio.run(_one_at_grpcs_door(stage, good))}
    refused = [door for door, (shown, *_) in counts.items() if shown.kind != TOLD]
    longest = max(map(len, messages.values()))
    line = (
        f"tokens: {len(messages)} that do not count, of up to {longest:,} bytes, at each door; one that counts logs in"
    )
    return line, [f"{door}: a token that counts was refused: the others prove nothing" for door in refused]


def _judge(stage: Stage, table: Table, door: str, found: Mapping[str, list[Outcome]]) -> None:
    """Judges each token, and the call after it."""
    for what, outcomes in found.items():
        for outcome in outcomes:
            row = f"{door} {NAME}: {what}"
            table.judge(row, ATTACKER, {"there": outcome}, stage.secrets, may_be_told=False)


def _sized(message: bytes, outcome: Outcome, is_for_size: bool) -> Outcome:
    """One that is larger than a message may be is refused unread, which is no log-in that failed."""
    is_large = len(message) > MESSAGE_BYTES_MAX and is_for_size
    return Outcome(LARGE, outcome.received, outcome.why) if is_large else outcome


# -- gRPC's door -------------------------------------------------------------------------------------------------------


async def _at_grpcs_door(stage: Stage, table: Table, messages: Mapping[str, bytes]) -> None:
    places = asyncio.Semaphore(AT_A_TIME)

    async def shown(message: bytes) -> list[Outcome]:
        async with places:
            return await _one_at_grpcs_door(stage, message)

    found = await asyncio.gather(*(shown(message) for message in messages.values()))
    _judge(stage, table, "BROKER", dict(zip(messages, found, strict=True)))


async def _one_at_grpcs_door(stage: Stage, message: bytes) -> list[Outcome]:
    methods = {method.path: method for method in all_methods()}
    request: Any = methods[grpc_door.SASL].new_request()
    request.mechanism, request.auth_bytes = NAME, message
    channel: grpc.aio.Channel = grpc_door.channel_to(stage, "BROKER", grpc_door.Attacker("", ()))
    try:
        told = await grpc_door.ask(channel, methods[grpc_door.SASL], request.SerializeToString(), [])
        is_for_size = any(words in told.why for words in (f" {INVALID_REQUEST} ", "RESOURCE_EXHAUSTED", "UNAVAILABLE"))
        after = await grpc_door.ask(channel, methods[METADATA.method], b"", [])
        return [_sized(message, told, is_for_size), after]
    finally:
        await channel.close()


# -- Kafka's -----------------------------------------------------------------------------------------------------------


def _at_kafkas_door(stage: Stage, message: bytes) -> list[Outcome]:
    """A refusal has two steps there (RFC 7628): the attacker takes the second one, and then leaves it out."""
    return [outcome for takes_it in (True, False) for outcome in _shown_to_kafka(stage, message, takes_it)]


def _shown_to_kafka(stage: Stage, message: bytes, takes_second_step: bool) -> list[Outcome]:
    tls = ssl.create_default_context(cadata=stage.ca.decode())
    with kafka_door.from_elsewhere((HOST, stage.ports.kafka), SOURCE, tls) as connection:
        found = []
        try:
            connection.ask(SaslHandshakeRequest(mechanism=NAME), 1, SaslHandshakeResponse)
            answer = connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
            if takes_second_step and bytes(answer.auth_bytes) == REFUSAL:
                answer = connection.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2, SaslAuthenticateResponse)
            found.append(_told(answer))
        except OSError as error:
            found.append(_sized(message, Outcome(HOLE, b"", repr(error)), is_for_size=True))
        try:
            topics = connection.ask(MetadataRequest(topics=None), 12, MetadataResponse)
            found.append(Outcome(TOLD, repr(topics).encode()))
        except OSError:
            found.append(Outcome(LOGIN))
        return found


def _told(answer: SaslAuthenticateResponse) -> Outcome:
    received, code = b"".join(bytes(part) for part in encode(answer, 2)), answer.error_code
    if code or bytes(answer.auth_bytes) != REFUSAL:
        return Outcome(CODES.get(code, HOLE) if code else TOLD, received, f"code {code}: {answer.error_message}")
    return Outcome(LOGIN, received)
