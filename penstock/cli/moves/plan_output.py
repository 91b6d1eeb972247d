"""Shows a plan: what each broker has before and after it, what moves, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.balance.plan import BrokerLoad, spread
from penstock.cli.moves.move_progress import mebibytes
from penstock.cli.output import count, note, print_table

if TYPE_CHECKING:
    from penstock.balance.plan import Plan

BROKER_COLUMNS = (
    "broker",
    "rack",
    "replicas",
    "leaders",
    "size_bytes",
    "replicas_after",
    "leaders_after",
    "size_after",
)
MOVE_COLUMNS = ("topic", "partition", "replicas", "replicas_after", "size_bytes")
PARTITIONS_NAMED_MAX = 5


def show_plan(plan: Plan) -> None:
    """The numbers of each broker and the partitions that change on stdout, the cost in words on stderr."""
    rows = zip(plan.before, plan.after, strict=True)
    print_table(BROKER_COLUMNS, [(b.broker_id, b.rack or "-", *_numbers(b), *_numbers(a)) for b, a in rows])
    if plan.reassignments:
        print_table(
            MOVE_COLUMNS,
            [
                (each.topic, each.index, _ids(each.before), _ids(each.after), _known(each.size_bytes))
                for each in plan.reassignments
            ],
        )
    out = [str(load.broker_id) for load in plan.before if not load.takes]
    if out:
        note(f"nothing goes to broker {', '.join(out)}, which is fenced, cordoned or drained")
    if plan.fewer_racks:
        named = ", ".join(plan.fewer_racks[:PARTITIONS_NAMED_MAX])
        note(f"{len(plan.fewer_racks)} partitions will be in fewer racks, because no other broker is left: {named}")
    note(plan_text(plan))


def plan_text(plan: Plan) -> str:
    """The cost of a plan, and what it brings, for a person."""
    if plan.is_empty:
        return "nothing to do: " + _spreads(plan.before)
    copied = "an unknown number of bytes" if plan.bytes_to_copy is None else mebibytes(plan.bytes_to_copy)
    orders = len(plan.reassignments) - len(plan.moves)
    return (
        f"{plan.replicas_moved} replicas of {len(plan.moves)} partitions move, {copied} to copy; {orders} partitions"
        f" change the order of their replicas; {len(plan.elections)} get another leader. Before:"
        f" {_spreads(plan.before)}. After: {_spreads(plan.after)}"
    )


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan for scripts."""
    return {
        "replicas_moved": plan.replicas_moved,
        "bytes_to_copy": plan.bytes_to_copy,
        "reassignments": [
            {
                "topic": each.topic,
                "partition": each.index,
                "replicas": list(each.before),
                "replicas_after": list(each.after),
                "size_bytes": each.size_bytes,
            }
            for each in plan.reassignments
        ],
        "elections": [
            {"topic": each.topic, "partition": each.index, "leader_id": each.leader_id} for each in plan.elections
        ],
        "fewer_racks": list(plan.fewer_racks),
        "before": _loads_json(plan.before),
        "after": _loads_json(plan.after),
    }


def _loads_json(loads: tuple[BrokerLoad, ...]) -> dict[str, Any]:
    return {
        "spread": {
            "replicas": spread(loads, lambda load: load.replicas),
            "leaders": spread(loads, lambda load: load.leaders),
            "size_bytes": spread(loads, lambda load: load.size_bytes),
        },
        "brokers": [
            {
                "broker_id": load.broker_id,
                "rack": load.rack,
                "takes_replicas": load.takes,
                "replicas": load.replicas,
                "leaders": load.leaders,
                "size_bytes": load.size_bytes,
            }
            for load in loads
        ],
    }


def _spreads(loads: tuple[BrokerLoad, ...]) -> str:
    replicas, leaders = spread(loads, lambda load: load.replicas), spread(loads, lambda load: load.leaders)
    size = mebibytes(spread(loads, lambda load: load.size_bytes))
    return f"brokers differ by {replicas} replicas, {leaders} leaders, {size}"


def _numbers(load: BrokerLoad) -> tuple[object, ...]:
    return load.replicas, load.leaders, count(load.size_bytes)


def _ids(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))


def _known(size: int | None) -> object:
    return "?" if size is None else count(size)
