"""Reads a set of public keys (JWKS, RFC 7517) by which tokens are verified.

    {"keys": [{"kty": "RSA", "kid": "2026-11", "n": "…", "e": "AQAB"}, …]}

Keys of other kinds, and for other uses, are left out, as the RFC says. A set that has nothing left, a damaged key, or a
private one is refused whole: the set before stays in force. Secrets (`oct`) are never taken: who publishes one would
let everybody sign. Pure. Not here: where a set comes from.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from penstock.errors import ConfigError

SET_BYTES_MAX: Final = 1 << 20
"""The size of a set of public keys."""
KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 8_192
"""A larger one takes milliseconds to verify with."""
NAMESAKES_MAX: Final = 4
"""Keys of one name that a token is verified by, the first of the set: each costs a log-in as much again."""
CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, *CURVES.values())
"""The algorithms of a public key. Never `none`, and none whose key is a secret (HS256): with a public key as its
secret, anybody could sign (RFC 8725, 2.1)."""
PRIVATE: Final = ("d", "p", "q", "dp", "dq", "qi", "oth")

PublicKey = RSAKey | ECKey


class KeySet:
    """The keys of one set."""

    def __init__(self, keys: list[PublicKey]) -> None:
        self._keys = keys

    def of(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The keys of which one has signed the token, by its header. Keys of one kind should have names of their own,
        and need not (RFC 7517, 4.5). Without a name in the header, a key must be the only one that fits."""
        named = [key for key in self._keys if kid is None or key.kid == kid]
        fitting = [key for key in named if algorithm in _algorithms_of(key)]
        return fitting[:NAMESAKES_MAX] if kid is not None or len(fitting) == 1 else []

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"KeySet({', '.join(str(key.kid)[:40] for key in self._keys[:10])})"


def _algorithms_of(key: PublicKey) -> tuple[str, ...]:
    if key.alg is not None:
        return (str(key.alg),)
    return RSA_ALGORITHMS if isinstance(key, RSAKey) else (CURVES[key.curve_name],)


def read_key_set(data: bytes) -> KeySet:
    """ConfigError for one that cannot be used."""
    if len(data) > SET_BYTES_MAX:
        raise ConfigError(f"larger than {SET_BYTES_MAX} bytes; this is no set of keys")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigError('is not JSON; it must be {"keys": [...]}, as RFC 7517 has it') from None
    rows = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError('has no list of keys; it must be {"keys": [...]}, as RFC 7517 has it')
    if len(rows) > KEYS_MAX:
        raise ConfigError(f"has {len(rows)} keys; {KEYS_MAX} at most")
    keys = [_read(number, row) for number, row in enumerate(rows, 1) if _is_for_tokens(row)]
    if not keys:
        raise ConfigError(
            f"none of its {len(rows)} keys verifies tokens; it must have a public one of RSA or of a curve "
            f"({', '.join(CURVES)})"
        )
    return KeySet(keys)


def _is_for_tokens(row: dict[str, Any]) -> bool:
    """False for a key whose kind or use is not that of a token's key."""
    operations = row.get("key_ops")
    return (
        row.get("kty") in ("RSA", "EC")
        and (row["kty"] == "RSA" or row.get("crv") in tuple(CURVES))
        and row.get("use", "sig") == "sig"
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and row.get("alg", ALGORITHMS[0]) in ALGORITHMS
    )


def _read(number: int, row: dict[str, Any]) -> PublicKey:
    if any(name in row for name in PRIVATE):
        raise ConfigError(
            f"key {number} in it is a private one: who reads it can be every user; publish the public key alone, and "
            "make a new pair"
        )
    wanted = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
    if not all(isinstance(row.get(name, ""), str) for name in wanted):
        raise ConfigError(f"key {number} in it is damaged: its {', '.join(wanted)} must be texts")
    public = {name: row[name] for name in wanted if name in row}
    if row["kty"] == "RSA":
        _check_size(number, row.get("n", ""))
    try:
        key: PublicKey = RSAKey.import_key(public) if row["kty"] == "RSA" else ECKey.import_key(public)
        key.get_op_key("verify")
    except (JoseError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise ConfigError(f"key {number} in it is damaged ({' '.join(str(error).split())[:200]})") from None
    return key


def _check_size(number: int, modulus: str) -> None:
    """Checks the size of a key before the library has it, which takes a small one with a warning."""
    try:
        bits = int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4)), "big").bit_length()
    except ValueError:
        raise ConfigError(f"key {number} in it is damaged (n is not base64)") from None
    if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
        raise ConfigError(f"key {number} in it has {bits} bits; must be from {RSA_BITS_MIN} to {RSA_BITS_MAX}")
