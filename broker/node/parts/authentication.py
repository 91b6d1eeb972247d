"""Makes that by which users log in at a node's listeners with SASL."""

from __future__ import annotations

from collections.abc import Callable

from broker.audit.audit_log import AuditLog
from broker.audit.log_ins import AuditedLogIns
from broker.authentication.authentication import Authentication
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import Dialogue, LoginListener, Logins
from broker.authentication.sessions import Sessions, session_lifetime_ms
from broker.config.node_config import NodeConfig
from broker.node.environment import Environment
from metadata.image import MetadataImage
from metadata.scram import ImageCredentials


def make_authentication(
    config: NodeConfig,
    environment: Environment,
    image: Callable[[], MetadataImage],
    connections_max: int,
    audit: AuditLog,
) -> Authentication:
    """`connections_max` is the number of connections that clients may have."""
    ids, counts = environment.ids, AuthenticationCounts(config.client_listeners)

    def secret() -> str:
        """32 random bytes, in base64url."""
        return ids.new_id() + ids.new_id()

    logins = Logins(
        ImageCredentials(lambda: image().scram),
        secret,
        environment.threads.executor("authentication", 1),
        counts,
        config.connection_failed_authentication_delay_ms,
        AuditedLogIns(audit),
        environment.tokens,
    )

    def lifetime_ms(dialogue: Dialogue) -> int:
        longest: int = config.security_of(dialogue.listener, "connections_max_reauth_ms")
        return session_lifetime_ms(longest, dialogue.ends_ms, environment.clock.wall_ms())

    return Authentication(_listeners(config), lifetime_ms, logins, Sessions(connections_max, secret), counts)


def _listeners(config: NodeConfig) -> dict[str, LoginListener]:
    found = {}
    for name in config.listeners:
        protocol = config.security_protocol(name)
        if protocol.is_sasl:
            mechanisms = config.security_of(name, "sasl_enabled_mechanisms")
            found[name] = LoginListener(name, mechanisms, protocol.is_tls)
    return found
