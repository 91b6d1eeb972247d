"""One run of all jobs under faults: what is started, killed and started again, in which order."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections.abc import Callable
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
    Outcome,
    judge,
)
from tests.support.lake import LEAST, clicks_arguments, write_confs

NODES = 3
BATCHES = 12
"""Bronze has so many micro-batches, or a few more: enough to be killed in three of them."""
DOWN_S = (3.0, 6.0)
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Config:
    """The arguments of a campaign."""

    seed: int
    events: int
    rate: int
    seconds: float


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


def run_campaign(config: Config, directory: Path, say: Callable[[str], None]) -> Outcome:
    """Everything, from an empty directory to the verdict."""
    began = time.monotonic()
    plan = Plan(random.Random(config.seed))
    say(
        f"node {plan.victim} dies for {plan.down_s} s; bronze dies at {', '.join(plan.bronze)}, "
        f"silver at {plan.silver}, gold at {', '.join(plan.gold)}"
    )
    lake = directory / "lake"
    lake.mkdir()
    faults = Faults()
    with Cluster(NODES, directory=directory / "cluster") as cluster, Drivers(lake, config.seconds) as drivers:
        with Admin(cluster.bootstrap) as admin:
            run_jobs(config, plan, Run(cluster, drivers, admin, lake, faults, say))
            outcome = judge(cluster.bootstrap, lake, config.seed, config.events, faults)
        say("stopping the nodes; audit")
        cluster.stop_all()
        audited = audit(drivers, lake, [cluster.directory(index) for index in range(NODES)])
        outcome.checks["an audit of all replicas finds nothing"] = audited["findings"] == [] and audited["segments"] > 0
        outcome.checks["no process of a killed driver is left"] = drivers.left_behind() == 0
    outcome.figures["audited_segments"] = audited["segments"]
    outcome.figures["seconds"] = round(time.monotonic() - began)
    return outcome


@dataclass(frozen=True, slots=True)
class Run:
    """The objects that the parts of a run have in common."""

    cluster: Cluster
    drivers: Drivers
    admin: Admin
    lake: Path
    faults: Faults
    say: Callable[[str], None]

    def kill(self, job: str, moment: str, reached: moments.Reached, checkpoint: Path) -> None:
        killed = self.drivers.kill_at(job, reached)
        within = killed and moments.in_batch(checkpoint)
        self.faults.drivers.append((job, moment, killed, within))
        state = ("within" if within else "after") + " its micro-batch" if killed else "not at all: it ended before"
        self.say(f"{job} killed at {moment}: {state}")


def run_jobs(config: Config, plan: Plan, run: Run) -> None:
    run.admin.create_topic(TOPIC, PARTITIONS, config={"retention.ms": -1, "segment.bytes": 1 << 20})
    run.admin.create_topic(DEAD, 1)
    run.admin.create_topic(GOLD, GOLD_PARTITIONS)
    run.admin.create_topic(GOLD_LEAST, GOLD_PARTITIONS, config={"cleanup.policy": "compact"})
    batch = config.events // BATCHES
    place = run.lake, run.cluster.bootstrap, TOPIC
    write_confs(*place, batch=batch)
    clicks = clicks_arguments(*place, events=config.events, seed=config.seed)
    generator = run.drivers.start_clicks([*clicks, f"--events-per-second={config.rate}"])
    while generator.poll() is None and moments.end_of(run.admin, TOPIC, PARTITIONS) < config.events // 4:
        run.drivers.left_s()
        time.sleep(LOOK_S)
    broker = threading.Thread(target=kill_broker, args=(run, plan, generator))
    broker.start()
    try:
        kill_bronze(run, plan)
    finally:
        broker.join()
    run.drivers.finish("clicks", generator)
    bronze = run.drivers.run("bronze")
    run.say(f"bronze: {bronze['rows']:,} rows since the last kill")
    kill_silver(run, plan)
    run.drivers.run("silver")
    kill_gold(run, plan)
    run.faults.dropped_by_watermark = run.drivers.run("gold")["dropped_by_watermark"]
    run.drivers.run(LEAST)
    repeat_last_batches(run)


def kill_bronze(run: Run, plan: Plan) -> None:
    table = run.lake / "bronze"
    checkpoint = table / "_checkpoint"
    for moment in plan.bronze:
        reached = {"planned": moments.planned(checkpoint), "files": moments.files(table)}
        run.kill("bronze", moment, reached.get(moment, moments.sink_log(table)), checkpoint)


def kill_silver(run: Run, plan: Plan) -> None:
    table, moment = run.lake / "silver", plan.silver
    reached = {"files": moments.files(table), "records": moments.records(run.admin, DEAD, 1)}
    query = "dead-letters" if moment == "records" else "silver"
    run.kill("silver", moment, reached.get(moment, moments.sink_log(table)), table / "_checkpoint" / query)


def kill_gold(run: Run, plan: Plan) -> None:
    for moment in plan.gold:
        reached = {
            "records": moments.records(run.admin, GOLD, GOLD_PARTITIONS),
            "decided": moments.decided(run.cluster.bootstrap, GOLD, GOLD_PARTITIONS),
        }
        run.kill("gold", moment, reached[moment], run.lake / "gold-checkpoint")


def repeat_last_batches(run: Run) -> None:
    """Every job as if its driver had died between the sink's commit of its last micro-batch and Spark's own."""
    silver = run.lake / "silver" / "_checkpoint"
    checkpoints = {
        "bronze": [run.lake / "bronze" / "_checkpoint"],
        "silver": [silver / "silver", silver / "dead-letters"],
        "gold": [run.lake / "gold-checkpoint"],
        LEAST: [run.lake / f"{LEAST}-checkpoint"],
    }
    for job, places in checkpoints.items():
        batches = [moments.forget_last(checkpoint) for checkpoint in places]
        run.say(f"{job}: again micro-batch {', '.join(map(str, batches))}, whose commit was deleted")
        run.drivers.run(job)
        run.faults.repeated += sum(
            moments.last_batch(checkpoint / "commits") >= batch >= 0
            for checkpoint, batch in zip(places, batches, strict=True)
        )


def kill_broker(run: Run, plan: Plan, generator: subprocess.Popen[str]) -> None:
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
