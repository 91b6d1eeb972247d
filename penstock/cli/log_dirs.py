"""`penstock log-dirs`: the log dirs of running brokers, the room on their disks, and what each replica takes (KIP-113).

Exit code 1 if a broker does not say, or one of its log dirs is offline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic
from penstock.cli.output import count, note, print_json, print_table
from penstock.cli.patience.watch import patient_admin

if TYPE_CHECKING:
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.client.wire.log_dirs import LogDirInfo

DIR_COLUMNS = ("broker", "log_dir", "replicas", "size_bytes", "usable_bytes", "total_bytes", "error")
REPLICA_COLUMNS = ("broker", "log_dir", "topic", "partition", "size_bytes", "log_start_offset", "log_end_offset")


def log_dirs(
    broker: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", help="Only this broker; may be repeated.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this one; may be repeated.", autocompletion=complete_topic),
    ] = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="A row for each replica, not for each log dir.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the log dirs of running brokers: their room, and the size of what is in them."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_log_dirs(broker or None, topic or ())
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
    return node_id, log_dir.path, len(log_dir.replicas), count(log_dir.size_bytes), *room, str(log_dir.error or "")


def _replica_rows(one: BrokerLogDirs) -> Iterator[tuple[object, ...]]:
    for log_dir in one.log_dirs:
        for tp, replica in sorted(log_dir.replicas.items()):
            offsets = replica.log_start_offset, replica.log_end_offset
            yield one.node_id, log_dir.path, tp.topic, tp.partition, count(replica.size_bytes), *offsets


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
            }
            for log_dir in one.log_dirs
        ],
    }
