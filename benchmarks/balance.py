"""The planner of balance: its time and growth, and what it makes of a skewed cluster of six brokers.

    python -m benchmarks.balance                     # 1,000, 10,000 and 100,000 partitions of three replicas
    python -m benchmarks.balance --partitions 500

A partition's replicas are drawn by weights, so that broker 0 has most and the last one least; sizes are Pareto. Prints
one row for each goal: the time of the plan, what it moves, and by how much brokers differ before and after it.
"""

from __future__ import annotations

import argparse
import random
import time

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState, Goal
from penstock.balance.plan import BrokerLoad, spread
from penstock.balance.planner import make_plan

REPLICAS, PARTITIONS_OF_A_TOPIC, SIZE_BYTES, PARETO = 3, 50, 1e8, 1.5
GOALS: dict[str, frozenset[Goal]] = {
    "leaders": frozenset({Goal.LEADERS}),
    "replicas,leaders": frozenset({Goal.REPLICAS, Goal.LEADERS}),
    "replicas,leaders,bytes": frozenset(Goal),
    "bytes": frozenset({Goal.BYTES}),
}
COLUMNS = ("partitions", "cluster", "goals", "seconds", "replicas moved", "GB copied", "before", "after")


def skewed(partitions: int, brokers: int, racks: int, joining: int = 0, seed: int = 1) -> ClusterState:
    """`joining` more brokers have nothing yet."""
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


def told(loads: tuple[BrokerLoad, ...]) -> str:
    """By how much brokers differ: replicas, leaders, GB."""
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
                " | ".join((f"{partitions:,}", name, goals, *numbers, told(plan.before), told(plan.after))), flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    print(" | ".join(COLUMNS))
    for partitions in parser.parse_args().partitions:
        run(partitions)


if __name__ == "__main__":
    main()
