"""Both halves of PLAIN (RFC 4616): the password crosses the wire as it is, so it is served over TLS alone. Pure.

    [user to act as] NUL user NUL password

A server checks the password by the user's SCRAM credentials: there is no other copy of it. It always computes those of
all mechanisms, so that the time of a refusal does not tell which a user has.
"""

from __future__ import annotations

from typing import Final

from penstock.sasl.credentials import PASSWORD_BYTES_MAX, USERNAME_BYTES_MAX, Credentials, ScramMechanism
from penstock.sasl.refusal import SaslRefusedError
from penstock.sasl.scram import WRONG

NAME: Final = "PLAIN"


class PlainClient:
    """A client's half."""

    def __init__(self, username: str, password: str) -> None:
        self._message: bytes | None = f"\0{username}\0{password}".encode()
        self.is_done = False

    def respond(self, challenge: bytes | None = None) -> bytes | None:
        """The one message for None; then None for the server's empty answer."""
        if challenge is None and self._message is not None:
            message, self._message = self._message, None
            return message
        if challenge or self.is_done or self._message is not None:
            raise SaslRefusedError("the server has answered PLAIN with more than success")
        self.is_done = True
        return None

    def __repr__(self) -> str:
        return f"PlainClient(done: {self.is_done})"


class PlainServer:
    """A server's half."""

    refusal_message: bytes = b""
    ends_ms: int | None = None

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._is_over = False
        self.username = ""
        self.is_done = False

    def respond(self, message: bytes) -> bytes:
        """An empty answer to the right password. Takes some milliseconds."""
        if self._is_over:
            raise SaslRefusedError("the dialogue is over; begin another one")
        self._is_over = True
        self.username, password = _read(message)
        found = [self._credentials.credential(mechanism, self.username).is_of(password) for mechanism in ScramMechanism]
        if not any(found):
            raise SaslRefusedError(WRONG)
        self.is_done = True
        return b""

    def __repr__(self) -> str:
        return f"PlainServer(done: {self.is_done})"


def _read(message: bytes) -> tuple[str, str]:
    if len(message) > 2 * USERNAME_BYTES_MAX + PASSWORD_BYTES_MAX + 2:
        raise SaslRefusedError(f"a PLAIN message of {len(message)} bytes is too long")
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslRefusedError("a PLAIN message must be UTF-8") from None
    if len(parts) != 3 or not parts[1] or not parts[2]:
        raise SaslRefusedError("a PLAIN message is three texts with zero bytes between: the second and third not empty")
    acts_as, username, password = parts
    if acts_as not in ("", username):
        raise SaslRefusedError("the client wants to act as another user than it logs in as, which is not supported")
    if len(username.encode()) > USERNAME_BYTES_MAX or len(password.encode()) > PASSWORD_BYTES_MAX:
        raise SaslRefusedError(
            f"a user's name must have at most {USERNAME_BYTES_MAX} bytes, a password {PASSWORD_BYTES_MAX}"
        )
    return username, password
