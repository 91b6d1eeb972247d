"""Finds keys of security that lock nothing: of each an operator believes that somebody is kept out, and nobody is.

A key that asks for certificates or log-ins where no listener can is refused (`check_idle_keys`): it has no other
purpose. A key that another setting still makes useful, or that is prepared for later, is warned of
(`security_warnings`): by `penstock node check`, and in the log of each start. Clients' keys are judged on brokers
alone, because controllers often have the file of all nodes. Not here: what a key needs in order to work
(security_check.py), and files that nobody can read (broker/tls/).
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.keys.security_keys import (
    DEFAULT_MAPPING_RULES,
    DEFAULT_MECHANISMS,
    METRICS_LISTENER,
    PROTOCOL_MAP,
    TLS_FILES,
    ClientAuth,
)
from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import ConfigError
from penstock.messages.security.acls import ANONYMOUS_USER, USER_TYPE
from penstock.sasl.mechanisms import MECHANISMS
from penstock.types import ListenerType, SecurityProtocol

_OF_TOKENS = "sasl_oauthbearer_"
_OF_LOG_INS = ("sasl_", "connections_max_reauth_ms")


def check_idle_keys(config: NodeConfig) -> None:
    """ConfigError for a key that asks clients for something at listeners that cannot ask."""
    for listener, values in config.listener_security.items():
        protocol = config.security_protocol(listener)
        for attribute in values:
            key = f"listener.name.{listener.lower()}.{attribute.replace('_', '.')}"
            if attribute.startswith("ssl_") and not protocol.is_tls:
                raise _idle(key, f"{listener} is {protocol}", f"{listener}:{'SASL_SSL' if protocol.is_sasl else 'SSL'}")
            if attribute.startswith(_OF_LOG_INS) and not protocol.is_sasl:
                raise _idle(key, f"{listener} is {protocol}, where nobody logs in", f"{listener}:SASL_SSL")
            if attribute.startswith(_OF_TOKENS) and not _takes_tokens(config, listener):
                raise ConfigError(
                    f"{key} is set, but {listener} takes no tokens; add OAUTHBEARER to listener.name."
                    f"{listener.lower()}.sasl.enabled.mechanisms, or remove the key"
                )
    if not config.is_broker:
        return
    can_ask = any(config.security_protocol(name).is_tls for name in (*config.client_listeners, METRICS_LISTENER))
    if config.ssl_client_auth != ClientAuth.NONE and not can_ask:
        one = config.client_listeners[-1]
        why = "no listener for clients has TLS, so nobody is asked for a certificate"
        raise _idle(f"ssl.client.auth = {config.ssl_client_auth}", why, f"{one}:SSL")
    if config.sasl_enabled_mechanisms != DEFAULT_MECHANISMS and not _login_listeners(config):
        one = config.client_listeners[-1]
        raise _idle("sasl.enabled.mechanisms", "no listener has SASL, so nobody is asked to log in", f"{one}:SASL_SSL")


def security_warnings(config: NodeConfig) -> Iterator[str]:
    """A line for each key that does nothing, or not what its reader would think, and for each unusual listener."""
    yield from _idle_files(config)
    if config.is_broker:
        yield from _idle_keys_of_clients(config)
        yield from _authorizer_warnings(config)
        yield from _names_of_protocols(config)


def _idle_files(config: NodeConfig) -> Iterator[str]:
    if not any(protocol.is_tls for protocol in config.listener_security_protocol_map.values()):
        for key in TLS_FILES:
            if key in config.given:
                yield (
                    f"{key} is set, and no listener has TLS: everything is sent in plain text; write {PROTOCOL_MAP} ="
                    f" {', '.join(f'{name}:SSL' for name in config.listeners)} (docs/security.md), or remove the key"
                )
        return
    of_nodes = (CONTROLLER_LISTENER, config.inter_broker_listener_name)
    names = config.tls_listeners
    asking = [name for name in names if name in of_nodes or config.tls(name).client_auth is not ClientAuth.NONE]
    for name in set(names).difference(asking):
        if "ssl_truststore_location" in config.listener_security.get(name, {}):
            yield _no_certificate_is_asked(f"listener.name.{name.lower()}.ssl.truststore.location", name)
    if names and not asking and "ssl.truststore.location" in config.given:
        yield _no_certificate_is_asked("ssl.truststore.location", " and ".join(names))


def _no_certificate_is_asked(key: str, names: str) -> str:
    return (
        f"{key} is set, and nobody is asked for a certificate at {names}: every client gets through TLS; write"
        " ssl.client.auth = required, or remove the key"
    )


def _idle_keys_of_clients(config: NodeConfig) -> Iterator[str]:
    for key in ("sasl.enabled.mechanisms", "connections.max.reauth.ms"):
        if key in config.given and not _login_listeners(config):
            yield (
                f"{key} is set, and no listener has SASL: nobody logs in; write {PROTOCOL_MAP} ="
                f" {config.client_listeners[-1]}:SASL_SSL, or remove the key"
            )
    by_certificate = _certificate_listeners(config)
    for name in config.client_listeners:
        if "ssl_principal_mapping_rules" in config.listener_security.get(name, {}) and name not in by_certificate:
            yield (
                f"listener.name.{name.lower()}.ssl.principal.mapping.rules is set, and {name} takes no principals from"
                " certificates: that is a listener with SSL and ssl.client.auth; set these, or remove the key"
            )
    if config.ssl_principal_mapping_rules != DEFAULT_MAPPING_RULES and not by_certificate:
        yield (
            "ssl.principal.mapping.rules is set, and no listener takes its principals from certificates: that is one"
            " with SSL and ssl.client.auth; set these, or remove the key"
        )


def _authorizer_warnings(config: NodeConfig) -> Iterator[str]:
    if not config.authorizer_class_name:
        return
    principals = config.super_user_principals
    if not principals and not config.allow_everyone_if_no_acl_found:
        yield (
            "authorizer.class.name is set, and super.users is empty: while the cluster has no ACLs nobody may do"
            " anything, and nobody can make the first ACL; write super.users = User:NAME"
        )
    if f"{USER_TYPE}:{ANONYMOUS_USER}" in principals:
        yield (
            f"super.users has {USER_TYPE}:{ANONYMOUS_USER}: everybody who does not log in may do everything, whatever"
            " the ACLs say; remove it once there is another user"
        )
    for principal in principals:
        name = principal.removeprefix(f"{USER_TYPE}:")
        if "," in name and not all("=" in part for part in name.split(",")):
            yield (
                f"super.users has the one principal {principal}: a comma is part of a name; write semicolons between"
                " principals, if these are several"
            )
    if not _login_listeners(config) and not _certificate_listeners(config):
        yield (
            f"authorizer.class.name is set, and no listener asks who a client is: each is {USER_TYPE}:{ANONYMOUS_USER},"
            f" and the ACLs of users count for nobody; write {PROTOCOL_MAP} = {config.client_listeners[-1]}:SASL_SSL"
        )


def _names_of_protocols(config: NodeConfig) -> Iterator[str]:
    """A line for each gRPC listener with a name that means Kafka's protocol in a server.properties, too."""
    for name in config.client_listeners:
        is_grpc = config.listener_type(name) is ListenerType.GRPC
        if name in SecurityProtocol.__members__ and is_grpc and name not in config.listener_type_map:
            yield (
                f"{name}://{config.listeners[name]} speaks Penstock's gRPC, which Kafka's clients do not; write"
                f" listener.type.map = {name}:KAFKA for these, or {name}:GRPC if it is meant"
            )


def _takes_tokens(config: NodeConfig, listener: str) -> bool:
    return any(MECHANISMS[name].takes_token for name in config.security_of(listener, "sasl_enabled_mechanisms"))


def _login_listeners(config: NodeConfig) -> list[str]:
    return [name for name in config.client_listeners if config.security_protocol(name).is_sasl]


def _certificate_listeners(config: NodeConfig) -> list[str]:
    """The listeners at which a client's certificate says who it is."""
    found = [name for name in config.client_listeners if config.security_protocol(name) is SecurityProtocol.SSL]
    return [name for name in found if config.tls(name).client_auth is not ClientAuth.NONE]


def _idle(key: str, why: str, wanted: str) -> ConfigError:
    return ConfigError(f"{key} is set, but {why}; write {PROTOCOL_MAP} = {wanted}, or remove the key")
