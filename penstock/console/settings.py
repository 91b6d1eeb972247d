"""The settings of one console: what it shows, where it listens, and what it lets people do.

Not here: how they are read from a command line (penstock/cli/web_console.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_CONSOLE_PORT: Final = 9180
DEFAULT_CONSOLE_HOST: Final = "127.0.0.1"


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

    @property
    def is_tls(self) -> bool:
        """Browsers reach it by TLS alone, so cookies are sent in no other way."""
        return all(origin.startswith("https://") for origin in self.origins)
