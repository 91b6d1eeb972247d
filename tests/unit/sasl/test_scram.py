"""SCRAM by the examples of its RFCs, against another implementation, and with each message wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from aiokafka.conn import ScramAuthenticator

from penstock.sasl.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from penstock.sasl.refusal import SaslRefusedError
from penstock.sasl.scram import WRONG, ScramClient, ScramServer

SECRET = b"the cluster's"
SALT = b"salt of the user"


class Users:
    """Users with their passwords."""

    def __init__(self, iterations: int = ITERATIONS_MIN, **passwords: str) -> None:
        self._passwords, self._iterations = passwords, iterations

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        if username not in self._passwords:
            return ScramCredential.stand_in(mechanism, username, SECRET)
        return ScramCredential.of_password(mechanism, self._passwords[username], SALT, self._iterations)


class Sha1:
    """The hash of RFC 5802's example, which nobody uses any more."""

    sasl_name = "SCRAM-SHA-1"

    def hashed(self, data: bytes) -> bytes:
        return hashlib.sha1(data).digest()

    def keyed(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, "sha1")

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        return hashlib.pbkdf2_hmac("sha1", password.encode(), salt, iterations)


class OneSalt:
    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        assert username == "user"
        return ScramCredential.of_password(mechanism, "pencil", self._salt, 4096)


@pytest.mark.parametrize(
    ("mechanism", "nonces", "salt", "proof", "signature"),
    [
        (
            Sha1(),
            ("fyko+d2lbbFgONRv9qkxdawL", "3rfcNHYJY1ZVvWVs7j"),
            "QSXCR+Q6sek8bf92",
            "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        ),
        (
            ScramMechanism.SCRAM_SHA_256,
            ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
    ],
    ids=["RFC 5802", "RFC 7677"],
)
def test_the_examples_of_the_rfcs(
    mechanism: ScramMechanism, nonces: tuple[str, str], salt: str, proof: str, signature: str
) -> None:
    client = ScramClient(mechanism, "user", "pencil", nonces[0])
    server = ScramServer(mechanism, OneSalt(base64.b64decode(salt)), nonces[1])
    first = client.respond()
    assert first == f"n,,n=user,r={nonces[0]}".encode()
    challenge = server.respond(first)
    assert challenge == f"r={nonces[0]}{nonces[1]},s={salt},i=4096".encode()
    final = client.respond(challenge)
    assert final == f"c=biws,r={nonces[0]}{nonces[1]},p={proof}".encode()
    end = server.respond(final)
    assert end == f"v={signature}".encode()
    assert client.respond(end) is None
    assert client.is_done and server.is_done and server.username == "user"


def talk(client: ScramClient, server: ScramServer) -> None:
    message = client.respond()
    while message is not None:
        message = client.respond(server.respond(message))


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "Ünï…codé", "x" * 512])
def test_any_name_and_password_log_in(mechanism: ScramMechanism, name: str) -> None:
    password = f"p,=ä {name[:100]}"
    client, server = (
        ScramClient(mechanism, name, password, "cn"),
        ScramServer(mechanism, Users(**{name: password}), "sn"),
    )
    talk(client, server)
    assert client.is_done and server.is_done and server.username == name


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_client_that_others_wrote_logs_in(mechanism: ScramMechanism) -> None:
    server = ScramServer(mechanism, Users(8192, **{"a,b": "secret"}), "sn")
    client = ScramAuthenticator(
        loop=None, sasl_plain_password="secret", sasl_plain_username="a,b", sasl_mechanism=mechanism.sasl_name
    )
    client.process_server_first_message(server.respond(client.first_message().encode()).decode())
    client.process_server_final_message(server.respond(client.final_message().encode()).decode())
    assert server.is_done


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(mechanism: ScramMechanism) -> None:
    for name in ("alice", "nobody"):
        server = ScramServer(mechanism, Users(alice="right"), "sn")
        with pytest.raises(SaslRefusedError, match=f"^{WRONG}$"):
            talk(ScramClient(mechanism, name, "guess", "cn"), server)
        assert not server.is_done
        with pytest.raises(SaslRefusedError, match="over"):
            server.respond(b"n,,n=alice,r=x")


def test_a_stand_in_is_the_same_each_time_and_another_for_each_user_and_cluster() -> None:
    def salt(name: str, secret: bytes, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> bytes:
        return ScramCredential.stand_in(mechanism, name, secret).salt

    assert salt("a", b"1") == salt("a", b"1")
    assert len({salt("a", b"1"), salt("b", b"1"), salt("a", b"2"), salt("a", b"1", ScramMechanism.SCRAM_SHA_512)}) == 4


def test_no_secret_is_shown() -> None:
    credential = ScramCredential.of_password(ScramMechanism.SCRAM_SHA_256, "pw-secret", SALT, 4096)
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "pw-secret", "cn")
    assert repr(credential) == ("ScramCredential(mechanism=<ScramMechanism.SCRAM_SHA_256: 1>, iterations=4096)")
    assert repr(client) == "ScramClient(SCRAM-SHA-256, done: False)"


FIRST = [
    (b"", "begins with"),
    (b"n,,", "begins with"),
    (b"n,,n=alice", "begins with"),
    (b"n,n=alice,r=abc", "begins with"),
    (b"x,,n=alice,r=abc", "begins with"),
    (b"p=tls-unique,,n=alice,r=abc", "channel binding"),
    (b"n,a=bob,n=alice,r=abc", "another user"),
    (b"n,,r=abc,n=alice", "where n= must be"),
    (b"n,,n=,r=abc", "where n= must be"),
    (b"n,,n=alice,r=", "where r= must be"),
    (b"n,,n=alice,x=abc", "where r= must be"),
    (b"n,,n=alice,r=a\x7fb", "nonce"),
    (b"n,,n=a=b,r=abc", "written =3D"),
    (b"n,,n=a=2cb,r=abc", "written =3D"),
    (b"n,,m=x,n=alice,r=abc", "extension"),
    (b"n,,n=alice,r=abc,m=x", "extension"),
    (b"n,,n=alice,r=abc,tokenauth=true", "delegation tokens"),
    (b"n,,n=\xff,r=abc", "UTF-8"),
    (b"n,,n=al\x00ice,r=abc", "zero byte"),
    (b"n,,n=" + b"a" * 513 + b",r=abc", "at most 512"),
    (b"n,,n=alice,r=" + b"a" * 9000, "at most 8192"),
]


@pytest.mark.parametrize(("message", "why"), FIRST)
def test_a_client_that_begins_wrongly_is_refused(message: bytes, why: str) -> None:
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, Users(alice="pw"), "sn")
    with pytest.raises(SaslRefusedError, match=why):
        server.respond(message)


def test_who_could_bind_to_a_channel_and_what_extends_are_taken() -> None:
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, Users(alice="pw"), "sn")
    assert server.respond(b"y,a=alice,n=alice,r=abc,x=more").startswith(b"r=abcsn,")


def test_an_old_librdkafka_which_repeats_its_nonce_is_told_of_its_mistake() -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "pw", "cn")
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, Users(alice="pw"), "sn")
    final = client.respond(server.respond(client.respond() or b"")) or b""
    with pytest.raises(SaslRefusedError, match=r"librdkafka before 2\.6\.1 sends such; take a newer"):
        server.respond(final.replace(b"r=cnsn", b"r=cncnsn"))


def changed(name: str) -> Callable[[bytes], bytes]:
    return {
        "another nonce": lambda m: m.replace(b"r=cnsn", b"r=cnsX"),
        "another binding": lambda m: m.replace(b"c=biws", b"c=eSws"),
        "no proof": lambda m: m.rpartition(b",")[0],
        "an empty proof": lambda m: m.rpartition(b"=")[0][:-43] + b",p=",
        "a short proof": lambda m: m.rpartition(b",")[0] + b",p=AAAA",
        "a changed proof": lambda m: m.rpartition(b",")[0] + b",p=" + base64.b64encode(bytes(32)),
        "not base64": lambda m: m.rpartition(b",")[0] + b",p=!!!!",
        "an extension that must be": lambda m: m.replace(b",p=", b",m=1,p="),
        "a binding that is not ASCII": lambda m: m.replace(b"c=biws", b"c=/w=="),
        "the first message again": lambda m: b"n,,n=alice,r=cn",
        "nothing": lambda m: b"",
    }[name]


LAST = [
    "another nonce",
    "another binding",
    "no proof",
    "an empty proof",
    "a short proof",
    "a changed proof",
    "not base64",
    "an extension that must be",
    "a binding that is not ASCII",
    "the first message again",
    "nothing",
]


@pytest.mark.parametrize("how", LAST)
def test_a_client_that_ends_wrongly_is_refused(how: str) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "pw", "cn")
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, Users(alice="pw"), "sn")
    final = client.respond(server.respond(client.respond() or b""))
    assert final is not None
    with pytest.raises(SaslRefusedError):
        server.respond(changed(how)(final))
    assert not server.is_done
    with pytest.raises(SaslRefusedError, match="over"):
        server.respond(final)


SERVER_FIRST = [
    (b"", "first message is"),
    (b"r=cn,s=c2FsdA==,i=4096", "another dialogue"),
    (b"r=other,s=c2FsdA==,i=4096", "another dialogue"),
    (b"r=cnsn,s=c2FsdA==", "first message is"),
    (b"r=cnsn,s=,i=4096", "where s="),
    (b"r=cnsn,s=!,i=4096", "base64"),
    (b"r=cnsn,s=c2FsdA==,i=0", "iterations"),
    (b"r=cnsn,s=c2FsdA==,i=1", "from 4096"),
    (b"r=cnsn,s=c2FsdA==,i=99999999", "from 4096"),
    (b"r=cnsn,s=c2FsdA==,i=9999999999", "iterations"),
    (b"m=x,r=cnsn,s=c2FsdA==,i=4096", "extension"),
    (b"e=other-error", "refused the log-in: other-error"),
]


@pytest.mark.parametrize(("challenge", "why"), SERVER_FIRST)
def test_a_server_that_challenges_wrongly_is_refused(challenge: bytes, why: str) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "pw", "cn")
    client.respond()
    with pytest.raises(SaslRefusedError, match=why):
        client.respond(challenge)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "has not proved"),
        (b"v=", "where v="),
        (b"", "where v="),
        (b"e=invalid-proof", "invalid-proof"),
    ],
)
def test_a_server_that_does_not_know_the_user_is_refused(end: bytes, why: str) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "pw", "cn")
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, Users(alice="pw"), "sn")
    client.respond(server.respond(client.respond() or b""))
    with pytest.raises(SaslRefusedError, match=why):
        client.respond(end)
    assert not client.is_done
