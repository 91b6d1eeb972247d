"""A client's user: name, password and mechanism, and the half of each dialogue in which the client proves it.

The password is read once, when the client is made. An edge: it reads a file, and makes nonces that nobody can guess.
Not here: the calls (authenticated_channel.py), and log-ins by a token (token_login.py).
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import field
from typing import Protocol

from penstock.client.wire.tls_files import FilePath, file_bytes
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.sasl.mechanisms import MECHANISMS, NONCE_BYTES, SaslClient


class ClientLogin(Protocol):
    """The identity of a client to a broker; as text, for people."""

    @property
    def mechanism(self) -> str: ...

    async def begin(self) -> SaslClient:
        """The client's half of a new dialogue. NetworkError where what proves the user cannot be had now."""
        ...


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password."""

    username: str
    password: str = field(repr=False)
    mechanism: str

    async def begin(self) -> SaslClient:
        return self.dialogue()

    def dialogue(self) -> SaslClient:
        """The client's half of a new dialogue."""
        nonce = base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        return MECHANISMS[self.mechanism].client(self.username, self.password, nonce)

    def __str__(self) -> str:
        return f"user {self.username!r} by {self.mechanism}"


def login_of(username: str, password: str | None, password_file: FilePath | None, mechanism: str) -> Login:
    """The login of a user by password; ConfigError for a file that has no password."""
    if password is None and password_file is not None:
        password = _password_in(password_file)
    return Login(username, password or "", mechanism)


def _password_in(path: FilePath) -> str:
    try:
        password = file_bytes("password_file", path).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"password_file={str(path)!r} is not UTF-8") from None
    if not password or "\n" in password:
        raise ConfigError(f"password_file={str(path)!r} must have one line, the password")
    return password
