"""Whatever an admin's request says, it is answered in its version, and the controller's metadata stays sound.

Requests are drawn from the declarations of the messages, with names and numbers that exist among those that do not. An
answer that has no encoding, and any error but a typed one, would fail here.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker.kafka_codec.structs import facts_of
from penstock.messages import log_dirs, voters
from tests.support.kafka_messages import drawn, versions_of
from tests.unit.broker.kafka.apis.admin_node import AdminNode
from tests.unit.broker.kafka.apis.test_log_dirs_and_quorum import TWO_DIRS, quorum_of

SEEDS = 30
NAMES = ("t", "u", "1", "", "__cluster_metadata", "retention.ms", "cleanup.policy", "message.max.bytes", "root", "INFO")
NUMBERS = (0, 1, 2, 3, 4, 8, 16, -1)
KEYS = sorted(row.key for row in AdminNode()._rows)


def with_known(value: Any, version: int, random: Random) -> Any:
    """The message with names and numbers that mean something here in place of some of its own."""
    if isinstance(value, list):
        return [with_known(item, version, random) for item in value]
    if isinstance(value, str):
        return random.choice(NAMES) if random.random() < 0.7 else value
    if isinstance(value, int) and not isinstance(value, bool):
        return random.choice(NUMBERS) if random.random() < 0.7 else value
    if "__wire__" in vars(type(value)):
        for name, field in facts_of(type(value)).fields:
            if field.kind not in ("uuid", "uint16") and version in field.versions:
                setattr(value, name, with_known(getattr(value, name), version, random))
    return value


def a_node() -> AdminNode:
    node = AdminNode(3, auto_create_topics_enable=True)
    node.cluster.create("t", 3, 2)
    node.cluster.create("u", 1, 3, {"retention.ms": "5"})
    node.cluster.let_die(3)
    node.answers["DescribeQuorum"] = lambda body: quorum_of()
    for name in ("AddVoter", "RemoveVoter", "UnregisterController"):
        node.answers[name] = lambda body: voters.VoterChangeResponse()
    node.answers["UpdateFeatures"] = lambda body: node.cluster.commit(node.cluster.controller.update_features(body, ()))
    node.answers["DescribeLogDirs"] = lambda body: TWO_DIRS
    node.answers["AlterReplicaLogDirs"] = lambda body: log_dirs.AlterReplicaLogDirsResponse(1, ())
    return node


@pytest.mark.parametrize("key", KEYS)
def test_every_request_of_an_admin_is_answered(key: int) -> None:
    node = a_node()
    row = next(row for row in node._rows if row.key == key)
    for version in range(row.versions[0], row.versions[1] + 1):
        assert version in versions_of(row.request)
        for seed in range(SEEDS):
            random = Random(f"{key} {version} {seed}")
            body = with_known(drawn(row.request, version, random), version, random)
            answer = node.call(key, body, version)
            if hasattr(answer, "error_code"):
                assert answer.error_code != -1
