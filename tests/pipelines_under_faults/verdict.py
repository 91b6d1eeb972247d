"""The verdict over one run: bronze, silver, dead letters and gold against the topic and the generator's answers.

Reads the Parquet files with pyarrow and the topics with a plain consumer; Spark has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet

from examples.pipelines.clicks import ClickKind, ClickStream
from penstock.client.admin.admin import Admin
from penstock.pipelines.table_files import table_files
from tests.support.campaign.reading import places_of
from tests.support.lake import LEAST, answers, read_topic, wanted_windows, windows_of

TOPIC, PARTITIONS = "clicks", 6
DEAD = f"{TOPIC}-dead"
GOLD, GOLD_PARTITIONS = f"{TOPIC}-gold", 2
GOLD_LEAST = f"{TOPIC}-{LEAST}"
REPEATED = 5
"""Queries of all jobs whose last micro-batch is repeated."""


@dataclass(slots=True)
class Faults:
    """The faults of the run; a driver's kill is (job, moment, whether it met the job, whether within a batch)."""

    drivers: list[tuple[str, str, bool, bool]] = field(default_factory=list)
    broker_down_s: float = 0.0
    acked_while_broker_down: int = 0
    generator_outlived_it: bool = False
    dropped_by_watermark: int = -1
    repeated: int = 0


def judge(bootstrap: str, lake: Path, seed: int, events: int, faults: Faults) -> tuple[dict[str, bool], dict[str, Any]]:
    """Compares what the jobs wrote with what was sent: the checks by name, and the figures."""
    records = list(ClickStream(seed, events).records())
    good = [record.click.event_id for record in records if record.kind is ClickKind.GOOD and record.click]
    bad = Counter((r.key, r.value) for r in records if r.kind in (ClickKind.MALFORMED, ClickKind.LATE))
    bronze = Counter(rows_of(lake / "bronze", ("partition", "offset")))
    wanted_offsets = offsets_of(bootstrap)
    silver = [name for (name,) in rows_of(lake / "silver", ("event_id",))]
    dead = read_topic(bootstrap, DEAD)
    gold = read_topic(bootstrap, GOLD)
    uncommitted = read_topic(bootstrap, GOLD, "read_uncommitted")
    least = read_topic(bootstrap, GOLD_LEAST)
    windows = wanted_windows(lake)
    checks = {
        "every record was sent once": len(wanted_offsets) == answers(lake)["records"] == len(records),
        "bronze has every offset exactly once": bronze == Counter(wanted_offsets),
        "so it has for tools that list directories": listed(lake / "bronze") == Counter(wanted_offsets),
        "silver has every good event exactly once": sorted(silver) == sorted(good),
        "the dead letters are the bad records, each once": Counter((one.key, one.value) for one in dead) == bad,
        "gold equals the answers": windows_of(gold) == windows,
        "gold has every window exactly once": len(gold) == len(windows),
        "gold at least once equals them, too, and has duplicates": windows_of(least) == windows
        and len(least) > len(windows),
        "the last micro-batch of every query was repeated": faults.repeated == REPEATED,
        "nothing was dropped behind the watermark": faults.dropped_by_watermark == 0,
        "every driver's kill met it": all(met for _, _, met, _ in faults.drivers),
        "bronze and gold were killed within a micro-batch": {"bronze", "gold"} <= killed_within_a_batch(faults),
        "records were acked while the broker was down": faults.acked_while_broker_down > 0,
        "the generator was still sending when the broker was back": faults.generator_outlived_it,
    }
    figures = {
        "records": len(records),
        "bronze_rows": bronze.total(),
        "silver_rows": len(silver),
        "bad_records": bad.total(),
        "dead_letters": len(dead),
        "windows": len(windows),
        "gold_records": len(gold),
        "gold_records_with_aborted": len(uncommitted),
        "gold_records_at_least_once": len(least),
        "drivers_killed": len(faults.drivers),
        "of_them_within_a_batch": sum(within for *_, within in faults.drivers),
        "broker_down_s": faults.broker_down_s,
        "acked_while_broker_down": faults.acked_while_broker_down,
    }
    return checks, figures


def killed_within_a_batch(faults: Faults) -> set[str]:
    return {job for job, _, _, within in faults.drivers if within}


def rows_of(table: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of the files that belong to the table."""
    rows: list[tuple[Any, ...]] = []
    for path in table_files(table):
        read = pyarrow.parquet.ParquetFile(path).read(list(columns))
        rows += zip(*(read[name].to_pylist() for name in columns), strict=True)
    return rows


def listed(table: Path) -> Counter[tuple[Any, ...]]:
    """The rows of all Parquet files in the table's directories, without its log."""
    found = pyarrow.dataset.dataset(table, format="parquet", partitioning="hive")
    read = found.to_table(columns=["partition", "offset"])
    return Counter(zip(read["partition"].to_pylist(), read["offset"].to_pylist(), strict=True))


def offsets_of(bootstrap: str) -> list[tuple[int, int]]:
    """Every partition and offset of the topic."""
    with Admin(bootstrap) as admin:
        ends = admin.list_offsets(places_of(TOPIC, PARTITIONS))
    return [(tp.partition, offset) for tp, end in ends.items() for offset in range(end.offset)]
