"""`penstock reassignments create|list|delete`: moves replicas to other brokers while clients go on (KIP-455).

Exit code 1 if a partition was refused, or does not have the replicas that were asked for at the end of --wait. Not
here: what is allowed (the controller).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.asking import DryRun
from penstock.cli.edge.places import OnlyPartitions, PlaceNames, Places, parse_partition, places_or_all
from penstock.cli.moves.move_progress import CopyPace, left_bytes
from penstock.cli.moves.throttling import Throttle, throttled
from penstock.cli.moves.waiting import wait_for
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import count, note, print_json, print_rows, print_table
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.written.numbers import INT32_MAX, parse_number

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dirs import ReassignmentProgress
    from penstock.errors import ApiError
    from penstock.types import TopicPartition

app = typer.Typer(
    help="Move replicas to other brokers while clients go on; show such moves; cancel them.", no_args_is_help=True
)

PACE_SECONDS = 1.0
PLAN_BYTES_MAX = 64 << 20
PLAN_COLUMNS = ("topic", "partition", "replicas", "wanted", "copied_to")
COLUMNS = ("topic", "partition", "replicas", "adding", "removing", "isr", "size_bytes", "left_bytes")


@app.command("create")
def start(
    moves: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC:PARTITION=ID,ID,…]...",
            help="The brokers that should have replicas of a partition, the preferred leader first: orders:0=4,5,1.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help='JSON: {"partitions":[{"topic":"orders","partition":0,"replicas":[4,5,1]}]}.'
        ),
    ] = None,
    throttle: Throttle = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until every replica that comes is in sync.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Begin to move replicas. A replica that goes stays a full member until every replica that comes is in sync."""
    wanted = parse_moves(moves or [])
    if plan is not None:
        for tp, replicas in parse_plan(_text_of(plan), str(plan)).items():
            if tp in wanted:
                raise ConfigError(f"{tp} is in {plan} and on the command line")
            wanted[tp] = replicas
    if not wanted:
        raise ConfigError("give partitions with their new replicas, like orders:0=4,5,1, or --plan FILE")
    if throttle is not None and not wait:
        raise ConfigError("--throttle ends with the command; give --wait, too")
    if dry_run:
        with patient_admin(bootstrap) as admin:
            print_rows(PLAN_COLUMNS, _planned(admin, wanted), as_json)
        return
    with patient_admin(bootstrap) as admin, throttled(admin, throttle):
        results = admin.alter_partition_reassignments(wanted)
        others = _waited_for(admin, wanted, results) if wait else {}
    for tp, replicas in sorted(others.items()):
        note(f"{tp} has the replicas {list(replicas)} and not {list(wanted[tp])}: another reassignment took its place")
    _show(results, "begun" if not wait else "done", as_json, not_so=others)


@app.command("list")
def list_reassignments(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the partitions whose replicas move now, how much is still to be copied, and, on stderr, how long that takes.

    The time left is by what was copied within one second.
    """
    with patient_admin(bootstrap) as admin:
        found = admin.reassignment_progress()
        pace = CopyPace()
        if found and not as_json:
            pace.saw(left_bytes(found), time.monotonic())
            time.sleep(PACE_SECONDS)
            found = admin.reassignment_progress()
            pace.saw(left_bytes(found), time.monotonic())
    if as_json:
        print_json([_move_json(tp, move) for tp, move in sorted(found.items())])
        return
    print_table(COLUMNS, [_row(tp, move) for tp, move in sorted(found.items())])
    if found:
        note(pace.text())


@app.command("delete")
def cancel(
    names: PlaceNames = None,
    partition: OnlyPartitions = None,
    everything: Annotated[bool, typer.Option("--all", help="Every move that goes on.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Cancel moves: the partitions have their earlier replicas again, and what was copied is deleted."""
    places = places_or_all(names, partition, everything)
    with patient_admin(bootstrap) as admin:
        chosen = _chosen(admin, places)
        if dry_run:
            print_rows(("topic", "partition"), chosen, as_json)
            return
        results = admin.alter_partition_reassignments(dict.fromkeys(chosen)) if chosen else {}
    _show(results, "cancelled", as_json)


def _planned(admin: Admin, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> list[tuple[object, ...]]:
    """The moves, by what is there now; UnknownTopicOrPartitionError where there is no such topic."""
    topics = {name: admin.describe_topic(name).partitions for name in sorted({tp.topic for tp in wanted})}
    now = {(name, one.partition): one.replicas for name, parts in topics.items() for one in parts}
    rows: list[tuple[object, ...]] = []
    for tp, replicas in sorted(wanted.items()):
        before = now.get(tp, ())
        copied = [one for one in replicas if one not in before]
        rows.append((*tp, _ids(before), _ids(replicas), _ids(copied)))
    return rows


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _chosen(admin: Admin, places: Places) -> list[TopicPartition]:
    from penstock import TopicPartition

    whole = {topic for topic, numbers in places.items() if not numbers}
    named = [TopicPartition(topic, number) for topic, numbers in places.items() for number in numbers]
    if places and not whole:
        return named
    known = admin.list_topics() if whole else ()
    missing = sorted(topic for topic in whole if topic not in known)
    if missing:
        meant = parse_partition(missing[0])
        if meant is not None and meant.topic in known:
            raise ConfigError(f"{missing[0]} is no topic; write the partition as {meant.topic}:{meant.partition}")
        raise ConfigError(f"topic {missing[0]!r} does not exist; `penstock topics list` names those that do")
    chosen = [tp for tp in admin.list_partition_reassignments() if not places or tp.topic in whole]
    for topic in sorted(whole - {tp.topic for tp in chosen}):
        note(f"{topic}: no partition is being reassigned; there is nothing to cancel")
    if not places and not chosen:
        note("no partition is being reassigned; there is nothing to cancel")
    return [*named, *chosen]


def parse_moves(moves: list[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The moves that the command line names. ConfigError says what is wrong, and how it should look."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for move in moves:
        name, has_replicas, replicas = move.partition("=")
        tp = parse_partition(name)
        ids = [parse_number(replica, INT32_MAX) for replica in replicas.split(",")]
        if tp is None or not has_replicas or None in ids:
            raise ConfigError(f"{move}: must be a partition and its brokers, like orders:0=4,5,1")
        if tp in found:
            raise ConfigError(f"{tp} is given twice")
        found[tp] = tuple(replica for replica in ids if replica is not None)
    return found


def parse_plan(text: str, path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The format of Kafka's reassignment tool; keys that are not needed here are ignored."""
    from penstock import TopicPartition

    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None
    partitions = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(partitions, list):
        raise ConfigError(f'{path} must be {{"partitions": […]}}')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for index, row in enumerate(partitions):
        match row:
            case {"topic": str(topic), "partition": number, "replicas": [*replicas]} if all(
                type(one) is int and 0 <= one <= INT32_MAX for one in (number, *replicas)
            ):
                tp = TopicPartition(topic, number)
            case _:
                raise ConfigError(f"{path}: partition {index} of the list needs a topic, a partition and replicas")
        if tp in found:
            raise ConfigError(f"{path} names {tp} twice")
        found[tp] = tuple(replicas)
    return found


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > PLAN_BYTES_MAX:
            raise ConfigError(f"{path} is larger than {PLAN_BYTES_MAX >> 20} MiB; give fewer partitions at once")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _waited_for(
    admin: Admin, wanted: dict[TopicPartition, tuple[int, ...]], results: dict[TopicPartition, ApiError | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Waits until the moves have ended. Returns the partitions that have other replicas than were asked for."""
    begun = {tp for tp, error in results.items() if error is None}
    wait_for(admin, begun)
    topics = {topic: admin.describe_topic(topic).partitions for topic in {tp.topic for tp in begun}}
    now = {tp: topics[tp.topic][tp.partition].replicas for tp in begun}
    return {tp: replicas for tp, replicas in now.items() if replicas != wanted[tp]}


def _show(
    results: dict[TopicPartition, ApiError | None],
    done: str,
    as_json: bool,
    not_so: dict[TopicPartition, tuple[int, ...]] | None = None,
) -> None:
    failed = {tp: error for tp, error in results.items() if error is not None}
    succeeded = [tp for tp in sorted(results) if tp not in failed and tp not in (not_so or {})]
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    done: tp in succeeded,
                    "error": None if error is None else str(error),
                }
                for tp, error in sorted(results.items())
            ]
        )
    else:
        print_table(["topic", "partition", "reassignment"], [(tp.topic, tp.partition, done) for tp in succeeded])
        for _, error in sorted(failed.items()):
            note(str(error))
    if failed or not_so:
        raise typer.Exit(1)


def _row(tp: TopicPartition, move: ReassignmentProgress) -> tuple[object, ...]:
    p = move.partition
    ids = (",".join(map(str, ids)) for ids in (p.replicas, p.adding_replicas, p.removing_replicas, p.isr))
    sizes = ("?" if size is None else count(size) for size in (move.size_bytes, move.left_bytes))
    return tp.topic, tp.partition, *ids, *sizes


def _move_json(tp: TopicPartition, move: ReassignmentProgress) -> dict[str, Any]:
    p = move.partition
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": list(p.replicas),
        "adding_replicas": list(p.adding_replicas),
        "removing_replicas": list(p.removing_replicas),
        "isr": list(p.isr),
        "leader_id": p.leader_id,
        "size_bytes": move.size_bytes,
        "left_bytes": move.left_bytes,
        "left_bytes_by_replica": {str(replica): left for replica, left in move.left.items()},
    }


app.command("start", hidden=True)(start)
app.command("cancel", hidden=True)(cancel)
