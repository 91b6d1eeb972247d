"""Both halves of each mechanism take any bytes: they answer, or refuse with their one error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS
from penstock.sasl.refusal import SaslRefusedError
from tests.support.amount import usually


class Nobody:
    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        return ScramCredential.stand_in(mechanism, username, b"secret")


PARTS = st.sampled_from([b"n", b"y", b"p=", b"n=", b"r=", b"cnsn", b"cn", b"s=", b"i=", b"4096", b"c=", b"biws", b"v=",
                         b"e=", b"m=", b",", b"=", b"=2C", b"\0", b"QQ==", b"alice", b"\xff"])  # fmt: skip
MESSAGES = st.one_of(st.binary(max_size=64), st.lists(PARTS, max_size=12).map(b"".join))


@pytest.mark.parametrize("name", MECHANISMS)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=3))
@settings(max_examples=usually(15, long=60), deadline=None)
def test_no_bytes_log_in_or_raise_anything_else(name: str, messages: list[bytes]) -> None:
    server, client = MECHANISMS[name].server(Nobody(), "sn"), MECHANISMS[name].client("alice", "pw", "cn")
    client.respond()
    for message in messages:
        with contextlib.suppress(SaslRefusedError):
            server.respond(message)
        with contextlib.suppress(SaslRefusedError):
            client.respond(message)
        assert not server.is_done
    assert not client.is_done or MECHANISMS[name].needs_tls  # whose servers prove nothing


TEXTS = st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text)


@pytest.mark.parametrize("name", [name for name, row in MECHANISMS.items() if not row.takes_token])
@given(user=TEXTS, password=TEXTS, given_password=TEXTS)
@settings(max_examples=12, deadline=None)
def test_exactly_the_right_password_logs_in(name: str, user: str, password: str, given_password: str) -> None:
    class One:
        def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
            if username != user:
                return ScramCredential.stand_in(mechanism, username, b"secret")
            return ScramCredential.of_password(mechanism, password, b"salt", 4096)

    for tried in (password, given_password):
        client, server = MECHANISMS[name].client(user, tried, "cn"), MECHANISMS[name].server(One(), "sn")
        message = client.respond()
        try:
            while message is not None:
                message = client.respond(server.respond(message))
        except SaslRefusedError:
            assert tried != password
        assert server.is_done == (tried == password)
