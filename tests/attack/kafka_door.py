"""Every API of Kafka's protocol in every version that is served, asked by who has not logged in, and by who has no
rights; and in plain text."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from broker.kafka.api_row import ApiRow
from broker.kafka.api_rows import SERVED
from broker.kafka.schemas.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopicRequest,
)
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from broker.kafka_codec.codec import encode
from broker.kafka_codec.structs import facts_of
from penstock.client.wire.login import Login
from penstock.testing.ports import HOST
from tests.attack.requests import FAR_PARTITION, Names
from tests.attack.stage import MALLORY, MALLORYS, MEMBER, MEMBERS, PARTITIONS, Stage
from tests.attack.verdict import CODES, HOLE, LOGIN, OLD, TLS, TOLD, Outcome, Table, of_own_group
from tests.support.filled_requests import Named, codes, filled, placed
from tests.support.kafka_socket import KafkaSocket

PRODUCE, HANDSHAKE, API_VERSIONS, AUTHENTICATE, PAGES = 0, 17, 18, 36, 75
USERS: Final = {"no-rights": (MALLORY, MALLORYS), "no-topics": (MEMBER, MEMBERS)}
"""The attackers that log in."""
TOLD_TO_ALL: Final = {16, API_VERSIONS, 60, 66, 71, 72}
"""ListGroups, ApiVersions, DescribeCluster, ListTransactions leave out what their caller may not know; which metrics a
client shall push, and its push, are its own affair (71, 72)."""
NO_PLACE: Final = {(35, 1), (35, 2)}
"""DescribeLogDirs in versions whose answer has no place for an error: it has no log dir."""
OLD_PRODUCE: Final = {(0, version) for version in range(3)}
"""Refused unseen for the format of their records."""
GIVEN: Final[dict[int, dict[str, Any]]] = {
    22: {"transactional_id": None},
    0: {"transactional_id": None, "acks": 1},
    17: {"mechanism": "SCRAM-SHA-256"},
}


def attack(stage: Stage, table: Table, *, every_version: bool) -> None:
    """All attackers, one after the other."""
    address = f"{HOST}:{stage.ports.kafka}"
    secure = ssl.create_default_context(cadata=stage.ca.decode())
    for name, tls in (("nobody", secure), ("no-rights", secure), ("no-topics", secure), ("plaintext", None)):
        door = _Door(address, tls, name)
        try:
            for row in (one.row for one in SERVED):
                is_every = every_version and name in USERS  # others are refused before a version counts
                first = row.versions[0] if is_every else row.versions[1]
                for version in range(first, row.versions[1] + 1):
                    _ask(stage, table, door, row, version)
            if name in USERS:
                _pages(stage, table, door)
        finally:
            door.close()


def _ask(stage: Stage, table: Table, door: _Door, row: ApiRow, version: int) -> None:
    if door.name in USERS and row.key in (HANDSHAKE, AUTHENTICATE):
        return  # it has logged in by them
    if door.name == "no-topics" and not _names_a_topic(row, version):
        return  # it may do that
    outcomes = {}
    for variant, names, partition in (
        ("there", stage.names, 0),
        ("missing", stage.missing, 0),
        ("there far", stage.names, FAR_PARTITION),
        ("missing far", stage.missing, FAR_PARTITION),
    ):
        if door.name == "no-topics":
            names = names.with_own_group()
        outcome = door.outcome(row, version, _body(row, version, names, partition))
        outcomes[variant] = of_own_group(outcome) if door.name == "no-topics" else outcome
        if door.tls is None or (door.name == "nobody" and variant == "missing"):
            break
    if row.key != PRODUCE and door.name == "no-rights":  # without acks it has no answer
        outcomes["empty"] = door.outcome(row, version, row.request())
    may_be_told = row.key in (API_VERSIONS, HANDSHAKE) or (
        door.name in USERS and (row.key in TOLD_TO_ALL or (row.key, version) in NO_PLACE)
    )
    table.judge(f"KAFKA {row.key} {row.name}", door.name, outcomes, stage.secrets, may_be_told=may_be_told)


def _body(row: ApiRow, version: int, names: Names, partition: int) -> Any:
    named = Named(names.topic, names.topic_id, names.group, names.transactional_id, GIVEN)
    body = placed(filled(row.request, version, named, row.key), partition)
    for field, value in GIVEN.get(row.key, {}).items():
        setattr(body, field, value)
    return body


def _names_a_topic(row: ApiRow, version: int) -> bool:
    return _has_topics(row.request, version)


def _has_topics(kind: type, version: int) -> bool:
    return any(
        "topic" in name
        or name == "resource_name"
        or (isinstance(place.element, type) and _has_topics(place.element, version))
        for name, place in facts_of(kind).fields
        if version in place.versions
    )


def _pages(stage: Stage, table: Table, door: _Door) -> None:
    """A page's end tells nothing of the topics on it."""
    rows = {one.row.key: one.row for one in SERVED}
    for limit in range(1, PARTITIONS + 2):
        outcomes = {}
        for variant, names in (("there", stage.names), ("missing", stage.missing)):
            topics = [DescribeTopicPartitionsRequestTopicRequest(name=name) for name in (names.topic, "zz")]
            body = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)
            outcomes[variant] = door.outcome(rows[PAGES], 0, body)
        table.judge(f"KAFKA {PAGES} {rows[PAGES].name}", door.name, outcomes, stage.secrets, may_be_told=False)


class _Door:
    """One attacker's connection, made anew when the node has closed it."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, name: str) -> None:
        self.address, self.tls, self.name = address, tls, name
        self._connection: KafkaSocket | None = None

    def outcome(self, row: ApiRow, version: int, body: Any) -> Outcome:
        try:
            if self._connection is None:
                self._connection = KafkaSocket(self.address, self.tls)
                if self.name in USERS:
                    log_in(self._connection, *USERS[self.name])
            answer = self._connection.ask(body, version, row.response)
        except (OSError, ssl.SSLError, ValueError) as error:
            is_new = self._connection is not None
            self.close()
            if self.tls is None:
                return Outcome(TLS)
            kind = LOGIN if is_new and self.name == "nobody" else HOLE
            return Outcome(kind, b"", repr(error) if kind == HOLE else "")
        if self.name == "nobody":
            self.close()  # the next call is the first one of its connection, too
        answer = placed(answer, 0)  # it echoes the partition that was asked for
        received = b"".join(bytes(part) for part in encode(answer, version))
        told = sorted({code for code in codes(answer) if code})
        if (row.key, version) in OLD_PRODUCE and told:
            return Outcome(OLD, received)
        if not told:
            return Outcome(TOLD, received)
        return Outcome(min({CODES.get(code, HOLE) for code in told}), received, f"codes {told}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.__exit__(None, None, None)
            self._connection = None


def log_in(connection: KafkaSocket, user: str, password: str) -> list[bytes]:
    """The messages of the client's half; ConnectionRefusedError with the words of a refusal."""
    connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse)
    half, sent = Login(user, password, "SCRAM-SHA-256").dialogue(), list[bytes]()
    message = half.respond(None)
    while message is not None:
        sent.append(message)
        answer = connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
        if answer.error_code:
            raise ConnectionRefusedError(f"{answer.error_code}: {answer.error_message}")
        message = half.respond(bytes(answer.auth_bytes))
    return sent


def from_elsewhere(address: tuple[str, int], source: str, tls: ssl.SSLContext) -> KafkaSocket:
    """A connection whose near end is another address of this machine."""
    found = object.__new__(KafkaSocket)
    plain = socket.create_connection(address, 10, (source, 0))
    found._connection = tls.wrap_socket(plain, server_hostname=HOST)
    found._number = 0
    return found
