"""The digest of settings is equal where nodes may differ, and different where they should not."""

from __future__ import annotations

from broker.config.config import parse_config
from broker.config.config_digest import settings_digest

OWN = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "listeners": "BROKER://h1:1,INTERNAL://h1:2,CONTROLLER://h1:3",
    "log.dirs": "/d1",
}
OTHER = {**OWN, "node.id": 2, "listeners": "BROKER://h2:1,INTERNAL://h2:2,CONTROLLER://h2:3", "log.dirs": "/d2"}
VOTERS = {"controller.quorum.voters": "1@h1:3,2@h2:3"}


def digest(*parts: dict[str, object]) -> str:
    given: dict[str, object] = {}
    for part in parts:
        given |= part
    return settings_digest(parse_config(given))


def test_nodes_of_one_cluster_share_a_digest_and_a_default_that_is_written_out_changes_nothing() -> None:
    assert digest(OWN, VOTERS) == digest(OTHER, VOTERS) == digest(OWN, VOTERS, {"log.segment.bytes": 1 << 30})


def test_a_controller_that_joins_by_itself_has_the_digest_of_its_cluster() -> None:
    servers = {"controller.quorum.bootstrap.servers": "h1:3,h2:3"}
    assert digest(OWN, servers) == digest(OTHER, servers, {"controller.quorum.auto.join.enable": True})
    assert digest(OWN, servers) != digest(OWN, {"controller.quorum.bootstrap.servers": "h1:3"})


def test_another_setting_is_another_digest() -> None:
    others = [{"log.segment.bytes": 1 << 29}, {"controller.quorum.voters": "1@h1:3"}, {"flush.policy": "os"}]
    assert len({digest(OWN, VOTERS), *(digest(OWN, VOTERS, other) for other in others)}) == 4
