"""`penstock topics offsets|delete-records|producers`: shows offsets, deletes old records, and shows who has written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.places import OnlyPartitions, parse_places, partitions_of
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic
from penstock.cli.output import Human, count, print_json, print_rows, print_table, when
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.written.numbers import INT64_MAX
from penstock.written.times import time_ms

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.types import TopicPartition

SPECS = ("earliest", "latest", "max-timestamp")
EVERYTHING = -1

Places = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC[:P,…]...",
        help="Topics, or only some partitions of them: orders payments:0,2.",
        autocompletion=complete_topic,
    ),
]


def offsets(
    names: Places,
    partition: OnlyPartitions = None,
    time: Annotated[
        str,
        typer.Option(
            "--time",
            metavar="SPEC",
            help="earliest, latest (the high watermark), max-timestamp, or a time, which finds the first record at or"
            " after it: ms since 1970, or ISO 8601 (local time unless it has a zone).",
        ),
    ] = "latest",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show one offset of each partition; '-' means that there is no such record."""
    places, spec = parse_places(names, "", partition), time if time in SPECS else parse_time_ms(time)
    with patient_admin(bootstrap) as admin:
        wanted: dict[TopicPartition, int | str] = dict.fromkeys(partitions_of(admin, places), spec)
        found = sorted(admin.list_offsets(wanted).items())
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "offset": info.offset,
                    "timestamp_ms": info.timestamp_ms,
                    "leader_epoch": info.leader_epoch,
                }
                for tp, info in found
            ]
        )
        return
    rows = [(tp, _shown(info.offset, count), _shown(info.timestamp_ms, when)) for tp, info in found]
    _print_partitions(places, ("offset", "timestamp_ms"), rows)


def delete_records(
    names: Places,
    partition: OnlyPartitions = None,
    before_offset: Annotated[
        int | None,
        typer.Option(
            "--before-offset", metavar="N", min=0, max=INT64_MAX, help="Delete every record below this offset."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete everything that can be read now.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of topics for good, and show where each partition begins now.

    The records cannot be read any more; retention deletes their files. At a terminal it shows what goes, and asks.
    """
    if everything == (before_offset is not None):
        raise ConfigError("give either --before-offset N or --all")
    places = parse_places(names, "", partition)
    with patient_admin(bootstrap) as admin:
        partitions = partitions_of(admin, places)
        if before_offset is not None and len(partitions) > 1 and not all(places.values()):
            raise ConfigError(
                f"--before-offset {before_offset}: that is {len(partitions)} partitions, and each has its own"
                " offsets; choose one, like orders:0"
            )
        offset = EVERYTHING if before_offset is None else before_offset
        if dry_run or (sys.stdin.isatty() and not yes):
            plan = _plan_of_deletion(admin, partitions, offset)
            if dry_run:
                print_rows(Goes._fields, plan, as_json)
                return
            agree([str(one) for one in plan], f"Delete these records of {', '.join(places)}?", yes=yes)
        low_watermarks = sorted(admin.delete_records(dict.fromkeys(partitions, offset)).items())
    if as_json:
        print_json([{"topic": tp.topic, "partition": tp.partition, "low_watermark": low} for tp, low in low_watermarks])
    else:
        _print_partitions(places, ("low_watermark",), [(tp, count(low)) for tp, low in low_watermarks])


class Goes(NamedTuple):
    """The records of a partition that a deletion would take: those from `begins_at` to before `before`."""

    topic: str
    partition: int
    begins_at: int
    before: int
    records: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}: {self.records:,} records, the offsets {self.begins_at} to {self.before}"


def _plan_of_deletion(admin: Admin, partitions: list[TopicPartition], before: int) -> list[Goes]:
    begins, ends = (admin.list_offsets(dict.fromkeys(partitions, spec)) for spec in ("earliest", "latest"))
    plan = []
    for tp in sorted(partitions):
        begins_at, end = begins[tp].offset, ends[tp].offset
        to = end if before == EVERYTHING else min(before, end)
        plan.append(Goes(*tp, begins_at, to, max(0, to - begins_at)))
    return plan


def producers(
    names: Places,
    partition: OnlyPartitions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the idempotent producers that each partition knows, the longest silent first.

    A batch whose epoch is older is refused (INVALID_PRODUCER_EPOCH), and so is one that does not begin with the
    sequence behind the last one (OUT_OF_ORDER_SEQUENCE_NUMBER). `open_from` is the first offset of a transaction that
    is not decided: readers of committed records (isolation.level) get nothing from there on.
    """
    places = parse_places(names, "", partition)
    with patient_admin(bootstrap) as admin:
        found = sorted(admin.describe_producers(partitions_of(admin, places)).items())
    rows = [(tp, one) for tp, known in found for one in known]
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "last_sequence": one.last_sequence,
                    "last_append_ms": one.last_append_ms,
                    "coordinator_epoch": one.coordinator_epoch,
                    "transaction_start_offset": one.transaction_start_offset,
                }
                for tp, one in rows
            ]
        )
        return
    _print_partitions(
        places,
        ("producer_id", "epoch", "last_sequence", "last_append", "coordinator_epoch", "open_from"),
        [
            (
                tp,
                one.producer_id,
                one.producer_epoch,
                count(one.last_sequence),
                when(one.last_append_ms).text,
                "-" if one.coordinator_epoch is None else count(one.coordinator_epoch),
                "-" if one.transaction_start_offset is None else count(one.transaction_start_offset),
            )
            for tp, one in rows
        ],
    )


def parse_time_ms(text: str) -> int:
    """A time as ms since 1970; ConfigError for another text."""
    if (found := time_ms(text)) is None:
        raise ConfigError(
            f"--time {text}: must be {', '.join(SPECS)}, ms since 1970, or a time like 2026-01-31T12:00:00Z"
        )
    return found


def _print_partitions(
    places: Mapping[str, object], columns: Sequence[str], rows: Sequence[tuple[TopicPartition, *tuple[object, ...]]]
) -> None:
    """A row for each; the topic is a column where there are several."""
    if len(places) == 1:
        print_table(["partition", *columns], [(tp.partition, *more) for tp, *more in rows])
    else:
        print_table(["topic", "partition", *columns], [(*tp, *more) for tp, *more in rows])


def _shown(number: int, form: Callable[[int], Human]) -> Human | str:
    return form(number) if number >= 0 else "-"
