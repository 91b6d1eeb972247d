"""The metrics of the quorum, of the controller, and of the cluster's metadata.

Read from `statistics()` in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_snapshotter import MetadataSnapshotter, SnapshotStatistics
from metadata.controller.controller import ControllerStatistics
from metadata.features import KRAFT_VERSION, FeatureTable
from metadata.image import MetadataImage
from metadata.offline import OfflineReason, offline_reason
from raft.driver.driver import RaftDriver
from raft.statistics import DriverStatistics
from raft.voters import VoterSet


def quorum_readings(
    driver: RaftDriver, controller: ControllerDriver | None, loader: MetadataLoader, snapshotter: MetadataSnapshotter
) -> Iterator[Reading]:
    """Everything that is known now; `controller` is None without that role."""
    active = controller is not None and controller.is_active
    _, epoch = driver.leader_and_epoch
    yield Reading("penstock_active_controllers", "1 on the active controller, else 0.", float(active))
    yield Reading("penstock_quorum_epoch", "The quorum's epoch as this node knows it.", epoch)
    yield Reading(
        "penstock_quorum_forgotten",
        "1 on a voter that lost its state and takes no part in elections, else 0.",
        float(driver.has_forgotten),
    )
    yield Reading("penstock_quorum_high_watermark", "Committed offset of the metadata log.", driver.high_watermark)
    yield Reading("penstock_metadata_offset", "The last metadata offset in this node's image.", loader.image.offset)
    yield Reading(
        "penstock_metadata_age_seconds",
        "For how long this node has not heard from the quorum's leader (the leader: from a majority of the voters)."
        " What it shows of the cluster may be so old.",
        driver.contact_ms_ago() / 1000,
    )
    fenced = sum(broker.fenced for broker in loader.image.brokers.values())
    yield Reading("penstock_fenced_brokers", "Registered brokers that are fenced.", fenced)
    yield from _offline_partitions(loader.image)
    if controller is not None:
        found = controller.statistics()
        yield from record_readings(found)
        yield from record_readings(found.controller or ControllerStatistics())
    yield from _snapshots(snapshotter.statistics())
    if driver.is_started:
        yield from _elections(driver.statistics())


def _snapshots(found: SnapshotStatistics) -> Iterator[Reading]:
    """The snapshots of the metadata that this node wrote."""
    newest = found.newest
    help_text = "Bytes of the newest snapshot of the metadata here; 0 without one."
    yield Reading("penstock_metadata_snapshot_bytes", help_text, newest.size_bytes)
    help_text = "Where the newest snapshot of the metadata here ends; what is behind it is in the metadata log alone."
    yield Reading("penstock_metadata_snapshot_end_offset", help_text, newest.snapshot_id.end_offset)
    yield from record_readings(found)


def _elections(driver: DriverStatistics) -> Iterator[Reading]:
    """The quorum, and the work of this node's part of it since its start."""
    core = driver.core
    yield Reading("penstock_quorum_leader_id", "The quorum's leader; -1 when unknown.", core.leader_id)
    help_text = "The next offset of the metadata log here."
    yield Reading("penstock_quorum_log_end_offset", help_text, core.log_end_offset)
    help_text = "Bytes of the metadata log that this node proposed as leader and that are not committed yet."
    yield Reading("penstock_quorum_uncommitted_bytes", help_text, core.uncommitted_bytes)
    help_text = "Decisions of this node that wait for their commit."
    yield Reading("penstock_quorum_proposals_waiting", help_text, driver.proposals_waiting)
    yield from record_readings(core)
    yield from record_readings(driver)


def feature_readings(table: FeatureTable, image: MetadataImage, voters: VoterSet) -> Iterator[Reading]:
    """The level of each feature: as it is finalized, and the highest that this node supports."""
    levels = {**table.levels(image.levels), KRAFT_VERSION: int(voters.is_dynamic)}
    for name, level in levels.items():
        yield Reading("penstock_feature_level", "The finalized level of a feature.", level, labels=(("feature", name),))
    for name, one in table.ranges.items():
        help_text = "The highest level of a feature that this node supports."
        yield Reading("penstock_feature_level_supported", help_text, one.last, labels=(("feature", name),))


def _offline_partitions(image: MetadataImage) -> Iterator[Reading]:
    reasons = Counter(
        offline_reason(partition, image)
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
        if not partition.has_leader
    )
    yield Reading("penstock_offline_partitions", "Partitions of the cluster without a leader.", reasons.total())
    for reason in OfflineReason:
        yield Reading(
            "penstock_leaderless_partitions",
            "Partitions of the cluster without a leader, by the reason.",
            reasons[reason],
            labels=(("reason", reason.value),),
        )
