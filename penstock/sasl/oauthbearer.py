"""Both halves of OAUTHBEARER (RFC 7628; KIP-255): the client shows a token, so it is served over TLS alone. Pure.

    n,[a=user to act as], ^A auth=Bearer TOKEN ^A [key=value ^A …] ^A       a client's only message; ^A is the byte 1
    {"status":"invalid_token"}                                            a server that refuses; the client answers ^A

A token is judged by what the server was given (`check`): the signature, the time, whom it is for. Other keys (KIP-342)
are read and left alone: they are not signed. Not here: what is in a token (`broker/authentication/tokens/`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.sasl.refusal import SaslRefusedError

NAME: Final = "OAUTHBEARER"
TOKEN_BYTES_MAX: Final = 16 << 10
MESSAGE_BYTES_MAX: Final = TOKEN_BYTES_MAX + (4 << 10)
FORM: Final = f"letters, digits and ._~+/- in one line, {TOKEN_BYTES_MAX} characters at most"
"""The form of a token, for people."""
KEYS_MAX: Final = 50
REFUSAL: Final = b'{"status":"invalid_token"}'
"""The refusal by RFC 7628, 3.2.2. The error of each protocol says why."""
_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750's b64token."""
_HEADER: Final = re.compile(r"[ny],(?:a=([^,\x00]*))?,")
_KEY: Final = re.compile(r"[A-Za-z]{1,100}")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]*")


class TokenOwner(NamedTuple):
    """The owner of a token, and the end of its life (wall clock)."""

    username: str
    ends_ms: int


class UnknownKeyError(SaslRefusedError):
    """The key that has signed the token is not known, but may be once the keys have been asked for again."""


def is_token(text: str) -> bool:
    """True if it has the form of a token, and a size that a broker takes."""
    return 0 < len(text) <= TOKEN_BYTES_MAX and _TOKEN.fullmatch(text) is not None


class OAuthBearerClient:
    """A client's half."""

    def __init__(self, token: str) -> None:
        self._message: bytes | None = f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()
        self._is_refused = False
        self.is_done = False

    def respond(self, challenge: bytes | None = None) -> bytes | None:
        """The one message for None; then None for the server's empty answer, and ^A for one that refuses."""
        if challenge is None and self._message is not None:
            message, self._message = self._message, None
            return message
        if challenge is None or self.is_done or self._message is not None or self._is_refused:
            raise SaslRefusedError("the server has sent an OAUTHBEARER message that was not its turn")
        if challenge:
            self._is_refused = True
            return _SEPARATOR.encode()
        self.is_done = True
        return None

    def __repr__(self) -> str:
        return f"OAuthBearerClient(done: {self.is_done})"


class OAuthBearerServer:
    """A server's half."""

    refusal_message: bytes = REFUSAL

    def __init__(self, check: Callable[[str], TokenOwner]) -> None:
        """`check` raises SaslRefusedError for a token that does not count."""
        self._check = check
        self._is_over = False
        self.username = ""
        self.is_done = False
        self.ends_ms: int | None = None

    def respond(self, message: bytes) -> bytes:
        """An empty answer to a token that counts. After UnknownKeyError the same message may be given once more."""
        if self._is_over:
            raise SaslRefusedError("the dialogue is over; begin another one")
        self._is_over = True
        acts_as, token = read_message(message)
        try:
            owner = self._check(token)
        except UnknownKeyError:
            self._is_over = False
            raise
        if acts_as not in ("", owner.username):
            raise SaslRefusedError("the client wants to act as another user than its token is of")
        self.username, self.ends_ms = owner
        self.is_done = True
        return b""

    def __repr__(self) -> str:
        return f"OAuthBearerServer(done: {self.is_done})"


def read_message(message: bytes) -> tuple[str, str]:
    """The user to act as ("" for the token's) and the token; SaslRefusedError for what is no message of a client. Its
    text has nothing of the message."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise SaslRefusedError(
            f"an OAUTHBEARER message of {len(message)} bytes is too long; {MESSAGE_BYTES_MAX} at most"
        )
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslRefusedError("an OAUTHBEARER message must be UTF-8") from None
    header, *pairs = text.split(_SEPARATOR)
    matched = _HEADER.fullmatch(header)
    if matched is None or len(pairs) < 3 or pairs[-2:] != ["", ""]:
        raise SaslRefusedError(
            "an OAUTHBEARER message is n,, then auth=Bearer TOKEN, with the byte 1 after each and one more at the end"
        )
    token = _token_of(pairs[:-2])
    return (matched[1] or "").replace("=2C", ",").replace("=3D", "="), token


def _token_of(pairs: list[str]) -> str:
    if len(pairs) > KEYS_MAX:
        raise SaslRefusedError(f"an OAUTHBEARER message has {len(pairs)} keys; {KEYS_MAX} at most")
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key in found:
            raise SaslRefusedError(
                "a key of an OAUTHBEARER message is letters, comes once, and has = and printable text after it"
            )
        found[key] = value
    scheme, _, token = found.get("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not is_token(token.strip(" ")):
        raise SaslRefusedError(f"auth must be Bearer and a token, which has {TOKEN_BYTES_MAX} characters at most")
    return token.strip(" ")
