"""Shows a plan for log dirs: what each has before and after it, what moves, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.cli.moves.move_progress import mebibytes
from penstock.cli.output import count, note, print_table

if TYPE_CHECKING:
    from penstock.balance.dirs.broker_dirs import DirLoad, DirPlan
    from penstock.cli.moves.dirs.dir_reading import ReadDirs
    from penstock.types import TopicPartition

DIR_LOAD_COLUMNS = ("broker", "log_dir", "replicas", "size_bytes", "replicas_after", "size_after")
DIR_MOVE_COLUMNS = ("broker", "topic", "partition", "log_dir", "log_dir_after", "size_bytes")


def show_dirs(plan: DirPlan, read: ReadDirs) -> None:
    """The numbers of each log dir and the replicas that move on stdout, the cost in words on stderr."""
    rows = zip(plan.before, plan.after, strict=True)
    print_table(DIR_LOAD_COLUMNS, [(b.broker_id, b.path, *_load(b), *_load(a)) for b, a in rows])
    if plan.moves:
        print_table(
            DIR_MOVE_COLUMNS,
            [
                (each.broker_id, each.topic, each.index, each.source, each.target, count(each.size_bytes))
                for each in plan.moves
            ],
        )
    for (broker_id, path), why in read.offline.items():
        note(f"nothing goes to {path} of broker {broker_id}, which is offline: {why}")
    if read.out_of_service:
        named = ", ".join(map(str, read.out_of_service))
        note(f"the log dirs of broker {named}, which is out of service, are left alone")
    if read.under_way:
        note(
            f"{read.under_way} replicas move between log dirs already, and are counted where they go: `penstock"
            " log-dirs describe --replicas` shows them"
        )
    note(dirs_text(plan))


def dirs_text(plan: DirPlan) -> str:
    """The cost of a plan, and what it brings, for a person."""
    online = Counter(load.broker_id for load in plan.before if load.online)
    if online and max(online.values()) == 1:
        return "nothing to do between log dirs: no broker in service has more than one that is online"
    if plan.is_empty:
        return "nothing to do between log dirs: " + _differences(plan.before)
    return (
        f"{len(plan.moves)} replicas move to another log dir of their broker, {mebibytes(plan.bytes_to_copy)} to copy."
        f" Before: {_differences(plan.before)}. After: {_differences(plan.after)}"
    )


def dirs_json(plan: DirPlan, read: ReadDirs, failed: Mapping[tuple[int, TopicPartition], str]) -> Any:
    """The plan for scripts, and what became of it."""
    return {
        "replicas_moved": len(plan.moves),
        "bytes_to_copy": plan.bytes_to_copy,
        "moves": [
            {
                "broker_id": each.broker_id,
                "topic": each.topic,
                "partition": each.index,
                "log_dir": each.source,
                "log_dir_after": each.target,
                "size_bytes": each.size_bytes,
            }
            for each in plan.moves
        ],
        "before": _dirs_json(plan.before),
        "after": _dirs_json(plan.after),
        "under_way_before": read.under_way,
        "silent": [{"broker_id": broker_id, "error": why} for broker_id, why in sorted(read.silent.items())],
        "failed": [
            {"broker_id": broker_id, "topic": tp.topic, "partition": tp.partition, "error": why}
            for (broker_id, tp), why in sorted(failed.items())
        ],
    }


def _dirs_json(loads: Iterable[DirLoad]) -> list[dict[str, Any]]:
    return [
        {
            "broker_id": load.broker_id,
            "log_dir": load.path,
            "online": load.online,
            "replicas": load.replicas,
            "size_bytes": load.size_bytes,
        }
        for load in loads
    ]


def _differences(loads: Iterable[DirLoad]) -> str:
    of_brokers: dict[int, list[DirLoad]] = {}
    for load in loads:
        if load.online:
            of_brokers.setdefault(load.broker_id, []).append(load)

    def most(what: Callable[[DirLoad], int]) -> int:
        return max((max(map(what, each)) - min(map(what, each)) for each in of_brokers.values()), default=0)

    replicas, size = most(lambda load: load.replicas), most(lambda load: load.size_bytes)
    return f"the log dirs of one broker differ by {replicas} replicas, {mebibytes(size)} at most"


def _load(load: DirLoad) -> tuple[object, ...]:
    return (load.replicas, count(load.size_bytes)) if load.online else ("offline", "?")
