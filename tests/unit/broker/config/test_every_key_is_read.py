"""A key without an effect is a false promise: each key of a node, and each of a topic, is read by code that acts on it.

The tables of keys and the checks of their values (broker/config) do not count. A key is read where an attribute, or a
text, has its name. A few are read by another name; the table below names it, and that one must be read.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import broker
from broker.config.keys.config_table import KEYS
from metadata.topic_config import TOPIC_CONFIGS

ROOT = Path(broker.__file__).parent.parent
ROOMS = ("broker", "metadata", "storage", "raft", "penstock")
TOKENS = "sasl.oauthbearer."
BY_ANOTHER_NAME = {
    "process.roles": "is_broker",
    "listener.type.map": "listener_type",
    "listener.security.protocol.map": "security_protocol",
    "ssl.client.auth": "client_auth",
    "ssl.principal.mapping.rules": "mapping_rules",
    "super.users": "super_user_principals",
    "unclean.leader.election.enable": "UNCLEAN_LEADER_ELECTION",
    f"{TOKENS}jwks.endpoint.refresh.ms": "refresh_ms",
    f"{TOKENS}jwks.endpoint.retry.backoff.ms": "retry_backoff_ms",
    f"{TOKENS}jwks.endpoint.retry.backoff.max.ms": "retry_backoff_max_ms",
}
JUDGED_ALONE = frozenset({"allow.plaintext.node.listeners", "ssl.keystore.type", "ssl.truststore.type"})
"""They have one value, or permit another key's: the check of the values is their whole effect."""


def named_outside_of_the_tables() -> frozenset[str]:
    names: set[str] = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if path.is_relative_to(ROOT / "broker" / "config"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Name) and node.id.isupper() and isinstance(node.ctx, ast.Load):
                    names.add(node.id)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names.add(node.value)
    return frozenset(names)


@pytest.fixture(scope="module")
def named() -> frozenset[str]:
    return named_outside_of_the_tables()


def read_as(key: str) -> str:
    if key in BY_ANOTHER_NAME:
        return BY_ANOTHER_NAME[key]
    return key.removeprefix(TOKENS).replace(".", "_") if key.startswith(TOKENS) else key.replace(".", "_")


def test_every_key_of_a_node_is_read(named: frozenset[str]) -> None:
    of_topics = {definition.broker_key for definition in TOPIC_CONFIGS.values()}
    unread = [key for key in KEYS if key not in of_topics | JUDGED_ALONE and read_as(key) not in named]
    assert not unread, f"documented, and read by nobody: {unread}"


def test_every_key_of_a_topic_is_read(named: frozenset[str]) -> None:
    unread = [key for key in TOPIC_CONFIGS if read_as(key) not in named]
    assert not unread, f"documented, and read by nobody: {unread}"


def test_no_exception_is_left_over(named: frozenset[str]) -> None:
    assert not {*BY_ANOTHER_NAME, *JUDGED_ALONE} - {*KEYS, *TOPIC_CONFIGS}
    assert not [key for key in BY_ANOTHER_NAME if key.replace(".", "_") in named]
