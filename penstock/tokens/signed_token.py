"""Verifies the signature of a token (JWT, RFC 7519) by the keys that its issuer publishes. Pure.

By RFC 8725: only algorithms of a public key, chosen by the key and not by the token; one signature, no encryption.
Texts of refusals have nothing of the token but the name of its key. The work is joserfc's. Not here: what its claims
must be, which each taker of tokens knows by itself.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.jwt import decode

from penstock.sasl.oauthbearer import TOKEN_BYTES_MAX, UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.tokens.key_set import ALGORITHMS, KeySet, PublicKey

HEADER_BYTES_MAX: Final = 4 << 10
KID_CHARACTERS_MAX: Final = 500
TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
"""The types of a token for a program, if it says what it is; not one that ends sessions, or proves that
somebody has a key."""


class TokenHeader(NamedTuple):
    """The name of a token's key, if it has one, and the algorithm; both are the word of a stranger."""

    kid: str | None
    algorithm: str


class _Registry(jws.JWSRegistry):
    """The sizes and algorithms of a token."""

    max_header_length = HEADER_BYTES_MAX
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = 2 << 10


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def header_of(token: str) -> TokenHeader:
    """The header of a token; SaslRefusedError for one that cannot count."""
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
    return TokenHeader(kid, algorithm)


def verified_claims(token: str, header: TokenHeader, keys: KeySet) -> dict[str, Any]:
    """The claims of a token that one of the keys has signed. SaslRefusedError if none has; UnknownKeyError if its key
    is not among them."""
    named = keys.of(header.kid, header.algorithm)
    if not named and header.kid is None:
        raise SaslRefusedError(f"the token does not name its key (kid), and not exactly one of {len(keys)} fits")
    if not named:
        raise UnknownKeyError(
            f"the token is signed by a key (kid {header.kid!r:.100}) that the issuer does not publish"
        )
    claims = next((found for key in named if (found := _signed_claims(token, key)) is not None), None)
    if claims is None:
        raise SaslRefusedError("the token's signature is not that of the key that it names")
    return claims


def _signed_claims(token: str, key: PublicKey) -> dict[str, Any] | None:
    """None if the key has not signed it."""
    try:
        return decode(token, key, ALGORITHMS, _REGISTRY).claims
    except Exception:  # of any kind: a stranger chooses what the library reads
        return None
