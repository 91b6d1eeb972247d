"""Turns what a user passes to a client into a checked, frozen configuration; every refusal names key, value and remedy.

A configuration is a frozen dataclass whose fields carry their limits as metadata (`limited`, `one_of`, `of_type`), so
that one function checks them all and documentation can be generated from the same tables. Names are Kafka's in snake
case. Not here: what the options mean (config.py) and what a broker accepts.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.cluster.foreign_words import call_for, foreign_option
from penstock.errors import ConfigError
from penstock.types import Endpoint

MAX_INT32 = 2**31 - 1
MAX_PORT = 65_535

T = TypeVar("T")


def limited(default: int, low: int, high: int = MAX_INT32, *, doc: str) -> Any:
    """A whole number from `low` to `high`."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "doc": doc})


def one_of(default: str, choices: Sequence[str], *, doc: str) -> Any:
    """One word of a closed list."""
    return dataclasses.field(default=default, metadata={"choices": tuple(choices), "doc": doc})


def of_type(default: str | bool, *, doc: str) -> Any:
    """A text, or a truth value, as the default is."""
    return dataclasses.field(default=default, metadata={"type": type(default), "doc": doc})


def described(default: Any, *, doc: str) -> Any:
    """A field that its own code checks."""
    return dataclasses.field(default=default, metadata={"doc": doc})


def build_config(cls: type[T], client: str, options: Mapping[str, Any]) -> T:
    """An instance of the config dataclass `cls`; ConfigError for a name, type or value that is not acceptable."""
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key, value in options.items():
        if key not in fields:
            hint = foreign_option(client, key, value, fields) or nearest(key, fields)
            raise ConfigError(f"{client} has no option {key!r}{hint}")
        _check(client, key, value, fields[key].metadata)
    return cls(**options)


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean …?' when something known is close, else ''."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def _check(client: str, key: str, value: Any, limits: Mapping[str, Any]) -> None:
    if "low" in limits:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{client} option {key}={value!r} must be a whole number, not {type(value).__name__}")
        if not limits["low"] <= value <= limits["high"]:
            raise ConfigError(f"{client} option {key}={value} must be from {limits['low']} to {limits['high']}")
    elif "type" in limits and not isinstance(value, limits["type"]):
        wanted = "True or False" if limits["type"] is bool else "a str"
        raise ConfigError(f"{client} option {key}={value!r} must be {wanted}, not {type(value).__name__}")
    elif "choices" in limits and value not in limits["choices"]:
        words = ", ".join(limits["choices"])
        raise ConfigError(
            f"{client} option {key}={value!r} must be one of {words}{nearest(str(value), limits['choices'])}"
        )


def parse_bootstrap(bootstrap: str | Iterable[str], client: str = "Client") -> tuple[Endpoint, ...]:
    """'host:port[,host:port]' or an iterable of 'host:port', without duplicates, in the given order."""
    if isinstance(bootstrap, Mapping):
        raise ConfigError(f"{client} takes no dict of settings; write {call_for(client, bootstrap)}")
    if isinstance(bootstrap, str):
        texts = bootstrap.split(",")
    elif isinstance(bootstrap, Iterable):
        texts = list(bootstrap)
    else:
        raise ConfigError(f"bootstrap={bootstrap!r} must be 'host:port[,host:port]', not {type(bootstrap).__name__}")
    endpoints = tuple(dict.fromkeys(_endpoint(text) for text in texts if not isinstance(text, str) or text.strip()))
    if not endpoints:
        raise ConfigError("bootstrap is empty; give at least one 'host:port', for example 127.0.0.1:9192")
    return endpoints


def _endpoint(text: Any) -> Endpoint:
    if not isinstance(text, str):
        raise ConfigError(f"bootstrap address {text!r} must be a string 'host:port'")
    address = text.strip()
    if "://" in address:
        raise ConfigError(f"bootstrap address {address!r} must be 'host:port' without a scheme")
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ConfigError(f"bootstrap address {address!r} has no port; write {address}:9192")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"bootstrap address {address!r} is ambiguous; write an IPv6 address in brackets: [::1]:9192")
    if not host or any(character.isspace() or character in "/[]" for character in host) or not host.isprintable():
        raise ConfigError(f"bootstrap address {address!r} has no valid host before the colon")
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(MAX_PORT))
    if not is_number or not 1 <= int(port) <= MAX_PORT:
        raise ConfigError(
            f"bootstrap address {address!r}: the port must be a number from 1 to {MAX_PORT}, not {port!r}"
        )
    return Endpoint(host, int(port))
