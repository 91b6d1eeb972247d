"""Judges what each broker says of itself beside its replicas: certificates, disks, clock, release, settings, groups
that stand still, and readers that an open transaction holds up.

All of it works now, and will not for long, or is not as somebody believes: each finding is a warning, but a certificate
that has ended, which lets nobody in. Controllers that are no brokers are not asked; their metrics tell it. An older
broker says nothing, and the summary names it. A user who may not describe the cluster learns which right is missing.
"""

from __future__ import annotations

from collections import defaultdict

from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import (
    DEGRADED,
    OK,
    PARTITIONS_NAMED_MAX,
    WARNING,
    HealthCheck,
    nodes_listed,
)
from penstock.messages.features import METADATA_VERSION, FeaturesInfo

DAY_MS = 86_400_000
ENDS_SOON_MS = 30 * DAY_MS
"""Enough for an office that renews by hand; the alert and the node's log come two weeks before."""
USED_MAX = 0.85
"""A disk that is fuller has little room for a replica that must move, or for a weekend."""
NOT_SEEN = "not seen: a right is missing (see rights)"


def disk_use(views: ClusterViews) -> HealthCheck:
    """Log dirs whose file system is nearly full."""
    rooms = [(s.node_id, room) for s in views.statuses for room in s.log_dir_rooms if room.size_bytes > 0]
    if not rooms:
        return _unknown("disk use", views, "")
    full = [(1 - room.free_bytes / room.size_bytes, node_id, room) for node_id, room in rooms]
    found = sorted((one for one in full if one[0] > USED_MAX), key=lambda one: (-one[0], one[1], one[2].path))
    if not found:
        fullest = max(share for share, *_ in full)
        return HealthCheck(
            "disk use", OK, f"the fullest disk is used to {fullest:.0%}{_not_known_of(views, 'log_dir_rooms')}"
        )
    return HealthCheck(
        "disk use",
        WARNING,
        f"{len(found)} log dir{'s' * (len(found) > 1)} above {USED_MAX:.0%}{_not_known_of(views, 'log_dir_rooms')}",
        "lower retention, add a log dir or a broker, or move replicas away (`penstock log-dirs`,"
        " ops/runbooks/PenstockDiskFilling.md): a full disk refuses writes",
        tuple(
            f"node {node_id}: {room.path} is used to {share:.0%}; {room.free_bytes >> 20} MiB are free"
            for share, node_id, room in found[:PARTITIONS_NAMED_MAX]
        ),
    )


def held_up_readers(views: ClusterViews) -> HealthCheck:
    """Partitions whose readers of committed records wait for a transaction that nobody ends."""
    count = sum(status.held_up for status in views.statuses)
    if not count:
        return HealthCheck("readers", OK, "no open transaction holds up readers of committed records")
    return HealthCheck(
        "readers",
        WARNING,
        f"{count} partitions whose readers of committed records stand still for minutes",
        "`penstock transactions list` shows whose transaction is open, `penstock transactions find-hanging` one that no"
        " coordinator ends, and `penstock transactions abort` ends it (ops/runbooks/PenstockStableOffsetStuck.md)",
        tuple(
            f"{t.topic}-{t.partition}, led by broker {node_id}: {t.reason}" for node_id, t in views.troubles("held_up")
        )[:PARTITIONS_NAMED_MAX],
    )


def group_progress(views: ClusterViews) -> HealthCheck:
    """Groups with members that commit nothing, though there are records."""
    found = sorted(
        (group for s in views.statuses for group in s.stuck_groups), key=lambda one: (-one.stalled_ms, one.group_id)
    )
    if not found:
        whose = " of those that this user may describe" if is_partial(views) else ""
        return HealthCheck("groups", OK, f"none{whose} with members and records to read stands still")
    return HealthCheck(
        "groups",
        WARNING,
        f"{len(found)} with members and records to read {'commits' if len(found) == 1 else 'commit'} nothing",
        "`penstock groups describe GROUP` shows which member has the partitions; look at that consumer's log",
        tuple(
            f"{one.group_id}: {one.members} members, {one.lag} records behind, nothing new for"
            f" {one.stalled_ms // 60_000} min"
            for one in found[:PARTITIONS_NAMED_MAX]
        ),
    )


def certificates(views: ClusterViews) -> HealthCheck:
    """Certificates that end soon, have ended, or were changed to what does not work."""
    troubles, has_ended = [], False
    for s in views.statuses:
        for one in s.certificates:
            where = f"node {s.node_id}, {one.listener}"
            if one.refused:
                troubles.append(f"{where}: a changed file is refused, and the old one goes on: {one.refused}")
            for what, left_ms in (("certificate", one.left_ms), ("last CA of the truststore", one.truststore_left_ms)):
                if left_ms is not None and left_ms < ENDS_SOON_MS:
                    has_ended |= left_ms <= 0
                    troubles.append(f"{where}: the {what} {_end(left_ms)}")
    first = min((one.left_ms for s in views.statuses for one in s.certificates), default=None)
    if troubles:
        return HealthCheck(
            "certificates",
            DEGRADED if has_ended else WARNING,
            f"{len(troubles)} refused, ended, or to end within {ENDS_SOON_MS // DAY_MS} days",
            "`penstock certs renew FILE`, then copy the file to its node under another name and rename it there: the"
            " node takes it within seconds (docs/security.md, Renewal); put right what is refused",
            tuple(troubles[:PARTITIONS_NAMED_MAX]),
        )
    if first is None:
        return _unknown("certificates", views, "no broker has a listener with TLS")
    return HealthCheck("certificates", OK, f"the brokers refuse none; the first ends in {first // DAY_MS} days")


def _end(left_ms: int) -> str:
    if left_ms <= 0:
        return f"has ended {-left_ms // DAY_MS} days ago"
    return f"ends in {left_ms // DAY_MS} days" if left_ms >= DAY_MS else f"ends in {left_ms // 3_600_000} hours"


def clocks(views: ClusterViews) -> HealthCheck:
    """Brokers whose calendar is not to be trusted."""
    found = [(s.node_id, s.calendar_fault) for s in views.statuses if s.calendar_fault]
    if not found:
        return HealthCheck("clocks", OK, "no broker that answers has jumped in time, or is apart from the others")
    return HealthCheck(
        "clocks",
        WARNING,
        f"nothing is deleted by age on {nodes_listed([node_id for node_id, _ in found])}",
        "set the time of that machine right, and run a time service on it (ops/runbooks/PenstockClockJumped.md)",
        tuple(f"node {node_id}: {fault}" for node_id, fault in found[:PARTITIONS_NAMED_MAX]),
    )


def cordoned(views: ClusterViews) -> HealthCheck:
    """Brokers that get no new replicas, because somebody said so (KIP-1066)."""
    found = [broker.node_id for broker in views.newest.brokers if broker.cordoned]
    if not found:
        return HealthCheck("cordoned", OK, "every broker takes new replicas")
    return HealthCheck(
        "cordoned",
        WARNING,
        f"{nodes_listed(found)} {'gets' if len(found) == 1 else 'get'} no new replicas",
        "where that is over: `penstock brokers uncordon ID`",
    )


def releases(views: ClusterViews) -> HealthCheck:
    """Brokers of different releases."""
    by_version = _by(views, "version")
    if not by_version:
        return _unknown("versions", views, "the brokers are of a release that does not tell it")
    if len(by_version) == 1 and not _silent(views, "version"):
        return HealthCheck("versions", OK, f"every broker that answers runs {next(iter(by_version))}")
    versions = [f"{version} on {nodes_listed(ids)}" for version, ids in sorted(by_version.items())]
    if older := _silent(views, "version"):
        versions.append(f"an older release on {nodes_listed(older)}")
    return HealthCheck(
        "versions",
        WARNING,
        f"brokers run {' and '.join(versions)}",
        "finish the upgrade, node by node (docs/upgrading.md)",
    )


def feature_levels(features: FeaturesInfo | None) -> HealthCheck:
    """A `metadata.version` below the one that every node supports: what a new release brought is not in use yet."""
    found = features.feature(METADATA_VERSION) if features is not None else None
    if features is None or found is None:
        return HealthCheck("feature levels", OK, "not known: an older release, or no controller answers this user")
    supported = [
        next((one.last for one in node.ranges if one.name == METADATA_VERSION), found.level) for node in features.nodes
    ]
    if min(supported, default=found.level) <= found.level:
        return HealthCheck("feature levels", OK, f"{METADATA_VERSION} is {found.level}")
    level = min(supported)
    return HealthCheck(
        "feature levels",
        WARNING,
        f"{METADATA_VERSION} is {found.level}, and every node knows {level}",
        "once no older release will be installed again: `penstock features upgrade --feature"
        f" {METADATA_VERSION}={level}`",
    )


def settings(views: ClusterViews) -> HealthCheck:
    """Brokers of one release that were started with files whose settings differ. Another release has other keys, so its
    digest is another one in any case."""
    by_version: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for status in views.statuses:
        if status.settings_digest:
            by_version[status.version][status.settings_digest].append(status.node_id)
    if not by_version:
        return _unknown("settings", views, "the brokers are of a release that does not tell them")
    by_digest = max(by_version.values(), key=len)
    if len(by_digest) == 1:
        which = "broker that answers" if len(by_version) == 1 else "broker of the same release"
        return HealthCheck("settings", OK, f"those of every {which} are equal{_not_known_of(views, 'version')}")
    groups = sorted(by_digest.items(), key=lambda one: (-len(one[1]), one[1]))
    one, other = groups[0][1][0], groups[1][1][0]
    return HealthCheck(
        "settings",
        WARNING,
        f"the files of {len(groups)} sets of brokers differ in more than what is a node's own",
        f"compare `penstock configs describe --broker {one} --all` with that of --broker {other}, and give the nodes"
        " the same settings, unless they are meant to differ",
        tuple(f"{nodes_listed(ids)}: settings digest {digest}" for digest, ids in groups[:PARTITIONS_NAMED_MAX]),
    )


def missing_rights(views: ClusterViews, *, is_quorum_seen: bool) -> HealthCheck:
    """The parts that this user cannot see, and the least right that shows them."""
    partial = [s.node_id for s in views.statuses if s.is_partial]
    if not partial and is_quorum_seen:
        return HealthCheck("rights", OK, "this user sees every check")
    hidden = ["the quorum"] if not is_quorum_seen else []
    if partial:
        hidden.append("certificates, versions, settings, disk use, failed and silent log dirs, and listeners for nodes")
        hidden.append("topics and groups that this user may not describe")
    return HealthCheck(
        "rights",
        WARNING,
        f"this user does not see {'; '.join(hidden)}",
        "give it DESCRIBE on the cluster: `penstock acls create User:NAME --operation describe --cluster`",
    )


def _by(views: ClusterViews, field: str) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for status in views.statuses:
        if value := getattr(status, field):
            found[value].append(status.node_id)
    return dict(found)


def _silent(views: ClusterViews, field: str) -> list[int]:
    """The brokers that could have told it and did not: they are of an older release."""
    return [s.node_id for s in views.statuses if not getattr(s, field) and not s.is_partial]


def _not_known_of(views: ClusterViews, field: str) -> str:
    older = _silent(views, field)
    return f"; not known of {nodes_listed(older)}" if older else ""


def _unknown(name: str, views: ClusterViews, otherwise: str) -> HealthCheck:
    """The result of a check for which no broker has reported anything."""
    if is_partial(views):
        return HealthCheck(name, OK, NOT_SEEN)
    return HealthCheck(name, OK, otherwise or "not known of a cluster of an older release")


def is_partial(views: ClusterViews) -> bool:
    """A right is missing, so what nobody has told may be so or not."""
    return any(status.is_partial for status in views.statuses)
