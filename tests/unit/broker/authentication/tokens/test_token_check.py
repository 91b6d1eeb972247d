"""Which tokens count: signed by a published key, for here, of a user, and now."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from joserfc.jwk import ECKey

from broker.authentication.tokens.ports import TokenSettings
from broker.authentication.tokens.token_check import check_token
from penstock.sasl.oauthbearer import TOKEN_BYTES_MAX, TokenOwner, UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import read_key_set
from tests.support.issuer import AUDIENCE, HOUR_S, ISSUER, Issuer, ec_key, rsa_key

SKEW_S = 30
WANTED = TokenSettings("file:///keys", ("other", AUDIENCE), ISSUER, "sub", "scope", SKEW_S * 1_000)
ANYBODYS = replace(WANTED, audiences=(), issuer="")
HERE = Issuer(rsa_key("rsa"), ec_key("p384", "P-384"), ec_key("first"))
NOW_S = HERE.now_s


def check(token: str, wanted: TokenSettings = WANTED, now_s: float = NOW_S, issuer: Issuer = HERE) -> TokenOwner:
    return check_token(token, read_key_set(issuer.key_set), wanted, int(now_s * 1_000))


def refusal(token: str, wanted: TokenSettings = WANTED, now_s: float = NOW_S) -> str:
    with pytest.raises(SaslRefusedError) as caught:
        check(token, wanted, now_s)
    assert not any(part[:16] in str(caught.value) for part in token.split(".") if len(part) >= 16)
    return str(caught.value)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(header: Any, payload: Any = None, signature: bytes = b"x" * 64) -> str:
    claims = HERE.claims() if payload is None else payload
    return ".".join((encoded(json.dumps(header).encode()), encoded(json.dumps(claims).encode()), encoded(signature)))


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_of_rsa_counts(algorithm: str) -> None:
    token = HERE.token({"alg": algorithm}, rsa_key("rsa"))
    assert check(token) == TokenOwner("anna", (NOW_S + HOUR_S) * 1_000)


def test_a_token_of_any_key_of_its_name_counts_and_of_no_other() -> None:
    old, new, strange = (ECKey.generate_key("P-256", {"kid": "same"}) for _ in range(3))
    issuer = Issuer(old, rsa_key("same"), new)
    for signer in issuer.keys:
        assert check(issuer.token(key=signer), issuer=issuer).username == "anna"
    with pytest.raises(SaslRefusedError, match="is not that of the key that it names"):
        check(issuer.token(key=strange), issuer=issuer)


@pytest.mark.parametrize("key", [ec_key("first"), ec_key("p384", "P-384")])
def test_a_token_of_a_curve_counts(key: Any) -> None:
    assert check(HERE.token(key=key)).username == "anna"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", AUDIENCE]},
        {"aud": "other"},
        {"iat": None},
        {"scope": None},
        {"scope": ["read", "write"]},
        {"exp": NOW_S - SKEW_S + 1},
        {"nbf": NOW_S + SKEW_S},
        {"exp": NOW_S + 0.5},
        {"jti": "1", "groups": ["a"] * 1_000},
    ],
)
def test_what_a_token_may_have_and_may_lack(claims: dict[str, Any]) -> None:
    assert check(HERE.token(**claims)).username == "anna"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt", None])
def test_a_token_may_say_what_it_is(kind: str | None) -> None:
    assert check(HERE.token({"typ": kind})).username == "anna"


def test_the_claim_of_the_user_can_be_another_one() -> None:
    wanted = replace(WANTED, subject_claim="client_id")
    assert check(HERE.token(client_id="shop"), wanted).username == "shop"
    assert "does not say of whom it is: 'client_id'" in refusal(HERE.token(), wanted)


def test_a_listener_that_wants_nothing_takes_what_the_key_has_signed() -> None:
    token = HERE.token(aud="another", iss="https://another.example")
    assert check(token, ANYBODYS).username == "anna"
    assert check(HERE.token(aud=None, iss=None), ANYBODYS).username == "anna"


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"exp": NOW_S - SKEW_S}, "the token has expired"),
        ({"exp": None}, "the token lacks exp"),
        ({"exp": "tomorrow"}, "exp is not of the kind"),
        ({"exp": True}, "exp is not of the kind"),
        ({"exp": float("nan")}, "exp is not of the kind"),
        ({"exp": float("inf")}, "exp is not of the kind"),
        ({"exp": (NOW_S + HOUR_S) * 1_000}, "exp is in seconds"),
        ({"exp": 2**53}, "the token ends after the year 9999; exp is in seconds"),
        ({"exp": 10**400}, "exp is in seconds"),
        ({"nbf": NOW_S + SKEW_S + 1}, "it is not valid yet"),
        ({"iat": NOW_S + SKEW_S + 1}, "it was issued in the future"),
        ({"aud": "orders"}, "sasl.oauthbearer.expected.audience"),
        ({"aud": ["orders"]}, "sasl.oauthbearer.expected.audience"),
        ({"aud": {"penstock": 1}}, "sasl.oauthbearer.expected.audience"),
        ({"aud": None}, "the token lacks aud"),
        ({"iss": f"{ISSUER}/"}, "sasl.oauthbearer.expected.issuer"),
        ({"iss": [ISSUER]}, "sasl.oauthbearer.expected.issuer"),
        ({"iss": None}, "the token lacks iss"),
        ({"sub": None}, "does not say of whom it is: 'sub'"),
        ({"sub": ""}, "does not say of whom it is"),
        ({"sub": " anna"}, "does not say of whom it is"),
        ({"sub": 7}, "sub is not of the kind"),
        ({"sub": "ANONYMOUS"}, "no user may be named ANONYMOUS"),
        ({"sub": "a\nb"}, "must be printable"),
        ({"sub": "\ud800"}, "must be printable"),
        ({"sub": "x" * 513}, "512 bytes at most"),
        ({"scope": 7}, "'scope' must be a text or a list of texts"),
        ({"scope": [7]}, "'scope' must be a text or a list of texts"),
    ],
)
def test_a_token_that_does_not_count_is_refused_in_words(claims: dict[str, Any], says: str) -> None:
    assert says in refusal(HERE.token(**claims))


STRANGE = [
    ("", "no signed JWT"),
    ("a.b", "no signed JWT"),
    ("a.b.c.d.e", "no signed JWT"),
    ("..", "no signed JWT"),
    ("a" * TOKEN_BYTES_MAX + ".b.c", "no signed JWT"),
    ("!.b.c", "header cannot be read"),
    (encoded(b"[" * 3_000) + ".b.c", "header cannot be read"),
    (unsigned([]), "header cannot be read"),
    (unsigned("alg"), "header cannot be read"),
    (unsigned({}), "algorithm is not taken; use one of RS256"),
    (unsigned({"alg": "none"}), "algorithm is not taken"),
    (unsigned({"alg": "None"}), "algorithm is not taken"),
    (unsigned({"alg": ["ES256"]}), "algorithm is not taken"),
    (unsigned({"alg": "HS256", "kid": "first"}), "algorithm is not taken"),
    (unsigned({"alg": "dir", "enc": "A256GCM"}), "algorithm is not taken"),
    (unsigned({"alg": "ES256", "kid": 7}), "kid must be a text"),
    (unsigned({"alg": "ES256", "kid": "x" * 501}), "kid must be a text"),
    (unsigned({"alg": "ES256", "kid": "first", "typ": "logout+jwt"}), "is not that of an access token"),
    (unsigned({"alg": "ES256", "kid": "first", "typ": 1}), "is not that of an access token"),
    (unsigned({"alg": "ES256", "kid": "first", "crit": ["exp"], "exp": 1}), "crit"),
    (unsigned({"alg": "ES256", "kid": "first"}), "signature is not that of the key"),
    (unsigned({"alg": "ES256", "kid": "first"}, signature=b"x"), "signature is not that of the key"),
    (unsigned({"alg": "ES256", "kid": "first", "b64": False}), "signature is not that of the key"),
    (unsigned({"alg": "RS256"}), "signature is not that of the key"),
    (HERE.token()[:-8] + "AAAAAAAA", "signature is not that of the key"),
    (HERE.token(key=ec_key("another's"), headers={"kid": "first"}), "signature is not that of the key"),
    (HERE.token(key=ec_key("x"), headers={"kid": None, "jwk": ec_key("x").as_dict(private=False)}), "signature"),
]


@pytest.mark.parametrize(("token", "says"), STRANGE, ids=range(len(STRANGE)))
def test_what_is_no_token_of_the_issuer_is_refused(token: str, says: str) -> None:
    assert says in refusal(token)


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    """The oldest trick with tokens: HMAC with the public key as its secret."""
    for secret in (rsa_key("rsa").as_pem(private=False), HERE.key_set):
        start = unsigned({"alg": "HS256", "kid": "rsa", "typ": "JWT"}).rpartition(".")[0]
        signature = hmac.digest(secret, start.encode(), hashlib.sha256)
        assert "algorithm is not taken" in refusal(f"{start}.{encoded(signature)}")


def test_a_payload_that_was_changed_does_not_count() -> None:
    header, _, signature = HERE.token().split(".")
    changed = encoded(json.dumps(HERE.claims(sub="admin")).encode())
    assert "signature is not that of the key" in refusal(f"{header}.{changed}.{signature}")


def test_an_unknown_key_may_be_known_later() -> None:
    stranger = HERE.token(key=ec_key("new"))
    with pytest.raises(UnknownKeyError, match="kid 'new'"):
        check(stranger)
    with pytest.raises(UnknownKeyError, match="no public keys yet"):
        check_token(HERE.token(), None, WANTED, NOW_S * 1_000)
    assert check(stranger, issuer=Issuer(ec_key("first"), ec_key("new"))).username == "anna"


def test_a_token_that_does_not_name_its_key_counts_if_one_alone_fits() -> None:
    assert check(HERE.token({"kid": None})).username == "anna"
    two = Issuer(ec_key("first"), ec_key("other"))
    with pytest.raises(SaslRefusedError, match="does not name its key") as caught:
        check(two.token({"kid": None}), issuer=two)
    assert not isinstance(caught.value, UnknownKeyError), "nobody is asked for it"


def test_a_huge_token_of_the_issuer_itself_is_refused() -> None:
    assert "no signed JWT" in refusal(HERE.token(groups=["group"] * 2_000))
