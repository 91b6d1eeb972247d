"""Tokens as the log-ins and the metrics of a node know them: values, and the port that they come by.

Without joserfc, which a node loads only where a listener takes tokens (node_tokens.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.lazy_dataclass import dataclass
from penstock.sasl.oauthbearer import TokenOwner


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """A listener's wishes about tokens; Kafka's keys without `sasl.oauthbearer.`."""

    jwks_url: str
    audiences: tuple[str, ...]
    """The audiences of which the token must name one; empty: any token will do."""
    issuer: str
    """Empty: any."""
    subject_claim: str
    scope_claim: str
    skew_ms: int


class KeySourceSettings(NamedTuple):
    """Where public keys come from, and how often."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


@dataclass(frozen=True, slots=True)
class TokenStatistics:
    """The keys of one listener."""

    listener: str
    keys: int
    """The number of keys in force."""
    is_refused: bool
    """The newest ones could not be had, or do not work."""


class ListenerTokens(Protocol):
    """The tokens that one listener takes."""

    def check(self, token: str) -> TokenOwner:
        """Takes a fraction of a millisecond. SaslRefusedError for a token that does not count; UnknownKeyError if it
        may once `learn` has been asked."""
        ...

    async def learn(self) -> bool:
        """Has the public keys asked for again, which strangers cannot make it do often; False if they were not."""
        ...


class Tokens(Protocol):
    """The tokens that a node takes, by listener."""

    def of(self, listener: str) -> ListenerTokens | None:
        """None at a listener that takes none."""
        ...

    def statistics(self) -> Sequence[TokenStatistics]: ...


class NoTokens:
    """`Tokens` of a node that takes none."""

    def of(self, listener: str) -> ListenerTokens | None:
        return None

    def statistics(self) -> Sequence[TokenStatistics]:
        return ()

    def __repr__(self) -> str:
        return "NoTokens()"


NO_TOKENS = NoTokens()
