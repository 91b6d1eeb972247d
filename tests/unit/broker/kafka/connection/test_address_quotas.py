"""An address above its connection_creation_rate is accepted, and answered when it is its turn; nobody else waits."""

from __future__ import annotations

import asyncio

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ClientQuotaRecord
from tests.support.kafka_listener import FarSide, ListenerBench, answers, bench_of, metadata, run_to_the_end
from tests.support.virtual_time import run_virtual

BURST = 2
WINDOWS = QuotaWindows(BURST, 1_000)


def one_a_second() -> ClientQuotas:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(ClientQuotaRecord("connection_creation_rate", ip="", value=1.0))
    made = ClientQuotas(WINDOWS, WINDOWS)
    made.published(delta, delta.apply(1, 1))
    return made


def asking(bench: ListenerBench, port: int, host: str = "10.0.0.1") -> FarSide:
    far = bench.connect(host, port)
    far.send(metadata(port, "a"))
    return far


def test_above_its_rate_an_address_is_answered_later_and_others_at_once() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(address_quotas=one_a_second())
        many = [asking(bench, port) for port in range(1, BURST + 4)]
        other = asking(bench, 9, "10.0.0.2")
        await asyncio.sleep(0.01)
        assert answers(other) == [(9, "a")]
        for later in range(3):
            assert [bool(answers(far)) for far in many] == [True] * (BURST + later) + [False] * (3 - later)
            await asyncio.sleep(1)
        assert all(answers(far) for far in many) and not any(far.is_closed for far in many)
        for far in (*many, other):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_who_goes_before_its_turn_takes_nobodys_and_leaves_nothing() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(address_quotas=one_a_second())
        many = [asking(bench, port) for port in range(1, BURST + 6)]
        await asyncio.sleep(0.01)
        for far in many:
            far.reset()
        await bench.settle()
        last = asking(bench, 99)
        await asyncio.sleep(1.1)
        assert answers(last) == [(99, "a")]
        last.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)
