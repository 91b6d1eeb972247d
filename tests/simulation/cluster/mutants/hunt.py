"""Runs every mutant on seeds until one fails, and prints how long that took: `-m tests.simulation.cluster --mutants`.

The order of the seeds is that of each mutant: plans with many of the faults that bring it out come first (`ordered`).
A seed that fails without the mutant too does not count as a kill; it is printed, because it is news. Nor does a death
by an error that no code of ours raises on purpose (`SLIPS`): a mutant whose text does not fit its function any more
crashes before its mistake can do harm. Not here: the mistakes (the tables beside this module).
"""

from __future__ import annotations

import functools
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.mutants.calendars import CALENDARS
from tests.simulation.cluster.mutants.checkpoints import CHECKPOINTS
from tests.simulation.cluster.mutants.clients import CLIENTS
from tests.simulation.cluster.mutants.configs import CONFIGS
from tests.simulation.cluster.mutants.controller import CONTROLLER
from tests.simulation.cluster.mutants.cordons import CORDONS
from tests.simulation.cluster.mutants.edit import Mutant, switched_on
from tests.simulation.cluster.mutants.groups import GROUPS
from tests.simulation.cluster.mutants.growth import GROWTH
from tests.simulation.cluster.mutants.in_sync import IN_SYNC
from tests.simulation.cluster.mutants.kafka import KAFKA
from tests.simulation.cluster.mutants.leases import LEASES
from tests.simulation.cluster.mutants.levels import LEVELS
from tests.simulation.cluster.mutants.listeners import LISTENERS
from tests.simulation.cluster.mutants.log_dirs import LOG_DIRS
from tests.simulation.cluster.mutants.moves import MOVES
from tests.simulation.cluster.mutants.processing import PROCESSING
from tests.simulation.cluster.mutants.producers import PRODUCERS
from tests.simulation.cluster.mutants.quorum import QUORUM
from tests.simulation.cluster.mutants.quotas import QUOTAS
from tests.simulation.cluster.mutants.racks import FOLLOWER_READS
from tests.simulation.cluster.mutants.replication import REPLICATION
from tests.simulation.cluster.mutants.security import SECURITY
from tests.simulation.cluster.mutants.shares import SHARES
from tests.simulation.cluster.mutants.sink import SINK
from tests.simulation.cluster.mutants.snapshots import SNAPSHOTS
from tests.simulation.cluster.mutants.storage import STORAGE
from tests.simulation.cluster.mutants.stories import Scene, draw_story
from tests.simulation.cluster.mutants.transactions import TRANSACTIONS
from tests.simulation.cluster.mutants.voters import VOTERS
from tests.simulation.cluster.plan import Kind, Plan
from tests.simulation.cluster.scheduler import Process
from tests.simulation.cluster.world import World

MUTANTS = (
    *REPLICATION,
    *IN_SYNC,
    *CONTROLLER,
    *MOVES,
    *LOG_DIRS,
    *LISTENERS,
    *STORAGE,
    *PRODUCERS,
    *QUORUM,
    *SNAPSHOTS,
    *CLIENTS,
    *QUOTAS,
    *CHECKPOINTS,
    *GROWTH,
    *CORDONS,
    *CONFIGS,
    *KAFKA,
    *GROUPS,
    *LEASES,
    *PROCESSING,
    *SINK,
    *SECURITY,
    *SHARES,
    *CALENDARS,
    *TRANSACTIONS,
    *VOTERS,
    *LEVELS,
    *FOLLOWER_READS,
)
SEEDS_DRAWN = 100
"""From so many plans the fitting ones are taken."""
SEEDS_MAX = 25
STORIES_MAX = 10
"""Tried before the seeds: a story takes a fifth of a seed's time (stories.py)."""
STEPS_MAX = 600_000
"""Some six times the longest seed's: a mutant that turns in circles is stopped here."""
SLIPS = ("NameError(", "UnboundLocalError(", "AttributeError(", "TypeError(", "KeyError(", "IndexError(")
STOPPED = "stopped at its first failure"
WHY_MAX = 240
"""So much is printed of a failure."""
KIND_FAULTS_MAX = 6
"""More of one kind do not make a plan fit better: a cluster that never works loses nothing."""
TRAFFIC_MAX = 6
"""Where little is written, little can be lost."""
MUTANTS_IN_A_PROCESS = 10
"""Some, so that they share what is known of seeds without them; not more, because dead worlds leave memory behind."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """How the hunt for one mutant ended. `killer`, the plan that noticed it, is None for a survivor."""

    name: str
    killer: str | None
    tried: int
    seconds: float
    why: str
    broken: tuple[str, ...] = ()
    """Plans that fail without the mutant."""
    slips: tuple[str, ...] = ()
    """Plans in which the mutant crashed, and how."""


NEEDED: Final[Sequence[tuple[Sequence[Mutant], str]]] = (
    (TRANSACTIONS, "transactors"),
    (SECURITY, "security"),
    (SHARES, "floods"),
    (CALENDARS, "calendars"),
    (VOTERS, "voter_changes"),
    (LEVELS, "levels"),
    (FOLLOWER_READS, "racks"),
)
"""The part of a plan without which mistakes of a kind are never made."""


def fit(plan: Plan, mutant: Mutant) -> tuple[int, int]:
    """How well the plan's faults fit the mutant; of plans that fit equally well, the smaller seed."""
    copies = min(topic.replication_factor for topic in plan.topics)
    if any(mutant in mutants and not getattr(plan, part) for mutants, part in NEEDED):
        return -1000, -plan.seed
    if (mutant.is_replicated and copies < 2) or (mutant in QUORUM and len(plan.voters) < 3):
        return -1000, -plan.seed
    numbers = Counter(fault.kind for fault in plan.faults)
    kinds = dict.fromkeys((*mutant.kinds, Kind.MOMENT))
    fitting = sum(min(numbers[kind], KIND_FAULTS_MAX) for kind in kinds)
    others = sum(number for kind, number in numbers.items() if kind not in kinds)
    records_s = sum(writer.records / writer.pause_s for writer in plan.writers)
    return fitting - others + min(int(records_s / 20), TRAFFIC_MAX), -plan.seed


def ordered(mutant: Mutant) -> list[int]:
    """The seeds in the order in which they are tried."""
    plans = sorted((draw_plan(seed) for seed in range(SEEDS_DRAWN)), key=lambda plan: fit(plan, mutant), reverse=True)
    return [plan.seed for plan in plans]


def scene_of(mutant: Mutant) -> Scene:
    if mutant.is_late:
        return Scene.LATE
    if mutant in QUORUM:
        return Scene.QUORUM
    if mutant in SNAPSHOTS:
        return Scene.SNAPSHOTS
    if mutant in CLIENTS:
        return Scene.CLIENTS
    return Scene.REPLICAS if mutant.is_replicated else Scene.ONE_COPY


def failure_of(plan: Plan, mutant: Mutant | None) -> str:
    """The first failure of a plan; "" if there is none. One that is a mere count is followed by what was counted."""
    world = World(plan)
    note = world.scheduler.after_step

    def after_step(process: Process) -> None:
        note(process)
        assert not world.outcome.failures, STOPPED
        assert world.scheduler.steps < STEPS_MAX, f"not over after {STEPS_MAX:,} steps"

    world.scheduler.after_step = after_step
    with switched_on(mutant):
        failures = [each for each in world.run().failures if each != STOPPED]
    return "; ".join(failures[:2])


def plans_for(mutant: Mutant, stories_max: int, seeds_max: int) -> Iterator[tuple[str, Plan]]:
    """With their names, in the order in which they are tried."""
    for number, story in enumerate(mutant.stories):
        yield f"its own story, {number}", story
    for number in range(
        0 if mutant in (*TRANSACTIONS, *SECURITY, *SHARES, *CALENDARS, *VOTERS, *LEVELS) else stories_max
    ):  # these have neither
        yield f"story {number}", draw_story(number, scene_of(mutant), mutant.kinds)
    for seed in ordered(mutant)[:seeds_max] if seeds_max else ():
        yield f"seed {seed}", draw_plan(seed)


def hunt(seeds_max: int, mutant: Mutant, stories_max: int = STORIES_MAX) -> Hunt:
    """Plan by plan, until one fails that holds without the mutant."""
    began, broken, slips, tried = time.process_time(), list[str](), list[str](), 0

    def found(killer: str | None, why: str) -> Hunt:
        seconds = time.process_time() - began
        return Hunt(mutant.name, killer, tried, seconds, why, tuple(broken), tuple(slips))

    for name, plan in plans_for(mutant, stories_max, seeds_max):
        tried += 1
        why = failure_of(plan, mutant)
        if not why:
            continue
        if failure_of(plan, None):
            broken.append(name)
        elif any(slip in why for slip in SLIPS):
            slips.append(f"{name}: {why[:WHY_MAX]}")
        else:
            return found(name, why)
    return found(None, "")


def row(found: Hunt) -> str:
    killed = found.killer or "SURVIVES"
    news = f" ({', '.join(found.broken)} fail without it)" if found.broken else ""
    news += f" (it crashes: {'; '.join(found.slips)})" if found.slips else ""
    cells = (
        found.name,
        named(found.name).history,
        killed,
        found.tried,
        f"{found.seconds:.0f} s",
        found.why[:WHY_MAX] + news,
    )
    return " | ".join(map(str, cells))


def run_mutants(names: Collection[str], processes: int, seeds_max: int = SEEDS_MAX) -> int:
    """Hunts the mutants whose name contains one of `names`, or all; 1 if any survives."""
    wanted = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    sys.stdout.write("mutant | stands for | killed by | plans tried | processor time | what failed\n")
    found: list[Hunt] = []
    with multiprocessing.get_context("spawn").Pool(
        min(processes, len(wanted)), maxtasksperchild=MUTANTS_IN_A_PROCESS
    ) as pool:
        for each in pool.imap_unordered(functools.partial(_hunt_named, seeds_max), [m.name for m in wanted]):
            found.append(each)
            sys.stdout.write(f"{row(each)}\n")
            sys.stdout.flush()
    killed = [each.tried for each in found if each.killer is not None]
    median = statistics.median(killed) if killed else 0
    sys.stdout.write(f"killed {len(killed)} of {len(found)}; plans to kill: median {median:g}\n")
    return 1 if len(killed) < len(found) else 0


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def _hunt_named(seeds_max: int, name: str) -> Hunt:
    """A mutant's edits cannot be sent to another process, its name can."""
    return hunt(seeds_max, named(name))
