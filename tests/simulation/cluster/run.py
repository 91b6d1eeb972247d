"""Runs seeds of the simulated cluster, and prints a line for each: `python -m tests.simulation.cluster --seeds 0-99`.

`--seed 7 --transcript` runs one again, and prints what happened. Exit code 1 if any seed fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable
from functools import partial

from tests.simulation.cluster.plan import SECONDS, draw_plan
from tests.simulation.cluster.world import Outcome, World


def run_seed(seconds: float, transcript: bool, seed: int) -> tuple[Outcome, float]:
    """The outcome, and the processor time that it took."""
    began = time.process_time()
    return World(draw_plan(seed, seconds), transcript=transcript).run(), time.process_time() - began


def line(outcome: Outcome, took_s: float) -> str:
    """An outcome for people."""
    return (
        f"seed {outcome.seed}: {outcome.digest:08x} {outcome.seconds:.1f} s simulated in {took_s:.2f} s,"
        f" {outcome.steps:,} steps, {outcome.acked} acked, {outcome.failed_records} failed, worst ack"
        f" {outcome.worst_ack_ms} ms, healed in {outcome.healed_seconds:.2f} s, {sum(outcome.faults.values())} faults"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-9", help="FIRST-LAST")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each, simulated")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--log", action="store_true", help="what happened, line by line")
    parser.add_argument("--transcript", action="store_true", help="the same with every change of the cluster's state")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = [options.seed] if options.seed is not None else range(int(first), int(last or first) + 1)
    with multiprocessing.get_context("spawn").Pool(min(options.processes, len(seeds)), maxtasksperchild=20) as pool:
        return report(
            pool.imap_unordered(partial(run_seed, options.seconds, options.transcript), seeds),
            log=options.log or options.transcript,
        )


def report(found: Iterable[tuple[Outcome, float]], *, log: bool) -> int:
    failed = 0
    for outcome, took_s in found:
        sys.stdout.write(f"{line(outcome, took_s)}\n")
        for text in outcome.log if log else ():
            sys.stdout.write(f"    {text}\n")
        for failure in outcome.failures:
            sys.stdout.write(f"  FAILED: {failure}\n")
        sys.stdout.flush()
        failed += bool(outcome.failures)
    sys.stdout.write(f"{failed} failed\n")
    return 1 if failed else 0
