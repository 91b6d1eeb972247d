"""The users of `penstock node format --add-scram`, in the form of Kafka's storage tool.

    SCRAM-SHA-256=[name=anna,password=secret]
    SCRAM-SHA-512=[name=anna,iterations=8192,salt="base64",saltedpassword="base64"]
    SCRAM-SHA-256=[name=anna,password-file=/root/anna]      the first line; a password above is seen by `ps`
    SCRAM-SHA-256=[name=anna]                               is asked for, or is the first line of standard input

Not here: how they come into the metadata (`broker/quorum/bootstrap_users.py`).
"""

from __future__ import annotations

import base64
import binascii
import getpass
import re
import sys
from collections.abc import Callable, Mapping
from typing import Final

from metadata.records import UserScramCredentialRecord
from metadata.scram import scram_record
from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError, UnacceptableCredentialError
from penstock.sasl.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    PASSWORD_BYTES_MAX,
    SALT_BYTES_MAX,
    ScramCredential,
    ScramMechanism,
    check_user_name,
)

OPTION: Final = "--add-scram"
FORM: Final = "SCRAM-SHA-256=[name=NAME,password-file=FILE]"
_WHOLE: Final = re.compile(r"([A-Za-z0-9-]+)=\[(.*)\]", re.DOTALL)
_PART: Final = re.compile(r'([a-z-]+)=(?:"([^"]*)"|([^,"]*))(?:,|$)')
_KEYS: Final = ("name", "password", "password-file", "iterations", "salt", "saltedpassword")
_MECHANISMS: Final = {one.sasl_name: one for one in ScramMechanism}


def user_of(text: str, new_salt: Callable[[], bytes], ask: Callable[[str], str]) -> UserScramCredentialRecord:
    """The record of one argument; ConfigError. `ask` gives the password of a user of that name."""
    found = _WHOLE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{OPTION}: must be {FORM}")
    mechanism = _MECHANISMS.get(found[1])
    if mechanism is None:
        near = did_you_mean(found[1], _MECHANISMS)
        raise ConfigError(f"{OPTION}: {found[1]} is no mechanism of SCRAM: {', '.join(_MECHANISMS)}{near}")
    parts = _parts(found[2])
    name, iterations = parts.get("name", ""), _iterations(parts)
    try:
        check_user_name(name)
    except UnacceptableCredentialError as error:
        raise ConfigError(f"{OPTION}: {error.message}") from None
    salt = _bytes(parts, "salt") if "salt" in parts else new_salt()
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise ConfigError(f"{OPTION}: the salt of {name} must have from 1 to {SALT_BYTES_MAX} bytes")
    if "saltedpassword" in parts:
        if "salt" not in parts or {"password", "password-file"} & parts.keys():
            raise ConfigError(f"{OPTION}: saltedpassword goes with salt, and without another password")
        salted = _bytes(parts, "saltedpassword")
        if len(salted) != mechanism.key_bytes:
            raise ConfigError(f"{OPTION}: a saltedpassword of {mechanism.sasl_name} has {mechanism.key_bytes} bytes")
        return scram_record(name, ScramCredential.of_salted(mechanism, salted, salt, iterations))
    password = _password(parts, name, ask)
    return scram_record(name, ScramCredential.of_password(mechanism, password, salt, iterations))


def ask_for_password(name: str) -> str:
    """Asks for the password at a terminal. A script gives it on standard input, a line for each user."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {name}: ")
    return sys.stdin.readline(4 * PASSWORD_BYTES_MAX).rstrip("\r\n")


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ConfigError(f"{OPTION}: must be {FORM}; put a value with a comma or a quote into quotes")
        key = found[1]
        if key not in _KEYS or key in parts:
            why = "is there twice" if key in parts else f"is none of {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}"
            raise ConfigError(f"{OPTION}: {key} {why}")
        parts[key] = found[3] if found[2] is None else found[2]
        at = found.end()
    return parts


def _iterations(parts: Mapping[str, str]) -> int:
    given = parts.get("iterations", str(ITERATIONS_MIN))
    if not re.fullmatch(r"[0-9]{1,6}", given) or not ITERATIONS_MIN <= int(given) <= ITERATIONS_MAX:
        raise ConfigError(f"{OPTION}: iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(given)


def _password(parts: Mapping[str, str], name: str, ask: Callable[[str], str]) -> str:
    file = parts.get("password-file")
    if file is not None and "password" in parts:
        raise ConfigError(f"{OPTION}: give {name} a password or a password-file, not both")
    if file is not None:
        try:
            with open(file, encoding="utf-8-sig") as lines:
                password = lines.readline(4 * PASSWORD_BYTES_MAX).rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"{OPTION}: {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{OPTION}: {file}: a password must be UTF-8") from error
    else:
        password = parts["password"] if "password" in parts else ask(name)
    if not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise ConfigError(f"{OPTION}: the password of {name} must have from 1 to {PASSWORD_BYTES_MAX} bytes")
    return password


def _bytes(parts: Mapping[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(parts[key], validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{OPTION}: {key} must be base64") from None
