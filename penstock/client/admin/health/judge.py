"""Judges a cluster's health from what its brokers say of themselves: `judge` is pure, cluster_views.py asks.

    healthy     every check is ok
    degraded    everything works, and nothing acked is in danger; one more failure may change that
    critical    something does not work: no controller, partitions that cannot be read or written

A check can also be a warning: all is as it was configured, and somebody should know what that means. A cluster with
warnings is healthy.

Each broker's own word counts: a broker that is cut off shows an old picture of the cluster, and does not know it. So
what is cluster-wide is taken from the newest picture, and the state of a broker from itself.
"""

from __future__ import annotations

from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import (
    CRITICAL,
    DEGRADED,
    HEALTHY,
    OK,
    PARTITIONS_NAMED_MAX,
    RANKS,
    WARNING,
    ClusterHealth,
    HealthCheck,
    listed,
    nodes_listed,
    seconds,
)
from penstock.client.admin.health.listener_checks import client_listeners, open_node_listeners
from penstock.client.admin.health.node_checks import (
    NOT_SEEN,
    certificates,
    clocks,
    cordoned,
    disk_use,
    feature_levels,
    group_progress,
    held_up_readers,
    is_partial,
    missing_rights,
    releases,
    settings,
)
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS
from penstock.messages.cluster import PartitionTrouble
from penstock.messages.features import FeaturesInfo
from penstock.messages.metadata import BrokerInfo
from penstock.messages.quorum import QuorumInfo

VOTER_SILENT_MS = 10_000
"""A node hears from the quorum at least each second; an election takes less than this, too."""


def judge(views: ClusterViews, quorum: QuorumInfo | None, features: FeaturesInfo | None = None) -> ClusterHealth:
    """Every check, in the order in which a person should look at them. `quorum` is None for a user who may not describe
    the cluster: what that hides is a check of its own. `features` are None where they are not known."""
    checks = (
        _quorum(views, quorum),
        _controller(views, quorum),
        _metadata(views),
        _brokers(views),
        cordoned(views),
        _offline(views),
        _under_min_isr(views),
        _under_replicated(views),
        _disks(views),
        _log_dirs(views),
        _room(views),
        disk_use(views),
        held_up_readers(views),
        group_progress(views),
        certificates(views),
        clocks(views),
        releases(views),
        feature_levels(features),
        settings(views),
        client_listeners(views),
        open_node_listeners(views, quorum),
        missing_rights(views, is_quorum_seen=quorum is not None),
    )
    worst = max((check.status for check in checks), key=RANKS.index)
    return ClusterHealth(HEALTHY if worst in (OK, WARNING) else worst, checks)


def _quorum(views: ClusterViews, quorum: QuorumInfo | None) -> HealthCheck:
    if quorum is None:
        return HealthCheck("quorum", OK, NOT_SEEN)
    voters = [voter.node_id for voter in quorum.voters]
    if not quorum.has_leader:
        age_ms = min(status.metadata_age_ms for status in views.statuses)
        return HealthCheck(
            "quorum",
            CRITICAL,
            f"no leader; a node that answers last heard from the quorum {seconds(age_ms)} ago",
            f"a majority of the voters {listed(voters)} must run and reach each other at their CONTROLLER listeners:"
            " start those that are down, and look at their logs",
        )
    late = [v for v in quorum.voters if not 0 <= v.last_fetch_ms_ago <= VOTER_SILENT_MS]
    if late:
        spare = (len(voters) - 1) // 2 - len(late)
        silent = (f"voter {v.node_id} {_last_fetch(v.last_fetch_ms_ago)}" for v in late)
        left = f"{spare} more may fail" if spare > 0 else "no other voter may fail"
        return HealthCheck(
            "quorum",
            DEGRADED,
            f"{', '.join(silent)}; {left}",
            f"start {nodes_listed([v.node_id for v in late])}; the log of one that runs says what it waits for, such as"
            " room on its disk",
        )
    silence = seconds(VOTER_SILENT_MS)
    return HealthCheck("quorum", OK, f"node {quorum.leader_id} leads {len(voters)} voters, none silent for {silence}")


def _last_fetch(ago_ms: int) -> str:
    return "has not fetched from the leader" if ago_ms < 0 else f"last fetched {seconds(ago_ms)} ago"


def _controller(views: ClusterViews, quorum: QuorumInfo | None) -> HealthCheck:
    if quorum is None and views.newest.controller_id >= 0:
        return HealthCheck("controller", OK, f"node {views.newest.controller_id}, as a broker heard last")
    if quorum is None or not quorum.has_leader:
        none = "none: no topic, leader or ISR can change"
        return HealthCheck("controller", CRITICAL, none, "it comes back with the leader of the quorum")
    return HealthCheck("controller", OK, f"node {quorum.leader_id} answers")


def _metadata(views: ClusterViews) -> HealthCheck:
    old = [s for s in views.statuses if s.metadata_age_ms > METADATA_OLD_MS]
    if not old:
        return HealthCheck("metadata", OK, "that of every broker that answers is current")
    return HealthCheck(
        "metadata",
        CRITICAL if len(old) == len(views.by_node) else DEGRADED,
        f"that of {nodes_listed([s.node_id for s in old])} is old: clients that ask there hear of an earlier cluster",
        "connect these nodes with the voters of the quorum, or bring the quorum back",
        tuple(f"node {s.node_id}: {seconds(s.metadata_age_ms)} old" for s in old),
    )


def address(broker: BrokerInfo) -> str:
    """The address of a broker, for people."""
    return str(broker.endpoint) if broker.host else "no listener of this name"


def _brokers(views: ClusterViews) -> HealthCheck:
    newest, found = views.newest, []
    for broker in newest.brokers:
        view = views.by_node.get(broker.node_id)
        name = f"broker {broker.node_id} ({address(broker)})"
        if view is None and broker.host:
            found.append(f"{name} does not answer: {views.silent.get(broker.node_id, 'not asked')}")
        elif broker.fenced:
            found.append(f"{name} is fenced: the controller keeps it out of service")
        elif view is not None and view.standing.fenced:
            found.append(f"{name} is fenced: no controller answers it")
    if not found:
        return HealthCheck("brokers", OK, f"all {len(newest.brokers)} are in service")
    return HealthCheck(
        "brokers",
        DEGRADED,
        f"{len(found)} of {len(newest.brokers)} are not in service",
        "start what is down; the log of a fenced broker says what it waits for",
        tuple(found),
    )


def _offline(views: ClusterViews) -> HealthCheck:
    newest = views.newest
    led = {node_id: count for node_id in views.silent if (count := newest.leaders.get(node_id, 0))}
    current = [status for status in views.statuses if not status.fenced]  # others may lead what a fenced one led
    count = newest.offline_partitions + sum(led.values()) + sum(status.unserved for status in current)
    if not count:
        return HealthCheck("offline partitions", OK, "every partition has a leader that answers")
    details = [f"{of_one} partitions are led by broker {node}, which does not answer" for node, of_one in led.items()]
    details += [f"{_named(t)}: {t.reason}" for t in newest.troubles if t.kind == "offline"]
    details += [
        f"{_named(t)}: offline on its leader, broker {node_id}: {t.reason}"
        for node_id, t in views.troubles("unserved")
        if not views.by_node[node_id].standing.fenced
    ]
    return HealthCheck(
        "offline partitions",
        CRITICAL,
        f"{count} cannot be read or written",
        "start the brokers that hold their in-sync replicas; for a replica that is offline on its leader, its line says"
        " what can be done",
        tuple(details[:PARTITIONS_NAMED_MAX]),
    )


def _under_min_isr(views: ClusterViews) -> HealthCheck:
    count = sum(status.under_min_isr for status in views.leading)
    if not count:
        return HealthCheck("min.insync.replicas", OK, "every leader that answers has enough replicas in sync")
    return HealthCheck(
        "min.insync.replicas",
        CRITICAL,
        f"{count} partitions take no acks=all: fewer replicas are in sync than min.insync.replicas",
        "start the brokers of the replicas that are not in sync, and wait until they have caught up",
        _of_kind(views, "under_min_isr"),
    )


def _under_replicated(views: ClusterViews) -> HealthCheck:
    count = sum(status.under_replicated for status in views.leading)
    if not count:
        return HealthCheck("replicas", OK, "all are in sync, as the leaders that answer know it")
    return HealthCheck(
        "replicas",
        DEGRADED,
        f"{count} partitions have replicas that are not in sync",
        "they catch up by themselves when their brokers are in service and their disks take writes;"
        " `penstock topics describe` shows the ISR",
        _of_kind(views, "under_replicated", "under_min_isr"),
    )


def _disks(views: ClusterViews) -> HealthCheck:
    silent = [(s.node_id, found) for s in views.statuses for found in s.silent_log_dirs]
    if not silent:
        return HealthCheck(
            "disks", OK, NOT_SEEN if is_partial(views) else "every disk answers, as far as its node does"
        )
    stalled = sum(found.stalled for _, found in silent)
    details = [
        f"log dir {found.path} of node {node_id} has not answered for {seconds(found.silent_ms)}"
        for node_id, found in silent
    ]
    details += [f"{_named(t)}: led by broker {node_id}: {t.reason}" for node_id, t in views.troubles("stalled")]
    dirs = f"{len(silent)} log dir{'s' if len(silent) > 1 else ''} that do{'' if len(silent) > 1 else 'es'} not answer"
    return HealthCheck(
        "disks",
        CRITICAL if stalled else DEGRADED,
        f"{dirs}; {stalled} partitions take no write" if stalled else dirs,
        "look at the kernel log of that machine; after log.dir.hang.ms.max the log dir fails, and other replicas lead",
        tuple(details[:PARTITIONS_NAMED_MAX]),
    )


def _log_dirs(views: ClusterViews) -> HealthCheck:
    found = [f"node {s.node_id}: log dir {path} failed" for s in views.statuses for path in s.failed_log_dirs]
    lost = {s.node_id: s.lost_replicas for s in views.statuses if s.lost_replicas}
    found += [f"node {node_id}: {count} replicas cannot be served" for node_id, count in lost.items()]
    if not found:
        return HealthCheck("log dirs", OK, NOT_SEEN if is_partial(views) else "none failed")
    return HealthCheck(
        "log dirs",
        DEGRADED,
        "some replicas or log dirs are out of use",
        "the node's log says why. A passing error: repair it, and restart the node. A dead disk: stop the node, mount a"
        " new one, `penstock node format`, then start it once with `penstock node start --lost-log-dirs ID`",
        tuple(found),
    )


def _room(views: ClusterViews) -> HealthCheck:
    refusing = [status for status in views.statuses if status.refusing_appends]
    if not refusing:
        return HealthCheck("room", OK, "no disk has refused an append lately")
    writes = sum(status.refusing_writes for status in refusing)
    return HealthCheck(
        "room",
        CRITICAL if writes else DEGRADED,
        f"{writes} partitions refused their last write" if writes else "followers cannot write, and leave the ISRs",
        "free space on that node's disks, or lower retention; the node goes on by itself, and this line goes with the"
        " next write that fits, or after 5 minutes without one. Its log names the file, and says if file descriptors"
        " are short instead",
        tuple(f"node {s.node_id}: {s.refusing_appends} replicas had their last append refused" for s in refusing),
    )


def _of_kind(views: ClusterViews, *kinds: str) -> tuple[str, ...]:
    leading = {status.node_id for status in views.leading}
    found = [t for node_id, t in views.troubles(*kinds) if node_id in leading]
    return tuple(
        f"{_named(t)}: in sync are {listed(t.in_sync)} of {listed(t.replicas)}; min.insync.replicas is"
        f" {t.min_insync_replicas}"
        for t in found[:PARTITIONS_NAMED_MAX]
    )


def _named(trouble: PartitionTrouble) -> str:
    return f"{trouble.topic}-{trouble.partition}"
