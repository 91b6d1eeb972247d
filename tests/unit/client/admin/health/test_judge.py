"""Each check of a cluster's health: what makes it ill, how ill, and that it names the culprit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import ClusterHealth, HealthCheck
from penstock.client.admin.health.judge import judge
from penstock.messages.cluster import ClusterInfo, NodeListener, NodeStanding, PartitionTrouble, SilentLogDir
from penstock.messages.metadata import BrokerInfo
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo

BROKERS = tuple(BrokerInfo(node, f"host-{node}", 9192) for node in range(3))
QUORUM = QuorumInfo(1, 5, 100, tuple(QuorumReplicaInfo(node, 100, 20) for node in range(3)), ())
SHORT = PartitionTrouble("orders", 4, "under_min_isr", (0, 1, 2), (0,), 2)
OFFLINE = PartitionTrouble("orders", 7, "offline", (1, 2), (1,), reason="no leader: start broker 1")

INTERNAL = NodeListener("INTERNAL", "10.0.0.1", 9194, False)
EXPOSED = NodeListener("CONTROLLER", "::", 9193, True)


def view(node: int) -> ClusterInfo:
    """The answer of a broker of a healthy cluster."""
    status = NodeStanding(node, False, 300, 12, 4, 0, 0, 0, (), node_listeners=(INTERNAL,))
    return ClusterInfo("c", 1, BROKERS, 100, status, {0: 4, 1: 4, 2: 4})


def views(*nodes: ClusterInfo, silent: dict[int, str] | None = None) -> ClusterViews:
    return ClusterViews({node.standing.node_id: node for node in nodes}, silent or {})


def check(health: ClusterHealth, name: str) -> HealthCheck:
    return next(check for check in health.checks if check.name == name)


def changed_view(node: int, change: Callable[[NodeStanding], NodeStanding]) -> ClusterInfo:
    """The view of a broker that says something else of itself."""
    found = view(node)
    return replace(found, standing=change(found.standing))


def test_the_remedy_of_a_failed_log_dir_is_that_of_its_runbook() -> None:
    failed = changed_view(0, lambda own: replace(own, failed_log_dirs=("/data/1",)))
    remedy = check(judge(views(failed, view(1), view(2)), QUORUM), "log dirs").remedy
    runbook = (Path(__file__).resolve().parents[5] / "ops" / "runbooks" / "PenstockFailedLogDir.md").read_text()
    for step in ("penstock node format", "penstock node start", "--lost-log-dirs"):
        assert step in remedy and step in runbook


def test_a_cluster_without_a_fault_is_healthy_in_every_check() -> None:
    health = judge(views(view(0), view(1), view(2)), QUORUM)
    assert health.status == "healthy" and {check.status for check in health.checks} == {"ok"}
    assert not any(check.remedy or check.details for check in health.checks)


def test_a_voter_that_was_killed_a_moment_ago_is_not_said_to_follow() -> None:
    quorum = replace(QUORUM, voters=(*QUORUM.voters[:2], QuorumReplicaInfo(2, 90, 9_000)))
    health = judge(views(view(0), view(1), silent={2: "connection refused"}), quorum)
    assert check(health, "quorum").summary == "node 1 leads 3 voters, none silent for 10 s"
    assert check(health, "brokers").status == "degraded"


def test_a_lost_quorum_is_critical_and_says_since_when_and_who_is_missing() -> None:
    alone = replace(
        changed_view(
            0, lambda own: replace(own, fenced=True, metadata_age_ms=34_000, under_min_isr=1, under_replicated=1)
        ),
        controller_id=-1,
        troubles=(SHORT,),
    )
    quorum = replace(QUORUM, leader_id=-1, only_own_view=True)
    health = judge(views(alone, silent={1: "connection refused", 2: "no answer"}), quorum)
    assert health.status == "critical"
    assert "last heard from the quorum 34 s ago" in check(health, "quorum").summary
    assert "voters 0, 1, 2" in check(health, "quorum").remedy
    assert {check(health, name).status for name in ("quorum", "controller", "metadata")} == {"critical"}
    found = check(health, "brokers").details
    assert "no controller answers it" in found[0] and "connection refused" in found[1] and "no answer" in found[2]
    assert "8 cannot be read or written" in check(health, "offline partitions").summary
    assert "orders-4: in sync are 0 of 0, 1, 2" in check(health, "min.insync.replicas").details[0]


ILL: dict[str, tuple[ClusterViews, QuorumInfo, str, str, str]] = {
    "voter down": (
        views(view(0), view(1), view(2)),
        replace(QUORUM, voters=(*QUORUM.voters[:2], QuorumReplicaInfo(2, 90, 40_000))),
        "quorum",
        "degraded",
        "voter 2 last fetched 40 s ago; no other voter may fail",
    ),
    "leader known, but silent": (
        views(view(0), view(1), view(2)),
        replace(QUORUM, only_own_view=True),
        "controller",
        "critical",
        "no topic, leader or ISR can change",
    ),
    "one node cut off": (
        views(view(0), view(1), changed_view(2, lambda own: replace(own, metadata_age_ms=11_000))),
        QUORUM,
        "metadata",
        "degraded",
        "that of node 2 is old",
    ),
    "fenced": (
        views(
            replace(view(0), brokers=(*BROKERS[:2], replace(BROKERS[2], fenced=True)), metadata_offset=101),
            view(1),
            view(2),
        ),
        QUORUM,
        "brokers",
        "degraded",
        "1 of 3 are not in service",
    ),
    "offline": (
        views(replace(view(0), offline_partitions=1, troubles=(OFFLINE,), metadata_offset=101), view(1), view(2)),
        QUORUM,
        "offline partitions",
        "critical",
        "1 cannot be read or written",
    ),
    "a disk that does not answer": (
        views(
            changed_view(0, lambda own: replace(own, silent_log_dirs=(SilentLogDir("/a", 12_000, 0),))),
            view(1),
            view(2),
        ),
        QUORUM,
        "disks",
        "degraded",
        "1 log dir that does not answer",
    ),
    "a leader's disk that does not answer": (
        views(
            changed_view(0, lambda own: replace(own, silent_log_dirs=(SilentLogDir("/a", 12_000, 2),))),
            view(1),
            view(2),
        ),
        QUORUM,
        "disks",
        "critical",
        "1 log dir that does not answer; 2 partitions take no write",
    ),
    "under min isr": (
        views(changed_view(0, lambda own: replace(own, under_min_isr=2)), view(1), view(2)),
        QUORUM,
        "min.insync.replicas",
        "critical",
        "2 partitions take no acks=all",
    ),
    "under-replicated": (
        views(changed_view(0, lambda own: replace(own, under_replicated=3)), view(1), view(2)),
        QUORUM,
        "replicas",
        "degraded",
        "3 partitions have replicas that are not in sync",
    ),
    "failed log dir": (
        views(
            changed_view(0, lambda own: replace(own, failed_log_dirs=("/data/1",), lost_replicas=4)), view(1), view(2)
        ),
        QUORUM,
        "log dirs",
        "degraded",
        "out of use",
    ),
    "a leader's replica is damaged": (
        views(
            view(0),
            replace(
                changed_view(1, lambda own: replace(own, unserved=1, lost_replicas=1)),
                troubles=(PartitionTrouble("alone", 0, "unserved", (1,), (1,), reason="damaged at byte 0"),),
            ),
            view(2),
        ),
        QUORUM,
        "offline partitions",
        "critical",
        "1 cannot be read or written",
    ),
    "a leader's disk is full": (
        views(changed_view(0, lambda own: replace(own, refusing_appends=3, refusing_writes=2)), view(1), view(2)),
        QUORUM,
        "room",
        "critical",
        "2 partitions refused their last write",
    ),
    "a follower's disk is full": (
        views(changed_view(0, lambda own: replace(own, refusing_appends=3)), view(1), view(2)),
        QUORUM,
        "room",
        "degraded",
        "followers cannot write",
    ),
}


@pytest.mark.parametrize("row", ILL)
def test_each_fault_makes_its_check_and_the_cluster_as_ill_as_it_is(row: str) -> None:
    seen, quorum, name, status, says = ILL[row]
    health = judge(seen, quorum)
    found = check(health, name)
    assert (found.status, health.status) == (status, status)
    assert says in found.summary and found.remedy


def test_of_many_partitions_those_of_users_own_topics_are_named_first() -> None:
    """The cluster's own topics have 50 partitions each, and nobody looks for them first."""
    internal = tuple(PartitionTrouble("__consumer_offsets", n, "under_replicated", (0, 1), (0,), 1) for n in range(12))
    ill = changed_view(0, lambda own: replace(own, under_replicated=13))
    other = changed_view(1, lambda own: replace(own, under_replicated=1, under_min_isr=1))
    seen = views(replace(ill, troubles=(*internal, replace(SHORT, topic="views"))), replace(other, troubles=(SHORT,)))
    found = check(judge(seen, QUORUM), "replicas").details
    assert [line.partition(":")[0] for line in found[:3]] == ["orders-4", "views-4", "__consumer_offsets-0"]
    assert len(found) == 10


def test_the_newest_picture_counts_not_that_of_a_broker_that_was_cut_off() -> None:
    old = replace(view(2), controller_id=-1, metadata_offset=100, offline_partitions=9, troubles=(OFFLINE,))
    health = judge(views(view(0), view(1), old), QUORUM)
    assert check(health, "offline partitions").status == "ok"


def test_a_partition_whose_leader_cannot_serve_it_is_named_with_what_can_be_done() -> None:
    seen = ILL["a leader's replica is damaged"][0]
    found = check(judge(seen, QUORUM), "offline partitions")
    assert found.details == ("alone-0: offline on its leader, broker 1: damaged at byte 0",)


def test_what_a_fenced_broker_led_by_its_old_metadata_counts_no_more() -> None:
    old = changed_view(1, lambda own: replace(own, unserved=1, lost_replicas=1, fenced=True))
    assert check(judge(views(view(0), old, view(2)), QUORUM), "offline partitions").status == "ok"


def test_the_replicas_of_what_a_fenced_broker_still_believes_to_lead_are_not_its_to_judge() -> None:
    """A broker whose disk hangs is fenced, and misses every other replica of what it led: the sick one is not they."""
    fenced = tuple(replace(one, fenced=one.node_id == 2) for one in BROKERS)
    newer = [replace(view(node), brokers=fenced, metadata_offset=101) for node in range(2)]
    old = changed_view(2, lambda own: replace(own, fenced=True, under_min_isr=1, under_replicated=1))
    health = judge(views(*newer, replace(old, troubles=(SHORT,))), QUORUM)
    assert (check(health, "min.insync.replicas").status, check(health, "replicas").status) == ("ok", "ok")
    assert health.status == "degraded" and "broker 2" in check(health, "brokers").details[0]


def test_listeners_of_the_nodes_that_are_open_to_every_network_are_a_warning_and_no_fault() -> None:
    seen = views(view(0), changed_view(1, lambda own: replace(own, node_listeners=(EXPOSED, INTERNAL))), view(2))
    health = judge(seen, QUORUM)
    found = check(health, "node listeners")
    assert (health.status, found.status) == ("healthy", "warning")
    assert found.summary == "1 open to every network of the machine" and "firewall" in found.remedy
    assert found.details == (
        "node 1: CONTROLLER://[::]:9193: every machine that reaches it can act as a node of the cluster",
    )
    assert judge(seen, replace(QUORUM, leader_id=-1)).status == "critical"


def test_the_nodes_whose_listeners_are_not_known_are_named() -> None:
    """An older broker tells none, one that is down does not answer, and a controller alone is not asked."""
    older = changed_view(1, lambda own: replace(own, node_listeners=()))
    quorum = replace(QUORUM, voters=(*QUORUM.voters, QuorumReplicaInfo(7, 100, 20)))
    found = check(judge(views(view(0), older, silent={2: "connection refused"}), quorum), "node listeners")
    assert (found.status, found.remedy) == ("ok", "")
    assert found.summary == "none is known to be open to every network; not known of nodes 1, 2, 7"
