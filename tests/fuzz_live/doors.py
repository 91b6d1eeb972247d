"""The doors that a campaign attacks, and what each needs for it: its attacks, their stage, and the judge of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from penstock.testing.layout import Layout
from penstock.testing.ports import HOST
from tests.fuzz_live import attacks as grpc_attacks
from tests.fuzz_live import driver as grpc_driver
from tests.fuzz_live.hostile import Known
from tests.fuzz_live.kafka import attacks as kafka_attacks
from tests.fuzz_live.kafka import client as kafka_client
from tests.fuzz_live.kafka.stage import Stage as KafkaStage
from tests.fuzz_live.kafka.stage import served_by

Report = Callable[[str, str], None]


class Answers(Protocol):
    """The answers, counted: ends by their names, and error codes."""

    statuses: Counter[str]
    codes: Counter[int]


class Stage(Protocol):
    """The tools of one attack."""

    async def close(self) -> None: ...


class Target(NamedTuple):
    """The cluster."""

    layout: Layout
    pids: Sequence[int]
    known: Known


@dataclass(frozen=True, slots=True)
class Door:
    """One protocol. The first of its attacks comes half of the time."""

    name: str
    attacks: Mapping[str, Callable[[Any], Awaitable[None]]]
    answers: Callable[[Report], Answers]
    stage: Callable[[Target, Any, Random], Awaitable[Stage]]
    bootstrap: Callable[[Layout], str]


async def _grpc_stage(target: Target, answers: grpc_driver.Answers, source: Random) -> Stage:
    brokers = [ports.broker for ports in target.layout.ports]
    others = [port for ports in target.layout.ports for port in (ports.controller, ports.internal)]
    driver = grpc_driver.Driver(HOST, answers)
    return grpc_attacks.Stage(HOST, brokers, others, target.pids, driver, answers, target.known, source)


async def _kafka_stage(target: Target, answers: kafka_client.Answers, source: Random) -> Stage:
    ports = [ports.kafka for ports in target.layout.ports]
    served = await served_by(HOST, ports, answers)
    return KafkaStage(HOST, ports, target.pids, answers, target.known, source, served)


DOORS: Final = {
    "grpc": Door("grpc", grpc_attacks.ATTACKS, grpc_driver.Answers, _grpc_stage, lambda layout: layout.bootstrap),
    "kafka": Door(
        "kafka", kafka_attacks.ATTACKS, kafka_client.Answers, _kafka_stage, lambda layout: layout.kafka_bootstrap
    ),
}
