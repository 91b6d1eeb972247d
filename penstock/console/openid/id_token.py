"""Judges an ID token: signed by the provider, for this console, of this log-in, and now (OpenID Connect Core, 3.1.3.7).

Pure. Not here: the signature (penstock/tokens/signed_token.py), and the access token, which the brokers judge.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from joserfc.errors import ExpiredTokenError, InvalidClaimError, MissingClaimError
from joserfc.jwt import JWTClaimsRegistry

from penstock.console.openid.errors import OpenIdRefusedError
from penstock.console.settings import OpenIdSettings
from penstock.lazy_dataclass import dataclass
from penstock.sasl.credentials import USERNAME_BYTES_MAX
from penstock.sasl.oauthbearer import UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import KeySet
from penstock.tokens.signed_token import header_of, verified_claims

SKEW_S: Final = 60
"""The clocks of the provider and of the console may differ by this."""


@dataclass(frozen=True, slots=True)
class PersonOfToken:
    """The person whom an ID token is about."""

    user: str
    """The name of the principal at the brokers, by the claim that the settings name."""
    subject: str
    """`sub`, which never changes."""
    ends_ms: int
    """The end of the ID token, wall clock."""


def check_id_token(token: str, keys: KeySet, settings: OpenIdSettings, nonce: str | None, now_ms: int) -> PersonOfToken:
    """The person. OpenIdRefusedError if it does not count; UnknownKeyError if its key is not among `keys`. `now_ms` is
    wall time; a token of a refresh has no nonce, and None is given."""
    try:
        claims = verified_claims(token, header_of(token), keys)
    except UnknownKeyError:
        raise
    except SaslRefusedError as error:
        raise _refused(str(error)) from None
    wanted = JWTClaimsRegistry(
        now_ms // 1000,
        SKEW_S,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "values": [settings.client_id]},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        wanted.validate(claims)
    except ExpiredTokenError:
        raise _refused("it has expired") from None
    except (MissingClaimError, InvalidClaimError) as error:
        raise _refused(f"its {error.claim} is not as it must be") from None
    audience = claims["aud"]
    if (isinstance(audience, list) and len(audience) > 1) or "azp" in claims:
        _check(claims.get("azp") == settings.client_id, "it is for several, and not made for this console (azp)")
    given = claims.get("nonce")
    is_of_login = nonce is None or (isinstance(given, str) and hmac.compare_digest(_bytes(given), _bytes(nonce)))
    _check(is_of_login, "it is of another log-in (nonce)")
    return PersonOfToken(_text(claims, settings.user_claim), _text(claims, "sub"), int(claims["exp"] * 1000))


def _text(claims: dict[str, Any], name: str) -> str:
    found = claims.get(name)
    if not isinstance(found, str) or not found.strip() or not found.isprintable():
        raise _refused(f"it does not say who it is: {name[:64]!r} must be a text")
    _check(len(_bytes(found)) <= USERNAME_BYTES_MAX, f"{name[:64]!r} is too long")
    return found


def _bytes(text: str) -> bytes:
    """JSON may have half a letter."""
    return text.encode("utf-8", "replace")


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise _refused(why)


def _refused(why: str) -> OpenIdRefusedError:
    return OpenIdRefusedError(f"the identity provider's ID token does not count: {why}")
