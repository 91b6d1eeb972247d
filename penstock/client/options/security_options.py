"""The options of TLS and of logging in: which of them count, from arguments and environment, and whether they fit.

An argument counts before the variable of its name: `PENSTOCK_TLS_CA` stands for `tls_ca`. The places of a password or
token go together, so that an argument never meets the variable of another place, and a user with a password never that
of a token. Neither the errors nor the `repr` of a configuration have a secret. Pure: variables are given. Not here:
reading the files (wire/tls_files.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.sasl.oauthbearer import FORM, is_token

TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
OF_TLS = ("tls", *TLS_FILES, "tls_server_name")
PASSWORDS = ("password", "password_file")
OF_PASSWORD = ("username", *PASSWORDS)
TOKENS = ("token", "token_file")
PROVIDER = "token_provider"
OF_TOKEN = (*TOKENS, PROVIDER)
OF_LOGIN = (*OF_PASSWORD, *TOKENS, "sasl_mechanism")
VARIABLES = {name: f"PENSTOCK_{name.upper()}" for name in (*OF_TLS, *OF_LOGIN)}
"""The environment variable that stands for each option."""
MECHANISM = "sasl_mechanism"
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"


def shown_value(name: str, value: object) -> str:
    """A value as an error may have it; a name may be misspelt."""
    word = name.lower()
    is_secret = ("pass" in word or "token" in word) and not word.endswith(("file", "provider"))
    return "'…'" if is_secret else repr(value)


def with_security(client: str, options: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """The options, with what variables add to them; ConfigError for those of security that do not fit each other."""
    found = {name: value for name, value in options.items() if not (name in (*VARIABLES, PROVIDER) and value is None)}
    for name in VARIABLES:
        if name in found:
            _check_type(client, name, found[name])
    if found.get("tls") is False and (given := [name for name in OF_TLS[1:] if name in found]):
        raise ConfigError(f"{client} option tls=False contradicts {given[0]}; leave out one of the two")
    found |= _of_variables(found, variables)
    _check_tls(client, found)
    if any(name in found for name in OF_TOKEN) or found.get(MECHANISM) == OAUTHBEARER:
        _check_token(client, found)
    _check_login(client, found)
    return found


def _of_variables(given: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    texts = {name: text for name, variable in VARIABLES.items() if (text := variables.get(variable, ""))}
    found: dict[str, Any] = {name: text for name, text in texts.items() if name not in given}
    if "tls" in found:
        found["tls"] = _flag(VARIABLES["tls"], found["tls"])
        if any(name in given for name in OF_TLS):
            del found["tls"]
    if given.get("tls", found.get("tls")) is False:
        found = {name: value for name, value in found.items() if name not in OF_TLS[1:]}
    if any(name in given for name in PASSWORDS):
        found = {name: value for name, value in found.items() if name not in PASSWORDS}
    if any(name in given for name in OF_TOKEN):
        found = {name: value for name, value in found.items() if name not in OF_LOGIN}
    elif any(name in given for name in OF_PASSWORD):
        is_other = found.get(MECHANISM) == OAUTHBEARER
        found = {name: value for name, value in found.items() if name not in (*TOKENS, *(MECHANISM,) * is_other)}
    if "password" in found and "password_file" in found:
        raise ConfigError(f"{VARIABLES['password']} and {VARIABLES['password_file']} are both set; unset one of them")
    of_token = [name for name in TOKENS if name in found]
    if of_token and (others := [name for name in (*of_token[1:], *OF_PASSWORD) if name in found]):
        raise ConfigError(f"{VARIABLES[of_token[0]]} and {VARIABLES[others[0]]} are both set; unset one of them")
    return found


def _flag(variable: str, text: str) -> bool:
    if (value := {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())) is None:
        raise ConfigError(f"{variable}={text!r} must be true or false")
    return value


def _check_type(client: str, name: str, value: Any) -> None:
    if name in ("tls", MECHANISM):
        return  # by their keys
    is_file = name in (*TLS_FILES, "password_file", "token_file")
    words = "a path" if is_file else "a str"
    if value == "" or not (isinstance(value, str) or (is_file and hasattr(value, "__fspath__"))):
        what = "empty" if value == "" else type(value).__name__
        raise ConfigError(f"{client} option {name}={shown_value(name, value)} must be {words}, not {what}")


def _check_tls(client: str, found: Mapping[str, Any]) -> None:
    if "tls_key" in found and "tls_cert" not in found:
        raise ConfigError(f"{client} option tls_key needs tls_cert, the certificate of that key")


def _check_token(client: str, found: dict[str, Any]) -> None:
    """A token names the user, and goes with its own mechanism alone."""
    given = [name for name in OF_TOKEN if name in found]
    if not given:
        raise ConfigError(
            f"{client} option sasl_mechanism={OAUTHBEARER!r} needs token, token_file or token_provider (or"
            f" {VARIABLES['token_file']})"
        )
    if others := [name for name in (*given[1:], *OF_PASSWORD) if name in found]:
        raise ConfigError(f"{client} options {given[0]} and {others[0]} contradict each other; give one of them")
    if (mechanism := found.setdefault(MECHANISM, OAUTHBEARER)) != OAUTHBEARER:
        raise ConfigError(
            f"{client} option sasl_mechanism={mechanism!r} contradicts {given[0]}, which goes with {OAUTHBEARER}; leave"
            " out one of the two"
        )
    if PROVIDER in found and (not callable(found[PROVIDER]) or inspect.iscoroutinefunction(found[PROVIDER])):
        raise ConfigError(
            f"{client} option token_provider must be a plain function without arguments that returns a token, and not"
            " async: it is called in a thread of its own"
        )
    if "token" in found and not is_token(found["token"]):
        raise ConfigError(f"{client} option token='…' must be {FORM}")
    if not is_tls(found):
        raise ConfigError(
            f"{client} option {given[0]} sends the token as it is, and needs TLS: give tls=True or tls_ca"
        )


def _check_login(client: str, found: Mapping[str, Any]) -> None:
    passwords = [name for name in PASSWORDS if name in found]
    if len(passwords) == 2:
        raise ConfigError(f"{client} options password and password_file contradict each other; give one of them")
    if "username" in found and not passwords:
        raise ConfigError(
            f"{client} option username={found['username']!r} needs password or password_file (or"
            f" {VARIABLES['password']}, {VARIABLES['password_file']})"
        )
    if passwords and "username" not in found:
        raise ConfigError(f"{client} option {passwords[0]} needs username (or {VARIABLES['username']})")
    if found.get("sasl_mechanism") == PLAIN and "username" in found and not is_tls(found):
        raise ConfigError(
            f"{client} option sasl_mechanism='PLAIN' sends the password as it is, and needs TLS: give tls=True or"
            " tls_ca, or log in with SCRAM-SHA-256"
        )


def is_tls(options: Mapping[str, Any]) -> bool:
    """True if connections with these options are encrypted."""
    return bool(options.get("tls", any(name in options for name in OF_TLS[1:])))
