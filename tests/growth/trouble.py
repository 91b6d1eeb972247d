"""The quorum's voters change while disks are full, calendars jump and nodes hang: python -m tests.growth.trouble.

Three brokers and five controllers in processes of their own, three of which are voters. Each controller has a disk of
its own, a small tmpfs (it takes root), and each node a calendar. One trouble follows the other (ill_disks.py,
ill_nodes.py) while records are written with acks=all and topics are made. After each the nodes must be well again, by
themselves or by what the pages say.

It is wrong when an acked record is missing, when a write or a topic failed, when nothing was decided for longer than
an election may take, when a node ended, or when a call was answered with nothing that helps an operator.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Final

from penstock import Admin
from tests.exactly_once.clocks import own_clocks
from tests.growth import ill_disks, ill_nodes
from tests.growth.stage import DISK_BYTES, Stage
from tests.growth.voters import PARTITIONS, TOPIC, Load
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.fleet import BROKERS, CONTROLLERS, Fleet
from tests.support.small_disk import small_disk

TOPIC_S_MAX: Final = 10.0
"""The quorum decides nothing for so long at most: an election on a busy machine."""
WITHOUT_QUORUM: Final = (ill_disks.full_disks_of_two_voters,)


@dataclass(frozen=True, slots=True)
class Options:
    rate: int = option(300, "records a second")
    only: tuple[str, ...] = option((), "troubles whose names have this word")


def play(run: Run[Options]) -> None:
    troubles = [one for one in (*ill_disks.TROUBLES, *ill_nodes.TROUBLES) if _is_wanted(run.options, one.__name__)]
    run.enter(own_clocks())
    fleet = _fleet(run)
    with Admin(fleet.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, BROKERS)
        admin.create_topic(ill_nodes.IDS, 1, BROKERS)
        load = Load(fleet, run.report, run.options.rate)
        stage = Stage(run, fleet, admin, load)
        rows = []
        with load.running():
            stage.put_right()
            for trouble in troubles:
                name = trouble.__name__.replace("_", " ")
                run.say(name)
                load.gap_s = load.topic_s = 0.0
                began, epoch = time.monotonic(), stage.quorum().leader_epoch
                trouble(stage)
                stage.put_right()
                stage.wait_topic()  # one that waited for the end of this trouble is told of it, and not of the next
                elections = stage.quorum().leader_epoch - epoch
                rows.append((name, time.monotonic() - began, load.gap_s, load.topic_s, elections))
                if load.topic_s > TOPIC_S_MAX and trouble not in WITHOUT_QUORUM:
                    run.report.wrong("no-decisions", f"{name}: a topic took {load.topic_s:.1f} s")
        lost = load.lost()
    if lost:
        run.report.wrong("lost", f"{lost} acked records")
    run.report.table += ["seconds  gap of acks  slowest topic  elections  trouble"]
    run.report.table += [f"{s:7.1f}  {gap:11.2f}  {topic:13.2f}  {n:9d}  {name}" for name, s, gap, topic, n in rows]
    run.report.figures |= {
        "acked": len(load.acked),
        "lost": lost,
        "topics": load.topics,
        "longest_gap_of_acks_s": round(max((row[2] for row in rows), default=0.0), 2),
    }


def _is_wanted(options: Options, name: str) -> bool:
    return not options.only or any(word in name for word in options.only)


def _fleet(run: Run[Options]) -> Fleet:
    """Three voters and two spares, which run."""

    def config(node: int) -> dict[str, object]:
        kept = {"metadata.max.retention.ms": 10_000}  # so that newcomers begin with a snapshot
        readers = {"broker.rack": f"rack-{node}", "replica.selector.class": "rack-aware"}
        return {**kept, **(readers if node < BROKERS else {})}

    fleet = Fleet(run.directory, config=config)
    for node in range(BROKERS + CONTROLLERS):
        if node in fleet.controllers:
            fleet.disks[node] = run.enter(small_disk(run.directory / f"disk-{node}", DISK_BYTES))
        fleet.make(node)
    run.enter(fleet.running())
    first, *others = fleet.controllers
    fleet.format(first, "--standalone")
    for node in others:
        fleet.format(node, "--join")
    fleet.start(*fleet.controllers, *range(BROKERS))
    return fleet


CAMPAIGN = Campaign("tests.growth.trouble", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
