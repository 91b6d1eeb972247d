"""Troubles with disks: full under the leader, a follower, two of three, a newcomer or a format; and an older copy."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from penstock import Admin
from penstock.node import EXIT_REFUSED
from tests.growth.stage import BALLAST, Stage
from tests.support.fleet import START_S
from tests.support.small_disk import fill

SHORT_MS = 6_000
"""The time of a call that must be refused."""


def full_disk_of_the_leader(stage: Stage) -> None:
    """Voters change meanwhile, the full one too; another node leads."""
    leader, spare = stage.leader(), stage.spare()
    with stage.full(leader):
        stage.add(spare)
        began = time.monotonic()
        stage.wait_leader_but(leader)
        stage.say(f"{time.monotonic() - began:5.2f} s: another leads")
        other = next(node for node in stage.followers() if node not in (leader, spare))
        stage.remove(other)
        stage.add(other)
        stage.remove(leader)
    stage.add(leader)


def full_disk_of_a_follower(stage: Stage) -> None:
    """It is killed meanwhile, and started on the full disk."""
    follower, spare = stage.followers()[0], stage.spare()
    process = stage.fleet.nodes[follower]
    with stage.full(follower):
        stage.add(spare)
        stage.remove(spare)
        process.kill()
        process.spawn()
        time.sleep(3.0)
        if not process.is_running:
            stage.run.report.wrong("start", f"on a full disk: {process.last_log_lines()[-3:]}")
            stage.fleet.start(follower)


def full_disks_of_two_voters(stage: Stage) -> None:
    """Nothing can be decided, and each call says so in its time; with room all goes on."""
    first, second = stage.leader(), stage.followers()[0]
    third = next(node for node in stage.followers() if node != second)
    with stage.full(first), stage.full(second):
        time.sleep(4.0)
        with Admin(stage.fleet.bootstrap, default_api_timeout_ms=SHORT_MS) as admin:
            disk = stage.fleet.directory_id(third)
            stage.refused("a voter is removed", lambda: admin.remove_voter(third, disk))
            stage.refused("a topic is made", lambda: admin.create_topic("none", 1))


def full_disk_of_a_newcomer(stage: Stage) -> None:
    """It is refused with what to look for, and voted in once there is room."""
    node = stage.spare()
    stage.empty(node)
    stage.format(node)
    ballast = stage.fleet.disks[node] / BALLAST
    fill(ballast)
    stage.fleet.nodes[node].spawn()
    with Admin(stage.fleet.bootstrap, default_api_timeout_ms=SHORT_MS) as admin:
        disk, address = stage.fleet.directory_id(node), stage.fleet.address(node)
        stage.refused("a full newcomer is added", lambda: admin.add_voter(node, disk, address), "room")
    ballast.unlink()
    if not stage.fleet.nodes[node].is_running:
        stage.say(f"it ended: {stage.fleet.nodes[node].last_log_lines()[-2:]}")
        stage.fleet.start(node)
    stage.wait_well(node)
    stage.add(node)


def full_disk_that_is_formatted(stage: Stage) -> None:
    """The command says why, and leaves nothing that would start; said again it does all."""
    node = stage.spare()
    stage.empty(node)
    ballast = stage.fleet.disks[node] / BALLAST
    fill(ballast)
    said = stage.format(node)
    stage.say(f"format on a full disk: {said.strip()}")
    if "No space left" not in said or (stage.fleet.data(node) / "meta.properties").exists():
        stage.run.report.wrong("format", said or "it was formatted")
    ballast.unlink()
    if said := stage.format(node):
        stage.run.report.wrong("format", said)
    stage.fleet.start(node)


def older_copy_of_a_voter(stage: Stage) -> None:
    """Put back whole, the leader tells it; without quorum-state the start is refused. Then the disk is given up."""
    node = stage.followers()[0]
    process, data, copy = stage.fleet.nodes[node], stage.fleet.data(node), stage.run.directory / "copy"
    process.kill()
    shutil.copytree(data, copy)
    stage.fleet.start(node)
    stage.wait_well(node)
    time.sleep(2.0)
    _put_back(stage, node, copy)
    stage.fleet.start(node)
    stage.wait_well(node)
    leader_log = stage.fleet.nodes[stage.leader()].log_path.read_text()
    told = [line for line in leader_log.splitlines() if f"voter {node}," in line and "is an older copy" in line]
    stage.say(f"the leader: {told[-1:]}")
    if not told:
        stage.run.report.wrong("older-copy", "the leader says nothing of it")
    _put_back(stage, node, copy)
    (data / "__cluster_metadata-0" / "quorum-state").unlink()
    process.spawn()
    code, said = process.wait_exit(START_S), process.last_log_lines()[-1]
    stage.say(f"without quorum-state it ends with {code}: {said}")
    if code != EXIT_REFUSED or "held votes" not in said:
        stage.run.report.wrong("older-copy", f"{code}: {said}")
    shutil.rmtree(copy)
    old = stage.fleet.directory_id(node)
    shutil.rmtree(data)
    stage.format(node)
    stage.fleet.start(node)
    stage.remove(node, old)
    stage.add(node)


def _put_back(stage: Stage, node: int, copy: Path) -> None:
    stage.fleet.nodes[node].kill()
    shutil.rmtree(stage.fleet.data(node))
    shutil.copytree(copy, stage.fleet.data(node))


TROUBLES = (
    full_disk_of_the_leader,
    full_disk_of_a_follower,
    full_disks_of_two_voters,
    full_disk_of_a_newcomer,
    full_disk_that_is_formatted,
    older_copy_of_a_voter,
)
