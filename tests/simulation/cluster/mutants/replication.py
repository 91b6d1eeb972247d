"""Mistakes of leaders and followers: what counts as an ack, what is cut, and what readers see. Not here: ISRs."""

from __future__ import annotations

from errno import ENOSPC
from itertools import permutations

from broker.apis.fetch_sessions.session_partitions import SessionPartitions
from broker.apis.fetch_sessions.session_reads import SessionReads
from broker.apis.producing.delayed_produce import DelayedProduce
from broker.apis.producing.produce import _check_is_wanted
from broker.replication.follower.effect_runner import EffectRunner, cut_offset, perform
from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.hosting.replica_roles import ReplicaRoles
from broker.replication.hosting.role_news import RoleNews
from broker.replication.leader import leader_appends
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import LeaderState
from broker.replication.leader.purgatory import OffsetWaiters
from broker.replication.partition import Partition, check_leader_epoch
from penstock import epochs
from storage.log.log_writer import LogWriter
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.replication_stories import (
    FULL_FOLLOWERS,
    SHORT_INSIDE_A_BATCH,
    SLOW_FOLLOWERS,
    STEP_BY_STEP,
    STOPS_UNDER_SENDERS,
    TAIL_BELOW_THE_LOG_START,
)
from tests.simulation.cluster.mutants.stories import directed, failing, late
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicKind, TopicPlan, WriterPlan

CRASHES = (Kind.KILL, Kind.POWER, Kind.POWER_ALL, Kind.STOP)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)

TWO_TAILS = tuple(
    story
    for behind, ahead in permutations((1, 2, 3), 2)
    for story in directed(
        Fault(1.0, Kind.CUT, 1, behind, 3.0, 0.5, Aim.LEADER),
        Fault(1.3, Kind.CUT, behind, ahead, 2.7, 0.5),
        Fault(1.35, Kind.KILL, 1, 0, 4.0, 0.5, Aim.LEADER),
        Fault(2.5, Kind.KILL, 1, 0, 1.5, 0.5, Aim.LEADER),
        replica_lag_time_max_ms=3000,
        seconds=7.0,
        tellings=1,
    )
)
"""A follower that is behind leads next, and writes; the one that is ahead leads after it, and knows not its epoch."""
REPLICATION = (
    Mutant(
        "a follower truncates to its high watermark",
        "KIP-101",
        (
            Edit(
                Partition.become_follower,
                "    if is_new:\n",
                "    if is_new:\n        self.log.truncate_to(self.high_watermark)\n",
            ),
        ),
        CRASHES,
    ),
    Mutant(
        "a leader compares no histories",
        "KIP-101, diverged logs",
        (Edit(epochs.diverging_epoch, "    if last_fetched_epoch == NO_EPOCH:", "    if True:"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(  # alone, each of the two is enough: nobody can have a record of an epoch that has none
        "neither a new leader nor its first append records the epoch",
        "KIP-279",
        (
            Edit(Partition.become_leader, "self.log.assign_epoch(state.leader_epoch, end)", "pass"),
            Edit(LogWriter._note_epochs, "self._epochs.assign(header.leader_epoch, header.base_offset)", "pass"),
        ),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "an unknown epoch is answered with the next one's beginning",
        "KIP-279",
        (
            Edit(
                epochs.end_offset_for,
                "EpochEndOffset(entries[index].epoch, entries[index + 1].start_offset)",
                "EpochEndOffset(epoch, entries[index + 1].start_offset)",
            ),
        ),
        (*CRASHES, *CUTS),
        stories=TWO_TAILS,
    ),
    Mutant(
        "a follower truncates by the leader's history alone",
        "KIP-279",
        (
            Edit(
                cut_offset,
                "truncation_offset(partition.log.epoch_entries, partition.log.log_end_offset, answer)",
                "min(answer.end_offset, partition.log.log_end_offset)",
            ),
        ),
        (*CRASHES, *CUTS),
        stories=TWO_TAILS,
    ),
    Mutant(
        "a follower keeps what it has below its leader's log start",
        "KIP-101: a log start behind the divergence",
        (Edit(perform, "if offset <= start:", "if False:"),),
        (*CRASHES, *CUTS),
        stories=TAIL_BELOW_THE_LOG_START,
    ),
    Mutant(
        "a leader serves requests of other epochs",
        "KIP-320",
        (
            Edit(check_leader_epoch, "if current_leader_epoch < known:", "if 0:"),
            # Without harm alone: who leads the newer epoch was elected from an ISR or ELR, so a leader that has not
            # heard of it yet has all that is committed, and answers as it will when it has heard.
            Edit(check_leader_epoch, "    if current_leader_epoch > known:", "    if 0:"),
        ),
        CUTS,
        stories=directed(
            Fault(1.0, Kind.CUT, 2, 0, 5.0, 0.5, Aim.FOLLOWER),
            Fault(2.2, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER),
            copies=2,
            seconds=7.0,
        ),
    ),
    Mutant(
        "a new leader believes that its followers have everything",
        "KIP-320, acks of the current epoch",
        (
            Edit(
                LeaderState.begin,
                "FollowerProgress(replica, last_caught_up_ms=now_ms)",
                "FollowerProgress(replica, log_end_offset=log_end_offset, last_caught_up_ms=now_ms)",
            ),
        ),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "a follower begins anew only when the leader is another",
        "KAFKA-7164",
        (
            Edit(
                ReplicaRoles._follow,
                "if is_new or not self._fetchers.follows",
                "if not self._fetchers.follows",
            ),
        ),
        (*CRASHES, *CUTS),
        stories=directed(
            Fault(1.0, Kind.PAUSE, 1, 0, 4.0, 0.5, Aim.FOLLOWER),
            Fault(2.2, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER),
            copies=2,
            seconds=7.0,
        ),
    ),
    Mutant(
        "a fetch acknowledges before histories are compared",
        "KIP-101, divergent tails",
        (
            Edit(
                note_follower_fetch,
                "    diverging = divergence(",
                "    leading.note_fetch(replica_id, broker_epoch, position.offset, log.log_end_offset, now_ms)\n"
                "    partition.maybe_advance_high_watermark()\n    diverging = divergence(",
            ),
        ),
        (*CRASHES, *CUTS),
        stories=TWO_TAILS,
    ),
    Mutant(
        "a leader counts itself before its flush",
        "KIP-966",
        (Edit(Partition.maybe_advance_high_watermark, "self.log.flushed_offset", "self.log.log_end_offset"),),
        (Kind.POWER, Kind.POWER_ALL),
        is_replicated=None,
    ),
    Mutant(
        "a follower acknowledges before its flush",
        "KIP-966",
        (
            Edit(ReplicaFetcher._make_durable, "if partition.log.flushed_offset >= end_offset:", "if True:"),
            Edit(
                ReplicaFetcher._acknowledge,
                "if partition.offline is None and partition.log.flushed_offset >= end_offset:",
                "if partition.offline is None:",
            ),
        ),
        (Kind.POWER, Kind.POWER_ALL, Kind.SLOW_DISK),
    ),
    Mutant(
        "a follower's first fetch comes before its flush",
        "own fault list: not noticed by a test",
        (
            Edit(
                ReplicaRoles._fetch_when_durable,
                "    if partition.log.flushed_offset < partition.log.log_end_offset:",
                "    if False:",
            ),
        ),
        (Kind.POWER, Kind.POWER_ALL, Kind.SLOW_DISK, Kind.CUT),
        stories=SLOW_FOLLOWERS,
    ),
    Mutant(
        "a session stays with the process that began it",
        "seam: fetch sessions",
        (
            Edit(
                SessionPartitions.update,
                "if self._watched and asker != known:",
                "if 0:",
            ),
        ),
        (Kind.ISOLATE, Kind.PAUSE, Kind.DEAD_DISK, Kind.FAIL_CALL),
        stories=tuple(  # a broker registers anew while it follows a partition in which nothing happens
            story
            for follower in (1, 2, 3)
            for story in directed(
                Fault(1.0, Kind.FAIL_CALL, follower, 0, 3.0, failing("mkdir", ENOSPC)),
                topics=(TopicPlan("topic-0", 1, 3, {}), TopicPlan("topic-1", 1, 3, {}, TopicKind.REMADE)),
                writers=(WriterPlan("topic-1", 0, 0.1, 1, is_keyed=False),),
                operators=(OperatorPlan(Task.REMAKE, "topic-1", 0.5),),
                tellings=1,
            )
        ),
    ),
    Mutant(
        "a session goes on when the leader has changed",
        "KIP-320: fetch-session staleness",
        (
            Edit(SessionReads._check, "source.leader_state(wanted.current_leader_epoch)", "source.leading"),
            Edit(SessionReads._records, "self.is_replica and", "leading is not None and self.is_replica and"),
        ),
        (*CUTS, Kind.STOP),
        stories=directed(Fault(1.0, Kind.CUT, 1, 0, 1.5, 0.5, Aim.LEADER)),
    ),
    Mutant(
        "a session forgets what is new",
        "seam: fetch sessions",
        (Edit(SessionPartitions.note_news, "self._new[partition] = None", "pass"),),
    ),
    Mutant(
        "a consumer reads above the high watermark",
        "KIP-101: I16",
        (
            Edit(
                Partition.read,
                "is_replica=is_replica, read_committed",
                "is_replica=True, read_committed",
            ),
        ),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "a follower's high watermark is above its log",
        "own fault list: high watermark above the log end",
        (
            Edit(
                Partition.follower_high_watermark,
                "min(leader_high_watermark, self.log.log_end_offset)",
                "leader_high_watermark",
            ),
        ),
        CRASHES,
        stories=STEP_BY_STEP,
    ),
    Mutant(
        "acks=all waits for the leader alone",
        "seam: ack paths",
        (
            Edit(
                leader_appends.waiters_of,
                "partition.acks_all if acks == ACKS_ALL else partition.acks_one",
                "partition.acks_one",
            ),
        ),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "an ack is sent one record early",
        "seam: ack paths",
        (Edit(OffsetWaiters.reached, "waiting[0][0] <= offset", "waiting[0][0] <= offset + 1"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "a request is complete before its partitions are",
        "seam: ack paths",
        (Edit(DelayedProduce.all_added, "elif not self._waiting:", "elif True:"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "a request that steps aside is answered as if all were acked",
        "seam: ack paths",
        (Edit(DelayedProduce._step_aside, "self._request.answer_in_parts(self)", "self._complete()"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "waiters outlive the leadership",
        "seam: ack paths",
        (Edit(Partition.become_follower, "self._fail_waiters(self.not_leader())", "pass"),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "nobody is told that a lead has ended",
        "this project's own: a part that keeps its state in a log goes on with it, beside the next leader's",
        (Edit(Partition.become_follower, "self._lead(None)", "self.leading = None"),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "a newer epoch of the same leader is not told",
        "this project's own: a part that fences what it does by the leader epoch goes on with an old one",
        (Edit(RoleNews._announce, "if now == announced:", "if now == announced or (now and announced):"),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "appended records are reported as not written",
        "faults 17 and 01",
        (Edit(OffsetWaiters.fail_all, "if error.nothing_written:", "if False:"),),
        (Kind.STOP, Kind.ROLL, *CUTS),
        stories=STOPS_UNDER_SENDERS,
    ),
    Mutant(
        "an abandoned request is appended late",
        "own fault list: appended after its retry",
        (
            Edit(_check_is_wanted, "if body.acks and request.is_abandoned:", "if False:"),
            Edit(_check_is_wanted, "if body.acks and 0 < body.timeout_ms < waited_ms:", "if False:"),
        ),
        (Kind.PAUSE, Kind.BREAK, Kind.SLOW_DISK, Kind.ISOLATE),
        is_replicated=None,
        stories=directed(  # each append holds up its broker's loop, and with it the requests that are queued
            Fault(1.0, Kind.SLOW_DISK, 1, 0, 15.0, 0.95, Aim.LEADER),
            writers=(WriterPlan("topic-0", 0, 0.05, 1, is_keyed=False),) * 20,
            broker_session_timeout_ms=60_000,
            seconds=17.0,
        ),
    ),
    Mutant(
        "an outdated answer counts",
        "seam: fetch-session staleness",
        (
            Edit(
                FetcherCore.on_result,
                "if turn < state.asked_in or not same or partition in self._changed:",
                "if False:",
            ),
        ),
        (*CUTS, *CRASHES),
        stories=tuple(
            story
            for follower, leader in ((1, 2), (2, 1))
            for story in directed(
                Fault(1.0, Kind.CUT, follower, 0, 3.0, 0.5),
                Fault(2.0, Kind.CUT, leader, 0, 1.2, 0.5),
                Fault(3.1, Kind.LATE_MESSAGE, follower, 0, 1.5, late("Fetch", is_answer=True)),
                roles=((False, True), (True, False), (True, False)),
                copies=2,
                writers=(WriterPlan("topic-0", 0, 5.2, 1, is_keyed=False),),
                replica_fetch_wait_max_ms=5_000,
                replica_lag_time_max_ms=6_000,
                tellings=2,
            )
        ),
    ),
    Mutant(
        "a lost session is not built anew",
        "seam: fetch-session staleness",
        (Edit(FetcherCore.session_lost, "self._in_session.clear()", "return"),),
        (Kind.BREAK, *CUTS),
    ),
    Mutant(
        "a partition whose append was refused is not asked for again",
        "fault 03",
        (Edit(FetcherCore.delayed, "self._ask_for(partition)", "pass"),),
        (Kind.FULL_DISK, Kind.FAIL_CALL),
        stories=FULL_FOLLOWERS,
    ),
    Mutant(
        "a follower that refused an append asks from its old offset",
        "fault 03",
        (
            Edit(
                EffectRunner._ask_again,
                "if partition.log.log_end_offset < self._core",
                "if False and self._core",
            ),
        ),
        (Kind.FULL_DISK, Kind.FAIL_CALL),
        stories=SHORT_INSIDE_A_BATCH,
    ),
)
