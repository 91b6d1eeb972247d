"""The checks of what each broker says of itself: each fault with its place and remedy, and what a user cannot see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.health.judge import judge
from penstock.messages.cluster import (
    CertificateStanding,
    ClusterInfo,
    LogDirRoom,
    NodeStanding,
    PartitionTrouble,
    StuckGroup,
)
from penstock.messages.features import METADATA_VERSION, FeatureInfo, FeatureNode, FeatureRange, FeaturesInfo
from tests.unit.client.admin.health.test_judge import QUORUM, changed_view, check, view, views

DAY_MS = 86_400_000
GIB = 1 << 30
SOUND: dict[str, Any] = {
    "version": "1.2.0",
    "settings_digest": "abc",
    "certificates": (CertificateStanding("KAFKA", 200 * DAY_MS, 3_000 * DAY_MS),),
    "log_dir_rooms": (LogDirRoom("/a", 100 * GIB, 50 * GIB),),
}
HELD = PartitionTrouble("orders", 4, "held_up", (0,), (0,), reason="readers of committed records stand at offset 7")


def saying(node: int, **changes: Any) -> ClusterInfo:
    def changed(own: NodeStanding) -> NodeStanding:
        return replace(own, **{**SOUND, **changes})

    return changed_view(node, changed)


def test_a_sound_cluster_says_what_it_has() -> None:
    health = judge(views(saying(0), saying(1), saying(2)), QUORUM)
    assert health.status == "healthy" and {one.status for one in health.checks} == {"ok"}
    assert check(health, "certificates").summary == "the brokers refuse none; the first ends in 200 days"
    assert check(health, "versions").summary == "every broker that answers runs 1.2.0"
    assert check(health, "settings").summary == "those of every broker that answers are equal"
    assert check(health, "disk use").summary == "the fullest disk is used to 50%"
    assert check(health, "rights").summary == "this user sees every check"


CASES: dict[str, tuple[ClusterInfo, str, str, str]] = {
    "a certificate that ends soon": (
        saying(1, certificates=(CertificateStanding("KAFKA", 29 * DAY_MS),)),
        "certificates",
        "node 1, KAFKA: the certificate ends in 29 days",
        "penstock certs renew",
    ),
    "one that ends today": (
        saying(1, certificates=(CertificateStanding("KAFKA", 7_200_000),)),
        "certificates",
        "the certificate ends in 2 hours",
        "rename it there",
    ),
    "a CA that ends soon": (
        saying(1, certificates=(CertificateStanding("INTERNAL", 90 * DAY_MS, DAY_MS),)),
        "certificates",
        "node 1, INTERNAL: the last CA of the truststore ends in 1 days",
        "Renewal",
    ),
    "a refused certificate": (
        saying(1, certificates=(CertificateStanding("KAFKA", 90 * DAY_MS, None, "/node.pem: is empty"),)),
        "certificates",
        "node 1, KAFKA: a changed file is refused, and the old one goes on: /node.pem: is empty",
        "put right what is refused",
    ),
    "two releases": (saying(1, version="1.3.0", settings_digest="xyz"), "versions", "", "finish the upgrade"),
    "a release that does not say its name": (saying(1, version=""), "versions", "", "finish the upgrade"),
    "settings that differ": (
        saying(1, settings_digest="xyz"),
        "settings",
        "node 1: settings digest xyz",
        "`penstock configs describe --broker 0 --all` with that of --broker 1",
    ),
    "a disk that fills": (
        saying(1, log_dir_rooms=(LogDirRoom("/a", 100 * GIB, 14 * GIB), LogDirRoom("/b", 100 * GIB, 15 * GIB))),
        "disk use",
        "node 1: /a is used to 86%; 14336 MiB are free",
        "PenstockDiskFilling",
    ),
    "readers that are held up": (
        replace(saying(1, held_up=1), troubles=(HELD,)),
        "readers",
        "orders-4, led by broker 1: readers of committed records stand at offset 7",
        "penstock transactions find-hanging",
    ),
    "a group that is stuck": (
        saying(1, stuck_groups=(StuckGroup("shop", 3, 70, 720_000),)),
        "groups",
        "shop: 3 members, 70 records behind, nothing new for 12 min",
        "penstock groups describe",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_a_warning_with_its_place_and_what_to_do(case: str) -> None:
    ill, name, detail, remedy = CASES[case]
    health = judge(views(saying(0), ill, saying(2)), QUORUM)
    found = check(health, name)
    assert found.status == "warning" and health.status == "healthy"
    assert remedy in found.remedy and (not detail or any(detail in line for line in found.details))
    assert len(found.details) <= (2 if name == "settings" else 1)
    assert {one.name for one in health.checks if one.status != "ok"} == {name}


def test_versions_are_named_with_their_nodes() -> None:
    health = judge(views(saying(0), saying(1, version="1.3.0"), saying(2)), QUORUM)
    assert check(health, "versions").summary == "brokers run 1.2.0 on nodes 0, 2 and 1.3.0 on node 1"
    health = judge(views(saying(0), saying(1, version=""), saying(2)), QUORUM)
    assert check(health, "versions").summary == "brokers run 1.2.0 on nodes 0, 2 and an older release on node 1"


def test_a_certificate_that_has_ended_degrades_the_cluster() -> None:
    ended = saying(1, certificates=(CertificateStanding("KAFKA", -3 * DAY_MS),))
    health = judge(views(saying(0), ended), QUORUM)
    assert (check(health, "certificates").status, health.status) == ("degraded", "degraded")
    assert "has ended 3 days ago" in check(health, "certificates").details[0]


def test_a_cluster_of_an_older_release_is_not_said_to_be_sound() -> None:
    health = judge(views(view(0), view(1)), QUORUM)
    assert "does not tell" in check(health, "versions").summary
    assert check(health, "disk use").summary == "not known of a cluster of an older release"


def test_without_the_right_each_part_says_that_it_is_not_seen_and_one_line_which_right_is_missing() -> None:
    hidden = {name: type(value)() for name, value in SOUND.items()}
    partial = [saying(node, **hidden, is_partial=True, node_listeners=()) for node in range(3)]
    health = judge(views(*partial), None)
    rights = check(health, "rights")
    assert health.status == "healthy" and rights.status == "warning"
    assert "does not see the quorum; certificates, versions, settings" in rights.summary
    assert "penstock acls create User:NAME --operation describe --cluster" in rights.remedy
    for name in ("quorum", "certificates", "versions", "settings", "disk use", "disks", "log dirs"):
        assert check(health, name).summary == "not seen: a right is missing (see rights)"
    assert "of those that this user may describe" in check(health, "groups").summary
    assert check(health, "brokers").summary == "all 3 are in service", "what everybody may know is judged"
    assert check(health, "controller").summary == "node 1, as a broker heard last"
    lost = [replace(one, controller_id=-1) for one in partial]
    assert check(judge(views(*lost), None), "controller").status == "critical"


@pytest.mark.parametrize(
    ("level", "lasts", "status", "expected"),
    [
        (1, (2, 3), "warning", "metadata.version is 1, and every node knows 2"),
        (1, (2, None), "ok", "metadata.version is 1"),
        (2, (2, 2), "ok", "metadata.version is 2"),
    ],
    ids=["all know more", "one says nothing", "the newest"],
)
def test_a_level_that_every_node_knows_and_that_is_not_in_use_is_a_hint(
    level: int, lasts: tuple[int | None, ...], status: str, expected: str
) -> None:
    nodes = tuple(
        FeatureNode(number, True, True, () if last is None else (FeatureRange(METADATA_VERSION, 1, last),))
        for number, last in enumerate(lasts)
    )
    found = FeaturesInfo((FeatureInfo(METADATA_VERSION, 1, 3, level),), nodes)
    health = judge(views(saying(0), saying(1), saying(2)), QUORUM, found)
    hint = check(health, "feature levels")
    assert (health.status, hint.status, hint.summary) == ("healthy", status, expected)
    assert ("upgrade --feature metadata.version=2" in hint.remedy) is (status == "warning")
