"""The rules between a node's keys of security: protocols of listeners, certificates. Changes nothing on disk.

Part of config_check.py, in whose form it speaks. Whether the files are there and in order is found when they are read
(broker/tls/).
"""

from __future__ import annotations

import re

from broker.config.endpoint_texts import shown
from broker.config.idle_keys import check_idle_keys
from broker.config.keys.security_keys import (
    ALLOW_PLAINTEXT_NODES,
    AUDIENCE,
    ISSUER,
    JWKS_URL,
    METRICS_LISTENER,
    PROTOCOL_MAP,
    ClientAuth,
)
from broker.config.named_listeners import check_named
from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.addresses import is_loopback
from penstock.errors import ConfigError
from penstock.messages.security.acls import USER_TYPE, WILDCARD
from penstock.sasl.mechanisms import MECHANISMS
from penstock.types import CLIENT_LISTENER, ListenerType, SecurityProtocol

_PLACE = re.compile(r"https://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?([/?]\S*)?|file:///\S.*")
_SEVERAL = re.compile(rf"\s*,\s*{USER_TYPE}:", re.IGNORECASE)
ALLOW_ALL = "allow.everyone.if.no.acl.found"


def check_security(config: NodeConfig) -> None:
    """All the rules."""
    _check_protocols(config)
    _check_authorizer(config)
    _check_node_listeners(config)
    _check_unused_token_keys(config)
    for name in config.tls_listeners:
        _check_files(config, name)
        _check_client_auth(config, name)
    check_named(config)
    check_idle_keys(config)


def _check_authorizer(config: NodeConfig) -> None:
    if _SEVERAL.search(config.super_users):
        raise ConfigError(
            f"super.users = {shown(config.super_users)}: a comma is part of a name, as in User:CN=ops,O=shop; write"
            f" semicolons between principals: {shown(_SEVERAL.sub(';User:', config.super_users))}"
        )
    for principal in config.super_user_principals:
        kind, _, name = principal.partition(":")
        if kind != USER_TYPE or not name or name == WILDCARD:
            raise ConfigError(
                f"super.users = {shown(config.super_users)}: {shown(principal)} is no principal; write User:NAME, with "
                "semicolons between several"
            )
    if not config.authorizer_class_name:
        for key, value in (("super.users", config.super_users), (ALLOW_ALL, config.allow_everyone_if_no_acl_found)):
            if value:
                raise ConfigError(
                    f"{key} is set, and no authorizer: nobody would be refused anything; write authorizer.class.name = "
                    f"StandardAuthorizer, or remove {key}"
                )
        return
    for name in sorted({*_of_nodes(config)} & set(config.listeners)):
        at = config.listeners[name]
        if lets_everybody_in(config, name):
            raise ConfigError(
                f"authorizer.class.name is set, but {name}://{at} is {config.security_protocol(name)}: whoever reaches "
                f"it acts as a node, whatever the ACLs say; write {PROTOCOL_MAP} = {name}:SSL"
            )


def _check_node_listeners(config: NodeConfig) -> None:
    """A listener that is secured is of no use beside one that stands open."""
    secured = secured_listeners(config)
    if not secured or config.allow_plaintext_node_listeners:
        return
    for name in sorted({*_of_nodes(config)} & set(config.listeners)):
        if lets_everybody_in(config, name):
            raise ConfigError(
                f"{PROTOCOL_MAP}: {secured[0]} has {config.security_protocol(secured[0])}, but "
                f"{name}://{config.listeners[name]} is {config.security_protocol(name)}: whoever reaches it acts as a "
                f"node, reads the users' credentials and makes users; write {PROTOCOL_MAP} = {name}:SSL "
                f"(docs/security.md), let it listen on a loopback address, or, if only nodes reach it, write "
                f"{ALLOW_PLAINTEXT_NODES} = true"
            )


def secured_listeners(config: NodeConfig) -> list[str]:
    """The listeners of the cluster that have TLS or log-ins, also where this node does not listen; by name. Metrics are
    another matter."""
    protocols = config.listener_security_protocol_map.items()
    return sorted(name for name, one in protocols if (one.is_tls or one.is_sasl) and name != METRICS_LISTENER)


def lets_everybody_in(config: NodeConfig, listener: str) -> bool:
    """True for one of the nodes' own listeners without TLS that is reached from other machines."""
    return not config.security_protocol(listener).is_tls and not is_loopback(config.listeners[listener].host)


def _of_nodes(config: NodeConfig) -> tuple[str, str]:
    return config.inter_broker_listener_name, CONTROLLER_LISTENER


def _check_protocols(config: NodeConfig) -> None:
    for name, protocol in config.listener_security_protocol_map.items():
        if name == METRICS_LISTENER:
            _check_metrics(config, protocol)
        elif name not in {*config.listeners, *_of_nodes(config), CLIENT_LISTENER}:
            raise ConfigError(f"{PROTOCOL_MAP}: {name} is not in listeners; add it there or remove it here")
        if protocol.is_sasl and name in _of_nodes(config):
            raise ConfigError(
                f"{PROTOCOL_MAP}: {name} has {protocol}, but it is for the nodes themselves, which show certificates; "
                f"write {name}:SSL"
            )
        if protocol.is_sasl and name in config.listeners:
            _check_sasl(config, name)


def _check_metrics(config: NodeConfig, protocol: SecurityProtocol) -> None:
    if METRICS_LISTENER in config.listeners and config.metrics_listener is not None:
        raise ConfigError(
            f"{PROTOCOL_MAP}: {METRICS_LISTENER} is the name of metrics.listener there; give that of listeners another"
        )
    if protocol.is_sasl and METRICS_LISTENER not in config.listeners:
        raise ConfigError(
            f"{PROTOCOL_MAP}: {METRICS_LISTENER} has {protocol}, but nobody logs in at metrics.listener; write"
            f" {METRICS_LISTENER}:SSL, and listener.name.metrics.ssl.client.auth = required to ask for certificates"
        )


def _check_sasl(config: NodeConfig, listener: str) -> None:
    """A listener without TLS offers no mechanism that shows the password."""
    protocol, named = config.security_protocol(listener), config.security_of(listener, "sasl_enabled_mechanisms")
    if protocol.is_tls and any(MECHANISMS[name].takes_token for name in named):
        _check_token_keys(config, listener)
    if any(protocol.is_tls or not MECHANISMS[name].needs_tls for name in named):
        return
    raise ConfigError(
        f"sasl.enabled.mechanisms = {', '.join(named)!r}: nobody could log in at {listener}, which has {protocol}; add "
        "SCRAM-SHA-256 (PLAIN shows the password, OAUTHBEARER a token: both are offered over TLS only)"
    )


def _check_token_keys(config: NodeConfig, listener: str) -> None:
    """The place of the public keys can be asked, and by nobody else on the way."""
    url = config.security_of(listener, "sasl_oauthbearer_jwks_endpoint_url")
    if not url:
        raise ConfigError(
            f"sasl.enabled.mechanisms has OAUTHBEARER at {listener}, and {JWKS_URL} is not set: no token could be "
            "verified; name the issuer's page of public keys there, or a file (file:///…)"
        )
    if re.match("https://[^/?#]*@", url):
        raise ConfigError(f"{JWKS_URL} has a user in it; public keys are for everybody: write it without")
    if not _PLACE.fullmatch(url):
        raise ConfigError(
            f"{JWKS_URL} = {shown(url)}: must be https://HOST/PATH, or file:///PATH for a file of this machine; over "
            "plain http anybody on the way could put keys of his own there"
        )


def _check_unused_token_keys(config: NodeConfig) -> None:
    """A key that would say nothing is a mistake: the operator thinks that tokens are checked."""
    if any("OAUTHBEARER" in config.security_of(name, "sasl_enabled_mechanisms") for name in config.listeners):
        return
    for key in (JWKS_URL, AUDIENCE, ISSUER):
        attribute = key.replace(".", "_")
        if getattr(config, attribute) or any(attribute in of for of in config.listener_security.values()):
            raise ConfigError(
                f"{key} is set, and no listener takes tokens; add OAUTHBEARER to sasl.enabled.mechanisms, or remove it"
            )


def _check_files(config: NodeConfig, listener: str) -> None:
    tls = config.tls(listener)
    of_one = f"or listener.name.{listener.lower()}."
    if not tls.keystore:
        raise ConfigError(
            f"ssl.keystore.location is not set, but {listener} has {config.security_protocol(listener)}; name the PEM "
            f"file with the node's key and certificate there, {of_one}ssl.keystore.location "
            "(`penstock certs node` makes one)"
        )
    if not tls.truststore and (listener in _of_nodes(config) or tls.client_auth is not ClientAuth.NONE):
        why = "is for the nodes themselves" if listener in _of_nodes(config) else "asks for certificates"
        raise ConfigError(
            f"ssl.truststore.location is not set, but {listener} {why}; name the PEM file with the CA's certificate "
            f"there, {of_one}ssl.truststore.location"
        )


def _check_client_auth(config: NodeConfig, listener: str) -> None:
    """gRPC's library asks for a certificate and insists on it, or does not ask. metrics.listener is not gRPC's."""
    if listener == METRICS_LISTENER:
        return
    is_grpc = listener not in config.listeners or config.listener_type(listener) is ListenerType.GRPC
    if config.tls(listener).client_auth is ClientAuth.REQUESTED and is_grpc:
        raise ConfigError(
            f"ssl.client.auth = requested: {listener} speaks gRPC, which has none or required; write "
            f"listener.name.{listener.lower()}.ssl.client.auth = none, or required"
        )
