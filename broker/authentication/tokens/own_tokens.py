"""Makes the tokens that a node takes from what its configuration says of them.

joserfc is loaded here, only where a listener takes tokens. Not here: the rules between the keys
(`broker/config/security_check.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from broker.authentication.tokens.ports import KeySourceSettings, TokenSettings
from broker.config.node_config import NodeConfig
from penstock.clock import Clock
from penstock.sasl.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from broker.authentication.tokens.node_tokens import NodeTokens


def own_tokens(config: NodeConfig, clock: Clock, random: Random) -> NodeTokens | None:
    """None for a node that takes none; ConfigError for a file of keys that does not work."""
    listeners = {name: (_settings(config, name), _source(config, name)) for name in token_listeners(config)}
    if not listeners:
        return None
    from broker.authentication.tokens.node_tokens import NodeTokens

    return NodeTokens(listeners, clock, random)


def token_listeners(config: NodeConfig) -> list[str]:
    """The listeners at which users may log in by a token."""
    return [
        name
        for name in config.listeners
        if (protocol := config.security_protocol(name)).is_sasl
        and protocol.is_tls
        and any(MECHANISMS[one].takes_token for one in config.security_of(name, "sasl_enabled_mechanisms"))
    ]


def token_warnings(config: NodeConfig) -> Iterator[str]:
    """A line for each listener that takes tokens which were made for others."""
    for name in token_listeners(config):
        settings = _settings(config, name)
        missing = [
            f"sasl.oauthbearer.expected.{word}"
            for word, value in (("audience", settings.audiences), ("issuer", settings.issuer))
            if not value
        ]
        if missing:
            yield (
                f"{name} takes every token that a key of {settings.jwks_url} has signed, also one that was made for "
                f"another service: set {' and '.join(missing)}"
            )


def _settings(config: NodeConfig, listener: str) -> TokenSettings:
    def of(attribute: str) -> object:
        return config.security_of(listener, f"sasl_oauthbearer_{attribute}")

    audiences, skew = of("expected_audience"), of("clock_skew_seconds")
    assert isinstance(audiences, tuple) and isinstance(skew, int)
    return TokenSettings(
        str(of("jwks_endpoint_url")),
        audiences,
        str(of("expected_issuer")),
        str(of("sub_claim_name")),
        str(of("scope_claim_name")),
        skew * 1000,
    )


def _source(config: NodeConfig, listener: str) -> KeySourceSettings:
    prefix = "sasl_oauthbearer_jwks_endpoint_"
    return KeySourceSettings(
        config.security_of(listener, f"{prefix}url"),
        config.security_of(listener, f"{prefix}refresh_ms"),
        config.security_of(listener, f"{prefix}retry_backoff_ms"),
        config.security_of(listener, f"{prefix}retry_backoff_max_ms"),
    )
