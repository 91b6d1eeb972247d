"""Runs seeds of the simulated cluster, prints a line for each, and at the end what the campaign came to.

    python -m tests.simulation.cluster --seeds 0-99 [--rows FILE]    a campaign; its rows are added to the file
    python -m tests.simulation.cluster --seed 7 --transcript         one seed again, and all that happened
    python -m tests.simulation.cluster --seeds 0-29 --lost-disk      the same with the plans of lost_disk_plan.py
    python -m tests.simulation.cluster --seeds 0-99 --secure         the same, and each cluster is secured (security/)
    python -m tests.simulation.cluster --seeds 0-199 --calendars     the same, and calendars are wrong (calendars/)
    python -m tests.simulation.cluster --seeds 0-199 --voters        the same, and the voters change (voters/)
    python -m tests.simulation.cluster --seeds 0-199 --levels        the same, with nodes of two releases (levels/)
    python -m tests.simulation.cluster --shrink 7                    the shortest story that still fails as seed 7 does
    python -m tests.simulation.cluster --sum FILE [FILE …]           rows of earlier campaigns as one
    python -m tests.simulation.cluster --mutants [NAME …]            a hunt for mistakes, see mutants/hunt.py

Exit code 1 if any seed fails, or a mutant survives.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from tests.simulation.cluster.calendars.drawn_calendars import with_calendars
from tests.simulation.cluster.campaign import Campaign, row_of
from tests.simulation.cluster.drawn_plan import SECONDS, draw_plan
from tests.simulation.cluster.drawn_security import with_security
from tests.simulation.cluster.levels.drawn_levels import with_levels
from tests.simulation.cluster.lost_disk_plan import draw_lost_disk_plan
from tests.simulation.cluster.mutants.hunt import SEEDS_MAX, run_mutants
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.plan_text import program_of
from tests.simulation.cluster.shrink import RUNS_MAX, first_failure, shrink
from tests.simulation.cluster.voters.drawn_voters import with_voters
from tests.simulation.cluster.world import Outcome, World

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which plans a campaign has: those of a seed as they are drawn, or each with what an option adds to it."""

    seconds: float
    lost_disk: bool = False
    secure: bool = False
    calendars: bool = False
    voters: bool = False
    levels: bool = False

    def plan(self, seed: int) -> Plan:
        plan = draw_lost_disk_plan(seed) if self.lost_disk else draw_plan(seed, self.seconds)
        if self.secure:
            plan = with_security(plan, share=1.0)
        if self.calendars:
            plan = with_calendars(plan, share=1.0)
        if self.levels:
            plan = with_levels(plan, share=1.0)
        return with_voters(plan, share=1.0) if self.voters else plan

    @property
    def words(self) -> str:
        """The options that say it again, each with a space after it."""
        seconds = "" if self.seconds == SECONDS else f"--seconds {self.seconds:g} "
        said = (f"--{one.name.replace('_', '-')} " for one in fields(self) if getattr(self, one.name) is True)
        return "".join([seconds, *said])


def run_seed(kinds: Kinds, transcript: bool, seed: int) -> tuple[Outcome, float]:
    """The outcome, and the processor time that it took."""
    began = time.process_time()
    return World(kinds.plan(seed), transcript=transcript).run(), time.process_time() - began


def line(outcome: Outcome, took_s: float) -> str:
    """An outcome for people."""
    return (
        f"seed {outcome.seed}: {outcome.digest:08x} {outcome.seconds:.1f} s simulated in {took_s:.2f} s,"
        f" {outcome.steps:,} steps, {outcome.acked} acked, {outcome.failed_records} failed, worst ack"
        f" {outcome.worst_ack_ms} ms, healed in {outcome.healed_seconds:.2f} s, {sum(outcome.faults.values())} faults"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-9", help="FIRST-LAST")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each, simulated")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--log", action="store_true", help="faults, and what the processes log")
    parser.add_argument("--transcript", action="store_true", help="the same with every change of the cluster's state")
    parser.add_argument("--lost-disk", action="store_true", help="a power cut of all, after which a disk is gone")
    parser.add_argument("--secure", action="store_true", help="clients log in, nodes show certificates, ACLs count")
    parser.add_argument("--calendars", action="store_true", help="nodes' calendars are days and years wrong")
    parser.add_argument("--voters", action="store_true", help="voters are added and removed, by records of the log")
    parser.add_argument("--levels", action="store_true", help="nodes of two releases are rolled, and levels change")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="cut its plan down, print it and its transcript")
    parser.add_argument("--runs", type=int, default=RUNS_MAX, help="at most so many to shrink a plan")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="add a JSON line for each seed")
    parser.add_argument("--sum", type=Path, nargs="+", metavar="FILE", help="run nothing: sum up the rows of FILE")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="hunt mistakes of such names, or all")
    parser.add_argument("--seeds-max", type=int, default=SEEDS_MAX, help="for each mutant")
    options = parser.parse_args(arguments)
    if options.sum:
        return sum_up(options.sum)
    if options.mutants is not None:
        return run_mutants(options.mutants, options.processes, options.seeds_max)
    kinds = Kinds(**{one.name: getattr(options, one.name) for one in fields(Kinds)})
    if options.shrink is not None:
        return shrink_seed(kinds, options.shrink, options.runs)
    first, _, last = options.seeds.partition("-")
    seeds = [options.seed] if options.seed is not None else range(int(first), int(last or first) + 1)
    with multiprocessing.get_context("spawn").Pool(min(options.processes, len(seeds)), maxtasksperchild=20) as pool:
        found = pool.imap_unordered(partial(run_seed, kinds, options.transcript), seeds)
        return report(found, kinds.words, log=options.log or options.transcript, rows=options.rows)


def report(found: Iterable[tuple[Outcome, float]], words: str, *, log: bool, rows: Path | None = None) -> int:
    """Prints outcomes as they come; returns the exit code. `words`: the options of the campaign."""
    campaign, commit = Campaign(), commit_here() if rows is not None else ""
    for outcome, took_s in found:
        sys.stdout.write(f"{line(outcome, took_s)}\n")
        for text in outcome.log if log else ():
            sys.stdout.write(f"    {text}\n")
        for failure in outcome.failures:
            sys.stdout.write(f"  FAILED: {failure}\n")
        if outcome.failures:
            sys.stdout.write(f"  python -m tests.simulation.cluster {words}--seed {outcome.seed} --transcript\n")
        sys.stdout.flush()
        row = row_of(outcome, took_s, commit)
        campaign.add(row)
        if rows is not None:
            with rows.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
    return ended(campaign)


def shrink_seed(kinds: Kinds, seed: int, runs_max: int) -> int:
    """Prints the smallest plan that was found, as Python, and what happens in it."""

    def run(plan: Plan) -> list[str]:
        failures = first_failure(plan)
        said = failures[0] if failures else "no failure"
        sys.stderr.write(f"{len(plan.faults)} faults, {len(plan.nodes)} nodes, {plan.seconds:.1f} s: {said[:100]}\n")
        return failures

    found = shrink(kinds.plan(seed), run, runs_max)
    if found is None:
        sys.stdout.write(f"seed {seed} does not fail\n")
        return 0
    sys.stdout.write(f"# {found.kind}: seed {seed} after {found.runs} runs\n{program_of(found.plan)}\n\n")
    outcome = World(found.plan, transcript=True).run()
    for text in [*outcome.log, *(f"FAILED: {failure}" for failure in outcome.failures)]:
        sys.stdout.write(f"{text}\n")
    return 1


def sum_up(files: Sequence[Path]) -> int:
    """The same for rows that were kept."""
    campaign = Campaign()
    for file in files:
        for text in file.read_text().splitlines():
            campaign.add(json.loads(text))
    return ended(campaign)


def ended(campaign: Campaign) -> int:
    """Says what the campaign came to; a single seed needs no table."""
    for text in campaign.lines() if campaign.seeds > 1 else ():
        sys.stdout.write(f"{text}\n")
    return 1 if campaign.failed else 0


def commit_here() -> str:
    """The commit that is checked out; "" where that is not known."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
