"""The settings of one console: what it shows, where it listens, and what it lets people do.

Not here: how they are read from a command line (penstock/cli/web_console.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Final

from penstock.lazy_dataclass import dataclass

DEFAULT_CONSOLE_PORT: Final = 9180
DEFAULT_CONSOLE_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """The identity provider by which people may log in, whose tokens the brokers take."""

    issuer: str
    """Exactly as the provider writes it; `/.well-known/openid-configuration` is below it."""
    client_id: str
    """The console's name at the provider."""
    client_secret: str = field(default="", repr=False)
    """"" for a public client, which PKCE alone protects."""
    scopes: str = "openid"
    user_claim: str = "sub"
    """The claim that brokers take the user from (`sasl.oauthbearer.sub.claim.name`)."""
    audience: str = ""
    """The audience to ask for, where the provider wants to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """One console."""

    bootstrap: str
    origins: tuple[str, ...]
    """The addresses at which browsers reach it, like http://127.0.0.1:9180. Requests for another host are refused."""
    connection: Mapping[str, Any] = field(default_factory=dict)
    """The client options of TLS with which every user's connection is made."""
    own_login: Mapping[str, Any] = field(default_factory=dict)
    """The client options of the console's own user. What it watches by itself is asked as that user; a person never
    acts as it."""
    allow_changes: bool = False
    audit_topic: str = ""
    """The topic to which the nodes' audit logs are shipped; "" without one."""

    openid: OpenIdSettings | None = None
    """None where people log in with passwords alone."""

    def is_tls_at(self, host: str) -> bool:
        """True if browsers reach that host of its own by TLS alone."""
        return is_tls_at(host, self.origins)


def is_tls_at(host: str, origins: Collection[str]) -> bool:
    """True if browsers reach that host by TLS alone, so cookies are sent in no other way. Behind a proxy with TLS that
    is so for its name, and not for the console's own address."""
    return f"https://{host}" in origins and f"http://{host}" not in origins
