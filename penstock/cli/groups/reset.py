"""`penstock groups reset-offsets`: moves what a group has committed, while nobody reads in it.

Not here: what of it is possible (penstock/client/admin/groups/reset.py), and the file of offsets (offsets_file.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console.consume_range import parse_moment_ms
from penstock.cli.edge.places import parse_places, partitions_of
from penstock.cli.groups.group_options import GroupId, GroupTopics
from penstock.cli.groups.offsets_file import read_offsets
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import count, note, print_json, print_table, raise_common_refusal, say
from penstock.cli.patience.watch import patient_admin
from penstock.clock import SystemClock
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.written.numbers import INT64_MAX

if TYPE_CHECKING:
    from penstock.client.admin.groups.group_types import OffsetReset
    from penstock.types import TopicPartition

COLUMNS = ("topic", "partition", "before", "after", "moved")
DURATION = re.compile(
    r"P(?:([0-9]{1,9})D)?(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.[0-9]{1,9})?S)?)?"
)
DURATION_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
DURATION_FORM = "must be a duration of ISO 8601, like PT1H30M, P7D or PT0S"

AllTopics = Annotated[
    bool, typer.Option("--all-topics", help="Every partition that the group has committed an offset of.")
]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the first record of each partition.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="To the end: only what comes is read.")]
ToCurrent = Annotated[
    bool,
    typer.Option(
        "--to-current",
        help="To where the group is, or to the end where it has committed nothing; with --export to keep that.",
    ),
]
ToOffset = Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0, max=INT64_MAX, help="To this offset.")]
ShiftBy = Annotated[
    int | None,
    typer.Option(
        "--shift-by",
        metavar="N",
        min=-INT64_MAX,
        max=INT64_MAX,
        help="By so many records; back where N is negative.",
    ),
]
ToDatetime = Annotated[
    str,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="To the first record at or after TIME: ms since 1970, ISO 8601 (local time unless it has a zone), or"
        " -2h and the like, before now.",
    ),
]
ByDuration = Annotated[
    str,
    typer.Option(
        "--by-duration",
        metavar="DURATION",
        help="To the first record that is not older than this, in ISO 8601: PT1H30M, P7D.",
    ),
]
FromFile = Annotated[
    str,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="To the offsets of a file with a line topic,partition,offset for each partition; '-' is standard"
        " input. The output of --export is such a file.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Execute = Annotated[
    bool,
    typer.Option(
        "--execute", help="Do it, as the command does anyway without --dry-run; for scripts written for Kafka's tool."
    ),
]
Export = Annotated[
    bool, typer.Option("--export", help="Print topic,partition,offset lines, as --from-file reads them.")
]


@dataclass(frozen=True, slots=True)
class TargetOption:
    """The option that says where to, and the arguments that it means to Admin."""

    option: str
    arguments: Mapping[str, Any]


def reset_offsets(
    group: GroupId,
    topic: GroupTopics = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = "",
    by_duration: ByDuration = "",
    from_file: FromFile = "",
    dry_run: DryRun = False,
    execute: Execute = False,
    export: Export = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group in which nobody reads; a group with members is refused.

    An offset that a partition does not have becomes the nearest end of its log. A group that does not exist is made.
    """
    topics = parse_places(topic or (), "--topic")
    target = parse_target(
        {
            "--to-earliest": "earliest" if to_earliest else None,
            "--to-latest": "latest" if to_latest else None,
            "--to-current": "current" if to_current else None,
            "--to-offset": to_offset,
            "--shift-by": shift_by,
            "--to-datetime": to_datetime or None,
            "--by-duration": by_duration or None,
            "--from-file": from_file or None,
        },
        SystemClock().wall_ms(),
    )
    if sum((bool(topics), all_topics, bool(from_file))) != 1:
        raise ConfigError("give one of --topic TOPIC[:P,…], --all-topics and --from-file FILE")
    if execute and dry_run:
        raise ConfigError("--execute and --dry-run: keep one")
    if export and as_json:
        raise ConfigError("--export and --json: each says how to print; keep one")
    with patient_admin(bootstrap) as admin:
        partitions = partitions_of(admin, topics) if topics else None
        found = admin.reset_group_offsets(group, partitions, **target.arguments, dry_run=dry_run)
    if not found:
        raise ConfigError(f"group {group!r} has committed nothing; name the topics with --topic")
    raise_common_refusal([one.error for one in found.values()])
    _show(found, export=export, as_json=as_json)
    if all(one.before is None for one in found.values()):
        note(
            f"group {group!r} has committed none of these offsets before: it does not exist, or has not read these"
            f" partitions. {'They would be' if dry_run else 'They are'} its first; is the name right?"
            " (`penstock groups list`)"
        )
    for tp, one in found.items():
        if one.error is not None:
            note(f"{tp}: {one.error}")
        elif one.wanted != one.offset:
            note(f"{tp}: there is no offset {one.wanted}; {one.offset} is the nearest")
    if dry_run:
        note("nothing was changed (--dry-run)")
    if any(one.error is not None for one in found.values()):
        raise typer.Exit(1)


def parse_target(given: Mapping[str, str | int | None], now_ms: int) -> TargetOption:
    """The one option that names the target; ConfigError for no option, or more than one."""
    named = {option: value for option, value in given.items() if value is not None}
    if len(named) != 1:
        remedy = f"give one of {', '.join(given)}" if not named else f"{' and '.join(named)}: keep one"
        raise ConfigError(remedy)
    ((option, value),) = named.items()
    if option == "--shift-by":
        return TargetOption(option, {"shift_by": value})
    if option == "--to-datetime":
        return TargetOption(option, {"to_time_ms": parse_moment_ms(option, str(value), now_ms)})
    if option == "--by-duration":
        return TargetOption(option, {"to_time_ms": max(0, now_ms - parse_duration_ms(str(value)))})
    if option == "--from-file":
        return TargetOption(option, {"to": read_offsets(str(value))})
    return TargetOption(option, {"to": value})


def parse_duration_ms(text: str) -> int:
    """A duration of ISO 8601 in ms, without years and months, whose lengths differ."""
    found = DURATION.fullmatch(text)
    if found is None or text in ("P", "PT"):
        raise ConfigError(f"--by-duration {text}: {DURATION_FORM}")
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), DURATION_UNITS_MS, strict=True))


def _show(found: Mapping[TopicPartition, OffsetReset], *, export: bool, as_json: bool) -> None:
    done = {tp: one for tp, one in found.items() if one.error is None}
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "before": None if one.before is None else one.before.offset,
                    "after": one.offset,
                    "wanted": one.wanted,
                    "error": None if one.error is None else str(one.error),
                }
                for tp, one in found.items()
            ]
        )
    elif export:
        for tp, one in done.items():
            say(f"{tp.topic},{tp.partition},{one.offset}")
    else:
        print_table(COLUMNS, [_row(tp, one) for tp, one in done.items()])


def _row(tp: TopicPartition, one: OffsetReset) -> tuple[object, ...]:
    if one.before is None:
        return *tp, "-", count(one.offset), "-"
    return *tp, count(one.before.offset), count(one.offset), count(one.offset - one.before.offset)
