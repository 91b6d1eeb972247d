"""The table of faults: which alerts must fire, and which may fire beside them. No other alert fires."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.alerts_fire import of_certificates, of_clients, of_disks, of_groups, of_nodes, of_strangers, of_transactions
from tests.alerts_fire.stage import Setting, Stage

PLAIN = Setting()
ONE_PARTITION = Setting({"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1})
DELETED_SOON = {"log.segment.delete.delay.ms": 1_000}


@dataclass(frozen=True, slots=True)
class Case:
    """One fault. Alerts are named without `Penstock`, as their names all begin."""

    fault: Callable[[Stage], AbstractContextManager[object]]
    must: str
    may: str = ""
    setting: Setting = PLAIN

    @property
    def name(self) -> str:
        return self.fault.__name__.replace("_", "-")

    @property
    def must_fire(self) -> frozenset[str]:
        return _full_names(self.must)

    @property
    def may_fire(self) -> frozenset[str]:
        return _full_names(self.may)


def _full_names(words: str) -> frozenset[str]:
    return frozenset(f"Penstock{word}" for word in words.split())


OUT_OF_SERVICE = "NodeDown FencedBroker UnderReplicated"
"""A node that was stopped for a moment may be out of service long enough for these, at the pace of a test."""

CASES = (
    Case(of_nodes.killed, OUT_OF_SERVICE),
    Case(of_nodes.killed_controller, OUT_OF_SERVICE),
    Case(of_nodes.killed_with_the_only_replica, "NodeDown FencedBroker OfflinePartitions"),
    Case(of_nodes.killed_where_all_are_needed, f"{OUT_OF_SERVICE} UnderMinIsr"),
    Case(of_nodes.paused, OUT_OF_SERVICE),
    Case(
        of_nodes.without_a_majority,
        "NodeDown NoActiveController",
        "UnderReplicated UnderMinIsr OfflinePartitions FencedBroker",
    ),
    Case(of_nodes.without_any_node, "NodeDown NoActiveController"),
    Case(
        of_nodes.forgetful_voter,
        "VoterForgot NodeDown NoActiveController",
        "UnderReplicated UnderMinIsr OfflinePartitions FencedBroker",
    ),
    Case(of_nodes.slow_follower, "UnderReplicated", setting=Setting(proxied=True)),
    Case(of_nodes.unclean_election, f"UncleanElection {OUT_OF_SERVICE}", "OfflinePartitions", Setting(proxied=True)),
    Case(of_nodes.forged_epochs, "EpochsRefused"),
    Case(of_nodes.forged_shutdowns, "BrokerRegistersAnew"),
    Case(of_nodes.jumped_clock, "ClockJumped", setting=Setting(own_clocks=True)),
    Case(of_disks.filling_disk, "DiskFilling", setting=Setting(DELETED_SOON, disk=True)),
    Case(of_disks.full_disk, "DiskFull", "FailingPeriodicJob DiskFilling", Setting(disk=True)),
    Case(
        of_disks.full_disk_of_a_follower,
        "DiskFull UnderReplicated",
        "FailingPeriodicJob DiskFilling",
        Setting(disk=True),
    ),
    Case(
        of_disks.silent_disk,
        "SilentDisk",
        "UnderReplicated FailingPeriodicJob",
        Setting({"log.dir.hang.ms.max": 3_600_000}, own_clocks=True),
    ),
    Case(of_disks.undeletable_file, "FailingPeriodicJob", setting=Setting(DELETED_SOON)),
    Case(of_disks.lost_log_dir, "FailedLogDir UnderReplicated", "NodeDown FencedBroker"),
    Case(of_disks.given_up_log_dir, "LogLost OfflinePartitions", "NodeDown FencedBroker"),
    Case(of_disks.rot_in_the_only_replica, "DamagedReplica", "NodeDown FencedBroker OfflinePartitions"),
    Case(of_nodes.spoilt_link, "FollowerRefusesRecords UnderReplicated", setting=Setting(proxied=True)),
    Case(of_disks.damaged_head_of_a_compacted_log, "UncleanablePartitions", "NodeDown FencedBroker OfflinePartitions"),
    Case(
        of_clients.streams_that_never_read,
        "MemoryBudgetFull",
        setting=Setting(
            {"queued.max.response.bytes": of_clients.BUDGET_BYTES, "connections.max.write.stall.ms": 3_600_000}
        ),
    ),
    Case(
        of_clients.connections_without_end,
        "ConnectionsCut",
        setting=Setting({"max.connections": of_clients.CONNECTIONS_MAX}),
    ),
    Case(
        of_clients.producers_without_end,
        "ProducersRefused",
        setting=Setting({"producer.id.max.per.partition": of_clients.PRODUCERS_MAX}),
    ),
    Case(of_certificates.ending_certificate, "CertificateEnds", setting=Setting(tls=True)),
    Case(of_certificates.half_a_certificate, "CertificateRefused", setting=Setting(tls=True)),
    Case(
        of_strangers.guessed_passwords,
        "LogInsFail",
        setting=Setting({"listener.security.protocol.map": of_strangers.PROTOCOLS}),
    ),
    Case(
        of_strangers.program_without_its_acl,
        "RightsRefused",
        setting=Setting({"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": True}),
    ),
    Case(of_certificates.page_instead_of_keys, "TokenKeysRefused", setting=Setting(tls=True)),
    Case(of_groups.consumer_that_is_too_slow, "GroupLagGrows"),
    Case(of_groups.consumer_that_hangs, "GroupStuck"),
    Case(of_groups.consumer_that_hangs_at_its_first_record, "GroupStuck"),
    Case(of_groups.members_that_come_and_go, "RebalancesTooOften"),
    Case(
        of_groups.record_of_a_later_release,
        "CoordinatorFailed",
        f"{OUT_OF_SERVICE} NoActiveController OfflinePartitions",
        ONE_PARTITION,
    ),
    Case(
        of_transactions.transaction_of_a_later_release,
        "CoordinatorFailed",
        f"{OUT_OF_SERVICE} NoActiveController OfflinePartitions",
        ONE_PARTITION,
    ),
    Case(of_transactions.transaction_that_nobody_ends, "StableOffsetStuck"),
    Case(of_nodes.overloaded, "HandlersBusy NetworkBusy MachineBusy", "UnderReplicated DiskFilling"),
)
