"""Judges a token (JWT, RFC 7519): its signature, its audience, its owner, and its end. Pure.

By RFC 8725: only algorithms of a public key, chosen by the key and not by the token; one signature, no encryption; what
must be there is there, and types are checked, so that another paper of the same issuer is not taken for one. The
signature is looked at before anything else: a client that cannot sign learns nothing of what is wanted. Texts of
refusals have nothing of the token but the name of its key. The work is joserfc's. Not here: the rights of the owner
(ACLs).
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from joserfc import jws
from joserfc.errors import ExpiredTokenError, InvalidClaimError, MissingClaimError
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry, decode

from broker.authentication.tokens.key_set import ALGORITHMS, KeySet, PublicKey
from broker.authentication.tokens.ports import TokenSettings
from penstock.messages.security.acls import ANONYMOUS_USER
from penstock.sasl.credentials import USERNAME_BYTES_MAX
from penstock.sasl.oauthbearer import TOKEN_BYTES_MAX, TokenOwner, UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError

HEADER_BYTES_MAX: Final = 4 << 10
KID_CHARACTERS_MAX: Final = 500
TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
"""The types of a token for a program, if it says what it is; not one that ends sessions, or proves that
somebody has a key."""
YEAR_9999_S: Final = 253_402_300_799


class _Registry(jws.JWSRegistry):
    """The sizes and algorithms of a token."""

    max_header_length = HEADER_BYTES_MAX
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = 2 << 10


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)
_PURPOSE: Final = {
    "iss": "it is not of the issuer that is expected here (sasl.oauthbearer.expected.issuer)",
    "aud": "it is not for the audience that is expected here (sasl.oauthbearer.expected.audience)",
    "nbf": "it is not valid yet",
    "iat": "it was issued in the future; look at the clocks of the node and of the issuer",
}


def check_token(token: str, keys: KeySet | None, settings: TokenSettings, now_ms: int) -> TokenOwner:
    """The owner of a token. SaslRefusedError if it does not count; UnknownKeyError if its key is not among `keys`.
    `keys` is None until a first set of keys was read. `now_ms` is wall time."""
    kid, algorithm = _header_of(token)
    if keys is None:
        raise UnknownKeyError("the node has no public keys yet to verify tokens by; its log says why")
    named = keys.of(kid, algorithm)
    if not named and kid is None:
        raise SaslRefusedError(f"the token does not name its key (kid), and not exactly one of {len(keys)} fits")
    if not named:
        raise UnknownKeyError(f"the token is signed by a key (kid {kid!r:.100}) that the issuer does not publish")
    claims = next((found for key in named if (found := _signed_claims(token, key)) is not None), None)
    if claims is None:
        raise SaslRefusedError("the token's signature is not that of the key that it names")
    _check_claims(claims, settings, now_ms)
    return TokenOwner(_subject_of(claims, settings.subject_claim), int(claims["exp"] * 1000))


def _signed_claims(token: str, key: PublicKey) -> dict[str, Any] | None:
    """None if the key has not signed it."""
    try:
        return decode(token, key, ALGORITHMS, _REGISTRY).claims
    except Exception:  # of any kind: a stranger chooses what the library reads
        return None


def _header_of(token: str) -> tuple[str | None, str]:
    """The name of its key, if it has one, and the algorithm; both are the word of a stranger."""
    parts = token.split(".")
    if len(token) > TOKEN_BYTES_MAX or len(parts) != 3 or not all(parts) or len(parts[0]) > HEADER_BYTES_MAX:
        raise SaslRefusedError("the token is no signed JWT, which has three parts with dots between them")
    try:
        header = json.loads(base64.b64decode(parts[0] + "=" * (-len(parts[0]) % 4), b"-_", validate=True))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise SaslRefusedError("the token's header cannot be read")
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", TYPES[0])
    if algorithm not in ALGORITHMS:
        raise SaslRefusedError(f"the token's algorithm is not taken; use one of {', '.join(ALGORITHMS)}")
    if not (kid is None or (isinstance(kid, str) and 0 < len(kid) <= KID_CHARACTERS_MAX)):
        raise SaslRefusedError("the token's kid must be a text")
    if not isinstance(kind, str) or kind.lower() not in TYPES:
        raise SaslRefusedError("the token's type (typ) is not that of an access token: JWT or at+jwt")
    if "crit" in header:
        raise SaslRefusedError("the token wants something to be understood (crit) that is not understood here")
    return kid, algorithm


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
