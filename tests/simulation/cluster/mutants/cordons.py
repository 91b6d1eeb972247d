"""Mistakes about brokers that are cordoned (KIP-1066): of the controller."""

from __future__ import annotations

from metadata import cordon
from metadata.controller import reassignments
from metadata.controller.state import ControllerState
from metadata.controller.topics import assignments
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import TOGETHER, directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task

CORDONER = OperatorPlan(Task.CORDON, "topic-0", 0.3)
CALM_CORDONS = directed(operators=(CORDONER,), seconds=5.0)
CORDONS_AND_MOVES = directed(
    operators=(CORDONER, OperatorPlan(Task.MOVE, "topic-0", 0.3)), copies=1, roles=TOGETHER, seconds=6.0
)
CORDONS_AND_FAILOVERS = directed(
    *(Fault(at_s, Kind.KILL, 1, 0, 0.8, 0.5, Aim.CONTROLLER) for at_s in (1.5, 3.0, 4.5, 6.0)),
    operators=(CORDONER,),
    roles=TOGETHER,
    seconds=8.0,
)
BROKERS_TELL_NOTHING = Edit(cordon.cordon_record, "if reported ==", "if True or reported ==")
"""As brokers of an older release. Else what they tell stands in for what is lost."""

CORDONS = (
    Mutant(
        "placement ignores the cordon",
        "KIP-1066",
        (Edit(assignments.brokers_for, " if broker_id not in cordoned]", "]"),),
        is_replicated=None,
        stories=CALM_CORDONS,
    ),
    Mutant(
        "a reassignment brings replicas to a cordoned broker",
        "KIP-1066",
        (
            Edit(
                reassignments._check_target,
                "    check_not_cordoned(",
                "    False and check_not_cordoned(",
            ),
        ),
        is_replicated=None,
        stories=CORDONS_AND_MOVES,
    ),
    Mutant(
        "the cordon is lost at a failover",
        "KIP-1066",
        (
            Edit(
                ControllerState._take,
                "self.put_config(resource, key, value)",
                "key == 'cordoned.log.dirs' or self.put_config(resource, key, value)",
            ),
            BROKERS_TELL_NOTHING,
        ),
        (Kind.KILL,),
        is_replicated=None,
        stories=CORDONS_AND_FAILOVERS,
    ),
    Mutant(
        "every log dir counts as no log dir",
        "KIP-1066",
        (Edit(cordon.is_cordoned, "if EVERY_DIR in items:", "if False:"), BROKERS_TELL_NOTHING),
        is_replicated=None,
        stories=CALM_CORDONS,
    ),
)
