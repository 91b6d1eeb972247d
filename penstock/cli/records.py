"""`penstock topics offsets|delete-records|producers`: shows offsets, deletes old records, and shows who has written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.edge.numbers import INT32_MAX, INT64_MAX, parse_number
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName
from penstock.cli.output import Human, count, print_json, print_table, when
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.types import TopicPartition

SPECS = ("earliest", "latest", "max-timestamp")
EVERYTHING = -1

Partitions = Annotated[
    list[int] | None,
    typer.Option("-p", "--partition", metavar="N", min=0, max=INT32_MAX, help="Only this partition; may be repeated."),
]


def offsets(
    name: TopicName,
    partition: Partitions = None,
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
    spec = time if time in SPECS else parse_time_ms(time)
    with patient_admin(bootstrap) as admin:
        wanted: dict[TopicPartition, int | str] = dict.fromkeys(_partitions(admin, name, partition), spec)
        found = sorted(admin.list_offsets(wanted).items())
    if as_json:
        print_json(
            [
                {
                    "partition": tp.partition,
                    "offset": info.offset,
                    "timestamp_ms": info.timestamp_ms,
                    "leader_epoch": info.leader_epoch,
                }
                for tp, info in found
            ]
        )
        return
    print_table(
        ["partition", "offset", "timestamp_ms"],
        [(tp.partition, _shown(info.offset, count), _shown(info.timestamp_ms, when)) for tp, info in found],
    )


def delete_records(
    name: TopicName,
    partition: Partitions = None,
    before_offset: Annotated[
        int | None,
        typer.Option(
            "--before-offset", metavar="N", min=0, max=INT64_MAX, help="Delete every record below this offset."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete everything that can be read now.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic for good, and show where each partition begins now.

    The records cannot be read any more; retention deletes their files.
    """
    if everything == (before_offset is not None):
        raise ConfigError("give either --before-offset N or --all")
    with patient_admin(bootstrap) as admin:
        partitions = _partitions(admin, name, partition)
        if before_offset is not None and not partition and len(partitions) > 1:
            raise ConfigError(
                f"--before-offset {before_offset}: {name} has {len(partitions)} partitions, and each has its own"
                " offsets; choose one with -p N"
            )
        offset = EVERYTHING if before_offset is None else before_offset
        low_watermarks = sorted(admin.delete_records(dict.fromkeys(partitions, offset)).items())
    if as_json:
        print_json([{"partition": tp.partition, "low_watermark": low} for tp, low in low_watermarks])
    else:
        print_table(["partition", "low_watermark"], [(tp.partition, count(low)) for tp, low in low_watermarks])


def producers(
    name: TopicName,
    partition: Partitions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the idempotent producers that each partition knows, the longest silent first.

    A batch whose epoch is older is refused (INVALID_PRODUCER_EPOCH), and so is one that does not begin with the
    sequence behind the last one (OUT_OF_ORDER_SEQUENCE_NUMBER). `open_from` is the first offset of a transaction that
    is not decided: readers of committed records (isolation.level) get nothing from there on.
    """
    with patient_admin(bootstrap) as admin:
        found = sorted(admin.describe_producers(_partitions(admin, name, partition)).items())
    rows = [(tp.partition, one) for tp, known in found for one in known]
    if as_json:
        print_json(
            [
                {
                    "partition": number,
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "last_sequence": one.last_sequence,
                    "last_append_ms": one.last_append_ms,
                    "coordinator_epoch": one.coordinator_epoch,
                    "transaction_start_offset": one.transaction_start_offset,
                }
                for number, one in rows
            ]
        )
        return
    print_table(
        ["partition", "producer_id", "epoch", "last_sequence", "last_append", "coordinator_epoch", "open_from"],
        [
            (
                number,
                one.producer_id,
                one.producer_epoch,
                count(one.last_sequence),
                when(one.last_append_ms).text,
                "-" if one.coordinator_epoch is None else count(one.coordinator_epoch),
                "-" if one.transaction_start_offset is None else count(one.transaction_start_offset),
            )
            for number, one in rows
        ],
    )


def parse_time_ms(text: str) -> int:
    """A time as ms since 1970. A date before that is 0: every record is later, and a negative time has another meaning
    on the wire (-1 is the end of the log)."""
    number = parse_number(text, INT64_MAX)
    if number is not None:
        return number
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--time {text}: must be {', '.join(SPECS)}, ms since 1970, or a time like 2026-01-31T12:00:00Z"
        ) from None


def _partitions(admin: Admin, name: str, chosen: list[int] | None) -> list[TopicPartition]:
    from penstock import TopicPartition

    if chosen:
        return [TopicPartition(name, number) for number in chosen]
    return [TopicPartition(name, info.partition) for info in admin.describe_topic(name).partitions]


def _shown(number: int, form: Callable[[int], Human]) -> Human | str:
    return form(number) if number >= 0 else "-"
