"""The metrics of the quorum, of the controller, and of the cluster's metadata.

Read from `statistics()` in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.metrics.metrics import Reading
from broker.metrics.node_view import NodeView
from broker.quorum.controller_driver import ControllerDriverStatistics
from broker.quorum.metadata_snapshotter import SnapshotStatistics
from metadata.image import MetadataImage
from metadata.offline import OfflineReason, offline_reason
from raft.statistics import DriverStatistics


def quorum_readings(node: NodeView) -> Iterator[Reading]:
    driver = node.raft
    active = node.controller is not None and node.controller.is_active
    _, epoch = driver.leader_and_epoch
    yield Reading("penstock_active_controllers", "1 on the active controller, else 0.", float(active))
    yield Reading("penstock_quorum_epoch", "The quorum's epoch as this node knows it.", epoch)
    yield Reading(
        "penstock_quorum_forgotten",
        "1 on a voter that lost its state and takes no part in elections, else 0.",
        float(driver.has_forgotten),
    )
    yield Reading("penstock_quorum_high_watermark", "Committed offset of the metadata log.", driver.high_watermark)
    yield Reading(
        "penstock_metadata_offset", "The last metadata offset in this node's image.", node.loader.image.offset
    )
    yield Reading(
        "penstock_metadata_age_seconds",
        "For how long this node has not heard from the quorum's leader (the leader: from a majority of the voters)."
        " What it shows of the cluster may be so old.",
        driver.contact_ms_ago() / 1000,
    )
    fenced = sum(broker.fenced for broker in node.loader.image.brokers.values())
    yield Reading("penstock_fenced_brokers", "Registered brokers that are fenced.", fenced)
    yield from _offline_partitions(node.loader.image)
    if node.controller is not None:
        yield from _controller(node.controller.statistics())
    yield from _snapshots(node.snapshotter.statistics())
    if driver.is_started:
        yield from _elections(driver.statistics())


def _snapshots(found: SnapshotStatistics) -> Iterator[Reading]:
    """Of the metadata, that this node wrote."""
    newest = found.newest
    help_text = "Bytes of the newest snapshot of the metadata here; 0 without one."
    yield Reading("penstock_metadata_snapshot_bytes", help_text, newest.size_bytes)
    help_text = "Where the newest snapshot of the metadata here ends; what is behind it is in the metadata log alone."
    yield Reading("penstock_metadata_snapshot_end_offset", help_text, newest.snapshot_id.end_offset)
    yield Reading("penstock_metadata_snapshots", "Snapshots of the metadata that this node keeps.", found.kept)
    help_text = "Snapshots of the metadata that this node wrote."
    yield Reading("penstock_metadata_snapshots_written", help_text, found.written, True)
    help_text = "Snapshots of the metadata that could not be written."
    yield Reading("penstock_metadata_snapshot_failures", help_text, found.failed, True)


def _controller(found: ControllerDriverStatistics) -> Iterator[Reading]:
    """These count only while this node is the active controller, since the node's start."""
    yield Reading(
        "penstock_leader_elections",
        "Leaders of partitions that this node elected, unclean ones counted.",
        found.leader_elections,
        True,
    )
    yield Reading(
        "penstock_unclean_leader_elections",
        "Leaders that this node elected from outside the ISR: acked records may be lost.",
        found.unclean_elections,
        True,
    )
    yield Reading(
        "penstock_scheduled_leader_elections",
        "Leaderships that this node gave back to the preferred leaders by schedule.",
        found.scheduled_elections,
        True,
    )
    yield Reading(
        "penstock_broker_sessions_expired",
        "Brokers that this node fenced because no heartbeat came.",
        found.sessions_expired,
        True,
    )
    yield Reading(
        "penstock_unclean_registrations",
        "Brokers that registered with this node after an unclean stop.",
        found.unclean_registrations,
        True,
    )
    now = found.controller
    help_text = "Brokers in service, by the active controller; 0 elsewhere."
    yield Reading("penstock_controller_active_brokers", help_text, now.active_brokers if now is not None else 0)
    help_text = "Partitions that their preferred leader does not lead, by the active controller; 0 elsewhere."
    yield Reading("penstock_preferred_replica_imbalance", help_text, now.led_elsewhere if now is not None else 0)
    help_text = "The most replicas of a broker in service minus the fewest, by the active controller; 0 elsewhere."
    yield Reading("penstock_replica_spread", help_text, now.replica_spread if now is not None else 0)
    help_text = "Partitions whose replicas move to other brokers, by the active controller; 0 elsewhere."
    yield Reading("penstock_reassigning_partitions", help_text, now.reassigning_partitions if now is not None else 0)
    help_text = "Topics, by the active controller; 0 elsewhere."
    yield Reading("penstock_controller_topics", help_text, now.topics if now is not None else 0)
    help_text = "Partitions, by the active controller; 0 elsewhere."
    yield Reading("penstock_controller_partitions", help_text, now.partitions if now is not None else 0)


def _elections(driver: DriverStatistics) -> Iterator[Reading]:
    """Of the quorum: what this node's part of it did since its start."""
    core = driver.core
    yield Reading("penstock_quorum_leader_id", "The quorum's leader; -1 when unknown.", core.leader_id)
    help_text = "The next offset of the metadata log here."
    yield Reading("penstock_quorum_log_end_offset", help_text, core.log_end_offset)
    help_text = "Bytes of the metadata log that this node proposed as leader and that are not committed yet."
    yield Reading("penstock_quorum_uncommitted_bytes", help_text, core.uncommitted_bytes)
    help_text = "Decisions of this node that wait for their commit."
    yield Reading("penstock_quorum_proposals_waiting", help_text, driver.proposals_waiting)
    for name, help_text, count in (
        (
            "penstock_quorum_pre_votes",
            "Rounds of pre-votes that this node asked for: it had heard of no leader.",
            core.pre_vote_rounds,
        ),
        ("penstock_quorum_elections", "Elections of the quorum in which this node stood.", core.elections),
        ("penstock_quorum_elections_won", "Elections of the quorum that this node won.", core.elections_won),
        ("penstock_quorum_resignations", "How often this node resigned as the quorum's leader.", core.resignations),
        ("penstock_quorum_truncations", "How often the metadata log was truncated to the leader's.", core.truncations),
        (
            "penstock_quorum_snapshots_installed",
            "Snapshots of the metadata that came from the leader and replaced the log here.",
            core.snapshots_installed,
        ),
        (
            "penstock_quorum_snapshots_refused",
            "Snapshots of the metadata that came from the leader and were damaged.",
            core.snapshots_refused,
        ),
        ("penstock_quorum_fetches_answered", "Fetches of other nodes from the metadata log.", core.fetches_answered),
        ("penstock_quorum_requests_rejected", "Requests of the quorum that were refused.", core.requests_rejected),
        (
            "penstock_quorum_epoch_jumps_refused",
            "Requests refused for an epoch far above this node's.",
            core.epoch_jumps_refused,
        ),
        ("penstock_quorum_answers_dropped", "Answers to requests that this node had dropped.", core.answers_dropped),
        ("penstock_quorum_answers_malformed", "Malformed answers of other voters.", core.answers_malformed),
        ("penstock_quorum_flushes", "Flushes of the metadata log.", driver.flushes),
        (
            "penstock_quorum_election_states_saved",
            "How often the epoch and the vote were written.",
            driver.election_state_saves,
        ),
        (
            "penstock_quorum_send_failures",
            "Messages to other voters that could not be sent or got no answer.",
            driver.send_failures,
        ),
    ):
        yield Reading(name, help_text, count, True)


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
