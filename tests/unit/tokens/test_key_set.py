"""A set of public keys: what of it counts, and what is refused whole."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.tokens.key_set import KEYS_MAX, NAMESAKES_MAX, SET_BYTES_MAX, read_key_set
from tests.support.issuer import ec_key, key_set, rsa_key

EC: dict[str, Any] = dict(ec_key("first").as_dict(private=False))
RSA: dict[str, Any] = dict(rsa_key("second").as_dict(private=False))
PRIVATE: dict[str, Any] = dict(ec_key("first").as_dict(private=True))


def test_a_key_is_found_by_its_name_and_what_it_can_verify() -> None:
    keys = read_key_set(key_set(EC, RSA))
    assert len(keys) == 2
    assert len(keys.of("first", "ES256")) == 1 and len(keys.of("second", "PS512")) == 1
    assert not keys.of("first", "RS256") and not keys.of("second", "ES256") and not keys.of("third", "ES256")
    assert not keys.of("first", "ES384"), "of another curve"


def test_a_token_need_not_name_its_key_if_one_alone_fits() -> None:
    assert len(read_key_set(key_set(EC, RSA)).of(None, "ES256")) == 1
    assert not read_key_set(key_set(EC, EC | {"kid": "other"})).of(None, "ES256")


def test_an_algorithm_that_a_key_names_is_its_only_one() -> None:
    keys = read_key_set(key_set(RSA | {"alg": "PS256"}, RSA | {"alg": "RS256"}))
    assert [len(keys.of("second", algorithm)) for algorithm in ("PS256", "RS256", "RS512")] == [1, 1, 0]
    assert keys.of("second", "PS256") != keys.of("second", "RS256")


def test_keys_of_one_name_are_all_meant_but_no_more_than_a_log_in_can_bear() -> None:
    keys = read_key_set(key_set(*[EC] * (NAMESAKES_MAX + 1), RSA | {"kid": "first"}))
    assert len(keys.of("first", "ES256")) == NAMESAKES_MAX and len(keys.of("first", "RS256")) == 1


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
