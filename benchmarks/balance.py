"""Measures the planner of `penstock cluster balance`: how its time grows, and how even its plans make a cluster.

    python -m benchmarks.balance                     # 1,000, 10,000 and 100,000 partitions of three replicas
    python -m benchmarks.balance --partitions 500
    python -m benchmarks.balance --partitions --replicas 10000     # the log dirs alone

The cluster has six brokers. A partition's replicas are drawn by weights, so that broker 0 has most and the last one
least; sizes are Pareto. Each row is one goal: the seconds of the plan, the replicas and bytes that it moves, and how
much brokers differ before and after it. The second table plans the log dirs of one broker: the least and the fullest
dir, as parts of the mean, and the number of moves that no plan could undercut, by the largest replicas of each dir.
"""

from __future__ import annotations

import argparse
import random
import time

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState, Goal
from penstock.balance.dirs.broker_dirs import BalancedDir, BrokerDirs, DirLoad, DirReplica
from penstock.balance.dirs.dir_layout import DirLayout
from penstock.balance.dirs.dir_planner import make_dir_plan
from penstock.balance.plan import BrokerLoad, spread
from penstock.balance.planner import make_plan

REPLICAS, PARTITIONS_OF_A_TOPIC, SIZE_BYTES, PARETO = 3, 50, 1e8, 1.5
GOALS: dict[str, frozenset[Goal]] = {
    "leaders": frozenset({Goal.LEADERS}),
    "replicas,leaders": frozenset({Goal.REPLICAS, Goal.LEADERS}),
    "replicas,leaders,bytes": frozenset({Goal.REPLICAS, Goal.LEADERS, Goal.BYTES}),
    "bytes": frozenset({Goal.BYTES}),
}
COLUMNS = ("partitions", "cluster", "goals", "seconds", "replicas moved", "GB copied", "before", "after")
DIR_COLUMNS = ("replicas", "log dirs", "seconds", "moves", "at least", "GB copied", "before", "after")
DIRS = {"12": (12, 0), "11 and a twelfth": (11, 1), "1 and 11 more": (1, 11)}


def skewed(partitions: int, brokers: int, racks: int, joining: int = 0, seed: int = 1) -> ClusterState:
    """A cluster of brokers with ever fewer replicas, and of `joining` more brokers without any."""
    draw = random.Random(seed)
    weights = [1 / (1 + broker_id) for broker_id in range(brokers)]
    made = []
    for number in range(partitions):
        keys = [draw.random() ** (1 / weight) for weight in weights]
        replicas = tuple(sorted(range(brokers), key=lambda broker_id: -keys[broker_id])[:REPLICAS])
        topic, index = divmod(number, PARTITIONS_OF_A_TOPIC)
        size = int(draw.paretovariate(PARETO) * SIZE_BYTES)
        made.append(BalancedPartition(f"topic-{topic}", index, replicas, replicas[0], size))
    known = (BalancedBroker(id_, f"rack-{id_ % racks}" if racks else "") for id_ in range(brokers + joining))
    return ClusterState(tuple(known), tuple(made))


def spread_text(loads: tuple[BrokerLoad, ...]) -> str:
    """The differences between the brokers with most and least: replicas, leaders, GB."""
    replicas, leaders = spread(loads, lambda load: load.replicas), spread(loads, lambda load: load.leaders)
    return f"{replicas:,} / {leaders:,} / {spread(loads, lambda load: load.size_bytes) / 1e9:,.0f}"


def run(partitions: int) -> None:
    clusters = {
        "6 brokers": skewed(partitions, 6, 0),
        "6 brokers, 3 racks": skewed(partitions, 6, 3),
        "3 brokers and a fourth": skewed(partitions, 3, 0, joining=1),
        "60 brokers, 5 racks": skewed(partitions, 60, 5),
    }
    for name, state in clusters.items():
        for goals in GOALS if name == "6 brokers" else ("replicas,leaders",):
            began = time.perf_counter()
            plan = make_plan(state, GOALS[goals])
            seconds = time.perf_counter() - began
            copied = (plan.bytes_to_copy or 0) / 1e9
            numbers = f"{seconds:.2f}", f"{plan.replicas_moved:,}", f"{copied:,.0f}"
            print(
                " | ".join(
                    (f"{partitions:,}", name, goals, *numbers, spread_text(plan.before), spread_text(plan.after))
                ),
                flush=True,
            )


def skewed_dirs(replicas: int, dirs: int, joining: int, seed: int = 1) -> BrokerDirs:
    """One broker; `joining` more log dirs have nothing yet."""
    draw = random.Random(seed)
    found: list[list[DirReplica]] = [[] for _ in range(dirs + joining)]
    for number in range(replicas):
        (at,) = draw.choices(range(dirs), [1 / (1 + log_dir) for log_dir in range(dirs)])
        topic, index = divmod(number, PARTITIONS_OF_A_TOPIC)
        found[at].append(DirReplica(f"topic-{topic}", index, int(draw.paretovariate(PARETO) * SIZE_BYTES)))
    return BrokerDirs(0, tuple(BalancedDir(f"/{at:02}", tuple(there)) for at, there in enumerate(found)))


def least_moves(broker: BrokerDirs) -> int:
    """No plan has fewer, by what must leave the dirs that have too much, or come to those that have too little."""
    layout, out, into = DirLayout(broker), 0, 0
    for log_dir, load in enumerate(layout.loads):
        own = [weight for weight, home in zip(layout.weights, layout.homes, strict=True) if home == log_dir]
        out += _taken(own, load - layout.high)
        into += _taken(layout.weights, layout.low - load)
    return max(out, into)


def _taken(weights: list[int], wanted: int) -> int:
    """How many of the largest come to so much."""
    largest = iter(sorted(weights, reverse=True))
    taken = 0
    while wanted > 0:
        wanted -= next(largest)
        taken += 1
    return taken


def dirs_text(loads: tuple[DirLoad, ...]) -> str:
    """The sizes of the emptiest and of the fullest log dir, each divided by the mean."""
    sizes = [load.size_bytes for load in loads]
    mean = sum(sizes) / len(sizes)
    return f"{min(sizes) / mean:.2f} to {max(sizes) / mean:.2f}"


def run_dirs(replicas: int) -> None:
    for name, (dirs, joining) in DIRS.items():
        broker = skewed_dirs(replicas, dirs, joining)
        began = time.perf_counter()
        plan = make_dir_plan([broker])
        seconds = time.perf_counter() - began
        numbers = (
            f"{seconds:.2f}",
            f"{len(plan.moves):,}",
            f"{least_moves(broker):,}",
            f"{plan.bytes_to_copy / 1e9:,.0f}",
        )
        print(" | ".join((f"{replicas:,}", name, *numbers, dirs_text(plan.before), dirs_text(plan.after))), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--replicas", type=int, nargs="*", default=[1_000, 10_000])
    arguments = parser.parse_args()
    print(" | ".join(COLUMNS))
    for partitions in arguments.partitions:
        run(partitions)
    print(" | ".join(DIR_COLUMNS))
    for replicas in arguments.replicas:
        run_dirs(replicas)


if __name__ == "__main__":
    main()
