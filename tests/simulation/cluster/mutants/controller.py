"""Mistakes of the controller and of what brokers tell it: elections, sessions, registration, publishing, start-up."""

from __future__ import annotations

from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.quorum.metadata_publisher import MetadataPublisher
from metadata import replay
from metadata.controller import partitions, producer_ids
from metadata.controller.brokers import directories, eligibility, liveness, registration
from metadata.controller.brokers.log_dirs import log_dirs_after
from metadata.controller.configuration import topic_configs
from metadata.controller.controller import Controller
from metadata.controller.elections import broker_elections, election, leader_balance, preferred_election
from metadata.controller.elections.leader_balance import LeaderBalance
from metadata.controller.sessions import BrokerSessions
from metadata.controller.state import ControllerState
from storage.log_dirs.clean_shutdown import take_marker
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.late_stories import (
    LATE_FAREWELL,
    LATE_PROPOSAL_OF_A_DEAD_BROKER,
    LATE_PROPOSAL_OF_A_DEPOSED_LEADER,
    LATE_PROPOSAL_OF_A_RESTARTED_BROKER,
    LATE_PROPOSAL_WITH_A_BROKER_THAT_HAS_LEFT,
    LATE_REGISTRATION,
)
from tests.simulation.cluster.mutants.stories import APART, directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task

CRASHES = (Kind.KILL, Kind.POWER, Kind.POWER_ALL)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)
PRODUCERS = (OperatorPlan(Task.IDENTIFY, "topic-0", 0.1),) * 2

CONTROLLER = (
    Mutant(
        "any replica is elected when the ISR is gone",
        "Jepsen 2013",
        (Edit(election.elect, "if circumstances.unclean_allowed:", "if True:"),),
        (*CRASHES, Kind.STOP),
    ),
    Mutant(
        "the first replica is elected, in sync or not",
        "KIP-966, NATS #7567",
        (Edit(election.elect, "if replica in isr and may_lead(replica):", "if may_lead(replica):"),),
        CRASHES,
    ),
    Mutant(
        "the last ISR member leaves the ISR",
        "KIP-966",
        (Edit(election._remaining_isr, "    if remaining:", "    if True:"),),
        (Kind.POWER_ALL, Kind.KILL, Kind.STOP),
        is_replicated=None,
    ),
    Mutant(
        "every replica that is not in sync is eligible",
        "KIP-966",
        (Edit(election.eligible_replicas, "{*partition.isr, *partition.elr}", "set(partition.replicas)"),),
        (Kind.POWER_ALL, *CRASHES),
    ),
    Mutant(
        "the ELR is kept though the ISR is large enough",
        "KIP-966",
        (Edit(election.eligible_replicas, "len(members) >= min_isr", "False"),),
        CRASHES,
    ),
    Mutant(
        "an ELR survives a lower min.insync.replicas",
        "KIP-966",
        (Edit(topic_configs.topic_records, "*emptied_elrs(partitions, min_isr), ", ""),),
        CRASHES,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER),
            min_isr=3,
            operators=(OperatorPlan(Task.ALTER, "topic-0", 0.1),),
        ),
    ),
    Mutant(  # which of them stays makes no difference to what is acked: each has all of it on its disk (I13)
        "an ISR that dies at once stays whole",
        "fault 09",
        (Edit(election._remaining_isr, "return (max(isr, key=leaving.index),)", "return isr"),),
        (Kind.POWER_ALL, Kind.KILL),
        stories=directed(
            *(Fault(1.0, Kind.KILL, broker, 0, 4.0, 0.5) for broker in (3, 4, 5)),
            Fault(1.05, Kind.KILL, 0, 1, 3.0, 0.5, Aim.CONTROLLER),
            roles=APART,
        ),
    ),
    Mutant(
        "a fenced broker is elected",
        "seam: I11",
        (Edit(election.elect, "circumstances.is_active(broker_id)", "True"),),
        CRASHES,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 3.5, 0.5, Aim.FOLLOWER),
            Fault(3.0, Kind.KILL, 1, 0, 3.0, 0.5, Aim.LEADER),
            copies=2,
        ),
    ),
    Mutant(
        "the schedule elects a replica that is not in sync",
        "KIP-460",
        (Edit(preferred_election.preferred_obstacle, "if preferred not in partition.isr:", "if False:"),),
        CRASHES,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 0.8, 0.5, Aim.LEADER),
            *(Fault(1.75, Kind.CUT, 1, broker, 3.0, 0.5, Aim.LEADER) for broker in (1, 2, 3)),
            leader_imbalance_check_interval_seconds=1,
        ),
    ),
    Mutant(  # alone, each of the two is enough
        "the schedule elects a fenced broker",
        "seam: I11",
        (
            Edit(leader_balance._round, "if state.is_active(broker_id):", "if True:"),
            Edit(preferred_election.preferred_obstacle, "if not state.is_active(preferred):", "if False:"),
        ),
        CRASHES,
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 4.5, 0.5, Aim.FOLLOWER),
            Fault(2.5, Kind.KILL, 1, 0, 3.0, 0.5, Aim.LEADER),
            copies=2,
            leader_imbalance_check_interval_seconds=1,
        ),
    ),
    Mutant(
        "leaderships never go back by schedule",
        "seam: ticks",
        (Edit(LeaderBalance.tick, "now_ms < due_ms", "True"),),
        CRASHES,
        stories=directed(Fault(1.0, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER), leader_imbalance_check_interval_seconds=1),
    ),
    Mutant(
        "a registration leaves its broker in the ISR",
        "Redpanda, why fsync",
        (
            Edit(
                registration._register_successor,
                "changes_when_leaving(context, (request.broker_id,), doubts=doubts_about(context, existing, request))",
                "[]",
            ),
            Edit(registration._check_predecessor_is_gone, "    if not gone:", "    if False:"),
        ),
        CRASHES,
    ),
    Mutant(
        "any earlier epoch evicts a live broker",
        "own fault list: not noticed by a test",
        (Edit(eligibility.ended_cleanly, "request.previous_broker_epoch == existing.broker_epoch", "True"),),
        (Kind.KILL,),
        stories=LATE_REGISTRATION,
        is_late=True,
    ),
    Mutant(
        "AlterPartition does not compare broker epochs",
        "KIP-903",
        (Edit(partitions._check_eligible, "if broker.broker_epoch != member.broker_epoch:", "if False:"),),
        (Kind.KILL, Kind.STOP),
        stories=LATE_PROPOSAL_OF_A_RESTARTED_BROKER,
        is_late=True,
    ),
    Mutant(
        "AlterPartition takes a fenced broker",
        "KIP-841",
        (Edit(partitions._check_eligible, "if broker.fenced or (", "if False and ("),),
        (Kind.KILL, Kind.STOP),
        stories=LATE_PROPOSAL_OF_A_DEAD_BROKER,
        is_late=True,
    ),
    Mutant(
        "a failed log dir takes no replica out",
        "KIP-858",
        (
            Edit(
                liveness._log_dirs_failed,
                "(*changes_when_dirs_fail(context, broker.broker_id, failed), change)",
                "(change,)",
            ),
        ),
        (Kind.DEAD_DISK,),
    ),
    Mutant(
        "a report of log dirs is acknowledged and not recorded",
        "KIP-858",
        (Edit(directories.assign_replicas_to_dirs, "return ControllerResult(made,", "return ControllerResult((),"),),
        (*CUTS, *CRASHES),
        is_replicated=None,
        stories=directed(log_dirs=2, seconds=2.0),
    ),
    Mutant(
        "a block of producer ids is given and not recorded",
        "KIP-730",
        (Edit(producer_ids.allocate_producer_ids, "ControllerResult((record,),", "ControllerResult((),"),),
        CRASHES,
        stories=directed(operators=PRODUCERS, seconds=2.0),
    ),
    Mutant(
        "a new controller begins its producer ids anew",
        "KIP-730",
        (
            Edit(ControllerState._take, "self.next_producer_id = image.next_producer_id", "pass"),
            Edit(producer_ids.allocate_producer_ids, ", leader_epoch * IDS_PER_EPOCH", ", 0"),
            # Every node finds it when it replays the record.
            Edit(
                replay.replay,
                '_require(record.next_producer_id > tables.next_producer_id, record, "these producer ids were given'
                ' before")',
                "pass",
            ),
        ),
        (Kind.KILL, Kind.POWER_ALL),
        stories=directed(  # brokers begin anew, too, and so ask for blocks
            Fault(1.0, Kind.KILL, 0, 1, 0.5, 0.5, Aim.CONTROLLER),
            *(Fault(2.0, Kind.KILL, broker, 0, 0.5, 0.5) for broker in (1, 2, 3)),
            operators=PRODUCERS,
        ),
    ),
    Mutant(
        "AlterPartition does not compare partition epochs",
        "KIP-497",
        (Edit(partitions._check_epochs, "if data.partition_epoch < partition.partition_epoch:", "if False:"),),
        (*CUTS, *CRASHES),
        stories=LATE_PROPOSAL_WITH_A_BROKER_THAT_HAS_LEFT,
    ),
    Mutant(
        "AlterPartition is taken from a deposed leader",
        "KIP-497",
        (
            Edit(partitions._check_epochs, "if data.leader_epoch < partition.leader_epoch:", "if False:"),
            Edit(partitions._check_epochs, "if requester != partition.leader_id:", "if False:"),
            Edit(partitions._check_epochs, "if data.partition_epoch < partition.partition_epoch:", "if False:"),
            Edit(partitions._check_isr, "if partition.leader_id not in ids:", "if False:"),
        ),
        (Kind.CUT_ONE_WAY, Kind.PAUSE, Kind.KILL),
        stories=LATE_PROPOSAL_OF_A_DEPOSED_LEADER,
        is_late=True,
    ),
    Mutant(
        "a fenced broker keeps its partitions",
        "seam: sessions",
        (Edit(liveness.tick, "*changes_when_leaving(context, fenced),", ""),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "a partition without a leader stays so when a replica comes back",
        "seam: sessions",
        (Edit(broker_elections.changes_when_joining, "if joining in partition.replicas:", "if False:"),),
        (Kind.POWER_ALL, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "a new controller knows no session",
        "seam: sessions",
        (Edit(Controller.__init__, "if not broker.fenced:", "if False:"),),
        (Kind.POWER, Kind.KILL, Kind.ISOLATE),
        stories=directed(
            Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER),
            Fault(1.1, Kind.KILL, 0, 1, 4.0, 0.5, Aim.CONTROLLER),
            roles=APART,
        ),
    ),
    Mutant(
        "a session never ends",
        "seam: sessions",
        (Edit(BrokerSessions.expired, "if now_ms >=", "if False and now_ms >="),),
        (*CRASHES, Kind.ISOLATE),
        stories=directed(Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER)),
    ),
    Mutant(
        "a heartbeat of an older registration counts",
        "seam: broker epochs",
        (Edit(liveness.registered_broker, "if broker.broker_epoch != broker_epoch:", "if False:"),),
        (Kind.KILL, Kind.STOP),
        stories=LATE_FAREWELL,
        is_late=True,
    ),
    Mutant(
        "neither the controller nor the broker waits until it has caught up",  # alone, each of the two is enough
        "seam: registration",
        (
            Edit(liveness.heartbeat, "request.current_metadata_offset >= broker.broker_epoch", "True"),
            Edit(BrokerLifecycle._register, "await self._loader.wait_for_offset(self.broker_epoch)", "pass"),
        ),
        (*CRASHES, Kind.SLOW_DISK),
    ),
    Mutant(
        "a stopping broker does not hand over",
        "seam: controlled shutdown",
        (Edit(liveness._records, "return (*moves, *changes)", "return changes"),),
        (Kind.STOP, Kind.ROLL),
        stories=directed(Fault(1.0, Kind.STOP, 1, 0, 0.5, 0.5, Aim.LEADER), seconds=7.5),
    ),
    Mutant(
        "a broker acts on an image older than its registration",
        "NATS #7556",
        (Edit(BrokerLifecycle._register, "await self._loader.wait_for_offset(self.broker_epoch)", "pass"),),
        (Kind.STOP, Kind.ROLL, *CRASHES),
        is_replicated=None,
    ),
    Mutant(  # their order within one publication is of no consequence: nothing comes in between
        "the registered brokers are known one change late",
        "seam: publisher order",
        (
            Edit(
                MetadataPublisher.publish,
                "    if delta.changed_brokers:\n        self._brokers_changed(image)\n",
                "    if delta.changed_brokers:\n        self._brokers_changed(delta.image)\n",
            ),
        ),
        CRASHES,
    ),
    Mutant(
        "the registered brokers are never published",
        "seam: publisher order",
        (
            Edit(
                MetadataPublisher.publish,
                "    if delta.changed_brokers:\n        self._brokers_changed(image)\n",
                "",
            ),
        ),
        CRASHES,
    ),
    Mutant(
        "a missing log dir is accepted",
        "fault 02",
        (Edit(log_dirs_after, "if len(missing) > request.failed_log_dirs:", "if False:"),),
        (Kind.LOSE_DIR,),
        stories=directed(Fault(1.0, Kind.LOSE_DIR, 1, 2, 1.0, 0.1), log_dirs=2),
    ),
    Mutant(
        "the clean-shutdown marker is not removed",
        "Redpanda, why fsync",
        (Edit(take_marker, "    fs.unlink(path)\n", ""),),
        (Kind.STOP, Kind.POWER, Kind.KILL, Kind.ROLL),
        is_replicated=None,
    ),
)
