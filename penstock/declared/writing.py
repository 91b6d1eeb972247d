"""Writes a state as the file from which reading.py makes the same state. Equal states give equal files.

Users are written without their passwords: no cluster tells them. Where some of the state could not be looked at, the
file says so in a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.config_keys import toml_value
from penstock.declared.reading import EVERYBODY, OF_ALL_BROKERS, RESOURCES
from penstock.declared.state import DeclaredState, DeclaredTopic, DeclaredUser
from penstock.messages.security.acls import WILDCARD, AclBinding, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import ENTITY_TYPES, QuotaEntity

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAMES: Final = {kind: key for key, kind in RESOURCES.items()}


def write_declared(state: DeclaredState) -> str:
    """The file, which ends with a line break; a comment for each thing that is not in it."""
    blocks = [*_comments(state), *_topics(state), *_brokers(state), *_users(state), *_acls(state), *_quotas(state)]
    return "\n".join(blocks)


def _comments(state: DeclaredState) -> Iterator[str]:
    lines = [f"# {kind} are not in this file: {_one_line(why)}\n" for kind, why in sorted(state.unseen.items())]
    lines += [
        f"# the configuration of broker {broker_id} is not in this file: {_one_line(why)}\n"
        for broker_id, why in sorted(state.unseen_brokers.items())
    ]
    if lines:
        yield "".join(lines)


def _topics(state: DeclaredState) -> Iterator[str]:
    for _, topic in sorted(state.topics.items()):
        yield _topic(topic)


def _topic(topic: DeclaredTopic) -> str:
    lines = [f"[topics.{_key(topic.name)}]"]
    if topic.partitions is not None:
        lines.append(f"partitions = {topic.partitions}")
    if topic.replication_factor is not None:
        lines.append(f"replication-factor = {topic.replication_factor}")
    if topic.config:
        lines.append(f"config = {_inline(topic.config)}")
    return "\n".join(lines) + "\n"


def _brokers(state: DeclaredState) -> Iterator[str]:
    for broker_id in sorted(state.configs, key=lambda one: -1 if one is None else one):
        name = OF_ALL_BROKERS if broker_id is None else str(broker_id)
        yield f"[brokers.{name}]\nconfig = {_inline(state.configs[broker_id])}\n"


def _users(state: DeclaredState) -> Iterator[str]:
    for _, user in sorted(state.users.items()):
        yield _user(user)


def _user(user: DeclaredUser) -> str:
    lines = [f"[users.{_key(user.name)}]", f"mechanisms = {_text(list(user.mechanisms))}"]
    if user.iterations is not None:
        lines.append(f"iterations = {user.iterations}")
    if user.password_env:
        lines.append(f"password-env = {_text(user.password_env)}")
    if user.password_file:
        lines.append(f"password-file = {_text(user.password_file)}")
    return "\n".join(lines) + "\n"


def _acls(state: DeclaredState) -> Iterator[str]:
    """ACLs that differ in their operations alone are one block."""
    operations: dict[tuple[str, ...], list[str]] = {}
    for acl in state.acls:
        operations.setdefault(tuple(_acl_lines(acl)), []).append(acl.operation.value)
    for lines, words in sorted(operations.items()):
        yield "\n".join(("[[acls]]", *lines, f"operations = {_text(sorted(words))}")) + "\n"


def _acl_lines(acl: AclBinding) -> Iterator[str]:
    yield f"principal = {_text(acl.principal)}"
    if acl.resource_type is ResourceType.CLUSTER:
        yield "cluster = true"
    else:
        yield f"{_NAMES[acl.resource_type]} = {_text(acl.resource_name)}"
    if acl.pattern_type is not PatternType.LITERAL:
        yield f"pattern = {_text(acl.pattern_type.value)}"
    if acl.permission is not Permission.ALLOW:
        yield f"permission = {_text(acl.permission.value)}"
    if acl.host != WILDCARD:
        yield f"host = {_text(acl.host)}"


def _quotas(state: DeclaredState) -> Iterator[str]:
    for entity, values in sorted(state.quotas.items(), key=lambda one: _order(one[0])):
        lines = [f"{kind} = {_text(name or EVERYBODY)}" for kind, name in entity.parts]
        lines += [f"{key} = {json.dumps(value)}" for key, value in sorted(values.items())]
        yield "\n".join(("[[quotas]]", *lines)) + "\n"


def _order(entity: QuotaEntity) -> list[tuple[int, str]]:
    return [(ENTITY_TYPES.index(kind), name) for kind, name in entity.parts]


def _inline(config: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(config.items()))
    return f"{{ {pairs} }}" if pairs else "{}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: object) -> str:
    """A value in TOML, in which nothing steers a terminal."""
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in toml_value(value))


def _one_line(text: str) -> str:
    return " ".join(text.split())
