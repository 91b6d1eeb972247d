"""Mistakes of the quorum: votes, epochs, commits, and what is served before its time."""

from __future__ import annotations

from broker.quorum import metadata_log_opening
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import DoubtfulCuts, forgotten_of
from raft import election, progress
from raft.decided_log import DecidedLog
from raft.driver.applier import Applier
from raft.driver.loop import QuorumLoop
from raft.driver.performer import Performer
from raft.following import Following
from raft.leadership import Leadership
from raft.quorum_state import QuorumState
from tests.simulation.cluster import moments, old_copies
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import TOGETHER, directed
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task

POWERS = (Kind.POWER, Kind.POWER_ALL)
CRASHES = (Kind.KILL, *POWERS)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)
LEADS_ALONE = moments.amount_of(moments.leading_the_quorum_with_something_uncommitted, moments.cut_off)

QUORUM = (
    Mutant(
        "a vote is not persisted",
        "Raft's own",
        (Edit(QuorumStateFile.save, "state.voted_id, version", "-1, version"),),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "the election state is not persisted",
        "Raft's own: epoch not persisted",
        (Edit(Performer.perform, "if ready.election_state is not None:", "if False:"),),
        CRASHES,
        is_replicated=None,
    ),
    Mutant(
        "a record of an older epoch commits by counting",
        "Raft's own: figure 8",
        (
            Edit(
                progress.committed_offset,
                "majority_acked if majority_acked > epoch_start_offset else high_watermark",
                "max(majority_acked, high_watermark)",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "a quorum leader counts itself before its fsync",
        "Raft's own, etcd #14370",
        (Edit(Leadership.maybe_commit, "shared.log.flushed_offset", "shared.log.log_end_offset"),),
        (*POWERS, Kind.SLOW_DISK),
        is_replicated=None,
        stories=directed(
            Fault(1.0, Kind.SLOW_DISK, 0, 1, 2.0, 0.02, Aim.CONTROLLER),
            roles=TOGETHER,
            operators=(OperatorPlan(Task.ALTER, "topic-0", 0.1),),
        ),
    ),
    Mutant(
        "a voter answers before its fsync",
        "etcd #14370",
        (
            Edit(Performer.perform, "await self._until_taken(self._log.flush)", "pass"),
            Edit(
                QuorumLoop._perform, "core.advance(self._log.flushed_offset)", "core.advance(self._log.log_end_offset)"
            ),
        ),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "a voter with a leader refuses every pre-vote",
        "Raft's own: stuck pre-vote",
        (
            Edit(
                election.may_grant,
                "quorum.is_leader or (quorum.state is State.FOLLOWER and has_fetched)",
                "quorum.epoch_leader_id != NO_LEADER",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "a vote is given to a shorter log",
        "Raft's own, NATS #7567",
        (Edit(election.log_is_up_to_date, "(request.last_epoch, request.last_epoch_end_offset) >=", "True or"),),
        (*CRASHES, *CUTS),
        is_replicated=None,
        stories=tuple(
            story
            for behind in (0, 1, 2)
            for story in directed(
                Fault(1.0, Kind.ISOLATE, behind, 0, 1.5, 0.9),
                Fault(2.4, Kind.KILL, 0, 1, 2.0, 0.5, Aim.CONTROLLER),
                roles=TOGETHER,
                operators=(OperatorPlan(Task.ALTER, "topic-0", 0.1),),
                tellings=8,
            )
        ),
    ),
    Mutant(
        "a second vote is given in an epoch",
        "Raft's own: I3",
        (
            Edit(
                election.may_grant,
                "up_to_date and quorum.has_vote_for(request.candidate_id, request.candidate_directory_id)",
                "up_to_date",
            ),
            Edit(
                QuorumState._move,
                "if not self.has_vote_for(election.voted_id, election.voted_directory_id):",
                "if False:",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
        stories=directed(  # five voters on a slow network stand for election at the same time
            *(Fault(at_s, Kind.KILL, 0, 1, 0.6, 0.5, Aim.CONTROLLER) for at_s in (1.0, 3.2, 5.4)),
            roles=((True, True),) * 5,
            weather=Weather(0.15, 0.3, 50),
            seconds=8.0,
        ),
    ),
    Mutant(
        "a leader compares no histories of the metadata log",
        "Raft's own: log matching",
        (
            Edit(
                DecidedLog.diverging_epoch,
                "epochs.diverging_epoch(self._entries, self._log_end_offset, fetch_offset, last_fetched_epoch)",
                "None",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
        stories=directed(  # a leader alone with records that nobody else has comes back to another one
            *(Fault(at_s, Kind.MOMENT, 0, 1, 1.0, LEADS_ALONE) for at_s in (1.0, 3.5)),
            roles=TOGETHER,
            operators=(OperatorPlan(Task.ALTER, "topic-0", 0.02),),
        ),
    ),
    Mutant(
        "a voter truncates to its high watermark",
        "KIP-101 in the quorum",
        (
            Edit(
                Following.attach,
                "    self.has_fetched, self._heard_ms = False, 0\n",
                "    self.has_fetched, self._heard_ms = False, 0\n    log = self._shared.log\n"
                "    if log.log_end_offset > log.high_watermark:\n        self._truncate(log.high_watermark)\n",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "a voter believes the high watermark while it diverges",
        "KIP-279 in the quorum",
        (
            Edit(
                Following._apply,
                "    log = self._shared.log\n",
                "    log = self._shared.log\n"
                "    log.advance_high_watermark(min(response.high_watermark, log.log_end_offset))\n",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
        stories=directed(
            Fault(1.0, Kind.ISOLATE, 0, 1, 2.0, 0.9, Aim.CONTROLLER),
            roles=TOGETHER,
            operators=(OperatorPlan(Task.ALTER, "topic-0", 0.05),),
        ),
    ),
    Mutant(
        "a leader with the votes serves at once",
        "Redpanda #5090",
        (
            Edit(Applier.announce, "own_from is None or subscription.next_offset > own_from", "True"),
            Edit(QuorumLoop.is_leader, "and leadership.epoch == self._active_epoch", ""),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "the controller answers before its records are committed",
        "etcd #14370",
        (
            Edit(
                ControllerDriver._commit,
                "last_offset = await self._wait_committed(committed)",
                "last_offset = base_offset + len(result.records) - 1",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "records are delivered before they are committed",
        "Redpanda #5090",
        (
            Edit(
                QuorumLoop._perform,
                "self.committed_offset = ready.committed_offset",
                "self.committed_offset = self._log.log_end_offset",
            ),
        ),
        (*CRASHES, *CUTS),
        is_replicated=None,
    ),
    Mutant(
        "a leader without a majority leads on",
        "etcd #20418",
        (Edit(Leadership.tick, "or now_ms >= self.replicas.quorum_deadline_ms():", "or False:"),),
        (Kind.ISOLATE, Kind.PAUSE),
        stories=directed(Fault(1.0, Kind.ISOLATE, 0, 1, 3.0, 0.9, Aim.CONTROLLER), roles=TOGETHER),
    ),
    Mutant(
        "a voter that lost its files votes again",
        "own fault list: a voter that forgot",
        (Edit(forgotten_of, "Forgotten.VOTES if promised.has_voted or log_end_offset > 0 else ", ""),),
        (Kind.REPLACE_DISK, *CRASHES),
        stories=directed(
            Fault(1.0, Kind.REPLACE_DISK, 1, 0, 1.0, 0.9),
            Fault(2.3, Kind.KILL, 0, 1, 2.0, 0.5, Aim.CONTROLLER),
            roles=TOGETHER,
        ),
    ),
    Mutant(
        "an older copy of a voter keeps its quorum state",
        "own fault list: a voter that forgot",
        (Edit(old_copies._put_back, "_tell_that_it_forgot(machine)", "pass"),),
        (Kind.RESTORE_COPY,),
        is_replicated=None,
        stories=directed(
            Fault(0.5, Kind.RESTORE_COPY, 0, 1, 3.0, 0.5),
            *(Fault(1.0 + node, Kind.KILL, node, 0, 0.5, 0.5) for node in range(3)),
            roles=TOGETHER,
            seconds=9.0,
        ),
    ),
    Mutant(
        "a damaged end of the metadata log is cut in silence",
        "own fault list: a voter that forgot",
        (Edit(DoubtfulCuts.__call__, "quorum_state.save(replace(state, forgotten=Forgotten.RECORDS))", "pass"),),
        (Kind.TEAR_METADATA,),
        is_replicated=None,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5),
            Fault(2.5, Kind.TEAR_METADATA, 0, 1, 1.0, 0.9195, Aim.CONTROLLER),
            roles=TOGETHER,
        ),
    ),
    Mutant(
        "an epoch of the metadata log may begin anywhere",
        "own fault list: a voter that forgot",
        (Edit(metadata_log_opening.cut_false_epoch, "not _begins(log, entry)", "False"),),
        (Kind.TEAR_METADATA,),
        is_replicated=None,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5),
            Fault(2.5, Kind.TEAR_METADATA, 0, 1, 1.0, 0.7755, Aim.CONTROLLER),
            roles=TOGETHER,
        ),
    ),
    Mutant(
        "a voter that forgot votes at once",
        "own fault list: a voter that forgot",
        (
            Edit(QuorumState.takes_part, "and self._election.forgotten is Forgotten.NOTHING", ""),
            Edit(QuorumState.forgotten, "self._election.forgotten", "Forgotten.NOTHING"),
        ),
        (Kind.TEAR_METADATA, Kind.RESTORE_COPY),
        is_replicated=None,
    ),
)
