"""Mistakes of the Spark source's planning: what a reader believes that begins anew with nothing but a checkpoint."""

from __future__ import annotations

from penstock.spark import micro_batch
from penstock.spark.log_questions import LogQuestions
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Fault, Kind, ReaderKind, ReaderPlan

CUTS = (Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)
CUT_OFF_LEADER = tuple(
    story
    for leader in (1, 2, 3)
    for story in directed(
        *(Fault(1.0, Kind.CUT, leader, other, 6.0, 0.5) for other in range(4) if other != leader),
        seconds=8.0,
        tellings=1,
        readers=(ReaderPlan("topic-0", 0.02, ReaderKind.CHECKPOINT),) * 2,
    )
)
"""A leader that is cut off from the nodes and not from clients goes on answering, with old ends and old metadata."""

CHECKPOINTS = (
    Mutant(
        "loss is believed before leader epochs and metadata offsets are compared",
        "a Spark driver that starts anew",
        (
            Edit(
                LogQuestions.remember,
                "cache = self._cluster.cache\n",
                "return\n    cache = self._cluster.cache\n",
            ),
            Edit(micro_batch.newest_end, "if why := end.is_older_than(start):", 'if why := "":'),
            Edit(micro_batch.planned_ranges, "if why := here.is_older_than(end):", 'if why := "":'),
        ),
        CUTS,
        stories=CUT_OFF_LEADER,
    ),
    Mutant(
        "a micro-batch that is planned again goes to the present end",
        "a Spark driver that starts anew",
        (
            Edit(
                micro_batch.planned_ranges,
                "planned.append(replace(span, seen=seen))",
                "planned.append(replace(span, seen=seen, hi=now[tp].offset))",
            ),
        ),
        CUTS,
        stories=CUT_OFF_LEADER,
    ),
)
