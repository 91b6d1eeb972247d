"""Reads the addresses in a node's configuration: listeners with type and security, advertised ones, voters, metrics.

Each reader takes the texts of one key and raises ConfigError with the key, the value and the remedy. Not here: the
rules between keys (config_check.py).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from metadata.listeners import CONTROLLER_LISTENER, NAME_LENGTH_MAX, RESERVED, is_listener_name
from penstock.config_keys import nearest
from penstock.errors import ConfigError
from penstock.types import Endpoint, ListenerType, SecurityProtocol

_Word = TypeVar("_Word", bound=StrEnum)

NODE_ID_MAX = 2**31 - 1
PORT_MAX = 65_535
HOST_LENGTH_MAX, LABEL_LENGTH_MAX = 253, 63
"""Limits for a name in the DNS, and for the part between its dots (RFC 1035)."""

_LISTENER = re.compile(r"^([^:/]*)://(\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s]*):(\d{1,5})$")
_ENDPOINT = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s@]*):(\d{1,5})$")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
"""Letters, digits and hyphens (RFC 952), and the underscore, which some networks of containers have."""
_NODE_ID = re.compile(r"^\d{1,10}$")


def shown(value: object) -> str:
    """A value as it may stand in a one-line message: quoted as in TOML, bounded."""
    try:
        text = repr(value) if not isinstance(value, str) else '"' + repr(value)[1:-1] + '"'
    except ValueError:  # 0x…: TOML reads any number of such digits, and Python does not write it in decimal ones
        return "a number of thousands of digits"
    if isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= 120 else text[:117] + "..."


def check_inter_broker_name(name: str) -> None:
    if not is_listener_name(name) or name in RESERVED:
        raise ConfigError(
            f"inter.broker.listener.name = {shown(name)}: must be a name in capitals other than "
            f"{' and '.join(RESERVED)}, like INTERNAL"
        )


def parse_listeners(name: str, items: tuple[str, ...]) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    for item in items:
        match = _LISTENER.match(item)
        if match is None:
            raise ConfigError(f"{name} = {shown(item)}: must be NAME://host:port, like OUTSIDE://node-1:9093")
        if not is_listener_name(match.group(1)):
            raise ConfigError(
                f"{name} = {shown(item)}: {match.group(1)} is not the name of a listener; write it in capitals, "
                f"digits and _, at most {NAME_LENGTH_MAX}, like OUTSIDE"
            )
        if match.group(1) in found:
            raise ConfigError(f"{name}: {match.group(1)} is given twice; keep one")
        found[match.group(1)] = _endpoint(name, item, match.group(2) or "0.0.0.0", match.group(3))
    return found


def parse_listener_types(items: tuple[str, ...]) -> dict[str, ListenerType]:
    return _by_listener("listener.type.map", items, ListenerType, "NAME:TYPE, like OUTSIDE:KAFKA", "type of listener")


def parse_security_protocols(items: tuple[str, ...]) -> dict[str, SecurityProtocol]:
    key, form = "listener.security.protocol.map", "NAME:PROTOCOL, like BROKER:SSL"
    return _by_listener(key, items, SecurityProtocol, form, "protocol of security")


def _by_listener(key: str, items: tuple[str, ...], words: type[_Word], form: str, what: str) -> dict[str, _Word]:
    found: dict[str, _Word] = {}
    for item in items:
        name, colon, word = (part.strip() for part in item.partition(":"))
        if not colon or not is_listener_name(name):
            raise ConfigError(f"{key} = {shown(item)}: must be {form}")
        if word not in words.__members__:
            near = nearest(word.upper(), words.__members__)
            hint = f"; did you mean {near}?" if near else ""
            raise ConfigError(
                f"{key} = {shown(item)}: {shown(word)} is not a {what}; must be one of {', '.join(words)}{hint}"
            )
        if name in found:
            raise ConfigError(f"{key}: {name} is given twice; keep one")
        found[name] = words[word]
    return found


def parse_advertised(values: Mapping[str, Any]) -> dict[str, Endpoint]:
    """Listeners that are not advertised by hand: the broker as it listens, the controller as in the list of voters."""
    found = dict(values["listeners"])
    voter = values["controller_quorum_voters"].get(values["node_id"])
    if CONTROLLER_LISTENER in found and voter is not None:
        found[CONTROLLER_LISTENER] = voter
    return {**found, **parse_listeners("advertised.listeners", values["advertised_listeners"])}


def parse_voter_list(items: tuple[str, ...], key: str = "controller.quorum.voters") -> dict[int, Endpoint]:
    voters: dict[int, Endpoint] = {}
    for item in items:
        node, at, address = item.partition("@")
        match = _ENDPOINT.match(address)
        if not at or not _NODE_ID.match(node) or int(node) > NODE_ID_MAX or match is None:
            raise ConfigError(f"{key} = {shown(item)}: must be id@host:port, like 1@127.0.0.1:9193")
        if int(node) in voters:
            raise ConfigError(f"{key}: node id {int(node)} is given twice; give every controller its own id")
        voters[int(node)] = _endpoint(key, item, match.group(1), match.group(2))
    return voters


def parse_bootstrap_servers(items: tuple[str, ...]) -> tuple[Endpoint, ...]:
    key = "controller.quorum.bootstrap.servers"
    servers = []
    for item in items:
        match = _ENDPOINT.match(item)
        if match is None:
            raise ConfigError(f"{key} = {shown(item)}: must be host:port, without an id, like 127.0.0.1:9193")
        servers.append(_endpoint(key, item, match.group(1), match.group(2)))
    return tuple(servers)


def parse_metrics_listener(text: str) -> Endpoint | None:
    if not text:
        return None
    match = _ENDPOINT.match(text)
    if match is None:
        raise ConfigError(f'metrics.listener = {shown(text)}: must be host:port, like 127.0.0.1:9404, or ""')
    return _endpoint("metrics.listener", text, match.group(1) or "0.0.0.0", match.group(2))


def _endpoint(key: str, item: str, host: str, port: str) -> Endpoint:
    if not 1 <= int(port) <= PORT_MAX:
        raise ConfigError(f"{key} = {shown(item)}: port {port} is out of range; must be from 1 to {PORT_MAX}")
    if not _is_host(host):
        raise ConfigError(
            f"{key} = {shown(item)}: {shown(host)} is neither the name of a host nor an address; correct the host"
        )
    return Endpoint(host.strip("[]"), int(port))


def _is_host(host: str) -> bool:
    """True if one could ask for its address: a name has labels of 1 to 63 characters, and brackets hold IPv6."""
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(host.strip("[]"))
        name = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        return False
    if host.startswith("["):
        return True
    labels = name.removesuffix(".").split(".")
    return len(name) <= HOST_LENGTH_MAX and all(
        len(label) <= LABEL_LENGTH_MAX and _LABEL.fullmatch(label) for label in labels
    )
