"""A signature counts by a key that is published, and by no word of the token's own."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sasl.oauthbearer import UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import read_key_set
from penstock.tokens.signed_token import header_of, verified_claims
from tests.support.issuer import Issuer, ec_key

HERE = Issuer(ec_key("first"))
KEYS = read_key_set(HERE.key_set)


def claims_of(token: str) -> dict[str, Any]:
    return verified_claims(token, header_of(token), KEYS)


def test_the_claims_are_those_that_were_signed() -> None:
    assert claims_of(HERE.token(nonce="n")) == HERE.claims(nonce="n")


def test_a_key_that_is_not_published_may_be_known_later_and_a_forged_one_never() -> None:
    with pytest.raises(UnknownKeyError, match="second"):
        claims_of(Issuer(ec_key("second")).token())
    with pytest.raises(SaslRefusedError, match="signature is not that of the key"):
        claims_of(HERE.token(key=ec_key("second"), headers={"kid": "first"}))
    head, body, signature = HERE.token().split(".")
    for forged in (f"{head}.{body}x.{signature}", f"{head}.{body}.{signature[:-4]}AAAA", f"{head}.{body}"):
        with pytest.raises(SaslRefusedError):
            claims_of(forged)
