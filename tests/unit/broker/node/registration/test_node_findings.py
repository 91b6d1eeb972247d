"""The findings of a broker for DescribeCluster: stuck groups, and the figures of certificates and disks."""

from __future__ import annotations

from typing import Any, cast

from broker.groups.lag.lag_pass import GroupLag
from broker.node.registration.node_findings import NodeFindings, stuck_groups
from broker.replication.replica_troubles import NAMED_MAX
from broker.tls.material import CertificateStatistics
from penstock.clock import ManualClock
from penstock.messages.cluster import STUCK_GROUP_MS, CertificateStanding, LogDirRoom, StuckGroup
from storage.disk.file_system import DiskRoom

DAY_MS = 86_400_000


def lag(lag: int = 5, members: int = 2, stalled_ms: int = STUCK_GROUP_MS, never: int = 0) -> GroupLag:
    return GroupLag(lag=lag, lag_ms=0, members=members, epoch=1, stalled_ms=stalled_ms, never_committed=never)


def test_a_group_is_stuck_with_members_and_records_and_no_commit_for_ten_minutes() -> None:
    groups = {
        "reads": lag(stalled_ms=STUCK_GROUP_MS - 1),
        "has all": lag(lag=0),
        "is stopped": lag(members=0),
        "hangs": lag(),
        "never began": lag(lag=0, never=7, stalled_ms=2 * STUCK_GROUP_MS),
    }
    assert stuck_groups(groups) == (
        StuckGroup("never began", 2, 7, 2 * STUCK_GROUP_MS),
        StuckGroup("hangs", 2, 5, STUCK_GROUP_MS),
    )
    many = {f"g-{number}": lag(stalled_ms=STUCK_GROUP_MS + number) for number in range(NAMED_MAX + 9)}
    assert [one.group_id for one in stuck_groups(many)][:2] == [f"g-{NAMED_MAX + 8}", f"g-{NAMED_MAX + 7}"]
    assert len(stuck_groups(many)) == NAMED_MAX


class FixedStatistics:
    def __init__(self, statistics: object) -> None:
        self._statistics = statistics

    def statistics(self) -> Any:
        return self._statistics


def test_certificates_are_told_by_the_time_that_is_left_and_disks_by_their_room() -> None:
    clock = ManualClock(0, 100 * DAY_MS)
    of_tls = [
        CertificateStatistics("KAFKA", 130 * DAY_MS, None, ""),
        CertificateStatistics("INTERNAL", 99 * DAY_MS, 101 * DAY_MS, "/node.pem: is empty"),
    ]
    nothing = cast(Any, None)
    findings = NodeFindings(
        dynamic=nothing,
        certificates=cast(Any, FixedStatistics(of_tls)),
        disk_rooms=cast(Any, FixedStatistics({"/b": DiskRoom(10, 1), "/a": DiskRoom(20, 2)})),
        stable_offsets=nothing,
        group_lag=nothing,
        wall_clock=nothing,
        clock=clock,
    )
    assert findings.certificate_standings() == (
        CertificateStanding("KAFKA", 30 * DAY_MS),
        CertificateStanding("INTERNAL", -DAY_MS, DAY_MS, "/node.pem: is empty"),
    )
    assert findings.log_dir_rooms() == (LogDirRoom("/a", 20, 2), LogDirRoom("/b", 10, 1))
