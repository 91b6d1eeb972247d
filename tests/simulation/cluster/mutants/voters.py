"""Mistakes in the changes of the quorum's voters (I92): who counts, since when, and who knows it.

A truncation that keeps the voters, and a vote that is known by the candidate's id alone, are hunted among the quorum's
own members (tests/simulation/raft/voter_mutants.py): whole nodes come there too seldom.
"""

from __future__ import annotations

from broker.quorum.voter_requests import VoterRequests
from metadata.image import image_records
from raft import core, validation
from raft.driver.driver import RaftDriver
from raft.leadership import Leadership
from raft.quorum_replicas import QuorumReplicas
from raft.voter_changes import changed_voters
from raft.voters import VoterSet
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import SNAPSHOTS_SOON, directed, with_parts
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Plan, Task
from tests.simulation.cluster.voters.voter_plan import VoterPlan

CONTROLLERS = 5
ROLES = ((False, True),) * CONTROLLERS + ((True, False),)
"""Controllers 0 to 4, and one broker."""
NEVER_S = 60.0
"""So seldom asks an operator who has nothing to do in a story."""
ALTERS = (OperatorPlan(Task.ALTER, "topic-0", 0.05),)


def voting(
    *faults: Fault,
    first: tuple[int, ...] = (0, 1, 2),
    pause_s: float = 0.2,
    operators: int = 1,
    tellings: int = 6,
    seconds: float = 6.0,
    sync_seconds: float = 0.0015,
    snapshots: bool = False,
    roles: tuple[tuple[bool, bool], ...] = ROLES,
) -> tuple[Plan, ...]:
    """A dynamic quorum that begins with these voters, and whose metadata grow all the time."""
    story = directed(
        *faults,
        tellings=tellings,
        copies=1,
        roles=roles,
        seconds=seconds,
        sync_seconds=sync_seconds,
        operators=ALTERS,
    )
    changes = VoterPlan(first, pause_s, operators=operators)
    return with_parts(story, SNAPSHOTS_SOON if snapshots else {}, voter_changes=changes)


NEW_DISK = Fault(0.5, Kind.REPLACE_DISK, 2, 0, 0.3, 0.1)
REPLACED = tuple(
    story
    for gone in (0, 1)
    for story in voting(NEW_DISK, Fault(2.0, Kind.KILL, gone, 1 - gone, 3.0, 0.5), pause_s=NEVER_S, tellings=2)
)
"""Stories in which one of three voters has another disk, and nobody has changed the voters: it counts for nothing when
another dies."""
AT_ONCE = voting(operators=4, pause_s=0.05, sync_seconds=0.04)
"""Four operators, and slow disks."""
ELECTIONS = with_parts(
    voting(
        Fault(0.6, Kind.KILL, 0, 1, 5.0, 0.5, Aim.CONTROLLER),
        *(Fault(0.65, Kind.SLOW_DISK, node, 0, 4.0, 0.05) for node in range(3)),
        operators=12,
        pause_s=1.5,
        seconds=8.0,
        roles=((True, True),) * 3 + ((False, True),) * 2,
    ),
    {"controller.quorum.election.timeout.ms": 600, "controller.quorum.fetch.timeout.ms": 1000},
)
"""Operators wait for a new leader. The only voter that is left beside it has a slow disk: it fetches twice, some time
apart, before it has the epoch's first record. Voters that are brokers, too, pass requests on as soon as they lead.
"""
ABSENT = voting(
    *(Fault(at_s, Kind.KILL, node, 0, 2.0, 0.5) for at_s, node in ((0.5, 3), (0.6, 4), (3.0, 3), (3.1, 4))),
    pause_s=0.1,
)
"""Controllers that are down are to be added."""
RESTARTS = voting(
    *(Fault(1.0 + 0.8 * turn, Kind.KILL, turn % CONTROLLERS, 0, 0.2, 0.5) for turn in range(6)), first=(0,), pause_s=0.1
)

VOTERS = (
    Mutant(
        "a voter is added while another change waits",
        "Ongaro 2014, 4.1: two majorities without a voter in common",
        (Edit(changed_voters, "if view.is_changing:", "if False:"),),
        is_replicated=None,
        stories=AT_ONCE,
    ),
    Mutant(
        "voters change before the leader has committed in its epoch",
        "Ongaro 2015: a bug in single-server membership changes",
        (
            Edit(changed_voters, "if not view.has_committed:", "if False:"),
            Edit(RaftDriver.change_voters, "loop = self._leading()", "loop = self._started()"),
            Edit(
                VoterRequests.handle,
                "if not self._raft.is_leader:",
                "if self._raft.core is None or self._raft.core.leadership is None:",
            ),
        ),
        (Kind.KILL, Kind.SLOW_DISK),
        is_replicated=None,
        stories=ELECTIONS,
    ),
    Mutant(
        "a newcomer counts before it has caught up",
        "Ongaro 2014, 4.2.1: the quorum waits for a log that is behind",
        (
            Edit(
                changed_voters,
                "if isinstance(change, AddVoter) and not view.has_caught_up(change.voter):",
                "if False:",
            ),
        ),
        (Kind.KILL,),
        is_replicated=None,
        stories=ABSENT,
    ),
    Mutant(
        "a removed leader goes on",
        "Ongaro 2014, 4.2.2",
        (Edit(Leadership.is_over, "return not quorum.is_voter and not self._is_changing", "return False"),),
        is_replicated=None,
        stories=voting(pause_s=0.1),
    ),
    Mutant(
        "a removed leader counts itself",
        "Ongaro 2014, 4.2.2",
        (Edit(Leadership.maybe_commit, "if shared.quorum.is_voter:", "if True:"),),
        is_replicated=None,
        stories=voting(pause_s=0.1, sync_seconds=0.04),
    ),
    Mutant(
        "a vote of any disk counts",
        "KIP-853: the same id on an empty disk has forgotten its votes",
        (Edit(validation._is_my_disk, "return directory_id == config.directory_id or", "return True or"),),
        (Kind.REPLACE_DISK,),
        is_replicated=None,
        stories=REPLACED,
    ),
    Mutant(
        "an ack of any disk counts",
        "KIP-853: the same id on an empty disk has forgotten its records",
        (
            Edit(
                QuorumReplicas._key,
                'return replica_id, directory_id if self._quorum.voters.is_dynamic else ""',
                "voter = self._quorum.voters.find(replica_id);"
                ' return replica_id, (voter.directory_id or "") if voter else directory_id',
            ),
        ),
        (Kind.REPLACE_DISK,),
        is_replicated=None,
        stories=REPLACED,
    ),
    Mutant(
        "a new disk takes itself for the voter",
        "KIP-853: a voter is known by its id alone",
        (
            Edit(
                VoterSet.names,
                "return voter is not None and voter.directory_id in (None, directory_id)",
                "return voter is not None",
            ),
        ),
        (Kind.REPLACE_DISK,),
        is_replicated=None,
        stories=REPLACED,
    ),
    Mutant(
        "a snapshot names no voters",
        "the log below it is gone, and with it the record",
        (Edit(image_records, "if image.voters:", "if False:"),),
        is_replicated=None,
        stories=voting(snapshots=True),
    ),
    Mutant(
        "the voters of the log are not looked for at a start",
        "a node goes by the first voters again",
        (Edit(core._history, "sets = log.voter_sets", "sets = ()"),),
        (Kind.KILL,),
        is_replicated=None,
        stories=RESTARTS,
    ),
)
