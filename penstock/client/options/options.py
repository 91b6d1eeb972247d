"""Turns what a user passes to a client into a checked, frozen configuration; every refusal names key, value and remedy.

An address that a program does not give is that of the environment, as on the command line and for the options of
security (security_options.py).

A configuration is a frozen dataclass whose fields carry their keys (penstock/config_keys.py), so that one function
checks them all and documentation can be generated from the same tables. Names are Kafka's in snake case. Not here: what
the options mean (config.py) and what a broker accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from penstock.client.options.foreign_words import call_for, foreign_option
from penstock.client.options.security_options import with_security
from penstock.client.options.variables import process_variables
from penstock.config_keys import ConfigKey, Kind, did_you_mean, keys_of
from penstock.errors import ConfigError
from penstock.types import Endpoint

MAX_PORT = 65_535
BOOTSTRAP_VARIABLE: Final = "PENSTOCK_BOOTSTRAP"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9192"

T = TypeVar("T")


def build_config(cls: type[T], client: str, options: Mapping[str, Any]) -> T:
    """An instance of the config dataclass `cls`, of the arguments and, for security, of the process's variables;
    ConfigError for a name, type or value that is not acceptable."""
    keys = keys_of(cls)
    options = with_security(client, options, process_variables())
    for name, value in options.items():
        if name not in keys:
            hint = foreign_option(client, name, value, keys) or did_you_mean(name, keys)
            raise ConfigError(f"{client} has no option {name!r}{hint}")
        _check(f"{client} option {name}", keys[name], value)
    return cls(**options)


def _check(what: str, key: ConfigKey, value: Any) -> None:
    if key.choices:
        if not key.fits(value):
            hint = did_you_mean(str(value), key.choices)
            raise ConfigError(f"{what}={value!r} must be one of {', '.join(key.choices)}{hint}")
        return
    wanted, words = _TYPES.get(key.kind, (object, ""))
    if not isinstance(value, wanted) or (key.kind is Kind.INT and isinstance(value, bool)):
        raise ConfigError(f"{what}={value!r} must be {words}, not {type(value).__name__}")
    if isinstance(value, str) and not _is_unicode(value):
        raise ConfigError(f"{what}={value!r} has a lone surrogate, which UTF-8 cannot carry; decode its bytes anew")
    if not key.fits(value):
        raise ConfigError(f"{what}={value} must be from {key.low} to {key.high}")


def _is_unicode(text: str) -> bool:
    """False for a text with lone surrogates, as Python makes them of bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_TYPES = {Kind.INT: (int, "a whole number"), Kind.BOOL: (bool, "True or False"), Kind.STRING: (str, "a str")}


class OfEnvironment(tuple[str, ...]):
    """The addresses of a client that was given none: not `None`, which a program passes where its own setting is unset,
    and which is refused."""

    def __repr__(self) -> str:
        return f"OfEnvironment({BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP})"


OF_ENVIRONMENT: Final = OfEnvironment()


def parse_bootstrap(bootstrap: str | Iterable[str], client: str = "Client") -> tuple[Endpoint, ...]:
    """'host:port[,host:port]' or an iterable of 'host:port', without duplicates, in the given order."""
    if not isinstance(bootstrap, OfEnvironment):
        return _parsed(bootstrap, client)
    text = process_variables().get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    try:
        return _parsed(text, client)
    except ConfigError as error:
        raise ConfigError(f"{BOOTSTRAP_VARIABLE}={text!r}: {error}") from None


def _parsed(bootstrap: str | Iterable[str], client: str) -> tuple[Endpoint, ...]:
    if isinstance(bootstrap, Mapping):
        raise ConfigError(f"{client} takes no dict of settings; write {call_for(client, bootstrap)}")
    if isinstance(bootstrap, str):
        texts = bootstrap.split(",")
    elif isinstance(bootstrap, Iterable):
        texts = list(bootstrap)
    else:
        raise ConfigError(f"bootstrap={bootstrap!r} must be 'host:port[,host:port]', not {type(bootstrap).__name__}")
    endpoints = tuple(dict.fromkeys(parse_address(text) for text in texts if not isinstance(text, str) or text.strip()))
    if not endpoints:
        raise ConfigError("bootstrap is empty; give at least one 'host:port', for example 127.0.0.1:9192")
    return endpoints


def parse_address(text: Any, what: str = "bootstrap address", example_port: int = 9192) -> Endpoint:
    """An address as 'host:port'; ConfigError otherwise. `what` names it."""
    if not isinstance(text, str):
        raise ConfigError(f"{what} {text!r} must be a string 'host:port'")
    address = text.strip()
    if "://" in address:
        raise ConfigError(f"{what} {address!r} must be 'host:port' without a scheme")
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ConfigError(f"{what} {address!r} has no port; write {address}:{example_port}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{what} {address!r} is ambiguous; write an IPv6 address in brackets: [::1]:{example_port}")
    if not host or any(character.isspace() or character in "/[]" for character in host) or not host.isprintable():
        raise ConfigError(f"{what} {address!r} has no valid host before the colon")
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(MAX_PORT))
    if not is_number or not 1 <= int(port) <= MAX_PORT:
        raise ConfigError(f"{what} {address!r}: the port must be a number from 1 to {MAX_PORT}, not {port!r}")
    return Endpoint(host, int(port))
