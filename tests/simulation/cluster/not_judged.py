"""The exceptions of the invariants: where a check passes over something on purpose, and why nothing is promised there.

Each names the function of the check and the words in it that make the exception, as a mutant does: a check that changes
there fails `test_not_judged.py` until its row is true again. What an invariant does not say in the first place is no
exception, and is not here (docs/invariants.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.cluster.claim_invariants import ClaimInvariants
from tests.simulation.cluster.client_invariants import ClientInvariants
from tests.simulation.cluster.groups.bookkeeper import Bookkeeper
from tests.simulation.cluster.groups.oracle import GroupOracle
from tests.simulation.cluster.invariants import Invariants
from tests.simulation.cluster.neighbour_invariants import NeighbourInvariants
from tests.simulation.cluster.partition_invariants import PartitionInvariants
from tests.simulation.cluster.producer_invariants import ProducerInvariants
from tests.simulation.cluster.quorum_invariants import QuorumInvariants
from tests.simulation.cluster.quota_invariants import QuotaInvariants
from tests.simulation.cluster.share_invariants import ShareInvariants
from tests.simulation.cluster.voters.voter_sets import VoterSets
from tests.simulation.cluster.workload import Clients

OF_RECORDS = ("I13", "I14", "I15", "I19", "I21", "I26", "I27", "I32")
LOST_DISK = "the disk was lost or put back: until the member has left each ISR and learned, it need not hold its log"


@dataclass(frozen=True, slots=True)
class NotJudged:
    """One exception of these invariants."""

    invariants: tuple[str, ...]
    place: Callable[..., Any]
    condition: str
    reason: str


NOT_JUDGED = (
    NotJudged(
        ("I81",),
        QuotaInvariants.broken,
        "plan.byte_rate is None or plan.faults or plan.operators",
        "a broker that restarts has counted nothing, and a request that is lost was sent",
    ),
    NotJudged(
        OF_RECORDS,
        PartitionInvariants.is_promised,
        "not partition.log.config.is_compacted",
        "the cleaner takes records out of a compacted topic and rewrites its batches",
    ),
    NotJudged(
        OF_RECORDS,
        PartitionInvariants._keeps_numbers,
        'partition.log.settings.flush_policy != "os"',
        "flush.policy=os promises nothing of a disk that loses its power",
    ),
    NotJudged(
        OF_RECORDS,
        PartitionInvariants._keeps_numbers,
        "not self.metadata.may_lose(",
        "an unclean election was allowed for the topic, and loses committed records by decision",
    ),
    NotJudged(
        ("I13", "I19"),
        PartitionInvariants._commits,
        "if self.metadata.partition(seen.key) is None:",
        "the topic was deleted, and a node that has heard of it may have taken the files away",
    ),
    NotJudged(("I13", "I14", "I32"), PartitionInvariants.check_isr, "if self._is_excused(known, member):", LOST_DISK),
    NotJudged(
        ("I26", "I27"),
        ClaimInvariants._is_promised,
        "partition.offline is not None or partition.log.closed",
        "the log is out of use, and its files may not be readable, or may be gone",
    ),
    NotJudged(
        ("I26",),
        ClaimInvariants._check_checkpoints,
        "if self._partitions.is_excused(machine.config.node_id)",
        LOST_DISK,
    ),
    NotJudged(
        ("I26",),
        ClaimInvariants.deep,
        "not machine.faults.failing",
        "a disk that fails cannot give up the marker of the last stop; its log dir is out of use",
    ),
    NotJudged(("I27",), ClaimInvariants._check_counted, "self._partitions.is_excused(broker_id)", LOST_DISK),
    NotJudged(
        ("I27",),
        ClaimInvariants._check_leader,
        "not in self._older",
        "a fetch of a fenced life is still on its way, and its log dirs were since put back as they had been before",
    ),
    NotJudged(
        ("I28",),
        ClaimInvariants._check_evicted,
        "machine.asked_to_stop.is_set()",
        "a process that stops may be followed by the next one before it has ended",
    ),
    NotJudged(
        ("I2",),
        QuorumInvariants.reported,
        "if not machine.config.is_controller:",
        "an observer has no vote to remember: one that forgot its epoch is as good as a new one",
    ),
    NotJudged(
        ("I92",),
        VoterSets._deep_leads,
        "if not knows or may_wait or",
        "a leader whose disk or process waits cannot step down meanwhile; it commits nothing",
    ),
    NotJudged(
        ("I92",),
        QuorumInvariants._changed_voters,
        "if self.sets.is_of(added, machine):",
        "the newcomer's disk was lost since somebody asked for it",
    ),
    NotJudged(
        ("I6",),
        QuorumInvariants._commits,
        "{*holders, *self.excused}",
        "a voter whose disk was lost had held what was committed, and votes only when it has learned it again",
    ),
    NotJudged(
        ("I14",),
        Invariants.acked,
        "self._is_served(key, keys) and self.partitions.end(key) <= last",
        "the leader has not heard that the topic is deleted, and a newer one has its name",
    ),
    NotJudged(
        ("I16",),
        Invariants._is_served,
        "< UNDER_WAY_SECONDS",
        "an answer was on its way when the node heard that the topic is deleted",
    ),
    NotJudged(
        ("I39",), ProducerInvariants.deep_of, "if not self._partitions.is_excused(partition.broker_id):", LOST_DISK
    ),
    NotJudged(
        ("I39",),
        ProducerInvariants._remembered_from,
        "if self._made_room(partition):",
        "at the node's bound, who is silent is told by the times of the records that a new replica has read",
    ),
    NotJudged(
        ("I39",),
        ProducerInvariants.deep_of,
        "partition.log.producers.is_stale",
        "the log reads its producers anew with the next append, and answers nobody before",
    ),
    NotJudged(
        ("I34",),
        ClientInvariants.deep,
        "if self._is_calm() else ()",
        "messages are late by the plan's weather, and so is every answer",
    ),
    NotJudged(
        ("I80",),
        PartitionInvariants._check_deleted,
        "and self._keeps_numbers(partition)",
        "after an unclean election, or a power cut with flush.policy=os, a log may be as it was before the deletion",
    ),
    NotJudged(
        ("I62",),
        GroupOracle.fetched,
        "self._may_expire and found.may_have_begun_anew(offset, newest)",
        "calendars jump by more than offsets.retention.minutes: while the group has no member that reads the topic, an"
        " offset may expire, and an older one be sent anew",
    ),
    NotJudged(
        ("I62",),
        Bookkeeper._done,
        "if self._may_expire else set()",
        "calendars jump by more than offsets.retention.minutes: what was committed may be gone",
    ),
    NotJudged(
        ("I55",),
        NeighbourInvariants._footing,
        "if not (leading.may_commit(led.min_insync_replicas) and leader.is_in_service):",
        "the partition cannot commit for reasons of its own; all that holds up an ack is listed in the module",
    ),
    NotJudged(
        ("I55",),
        NeighbourInvariants._waits_for_metadata,
        "return is_late and machine.config.metadata_log_dir in machine.faults.hung",
        "a broker takes no metadata that its disk lacks; the leader drops it after replica.lag.time.max.ms (ADR 0014)",
    ),
    NotJudged(
        ("I55",),
        NeighbourInvariants._oldest,
        "if self.had_quotas and core.sender.throttled_ms(footing.leader.node_id):",
        "a producer whose quota is used up sends nothing for as long as the leader has told it (KIP-219)",
    ),
    NotJudged(
        ("I87",),
        ShareInvariants.deep,
        "if is_paused:",
        "a process that stands still cuts nobody and gives no memory back",
    ),
    NotJudged(
        ("I88",),
        Clients.is_flooded_alone,
        "not self.plan.faults and self.plan.byte_rate is None",
        "a fault or a quota may explain an answer that is late; I34 and I55 say what they explain",
    ),
)
