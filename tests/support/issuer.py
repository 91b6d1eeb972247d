"""An issuer of tokens: it signs what it is asked to, and publishes its public keys."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

ISSUER, AUDIENCE = "https://issuer.example", "penstock"
HOUR_S = 3_600


@cache
def ec_key(kid: str, curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": kid})


@cache
def rsa_key(kid: str, bits: int = 2_048) -> RSAKey:
    return RSAKey.generate_key(bits, {"kid": kid})


class Issuer:
    """With one key, of a curve, unless it is given others. The last one signs."""

    def __init__(self, *keys: ECKey | RSAKey, now_s: int = 1_700_000_000) -> None:
        self.keys, self.now_s = list(keys) or [ec_key("first")], now_s

    def claims(self, **others: Any) -> dict[str, Any]:
        """Claims of Anna's, for an hour; None leaves a claim out."""
        usual = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "anna",
            "iat": self.now_s,
            "exp": self.now_s + HOUR_S,
            "scope": "read write",
        }
        return {name: value for name, value in (usual | others).items() if value is not None}

    def token(self, headers: dict[str, Any] | None = None, key: ECKey | RSAKey | None = None, **claims: Any) -> str:
        signer = key or self.keys[-1]
        usual = "RS256" if isinstance(signer, RSAKey) else {"P-256": "ES256", "P-384": "ES384"}[signer.curve_name]
        given = {"alg": usual, "kid": signer.kid, "typ": "JWT"} | (headers or {})
        header = {name: value for name, value in given.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=list(jws.JWSRegistry.algorithms), strict_check_header=False)
        return jws.serialize_compact(header, json.dumps(self.claims(**claims)), signer, registry=registry)

    @property
    def key_set(self) -> bytes:
        return key_set(*(key.as_dict(private=False) for key in self.keys))

    def publish(self, path: Path) -> str:
        """As a file, whose URL it returns."""
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(self.key_set)
        new.replace(path)
        return path.as_uri()


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()
