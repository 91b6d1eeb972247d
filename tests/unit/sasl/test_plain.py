"""PLAIN, and the table of mechanisms."""

from __future__ import annotations

import pytest

from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS
from penstock.sasl.plain import PlainClient, PlainServer
from penstock.sasl.refusal import SaslRefusedError
from penstock.sasl.scram import WRONG


class Alice:
    """Her password is secret; she has a credential for one mechanism."""

    def __init__(self, has: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> None:
        self._has = has

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        if mechanism is self._has and username == "alice":
            return ScramCredential.of_password(mechanism, "secret", b"salt", 4096)
        return ScramCredential.stand_in(mechanism, username, b"the cluster's")


@pytest.mark.parametrize("has", ScramMechanism)
def test_the_password_of_whichever_mechanism_is_taken(has: ScramMechanism) -> None:
    server, client = PlainServer(Alice(has)), PlainClient("alice", "secret")
    assert client.respond(server.respond(client.respond() or b"")) is None
    assert client.is_done and server.is_done and server.username == "alice"


MESSAGES = [
    (b"\0alice\0wrong", WRONG),
    (b"\0nobody\0secret", WRONG),
    (b"bob\0alice\0secret", "another user"),
    (b"alice\0secret", "three texts"),
    (b"\0alice\0secret\0", "three texts"),
    (b"\0\0secret", "three texts"),
    (b"\0alice\0", "three texts"),
    (b"", "three texts"),
    (b"\0alice\0\xff", "UTF-8"),
    (b"\0" + b"a" * 513 + b"\0secret", "at most 512"),
    (b"\0alice\0" + b"a" * 1025, "password 1024"),
    (b"\0alice\0" + b"a" * 5000, "too long"),
]


@pytest.mark.parametrize(("message", "why"), MESSAGES)
def test_other_messages_are_refused(message: bytes, why: str) -> None:
    server = PlainServer(Alice())
    with pytest.raises(SaslRefusedError, match=why):
        server.respond(message)
    with pytest.raises(SaslRefusedError, match="over"):
        server.respond(b"\0alice\0secret")
    assert not server.is_done


def test_a_client_takes_no_answer_but_success() -> None:
    client = PlainClient("alice", "secret")
    with pytest.raises(SaslRefusedError):
        PlainClient("alice", "secret").respond(b"")
    client.respond()
    with pytest.raises(SaslRefusedError):
        client.respond(b"more")
    assert repr(client) == "PlainClient(done: False)"


@pytest.mark.parametrize("name", [name for name, row in MECHANISMS.items() if not row.takes_token])
def test_each_row_makes_both_halves_of_one_dialogue(name: str) -> None:
    row = MECHANISMS[name]
    client, server = row.client("alice", "secret", "cn"), row.server(Alice(), "sn")
    if name == "SCRAM-SHA-512":
        server = row.server(Alice(ScramMechanism.SCRAM_SHA_512), "sn")
    message = client.respond()
    assert (b"secret" in (message or b"")) == row.needs_tls
    while message is not None:
        message = client.respond(server.respond(message))
    assert client.is_done and server.is_done and server.username == "alice"
