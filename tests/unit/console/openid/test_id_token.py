"""An ID token counts for its audience, from its issuer, and now; the clocks may differ a little."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.console.openid.errors import OpenIdRefusedError
from penstock.console.openid.id_token import SKEW_S, PersonOfToken, check_id_token
from penstock.console.settings import OpenIdSettings
from penstock.sasl.oauthbearer import UnknownKeyError
from penstock.tokens.key_set import read_key_set
from tests.support.issuer import HOUR_S, ISSUER, Issuer, ec_key, rsa_key

HERE = Issuer(rsa_key("rsa"), ec_key("first"))
SETTINGS = OpenIdSettings(issuer=ISSUER, client_id="console")
KEYS = read_key_set(HERE.key_set)


def check(
    nonce: str | None = "n", now_s: int = HERE.now_s, settings: OpenIdSettings = SETTINGS, **claims: Any
) -> PersonOfToken:
    token = HERE.token(**{"aud": "console", "nonce": "n", **claims})
    return check_id_token(token, KEYS, settings, nonce, now_s * 1000)


def test_it_says_who_it_is_and_when_it_ends() -> None:
    assert check() == PersonOfToken("anna", "anna", (HERE.now_s + HOUR_S) * 1000)
    assert check(aud=["console", "b"], azp="console").user == "anna"
    assert check(nonce=None).user == "anna", "a token of a refresh may have any"
    by_name = OpenIdSettings(issuer=ISSUER, client_id="console", user_claim="name")
    assert check(settings=by_name, name="Anna B").user == "Anna B"


def test_the_clocks_may_differ_by_a_minute() -> None:
    assert check(now_s=HERE.now_s - SKEW_S).user == check(now_s=HERE.now_s + HOUR_S + SKEW_S - 1).user
    for now_s in (HERE.now_s - SKEW_S - 1, HERE.now_s + HOUR_S + SKEW_S + 1):
        with pytest.raises(OpenIdRefusedError):
            check(now_s=now_s)


@pytest.mark.parametrize("user", ["", " ", "a\nb", 7, None, "a" * 10_000])
def test_a_user_is_a_text_that_can_be_one(user: Any) -> None:
    with pytest.raises(OpenIdRefusedError):
        check(sub=user)


@pytest.mark.parametrize("nonce", ["", "other", "n\ud800", None, 7, ["n"]])
def test_a_token_of_another_log_in_is_refused(nonce: Any) -> None:
    with pytest.raises(OpenIdRefusedError):
        check_id_token(HERE.token(aud="console", nonce=nonce), KEYS, SETTINGS, "n", HERE.now_s * 1000)


def test_a_key_that_is_not_known_may_be_asked_for_again() -> None:
    with pytest.raises(UnknownKeyError):
        check_id_token(Issuer(ec_key("second")).token(aud="console"), KEYS, SETTINGS, None, HERE.now_s * 1000)
