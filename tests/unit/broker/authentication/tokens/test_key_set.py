"""A set of public keys: what of it counts, and what is refused whole."""

from __future__ import annotations

from typing import Any

import pytest

from broker.authentication.tokens.key_set import KEYS_MAX, read_key_set
from broker.authentication.tokens.ports import SET_BYTES_MAX
from penstock.errors import ConfigError
from tests.support.issuer import ec_key, key_set, rsa_key

EC: dict[str, Any] = dict(ec_key("first").as_dict(private=False))
RSA: dict[str, Any] = dict(rsa_key("second").as_dict(private=False))
PRIVATE: dict[str, Any] = dict(ec_key("first").as_dict(private=True))


def test_a_key_is_found_by_its_name_and_what_it_can_verify() -> None:
    keys = read_key_set(key_set(EC, RSA))
    assert len(keys) == 2
    assert keys.of("first", "ES256") is not None and keys.of("second", "PS512") is not None
    assert (
        keys.of("first", "RS256") is None and keys.of("second", "ES256") is None and keys.of("third", "ES256") is None
    )
    assert keys.of("first", "ES384") is None, "of another curve"


def test_a_token_need_not_name_its_key_if_one_alone_fits() -> None:
    assert read_key_set(key_set(EC, RSA)).of(None, "ES256") is not None
    assert read_key_set(key_set(EC, EC | {"kid": "other"})).of(None, "ES256") is None


def test_an_algorithm_that_a_key_names_is_its_only_one() -> None:
    keys = read_key_set(key_set(RSA | {"alg": "PS256"}, RSA | {"alg": "RS256"}))
    assert keys.of("second", "PS256") is not keys.of("second", "RS256")
    assert keys.of("second", "RS512") is None


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "x"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "of-tomorrow"},
        {},
        RSA | {"use": "enc"},
        RSA | {"alg": "RSA-OAEP"},
        RSA | {"alg": "HS256"},
        RSA | {"alg": ["RS256"]},
        RSA | {"key_ops": ["encrypt"]},
        RSA | {"key_ops": "verify"},
        EC | {"crv": "secp256k1"},
        EC | {"crv": ["P-256"]},
    ],
)
def test_keys_for_something_else_are_left_out(other: dict[str, Any]) -> None:
    assert len(read_key_set(key_set(EC, other))) == 1
    with pytest.raises(ConfigError, match="verifies tokens"):
        read_key_set(key_set(other))


BROKEN = [
    (b"", "is not JSON"),
    (b"\xff", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b"[]", "has no list of keys"),
    (b'{"keys": {}}', "has no list of keys"),
    (b'{"keys": [1]}', "has no list of keys"),
    (b'{"keys": []}', "none of its 0 keys"),
    (key_set(*[EC] * (KEYS_MAX + 1)), "has 101 keys; 100 at most"),
    (b" " * (SET_BYTES_MAX + 1), "larger than"),
    (key_set(EC, PRIVATE), "key 2 in it is a private one"),
    (key_set(EC | {"x": "AA"}), "key 1 in it is damaged"),
    (key_set(EC | {"x": 1}), "key 1 in it is damaged: its kty"),
    (key_set(EC | {"kid": 7}), "must be texts"),
    (key_set({"kty": "RSA", "kid": "x"}), "key 1 in it has 0 bits"),
    (key_set(RSA | {"n": "!"}), "key 1 in it"),
    (key_set(RSA | {"e": "AA"}), "key 1 in it is damaged"),
    (key_set(RSA | {"n": RSA["n"][:170]}), "bits; must be from 2048 to 8192"),
    (key_set(RSA | {"n": RSA["n"] * 5}), "bits; must be from 2048 to 8192"),
]


@pytest.mark.parametrize(("data", "says"), BROKEN, ids=range(len(BROKEN)))
def test_a_set_that_cannot_be_used_is_refused_whole(data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_key_set(data)
    assert says in str(caught.value) and PRIVATE["d"] not in str(caught.value)
