"""Pipelines while their brokers and drivers die: python -m tests.pipelines_under_faults --seed 7.

    a process sends the click-stream ─► three nodes ─► bronze, killed three times ─► silver, killed once ─► gold, killed
                                          ▲ one is killed (-9) and comes back                      three times

Then the last entry of each query's commit log is deleted, and every job runs again. A second gold writes at least once,
and must have the duplicates that the first has not. A check of verdict.py that does not hold is wrong, and so is a run
that proved too little. The seed decides the events, the node that dies and at which moments drivers die. The
interleaving of the processes does not follow from it.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.client.admin.admin import Admin
from penstock.testing import Cluster
from tests.pipelines_under_faults import moments
from tests.pipelines_under_faults.drivers import Drivers
from tests.pipelines_under_faults.verdict import (
    DEAD,
    GOLD,
    GOLD_LEAST,
    GOLD_PARTITIONS,
    PARTITIONS,
    TOPIC,
    Faults,
    judge,
)
from tests.spark_exactly_once.checkpoint import forget_last_commit, in_batch, last_batch
from tests.support.campaign.beside import beside
from tests.support.campaign.frame import Campaign, Run, Say
from tests.support.campaign.options import option
from tests.support.lake import LEAST, SEED, clicks_arguments, write_confs

NODES = 3
BATCHES = 12
"""Bronze has so many micro-batches, or a few more: enough to be killed in three of them."""
DOWN_S = (3.0, 6.0)
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = SEED
    events: int = option(60_000, "of the click-stream")
    rate: int = option(1_000, "events a second")
    minutes: float = option(15.0, "the run fails if it takes longer")


@dataclass(slots=True)
class Plan:
    """The choices that follow from the seed."""

    chance: random.Random
    victim: int = field(init=False)
    down_s: float = field(init=False)
    bronze: list[str] = field(init=False)
    silver: str = field(init=False)
    gold: tuple[str, ...] = ("records", "records", "decided")

    def __post_init__(self) -> None:
        self.victim = self.chance.randrange(NODES)
        self.down_s = round(self.chance.uniform(*DOWN_S), 1)
        self.bronze = self.chance.sample(["planned", "files", "sink-log"], 3)
        self.silver = self.chance.choice(["files", "sink-log", "records"])


def play(run: Run[Options]) -> None:
    """Everything, from an empty directory to the verdict."""
    options, plan, lake = run.options, Plan(run.draw), run.directory / "lake"
    run.say(
        f"node {plan.victim} dies for {plan.down_s} s; bronze dies at {', '.join(plan.bronze)}, "
        f"silver at {plan.silver}, gold at {', '.join(plan.gold)}"
    )
    lake.mkdir()
    cluster = run.cluster(NODES)
    drivers = run.enter(Drivers(lake, options.minutes * 60))
    with Admin(cluster.bootstrap) as admin:
        jobs = Jobs(cluster, drivers, admin, lake, Faults(), run.say)
        run_jobs(options, plan, jobs)
        checks, figures = judge(cluster.bootstrap, lake, options.seed, options.events, jobs.faults)
    run.say("stopping the nodes; audit")
    cluster.stop_all()
    audited = audit(drivers, lake, [cluster.directory(index) for index in range(NODES)])
    checks["an audit of all replicas finds nothing"] = audited["findings"] == [] and audited["segments"] > 0
    checks["no process of a killed driver is left"] = drivers.left_behind() == 0
    run.report.all_wrong("check", (name for name, holds in checks.items() if not holds))
    run.report.table += [f"{'holds' if holds else 'FAILS'}: {name}" for name, holds in checks.items()]
    run.report.figures |= {**figures, "audited_segments": audited["segments"]}


@dataclass(frozen=True, slots=True)
class Jobs:
    """The objects that the parts of a run have in common."""

    cluster: Cluster
    drivers: Drivers
    admin: Admin
    lake: Path
    faults: Faults
    say: Say

    def kill(self, job: str, moment: str, reached: moments.Reached, checkpoint: Path) -> None:
        killed = self.drivers.kill_at(job, reached)
        within = killed and in_batch(checkpoint)
        self.faults.drivers.append((job, moment, killed, within))
        state = ("within" if within else "after") + " its micro-batch" if killed else "not at all: it ended before"
        self.say(f"{job} killed at {moment}: {state}")


def run_jobs(options: Options, plan: Plan, run: Jobs) -> None:
    run.admin.create_topic(TOPIC, PARTITIONS, config={"retention.ms": -1, "segment.bytes": 1 << 20})
    run.admin.create_topic(DEAD, 1)
    run.admin.create_topic(GOLD, GOLD_PARTITIONS)
    run.admin.create_topic(GOLD_LEAST, GOLD_PARTITIONS, config={"cleanup.policy": "compact"})
    batch = options.events // BATCHES
    place = run.lake, run.cluster.bootstrap, TOPIC
    write_confs(*place, batch=batch)
    clicks = clicks_arguments(*place, events=options.events, seed=options.seed)
    generator = run.drivers.start_clicks([*clicks, f"--events-per-second={options.rate}"])
    while generator.poll() is None and moments.end_of(run.admin, TOPIC, PARTITIONS) < options.events // 4:
        time.sleep(LOOK_S)
    with beside(lambda is_over: kill_broker(run, plan, generator)):
        kill_bronze(run, plan)
    run.drivers.finish("clicks", generator)
    bronze = run.drivers.run("bronze")
    run.say(f"bronze: {bronze['rows']:,} rows since the last kill")
    kill_silver(run, plan)
    run.drivers.run("silver")
    kill_gold(run, plan)
    run.faults.dropped_by_watermark = run.drivers.run("gold")["dropped_by_watermark"]
    run.drivers.run(LEAST)
    repeat_last_batches(run)


def kill_bronze(run: Jobs, plan: Plan) -> None:
    table = run.lake / "bronze"
    checkpoint = table / "_checkpoint"
    for moment in plan.bronze:
        reached = {"planned": moments.planned(checkpoint), "files": moments.files(table)}
        run.kill("bronze", moment, reached.get(moment, moments.sink_log(table)), checkpoint)


def kill_silver(run: Jobs, plan: Plan) -> None:
    table, moment = run.lake / "silver", plan.silver
    reached = {"files": moments.files(table), "records": moments.records(run.admin, DEAD, 1)}
    query = "dead-letters" if moment == "records" else "silver"
    run.kill("silver", moment, reached.get(moment, moments.sink_log(table)), table / "_checkpoint" / query)


def kill_gold(run: Jobs, plan: Plan) -> None:
    for moment in plan.gold:
        reached = {
            "records": moments.records(run.admin, GOLD, GOLD_PARTITIONS),
            "decided": moments.decided(run.cluster.bootstrap, GOLD, GOLD_PARTITIONS),
        }
        run.kill("gold", moment, reached[moment], run.lake / "gold-checkpoint")


def repeat_last_batches(run: Jobs) -> None:
    """Every job as if its driver had died between the sink's commit of its last micro-batch and Spark's own."""
    silver = run.lake / "silver" / "_checkpoint"
    checkpoints = {
        "bronze": [run.lake / "bronze" / "_checkpoint"],
        "silver": [silver / "silver", silver / "dead-letters"],
        "gold": [run.lake / "gold-checkpoint"],
        LEAST: [run.lake / f"{LEAST}-checkpoint"],
    }
    for job, places in checkpoints.items():
        batches = [last_batch(checkpoint / "commits") for checkpoint in places]
        for checkpoint in places:
            forget_last_commit(checkpoint)
        run.say(f"{job}: again micro-batch {', '.join(map(str, batches))}, whose commit was deleted")
        run.drivers.run(job)
        run.faults.repeated += sum(
            last_batch(checkpoint / "commits") >= batch >= 0 for checkpoint, batch in zip(places, batches, strict=True)
        )


def kill_broker(run: Jobs, plan: Plan, generator: subprocess.Popen[str]) -> None:
    before = moments.end_of(run.admin, TOPIC, PARTITIONS)
    began = time.monotonic()
    run.cluster.kill(plan.victim)
    time.sleep(plan.down_s)
    with Admin(run.cluster.bootstrap) as admin:
        run.faults.acked_while_broker_down = moments.end_of(admin, TOPIC, PARTITIONS) - before
    run.cluster.start(plan.victim)
    run.faults.generator_outlived_it = generator.poll() is None
    run.faults.broker_down_s = round(time.monotonic() - began, 1)
    run.say(f"node {plan.victim} is back after {run.faults.broker_down_s} s")


def audit(drivers: Drivers, lake: Path, log_dirs: list[Path]) -> dict[str, Any]:
    (lake / "audit.toml").write_text(f"log_dirs = {json.dumps(list(map(str, log_dirs)))}\n[run]\nquick = true\n")
    return drivers.run("audit")


CAMPAIGN = Campaign(
    "tests.pipelines_under_faults", __doc__, Options, play, limit_s=lambda options: options.minutes * 60
)
