"""Mistakes in feature levels (I93, I94): who is asked before one is raised, and what is written at which."""

from __future__ import annotations

from broker.quorum.metadata_snapshotter import MetadataSnapshotter
from metadata import replay
from metadata.controller import features
from metadata.controller.brokers import registration
from metadata.features import TABLE
from metadata.image import image_records
from tests.simulation.cluster.levels.level_plan import LevelPlan
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import SNAPSHOTS_SOON, directed, with_parts
from tests.simulation.cluster.plan import Fault, Kind, Plan

ROLES = ((True, True), (True, True), (True, True))


def rolling(
    *faults: Fault,
    old: tuple[int, ...] = (),
    pause_s: float = 0.3,
    rolls_share: float = 0.5,
    tellings: int = 4,
    seconds: float = 8.0,
    snapshots: bool = False,
) -> tuple[Plan, ...]:
    """Three nodes, each a voter and a broker, and an operator of their releases."""
    story = directed(*faults, tellings=tellings, roles=ROLES, seconds=seconds)
    levels = LevelPlan(old, pause_s, rolls_share)
    return with_parts(story, SNAPSHOTS_SOON if snapshots else {}, levels=levels)


STAYS_OLD = rolling(old=(1,), rolls_share=0.0)
"""Nobody rolls the older node; levels are raised and lowered."""
AWAY = rolling(Fault(0.4, Kind.KILL, 1, 0, 4.0, 0.5), old=(1,), rolls_share=0.0)
"""The older node is away for longer than its last fetch counts."""
ROLLED = rolling(Fault(1.5, Kind.KILL, 2, 0, 0.3, 0.5), rolls_share=0.6, seconds=10.0, tellings=8)
RESTARTED = rolling(
    *(Fault(0.8 + 0.7 * turn, Kind.KILL, turn % 3, 0, 0.2, 0.5) for turn in range(8)), rolls_share=0.0, snapshots=True
)
"""Brokers register again and again, and snapshots are written all the time."""

LEVELS = (
    Mutant(
        "a level is raised over a node that does not know it",
        "an upgrade stops the nodes that are still to be upgraded",
        (Edit(features.update_features, "if error is None and update.level != before[update.name]:", "if False:"),),
        is_replicated=None,
        stories=STAYS_OLD,
    ),
    Mutant(
        "a level is raised while a node is away",
        "it comes back with the older release",
        (Edit(features._hindrances, "for node_id in sorted(deaf):", "for node_id in ():"),),
        (Kind.KILL,),
        is_replicated=None,
        stories=AWAY,
    ),
    Mutant(
        "a node that says nothing counts as one of this release",
        "release 0.2.0 says nothing",
        (Edit(features._lack_of, "ranges_of(node.supports)", f"ranges_of(node.supports or {TABLE.said!r})"),),
        is_replicated=None,
        stories=STAYS_OLD,
    ),
    Mutant(
        "a registration says levels at metadata.version 1",
        "an older release stops at the field",
        (
            Edit(
                registration._record,
                'features=request.features if _may_say_features(context) else ""',
                "features=request.features",
            ),
            Edit(
                features.check_is_readable,
                "if level < needed:",
                "if False:",
            ),
        ),
        (Kind.KILL,),
        is_replicated=None,
        stories=RESTARTED,
    ),
    Mutant(
        "a snapshot has no levels",
        "the log below it is gone, and with it the records",
        (Edit(image_records, "for name in sorted(image.levels,", "for name in sorted((),"),),
        is_replicated=None,
        stories=RESTARTED,
    ),
    Mutant(
        "a lowering keeps what registrations say",
        "an older release cannot read the next snapshot",
        (Edit(replay._set_level, "if broker is not None and broker.features:", "if False:"),),
        (Kind.KILL,),
        is_replicated=None,
        stories=RESTARTED,
    ),
    Mutant(
        "no snapshot is written at a lowering",
        "an older release reads the records before it",
        (Edit(MetadataSnapshotter._published, "if delta.lowers_metadata_version:", "if False:"),),
        is_replicated=None,
        stories=ROLLED,
    ),
)
