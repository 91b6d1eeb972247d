"""How many 100-byte records one core builds and reads, beside aiokafka's compiled code on the same records.

The workloads and contenders are those of benchmarks/records.py, which has more of them. Time is this process's CPU
time there, so wall and CPU are one here.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from benchmarks import records
from benchmarks.storage_rows import Row, Scale

BUILD_GOAL, READ_GOAL = 2_000_000, 1_000_000
WORKLOADS = 2
"""The first ones of the list: values only, and values with keys; the goals are for the first."""


def record_rows(root: str, scale: Scale) -> Iterator[Row]:
    """Nothing is written: `root` and `scale` are every section's."""
    gc.disable()
    for number, load in enumerate(records.WORKLOADS[:WORKLOADS]):
        filled = load.filled()
        total = filled.batches * len(filled.values)
        seconds = records.best_seconds(records.contenders(filled))
        for what, goal in (("build", BUILD_GOAL), ("read", READ_GOAL)):
            theirs = seconds[what, "aiokafka compiled"]
            for whose in ("penstock", "penstock arrow"):
                ours = seconds[what, whose]
                yield Row(
                    "records",
                    f"{what}, {load.name}, {whose}",
                    round(total / ours),
                    "records/s",
                    round(total / theirs),
                    round(theirs / ours, 3),
                    goal=goal if number == 0 and whose == "penstock" else None,
                    goal_on="value",
                    note="" if number else "(bare: aiokafka compiled)",
                )
    gc.enable()
