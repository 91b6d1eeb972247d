"""Mistakes of the lease by which coordinators answer, and the stories that bring them out: each part of I89.

Brokers are cut off from the other nodes, and not from clients: in both directions, or so that an answer of the
controller comes late; disks of metadata hang while heartbeats pass; brokers stop in order.
"""

from __future__ import annotations

from typing import Any

from broker.coordination.shard_log import ShardLog
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.lead_lease import LeadLease
from metadata.controller.brokers import liveness
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.groups import CUTS, STOPS, grouped
from tests.simulation.cluster.mutants.stories import TOGETHER
from tests.simulation.cluster.plan import Aim, Fault, Kind, MemberKind, OperatorPlan, Plan, Task

FIRST_DIR_HANGS = 0.25
"""The amount of a HUNG_DISK: the log dir with the metadata."""
LATE_S = 0.25
"""An answer of the controller is held so long: nearly as long as a heartbeat is waited for."""
LATE_ANSWERS = tuple(
    fault
    for n in range(3)
    for fault in (
        Fault(1.5 + 2.5 * n, Kind.CUT_ONE_WAY, 0, n + 1, LATE_S, 0.5),
        *(
            Fault(1.5 + 2.5 * n + LATE_S + 0.0005, Kind.CUT, n + 1, other, 1.2, 0.5)
            for other in range(4)
            if other != n + 1
        ),
    )
)
"""The answer to a broker's heartbeat comes late, and then the broker is cut off from all nodes."""
CONTROLLER = Fault(1.5, Kind.ISOLATE, 0, 0, 6.0, 0.9, Aim.CONTROLLER)
"""The node of the active controller, which coordinates, too, is cut off from the other nodes. Its sessions are long: it
proposes nothing, and answers its own heartbeats, until it finds that it has lost the quorum."""
METADATA_STANDS_STILL = tuple(Fault(1.5 + 2.7 * n, Kind.HUNG_DISK, n + 1, 0, 2.4, FIRST_DIR_HANGS) for n in range(3))


def kept(*faults: Fault, groups: int = 3, **more: Any) -> tuple[Plan, ...]:
    """Groups without members, in each of which one bookkeeper keeps offsets."""
    return grouped(*faults, kind=MemberKind.BOOKKEEPER, members=1, groups=groups, **more)


SEAM = "seam: a deposed coordinator tells nothing"
STANDSTILLS = kept(
    *METADATA_STANDS_STILL,
    log_dirs=2,
    log_dir_hang_ms_max=30_000,
    operators=(OperatorPlan(Task.ALTER, "topic-0", 0.1),),
)
LOSSES_UNREAD = kept(
    Fault(0.5, Kind.KILL, 1, 0, 0.3, 0.5),
    *(Fault(2.6, Kind.HUNG_DISK, n, 0, 4.0, FIRST_DIR_HANGS) for n in (2, 3)),
    groups=4,
    log_dirs=2,
    log_dir_hang_ms_max=30_000,
    leader_imbalance_check_interval_seconds=1,
    leader_imbalance_per_broker_percentage=0,
    broker_session_timeout_ms=2_000,
)
"""A broker is killed, and gets its leaderships back just when the metadata of the brokers that lead in its place stand
still: they lose them early in a standstill, which the controller takes for one only after two sessions."""
LEASES = (
    Mutant(
        "a coordinator answers without a lease",
        SEAM,
        (Edit(ShardLog.deposed, "if self._ports.may_answer():", "if True:"),),
        stories=kept(*CUTS),
    ),
    Mutant(
        "a lease is counted from when the answer comes",
        SEAM,
        (Edit(BrokerLifecycle._heartbeat, "Grant(sent_ms, ", "Grant(self._lease.now_ms(), "),),
        stories=kept(*LATE_ANSWERS),
    ),
    Mutant(
        "a controller that was deposed grants leases",
        SEAM,
        (Edit(ControllerDriver._decided, "self._raft.quorum_silent_ms()", "0"),),
        stories=kept(
            CONTROLLER,
            groups=6,
            roles=TOGETHER,
            controller_quorum_election_timeout_ms=50,
            broker_session_timeout_ms=3_000,
            replica_lag_time_max_ms=4_000,
            offsets_topic_num_partitions=6,
        ),
    ),
    Mutant(
        "a broker that has not read of its loss has a lease",
        SEAM,
        (Edit(LeadLease.is_held, "read_offset >= must_have_read", "True"),),
        stories=LOSSES_UNREAD,
    ),
    Mutant(
        "a broker whose metadata stands still has leases until it is fenced",
        SEAM,
        (Edit(liveness._silent_ms, "sessions=STANDSTILL_SESSIONS - 1", "sessions=STANDSTILL_SESSIONS"),),
        stories=STANDSTILLS,
    ),
    Mutant(
        "a broker that stops keeps its lease until it hears who leads",
        SEAM,
        (Edit(BrokerLifecycle.controlled_shutdown, "self._lease.give_up()", "pass"),),
        stories=kept(*STOPS),
    ),
    Mutant(
        "a broker that stops is granted leases",
        SEAM,
        (Edit(BrokerLifecycle._heartbeat, " or self._is_stopping", ""),),
        stories=kept(*STOPS),
    ),
)
