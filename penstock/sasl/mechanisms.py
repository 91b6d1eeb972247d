"""The table of SASL's mechanisms: by name, what makes a half of its dialogue. Pure.

Both protocols of a broker and all clients loop over it. A new mechanism gets a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from penstock.lazy_dataclass import dataclass
from penstock.sasl import oauthbearer, plain
from penstock.sasl.credentials import Credentials, ScramMechanism
from penstock.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, TokenOwner
from penstock.sasl.plain import PlainClient, PlainServer
from penstock.sasl.refusal import SaslRefusedError
from penstock.sasl.scram import ScramClient, ScramServer


class SaslClient(Protocol):
    """A client's half of one dialogue."""

    is_done: bool
    """The dialogue has succeeded."""

    def respond(self, challenge: bytes | None = None) -> bytes | None:
        """The next message: the first one for None, another for each of the server's, None when it has succeeded."""
        ...


class SaslServer(Protocol):
    """A server's half of one dialogue."""

    username: str
    """The user that the client says it is, proved when `is_done`."""
    is_done: bool
    ends_ms: int | None
    """The time until which the client's proof counts (wall clock); None: without an end."""
    refusal_message: bytes
    """A client is sent it, and answers, before it is refused; empty where it is refused at once."""

    def respond(self, message: bytes) -> bytes:
        """The answer to the client's next message."""
        ...


CheckToken = Callable[[str], TokenOwner]
"""Whose a token is; SaslRefusedError for one that does not count."""


def no_token(token: str) -> TokenOwner:
    """Refuses every token, for a server that takes none."""
    raise SaslRefusedError("no tokens are taken here")


class MakeServer(Protocol):
    """Makes a server's half of one dialogue."""

    def __call__(self, credentials: Credentials, nonce: str, check_token: CheckToken = no_token, /) -> SaslServer: ...


@dataclass(frozen=True, slots=True)
class SaslMechanism:
    """One row. The texts are a user's name, the secret, which is a password or a token, and a new nonce: random,
    printable, without commas."""

    name: str
    client: Callable[[str, str, str], SaslClient]
    server: MakeServer
    needs_tls: bool = False
    """The secret crosses the wire as it is."""
    takes_token: bool = False
    """A user shows a token, which names the user, in place of a name and a password."""
    is_slow: bool = False
    """An answer of the server's half takes milliseconds: a node computes it in another thread."""


def _scram(mechanism: ScramMechanism) -> SaslMechanism:
    def server(credentials: Credentials, nonce: str, check_token: CheckToken = no_token, /) -> ScramServer:
        return ScramServer(mechanism, credentials, nonce)

    return SaslMechanism(mechanism.sasl_name, partial(ScramClient, mechanism), server)


def _plain_client(username: str, password: str, nonce: str) -> PlainClient:
    return PlainClient(username, password)


def _plain_server(credentials: Credentials, nonce: str, check_token: CheckToken = no_token, /) -> PlainServer:
    return PlainServer(credentials)


def _token_client(username: str, token: str, nonce: str) -> OAuthBearerClient:
    return OAuthBearerClient(token)


def _token_server(credentials: Credentials, nonce: str, check_token: CheckToken = no_token, /) -> OAuthBearerServer:
    return OAuthBearerServer(check_token)


_ROWS: Final = (
    *map(_scram, ScramMechanism),
    SaslMechanism(plain.NAME, _plain_client, _plain_server, needs_tls=True, is_slow=True),
    SaslMechanism(oauthbearer.NAME, _token_client, _token_server, needs_tls=True, takes_token=True, is_slow=True),
)
MECHANISMS: Final[dict[str, SaslMechanism]] = {row.name: row for row in _ROWS}
"""The mechanisms by name."""
NONCE_BYTES: Final = 18
"""Random bytes of a nonce, which is sent in base64: more than the RFC's example."""
