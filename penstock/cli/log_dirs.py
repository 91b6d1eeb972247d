"""`penstock log-dirs describe|move`: the log dirs of running brokers, the room on their disks, what each replica takes,
and moves of replicas between the log dirs of one broker (KIP-113).

Exit code 1 if a broker does not say, or one of its log dirs is offline; if a replica was refused, or is not where it
should be at the end of --wait. Not here: what may move (the broker).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.asking import DryRun
from penstock.cli.edge.places import parse_partition
from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic
from penstock.cli.output import count, note, print_json, print_rows, print_table, raise_common_refusal
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError, PenstockError
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.errors import ApiError
    from penstock.types import TopicPartition

app = typer.Typer(
    help="Show the log dirs of running brokers; move replicas between those of one broker.", no_args_is_help=True
)

DIR_COLUMNS = (
    "broker",
    "log_dir",
    "replicas",
    "coming",
    "size_bytes",
    "usable_bytes",
    "total_bytes",
    "cordoned",
    "error",
)
REPLICA_COLUMNS = (
    "broker",
    "log_dir",
    "topic",
    "partition",
    "size_bytes",
    "log_start_offset",
    "log_end_offset",
    "left_bytes",
    "waits_for",
)
POLL_SECONDS = 0.5


class NotMovedError(PenstockError):
    """A move ended, and the replica is not where it should be."""


@app.command()
def describe(
    broker: Annotated[
        list[int] | None,
        typer.Option("--broker", metavar="ID", min=0, max=INT32_MAX, help="Only this broker; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this one; may be repeated.", autocompletion=complete_topic),
    ] = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="A row for each replica, not for each log dir.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the log dirs of running brokers: their room, the size of what is in them, and the replicas that come.

    A replica that comes from another log dir of its broker has a row of its own, with the bytes that are to be copied.
    """
    with patient_admin(bootstrap) as admin:
        found = admin.describe_log_dirs(broker or None, topic or ())
    raise_common_refusal([one.error for one in found.values()])
    if as_json:
        print_json([_broker_json(one) for one in found.values()])
    elif replicas:
        print_table(REPLICA_COLUMNS, [row for one in found.values() for row in _replica_rows(one)])
    else:
        print_table(DIR_COLUMNS, [_dir_row(one.node_id, log_dir) for one in found.values() for log_dir in one.log_dirs])
    silent = [one for one in found.values() if one.error is not None]
    for one in silent:
        note(f"broker {one.node_id} does not say: {one.error}")
    if silent or any(log_dir.error for one in found.values() for log_dir in one.log_dirs):
        raise typer.Exit(1)


def _dir_row(node_id: int, log_dir: LogDirInfo) -> tuple[object, ...]:
    room = ("?" if size < 0 else count(size) for size in (log_dir.usable_bytes, log_dir.total_bytes))
    numbers = len(log_dir.replicas), len(log_dir.coming), count(log_dir.size_bytes)
    return node_id, log_dir.path, *numbers, *room, "yes" if log_dir.is_cordoned else "no", str(log_dir.error or "")


def _replica_rows(one: BrokerLogDirs) -> Iterator[tuple[object, ...]]:
    for log_dir in one.log_dirs:
        for tp, replica in sorted(log_dir.replicas.items()):
            offsets = replica.log_start_offset, replica.log_end_offset
            yield one.node_id, log_dir.path, tp.topic, tp.partition, count(replica.size_bytes), *offsets, "", ""
        for tp, copy in sorted(log_dir.coming.items()):
            size, left = count(copy.size_bytes), count(copy.bytes_left)
            yield one.node_id, log_dir.path, tp.topic, tp.partition, size, "", "", left, copy.waits_for


def _broker_json(one: BrokerLogDirs) -> dict[str, Any]:
    return {
        "broker_id": one.node_id,
        "error": None if one.error is None else str(one.error),
        "log_dirs": [
            {
                "path": log_dir.path,
                "directory_id": log_dir.directory_id,
                "error": None if log_dir.error is None else str(log_dir.error),
                "total_bytes": log_dir.total_bytes,
                "usable_bytes": log_dir.usable_bytes,
                "size_bytes": log_dir.size_bytes,
                "cordoned": log_dir.is_cordoned,
                "replicas": [
                    {
                        "topic": tp.topic,
                        "partition": tp.partition,
                        "topic_id": replica.topic_id,
                        "size_bytes": replica.size_bytes,
                        "log_start_offset": replica.log_start_offset,
                        "log_end_offset": replica.log_end_offset,
                    }
                    for tp, replica in sorted(log_dir.replicas.items())
                ],
                "coming": [
                    {
                        "topic": tp.topic,
                        "partition": tp.partition,
                        "topic_id": copy.topic_id,
                        "size_bytes": copy.size_bytes,
                        "left_bytes": copy.bytes_left,
                        "offset_lag": copy.offset_lag,
                        "waits_for": copy.waits_for,
                    }
                    for tp, copy in sorted(log_dir.coming.items())
                ],
            }
            for log_dir in one.log_dirs
        ],
    }


# -- moving ------------------------------------------------------------------------------------------------------------


@app.command()
def move(
    moves: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC:PARTITION=PATH...",
            help="The log dir that should have a replica, as `log-dirs describe` shows it: orders:0=/data/b.",
        ),
    ],
    broker: Annotated[
        int,
        typer.Option("--broker", metavar="ID", min=0, max=INT32_MAX, help="The broker that has the replicas."),
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Until every replica is there.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Begin to move replicas to other log dirs of their broker, while they are in use.

    A move goes on by itself, also after a restart. Ask for the log dir where a replica is to end its move.
    """
    wanted = parse_log_dir_moves(moves)
    if dry_run:
        with patient_admin(bootstrap) as admin:
            found = admin.describe_log_dirs([broker], sorted({tp.topic for tp in wanted}))[broker]
        if found.error is not None:
            raise found.error
        here = {tp: log_dir.path for log_dir in found.log_dirs for tp in log_dir.replicas}
        rows = [(*tp, here.get(tp, "-"), path) for tp, path in sorted(wanted.items())]
        print_rows(("topic", "partition", "log_dir", "wanted"), rows, as_json)
        return
    with patient_admin(bootstrap) as admin:
        results = admin.alter_replica_log_dirs(broker, wanted)
        begun = {tp: path for tp, path in wanted.items() if results[tp] is None}
        if wait and begun:
            wait_for_moves(admin, broker, begun)
    _show_moves(results, wanted, "moved" if wait else "begun", as_json)


def parse_log_dir_moves(moves: list[str]) -> dict[TopicPartition, str]:
    """The moves that the command line names. ConfigError says what is wrong, and how it should look."""
    found: dict[TopicPartition, str] = {}
    for one in moves:
        name, _, path = one.partition("=")
        tp = parse_partition(name)
        if tp is None or not path:
            raise ConfigError(f"{one}: must be a partition and a log dir, like orders:0=/data/b")
        if tp in found:
            raise ConfigError(f"{tp} is given twice")
        found[tp] = path
    return found


def wait_for_moves(admin: Admin, broker: int, wanted: Mapping[TopicPartition, str]) -> None:
    """Waits until all of these moves have ended. NotMovedError if a replica is not where it should be."""
    topics, pace, said_at = sorted({tp.topic for tp in wanted}), CopyPace(), time.monotonic()
    while True:
        found = admin.describe_log_dirs([broker], topics)[broker]
        if found.error is None:
            coming = _coming(found, wanted)
            if not coming:
                break
            pace.saw(sum(copy.bytes_left for copy in coming.values()), time.monotonic())
            if time.monotonic() - said_at >= SAY_SECONDS:
                said_at = time.monotonic()
                waits = next((copy.waits_for for copy in coming.values() if copy.waits_for), "")
                note(
                    f"{len(coming)} replicas still move, one is {min(coming)}; {pace.text()}"
                    + (f"; one waits: {waits}" if waits else "")
                    + ". They go on without this command; `penstock log-dirs describe --replicas` shows them"
                )
        time.sleep(POLL_SECONDS)
    here = {tp: log_dir.path for log_dir in found.log_dirs for tp in log_dir.replicas}
    for tp, path in sorted(wanted.items()):
        if here.get(tp) != path.rstrip("/"):
            place = here.get(tp, "no log dir that works")
            raise NotMovedError(f"{tp} is in {place} and not in {path}: the log of broker {broker} says why")


def _coming(found: BrokerLogDirs, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, FutureReplicaInfo]:
    return {tp: copy for log_dir in found.log_dirs for tp, copy in log_dir.coming.items() if tp in wanted}


def _show_moves(
    results: Mapping[TopicPartition, ApiError | None], wanted: Mapping[TopicPartition, str], done: str, as_json: bool
) -> None:
    failed = {tp: error for tp, error in results.items() if error is not None}
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "log_dir": wanted[tp],
                    done: error is None,
                    "error": None if error is None else str(error),
                }
                for tp, error in sorted(results.items())
            ]
        )
    else:
        rows = [(tp.topic, tp.partition, wanted[tp], done) for tp in sorted(results) if tp not in failed]
        print_table(["topic", "partition", "log_dir", "move"], rows)
        for _, error in sorted(failed.items()):
            note(str(error))
    if failed:
        raise typer.Exit(1)
