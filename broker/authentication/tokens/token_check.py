"""Judges a token (JWT, RFC 7519): its signature, its audience, its owner, and its end. Pure.

By RFC 8725: what must be there is there, and types are checked, so that another paper of the same issuer is not taken
for one. The signature is looked at before anything else: a client that cannot sign learns nothing of what is wanted.
Texts of refusals have nothing of the token but the name of its key. The work is joserfc's. Not here: the signature
(penstock/tokens/signed_token.py), and the rights of the owner (ACLs).
"""

from __future__ import annotations

from typing import Any, Final

from joserfc.errors import ExpiredTokenError, InvalidClaimError, MissingClaimError
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from broker.authentication.tokens.ports import TokenSettings
from penstock.messages.security.acls import ANONYMOUS_USER
from penstock.sasl.credentials import USERNAME_BYTES_MAX
from penstock.sasl.oauthbearer import TokenOwner, UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import KeySet
from penstock.tokens.signed_token import header_of, verified_claims

YEAR_9999_S: Final = 253_402_300_799


_PURPOSE: Final = {
    "iss": "it is not of the issuer that is expected here (sasl.oauthbearer.expected.issuer)",
    "aud": "it is not for the audience that is expected here (sasl.oauthbearer.expected.audience)",
    "nbf": "it is not valid yet",
    "iat": "it was issued in the future; look at the clocks of the node and of the issuer",
}


def check_token(token: str, keys: KeySet | None, settings: TokenSettings, now_ms: int) -> TokenOwner:
    """The owner of a token. SaslRefusedError if it does not count; UnknownKeyError if its key is not among `keys`.
    `keys` is None until a first set of keys was read. `now_ms` is wall time."""
    header = header_of(token)
    if keys is None:
        raise UnknownKeyError("the node has no public keys yet to verify tokens by; its log says why")
    claims = verified_claims(token, header, keys)
    _check_claims(claims, settings, now_ms)
    return TokenOwner(_subject_of(claims, settings.subject_claim), int(claims["exp"] * 1000))


def _check_claims(claims: dict[str, Any], settings: TokenSettings, now_ms: int) -> None:
    wanted: dict[str, ClaimsOption] = {"exp": {"essential": True}}
    if settings.issuer:
        wanted["iss"] = {"essential": True, "value": settings.issuer}
    if settings.audiences:
        wanted["aud"] = {"essential": True, "values": list(settings.audiences)}
    try:
        JWTClaimsRegistry(now_ms // 1000, settings.skew_ms // 1000, **wanted).validate(claims)
    except ExpiredTokenError:
        raise SaslRefusedError("the token has expired; get a new one") from None
    except MissingClaimError as error:
        raise SaslRefusedError(f"the token lacks {error.claim}") from None
    except InvalidClaimError as error:
        why = _PURPOSE.get(error.claim, f"its {error.claim} is not of the kind that a token has")
        raise SaslRefusedError(f"the token does not count: {why}") from None
    if claims["exp"] > YEAR_9999_S:
        raise SaslRefusedError("the token ends after the year 9999; exp is in seconds")
    scope = claims.get(settings.scope_claim, "")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        raise SaslRefusedError(f"the token's {settings.scope_claim!r:.100} must be a text or a list of texts")


def _subject_of(claims: dict[str, Any], name: str) -> str:
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject.strip() or subject != subject.strip():
        raise SaslRefusedError(f"the token does not say of whom it is: {name!r:.100} must be a text")
    try:
        size = len(subject.encode())
    except UnicodeEncodeError:
        size = USERNAME_BYTES_MAX + 1
    if size > USERNAME_BYTES_MAX or not subject.isprintable():
        raise SaslRefusedError(f"the token's user must be printable, and {USERNAME_BYTES_MAX} bytes at most")
    if subject == ANONYMOUS_USER:
        raise SaslRefusedError(f"no user may be named {ANONYMOUS_USER}")
    return subject
