"""Both halves of OAUTHBEARER: RFC 7628's messages, and no text with a token."""

from __future__ import annotations

import pytest

from penstock.sasl.oauthbearer import (
    KEYS_MAX,
    MESSAGE_BYTES_MAX,
    REFUSAL,
    TOKEN_BYTES_MAX,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenOwner,
    UnknownKeyError,
    is_token,
    read_message,
)
from penstock.sasl.refusal import SaslRefusedError

TOKEN = "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl"
PLAIN_MESSAGE = b"n,,\x01auth=Bearer " + TOKEN.encode() + b"\x01\x01"


def check(token: str) -> TokenOwner:
    if token != TOKEN:
        raise SaslRefusedError("not this one")
    return TokenOwner("anna", 123)


def test_a_token_that_counts_logs_in_with_one_message() -> None:
    client, server = OAuthBearerClient(TOKEN), OAuthBearerServer(check)
    message = client.respond()
    assert message == PLAIN_MESSAGE
    answer = server.respond(message)
    assert answer == b"" and server.is_done and (server.username, server.ends_ms) == ("anna", 123)
    assert client.respond(answer) is None and client.is_done
    assert TOKEN not in repr(client) + repr(server)


def test_a_client_that_is_refused_says_the_last_word_and_is_not_done() -> None:
    client = OAuthBearerClient(TOKEN)
    client.respond()
    assert client.respond(REFUSAL) == b"\x01" and not client.is_done
    with pytest.raises(SaslRefusedError, match="not its turn"):
        client.respond(b"")
    with pytest.raises(SaslRefusedError, match="not its turn"):
        OAuthBearerClient(TOKEN).respond(b"")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (PLAIN_MESSAGE, ("", TOKEN)),
        (b"n,a=anna,\x01host=h\x01port=9092\x01auth=Bearer t0.t-k~+/==\x01\x01", ("anna", "t0.t-k~+/==")),
        (b"n,a=a=2Cb=3Dc,\x01auth=bearer t\x01\x01", ("a,b=c", "t")),
        (b"y,,\x01traceId=1 2 3\x01auth=Bearer   t\x01\x01", ("", "t")),
        (b"n,a=,\x01auth=Bearer t\x01logicalCluster=lkc-1\x01\x01", ("", "t")),
    ],
)
def test_messages_of_other_clients(message: bytes, found: tuple[str, str]) -> None:
    assert read_message(message) == found


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        PLAIN_MESSAGE[:-1],
        PLAIN_MESSAGE + b"\x01",
        PLAIN_MESSAGE + b"x",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer \xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer t\xff\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01key-1=v\x01auth=Bearer t\x01\x01",
        b"n,,\x01key=\x00\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer " + b"t" * (TOKEN_BYTES_MAX + 1) + b"\x01\x01",
        b"n,,\x01" + b"".join(b"a%s=\x01" % (b"b" * n) for n in range(KEYS_MAX)) + b"auth=Bearer t\x01\x01",
        b"x" * (MESSAGE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    server = OAuthBearerServer(check)
    with pytest.raises(SaslRefusedError):
        server.respond(message)
    assert not server.is_done
    with pytest.raises(SaslRefusedError, match="the dialogue is over"):
        server.respond(PLAIN_MESSAGE)


def test_nobody_acts_as_another_user() -> None:
    same = OAuthBearerServer(check)
    same.respond(PLAIN_MESSAGE.replace(b"n,,", b"n,a=anna,"))
    assert same.is_done
    other = OAuthBearerServer(check)
    with pytest.raises(SaslRefusedError, match="another user"):
        other.respond(PLAIN_MESSAGE.replace(b"n,,", b"n,a=bert,"))
    assert not other.is_done and other.username == ""


def test_a_message_is_judged_again_once_its_key_is_known() -> None:
    known: list[str] = []

    def later(token: str) -> TokenOwner:
        if not known:
            raise UnknownKeyError("not yet")
        return TokenOwner("anna", 123)

    server = OAuthBearerServer(later)
    with pytest.raises(UnknownKeyError):
        server.respond(PLAIN_MESSAGE)
    known.append(TOKEN)
    server.respond(PLAIN_MESSAGE)
    assert server.is_done


@pytest.mark.parametrize("text", ["", "a b", "a\n", "ä", "a=b", "x" * (TOKEN_BYTES_MAX + 1)])
def test_no_token(text: str) -> None:
    assert not is_token(text)
