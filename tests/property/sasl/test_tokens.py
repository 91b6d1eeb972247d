"""Whatever a stranger sends as a token, and an issuer as keys, is taken or refused with the one error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.authentication.tokens.ports import TokenSettings
from broker.authentication.tokens.token_check import check_token
from penstock.errors import ConfigError
from penstock.sasl.oauthbearer import OAuthBearerClient, is_token, read_message
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import read_key_set
from tests.support.amount import usually
from tests.support.issuer import AUDIENCE, ISSUER, Issuer

HERE = Issuer()
TOKEN = HERE.token()
KEYS = read_key_set(HERE.key_set)
WANTED = TokenSettings("file:///keys", (AUDIENCE,), ISSUER, "sub", "scope", 30_000)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.sampled_from(
    [
        b"n,,",
        b"n,a=b,",
        b"\x01",
        b"\x01\x01",
        b"auth=",
        b"Bearer ",
        b"auth=Bearer t",
        b"k=v",
        b"=",
        b"\0",
        b"\xff",
        b",",
    ]
)


@given(st.binary(max_size=80) | st.lists(PARTS, max_size=8).map(b"".join))
@settings(max_examples=usually(75, long=300), deadline=None)
def test_a_message_has_a_token_or_is_refused(message: bytes) -> None:
    try:
        _, token = read_message(message)
    except SaslRefusedError as refusal:
        assert len(str(refusal)) < 200
    else:
        assert is_token(token)


@given(st.from_regex(r"[A-Za-z0-9._~+/-]+=*", fullmatch=True))
@settings(max_examples=usually(25, long=100), deadline=None)
def test_every_token_comes_through_a_message(token: str) -> None:
    assert read_message(OAuthBearerClient(token).respond() or b"") == ("", token)


@given(
    st.text(max_size=60) | st.lists(st.sampled_from([*TOKEN.split("."), ".", "e30", "A", "="]), max_size=6).map("".join)
)
@settings(max_examples=usually(75, long=300), deadline=None)
def test_no_text_but_the_token_counts(text: str) -> None:
    if text == TOKEN:
        return
    with pytest.raises(SaslRefusedError):
        check_token(text, KEYS, WANTED, HERE.now_s * 1_000)


@given(st.integers(0, len(TOKEN) - 3), st.sampled_from("Aa0_-.~"))
@settings(max_examples=usually(75, long=300), deadline=None)
def test_a_token_with_one_other_character_does_not_count(at: int, character: str) -> None:
    """But in the last two: bits of them are not used."""
    if TOKEN[at] != character:
        with pytest.raises(SaslRefusedError):
            check_token(TOKEN[:at] + character + TOKEN[at + 1 :], KEYS, WANTED, HERE.now_s * 1_000)


@given(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "scope", "validate", "x"]), JSON)
@settings(max_examples=usually(50, long=200), deadline=None)
def test_any_claim_is_taken_or_refused(name: str, value: Any) -> None:
    try:
        owner = check_token(HERE.token(**{name: value}), KEYS, WANTED, HERE.now_s * 1_000)
    except SaslRefusedError as refusal:
        assert len(str(refusal)) < 300
    else:
        assert owner.username and owner.ends_ms > (HERE.now_s - 30) * 1_000


@given(st.dictionaries(st.sampled_from(["kty", "kid", "alg", "use", "key_ops", "n", "e", "crv", "x", "y"]), JSON))
@settings(max_examples=usually(50, long=200), deadline=None)
def test_any_key_is_taken_or_refused(changed: dict[str, Any]) -> None:
    key = dict(HERE.keys[0].as_dict(private=False)) | changed
    try:
        assert len(read_key_set(json.dumps({"keys": [key]}).encode())) == 1
    except ConfigError as refusal:
        assert len(str(refusal)) < 400
