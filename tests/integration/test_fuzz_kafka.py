"""A short piece of the live fuzzing of Kafka's protocol, on a node in this process, of which nothing may be left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from penstock import Admin
from penstock.testing.ports import HOST
from tests.fuzz_live.hostile import HONEST_TOPIC, TOPICS, Known
from tests.fuzz_live.kafka import attacks
from tests.fuzz_live.kafka.client import Answers
from tests.fuzz_live.kafka.stage import Stage, served_by
from tests.support.nodes_here import NodesHere
from tests.support.waiting import wait_until

SEED = 1
QUICK: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    attacks.every_version,
    attacks.damaged_requests,
    attacks.cut_frames,
    attacks.wrong_sizes,
    attacks.unserved_requests,
    attacks.without_acks,
    attacks.bad_batches,
    attacks.announced_records,
    attacks.churn,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The attacks in seconds."""
    for name, count in {"DAMAGED": 100, "CUTS": 40, "PIPELINED": 60, "CHURN": 200, "HOLD_S": 0.4}.items():
        monkeypatch.setattr(attacks, name, count)
    yield


def test_a_node_outlives_hostile_clients_without_a_bug_in_its_log_and_keeps_nothing_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken: list[tuple[str, str]] = []
    answers = Answers(lambda kind, text: broken.append((kind, text)))
    with NodesHere(tmp_path) as nodes, Admin(nodes.bootstrap) as admin:
        ids = {name: admin.create_topic(name, 3, 1).topic_id for name in (HONEST_TOPIC, *TOPICS)}
        tasks_before = nodes.ask(lambda: len(asyncio.all_tasks()))
        caplog.clear()
        asyncio.run(attack(nodes.layout.ports[0].kafka, Known(nodes.layout.cluster_id, ids), answers))
        wait_until(lambda: nodes.ask(lambda: len(asyncio.all_tasks())) <= tasks_before + 2)
        assert nodes.fatal(0) is None
        assert admin.describe_topic(HONEST_TOPIC).topic_id == ids[HONEST_TOPIC]
    assert not broken, broken[:3]
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert answers.statuses["answered"] > 200 and len(answers.codes) > 20


async def attack(port: int, known: Known, answers: Answers) -> None:
    served = await served_by(HOST, [port], answers)
    for number, one in enumerate(QUICK):
        stage = Stage(HOST, [port], [], answers, known, Random(SEED + number), served)
        try:
            await one(stage)
        finally:
            await stage.close()
