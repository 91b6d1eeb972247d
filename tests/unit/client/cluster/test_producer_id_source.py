"""A producer id is asked for until a broker gives one or refuses for good, by one question at a time."""

from __future__ import annotations

import asyncio
from random import Random

from penstock.backoff import Backoff
from penstock.client.cluster.producer_ids import ProducerIdSource
from penstock.errors import ClientClosedError, NetworkError, PenstockError, TimedOutError, UnsupportedVersionError
from penstock.types import ProducerIdAndEpoch
from tests.support.virtual_time import run_virtual

ID = ProducerIdAndEpoch(7, 0)


class Cluster:
    """Answers with what a test has put down."""

    def __init__(self, *answers: ProducerIdAndEpoch | PenstockError) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.given: list[ProducerIdAndEpoch] = []
        self.errors: list[tuple[PenstockError, bool]] = []
        self.source = ProducerIdSource(
            self.ask, Backoff(100, 1_000, Random(0)), self.given.append, lambda *outcome: self.errors.append(outcome)
        )

    async def ask(self) -> ProducerIdAndEpoch:
        self.asked += 1
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0)
        if isinstance(answer, PenstockError):
            raise answer
        return answer


def test_it_is_asked_again_after_errors_that_may_pass() -> None:
    async def story() -> None:
        errors = NetworkError("broken"), TimedOutError("no broker answered")
        cluster = Cluster(*errors, ID)
        cluster.source.ask_soon()
        cluster.source.ask_soon()
        await asyncio.sleep(1)
        assert cluster.given == [ID] and cluster.asked == 3
        assert cluster.errors == [(error, False) for error in errors]

    run_virtual(story())


def test_a_refusal_that_no_retry_mends_ends_it_until_somebody_asks_again() -> None:
    async def story() -> None:
        error = UnsupportedVersionError("an older broker")
        cluster = Cluster(error, ID)
        cluster.source.ask_soon()
        await asyncio.sleep(10)
        ((last, is_final),) = cluster.errors
        assert str(last).startswith("an older broker; set enable_idempotence=False") and is_final and cluster.asked == 1
        cluster.source.ask_soon()
        await asyncio.sleep(1)
        assert cluster.given == [ID]

    run_virtual(story())


def test_nothing_is_asked_or_told_once_the_client_is_closed() -> None:
    async def story() -> None:
        cluster = Cluster(ClientClosedError("closed"), NetworkError("broken"))
        cluster.source.ask_soon()
        await asyncio.sleep(1)
        assert not cluster.errors
        cluster.source.ask_soon()
        await asyncio.sleep(0)
        await cluster.source.close()
        await asyncio.sleep(10)
        assert not cluster.errors and not cluster.given

    run_virtual(story())
