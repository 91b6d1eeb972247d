"""The quorum of the metadata log, and the controller that it elects."""

from __future__ import annotations

from ops.dashboards.panels import Dashboard, Query, Row, Stat, Unit, gauge, graph, quantiles, rate, rise, selected
from ops.dashboards.shared import SESSIONS

STANDING = Row(
    "Standing",
    (
        Stat("Active controllers", "Exactly one in a healthy cluster.", "sum(penstock_active_controllers)", 2, 1),
        Stat(
            "Nodes that know no leader",
            "They do not reach a majority of the voters.",
            "sum(penstock_quorum_leader_id < bool 0)",
        ),
        Stat(
            "Leaders that nodes name",
            "More than one for longer than a moment: nodes do not reach each other.",
            'count(count_values("leader", penstock_quorum_leader_id >= 0))',
            2,
            1,
        ),
        Stat(
            "Voters that forgot",
            "They lost their state and take no part in elections.",
            "sum(penstock_quorum_forgotten)",
        ),
    ),
)
ELECTIONS = Row(
    "Elections",
    (
        graph(
            "Leader",
            "The node id that each node takes for the leader.",
            Unit.COUNT,
            gauge("penstock_quorum_leader_id"),
        ),
        graph("Epoch", "It rises with each election.", Unit.COUNT, gauge("penstock_quorum_epoch")),
        graph(
            "Voters",
            "The voters that each node knows, and the nodes on which the newest change of them is not known to be "
            "committed. That is a moment; for longer, a majority of the new voters does not answer.",
            Unit.COUNT,
            gauge("penstock_quorum_voters", "voters {{instance}}"),
            gauge("penstock_quorum_uncommitted_voter_change", "not committed {{instance}}"),
        ),
        graph(
            "Feature levels",
            "The finalized level of each feature, and the highest that each node supports. Where all nodes support a "
            "higher one, `penstock features upgrade` raises it.",
            Unit.COUNT,
            gauge("penstock_feature_level", "{{feature}} {{instance}}"),
            gauge("penstock_feature_level_supported", "supported {{feature}} {{instance}}"),
        ),
        graph(
            "Elections",
            "Pre-votes that a node asked for because it heard of no leader, elections in which it stood, and those "
            "that it won.",
            Unit.COUNT,
            rise("penstock_quorum_pre_votes_total", "pre-votes {{instance}}"),
            rise("penstock_quorum_elections_total", "stood {{instance}}"),
            rise("penstock_quorum_elections_won_total", "won {{instance}}"),
        ),
        graph(
            "Resignations and truncations",
            "A leader that heard of no majority resigned; a follower's log was cut back to the leader's; a voter came"
            " back without what it had acked to the leader.",
            Unit.COUNT,
            rise("penstock_quorum_resignations_total", "resigned {{instance}}"),
            rise("penstock_quorum_truncations_total", "truncated {{instance}}"),
            rise("penstock_quorum_acks_lost_total", "acks lost {{instance}}"),
        ),
        graph(
            "Between the voters",
            "Messages that could not be sent or got no answer, and requests that were refused.",
            Unit.COUNT,
            rise("penstock_quorum_send_failures_total", "failed {{instance}}"),
            rise("penstock_quorum_requests_rejected_total", "rejected {{instance}}"),
            rise("penstock_quorum_epoch_jumps_refused_total", "epoch too high {{instance}}"),
            rise("penstock_quorum_answers_malformed_total", "malformed {{instance}}"),
            rise("penstock_quorum_answers_dropped_total", "too late {{instance}}"),
        ),
    ),
)
LOG = Row(
    "The metadata log",
    (
        graph(
            "Time of a commit",
            "From a decision of the active controller until a majority has it on disk.",
            Unit.SECONDS,
            *quantiles("penstock_quorum_commit_seconds"),
        ),
        graph(
            "Decisions that wait",
            "Proposed and not committed yet.",
            Unit.COUNT,
            gauge("penstock_quorum_proposals_waiting"),
        ),
        graph(
            "Bytes that wait",
            "Proposed as leader and not committed yet.",
            Unit.BYTES,
            gauge("penstock_quorum_uncommitted_bytes"),
        ),
        graph(
            "Records that are not committed",
            "In a node's metadata log, above the committed offset that it knows.",
            Unit.COUNT,
            Query(f"{selected('penstock_quorum_log_end_offset')} - {selected('penstock_quorum_high_watermark')}"),
        ),
        graph(
            "Commits",
            "By how much the committed offset rose in a second.",
            Unit.RECORDS_PER_SECOND,
            Query(f"deriv({selected('penstock_quorum_high_watermark')}[$__rate_interval])"),
        ),
        graph(
            "Behind the quorum",
            "Records that a node's image is behind the highest committed offset of the cluster.",
            Unit.COUNT,
            Query(f"scalar(max(penstock_quorum_high_watermark)) - 1 - {selected('penstock_metadata_offset')}"),
        ),
        graph(
            "Age of the metadata",
            "For how long a node has not heard from the leader, and the leader from a majority of the voters.",
            Unit.SECONDS,
            gauge("penstock_metadata_age_seconds"),
        ),
        graph(
            "Flushes",
            "Of the metadata log, and of the epoch and the vote.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_quorum_flushes_total", "log {{instance}}"),
            rate("penstock_quorum_election_states_saved_total", "vote {{instance}}"),
        ),
        graph(
            "Snapshots",
            "Of the metadata: written, not written because of the disk, and taken from the leader by a node that was"
            " too far behind.",
            Unit.COUNT,
            rise("penstock_metadata_snapshots_written_total", "written {{instance}}"),
            rise("penstock_metadata_snapshot_failures_total", "not written {{instance}}"),
            rise("penstock_quorum_snapshots_installed_total", "taken {{instance}}"),
            rise("penstock_quorum_snapshots_refused_total", "damaged {{instance}}"),
        ),
        graph(
            "Size of the newest snapshot",
            "Of the metadata. It grows with the cluster, not with time.",
            Unit.BYTES,
            gauge("penstock_metadata_snapshot_bytes"),
        ),
        graph(
            "Behind the newest snapshot",
            "Offsets of the metadata log that only the log has.",
            Unit.COUNT,
            Query(
                f"{selected('penstock_quorum_high_watermark')} - {selected('penstock_metadata_snapshot_end_offset')}"
            ),
        ),
        graph(
            "Snapshots that are kept",
            "Of the metadata, for followers that are behind.",
            Unit.COUNT,
            gauge("penstock_metadata_snapshots"),
        ),
        graph(
            "Fetches answered",
            "Of voters and observers, by the leader.",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_quorum_fetches_answered_total"),
        ),
    ),
)
CONTROLLER = Row(
    "The controller",
    (
        graph(
            "Brokers",
            "In service by the active controller, and registered ones that are fenced.",
            Unit.COUNT,
            Query("max(penstock_controller_active_brokers)", "in service"),
            Query("max(penstock_fenced_brokers)", "fenced"),
            gauge("penstock_broker_fenced", "takes itself for fenced {{instance}}"),
        ),
        graph(
            "Leader elections",
            "Of partitions. Unclean ones are from outside the ISR: acked records may be lost.",
            Unit.COUNT,
            rise("penstock_leader_elections_total", "all {{instance}}"),
            rise("penstock_unclean_leader_elections_total", "unclean {{instance}}"),
        ),
        graph(
            "Preferred leaders",
            "Partitions that their preferred leader does not lead, and leaderships that went back to it by schedule.",
            Unit.COUNT,
            Query("max(penstock_preferred_replica_imbalance)", "led elsewhere"),
            rise("penstock_scheduled_leader_elections_total", "given back {{instance}}"),
        ),
        graph(
            "Reassignments",
            "Partitions whose replicas move to other brokers now; `penstock reassignments list` names them. And by how "
            "many replicas two brokers differ at most: `penstock cluster balance` evens them.",
            Unit.COUNT,
            Query("max(penstock_reassigning_partitions)", "moving"),
            Query("max(penstock_replica_spread)", "replicas apart"),
        ),
        graph(
            "Copies for reassignments",
            "Record bytes copied to and from replicas that move, until they are in sync.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_reassignment_bytes_in_total", "to {{instance}}"),
            rate("penstock_reassignment_bytes_out_total", "from {{instance}}"),
        ),
        graph(
            "Throttled copies",
            "How often a throttle held a copy. A slow move without any waits for something else.",
            Unit.COUNT,
            rise("penstock_follower_throttled_copies_total", "as follower {{instance}}"),
            rise("penstock_leader_throttled_copies_total", "as leader {{instance}}"),
        ),
        SESSIONS,
    ),
)

DASHBOARD = Dashboard("quorum", "quorum", __doc__.strip(), (STANDING, ELECTIONS, LOG, CONTROLLER))
