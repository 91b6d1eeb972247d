"""Changes of topics above a quota, by the versions of Kafka's clients (KIP-599): strict ones are refused while the wait
for earlier changes lasts, by whatever connection they come; the others are made, and their connections wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.errors import is_known
from broker.kafka.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.network.request_channel import Request
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ClientQuotaRecord
from penstock.errors import ResourceExhaustedError
from penstock.messages.configs import DescribeConfigsResponse, DescribeConfigsResult
from penstock.messages.topics import CreateTopicsResponse as TopicsMade
from penstock.messages.topics import TopicResult
from tests.support.kafka_listener import FarSide, ListenerBench, bench_of, frame, run_to_the_end
from tests.support.kafka_rows import ADMIN, rows_over
from tests.unit.broker.apis.test_served import charged
from tests.unit.broker.kafka.apis.admin_node import AdminNode

LAST_WITHOUT_CONFIGS, LAST_WAITING, FIRST_STRICT = 4, 5, 6
"""Versions of CreateTopics. From 5 on the node is asked for the configuration of a topic after it was made."""
BURST = 11


class Broker:
    """It makes every topic that it is asked for, one partition a second."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.quotas = RequestQuotas(ClientQuotas(QuotaWindows()))
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(ClientQuotaRecord("controller_mutation_rate", user="ANONYMOUS", value=1.0))
        image = delta.apply(0, 0)
        self.quotas.published(delta, image)
        self._handlers = charged(self._make, self.quotas, image)

    def handle(self, request: Request) -> None:
        if request.api == "DescribeConfigs":
            request.complete(DescribeConfigsResponse((DescribeConfigsResult("broker", "1"),), 0))
        else:
            self._handlers[request.api](request, request.body)

    def _make(self, request: Request, body: Any) -> None:
        self.made += [topic.name for topic in body.topics]
        request.complete(TopicsMade(tuple(TopicResult(topic.name, "id", None, 1, 1) for topic in body.topics)))


class AdminBench:
    """A listener with that broker behind it, and its connections."""

    def __init__(self, bench: ListenerBench, broker: Broker) -> None:
        bench.service = replace(bench.service, quotas=broker.quotas)
        self.bench, self._sent = bench, 0

    async def create(self, far: FarSide, version: int, partitions: int = 1) -> CreateTopicsResponse | None:
        """The answer; None if the connection is not read."""
        self._sent += 1
        topic = CreatableTopic(name=f"topic-{self._sent}", num_partitions=partitions, replication_factor=1)
        far.send(frame(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), version, self._sent))
        await self.bench.settle()
        answers = [answer for number, answer in far.answers(CreateTopicsResponse, version) if number == self._sent]
        return answers[0] if answers else None

    async def end(self, fars: Sequence[FarSide]) -> ListenerBench:
        for far in fars:
            far.reset()
        await self.bench.settle()
        return self.bench


async def admin_of(broker: Broker) -> AdminBench:
    return AdminBench(await bench_of(broker.handle, rows=rows_over(AdminNode().parts, *ADMIN)), broker)


def test_many_connections_of_a_strict_version_make_what_one_makes() -> None:
    broker = Broker()

    async def scenario() -> ListenerBench:
        admin = await admin_of(broker)
        fars = [admin.bench.connect(f"10.0.0.{number}") for number in range(9)]
        assert await admin.create(fars[0], FIRST_STRICT, BURST + 1) is not None
        for far in fars[:8]:
            answer = await admin.create(far, FIRST_STRICT)
            assert answer is not None and answer.throttle_time_ms == 1_000
            assert answer.topics[0].error_code == ResourceExhaustedError.code
            assert "is used up for another 1.0 s" in (answer.topics[0].error_message or "")
        assert broker.made == ["topic-1"]
        admin.bench.clock.advance(1_000)
        answer = await admin.create(fars[8], FIRST_STRICT)
        assert answer is not None and answer.topics[0].error_code == 0
        return await admin.end(fars)

    run_to_the_end(scenario)


def test_a_strict_client_is_not_made_to_wait_for_a_change_that_was_made() -> None:
    async def scenario() -> ListenerBench:
        admin = await admin_of(Broker())
        far = admin.bench.connect()
        answer = await admin.create(far, FIRST_STRICT, BURST + 1)
        assert answer is not None and (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        assert await admin.create(far, FIRST_STRICT) is not None, "it is read, and refused"
        assert await admin.create(far, FIRST_STRICT) is None, "as in Kafka, a refusal is followed by a wait"
        return await admin.end([far])

    run_to_the_end(scenario)


@pytest.mark.parametrize("version", [LAST_WITHOUT_CONFIGS, LAST_WAITING])
def test_a_connection_of_an_older_version_waits_after_each_change(version: int) -> None:
    """Also where the change is not the last thing that the node is asked for the answer."""
    broker = Broker()

    async def scenario() -> ListenerBench:
        admin = await admin_of(broker)
        far = admin.bench.connect()
        answer = await admin.create(far, version, BURST + 1)
        assert answer is not None and (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 1_000)
        assert await admin.create(far, version) is None
        return await admin.end([far])

    run_to_the_end(scenario)
    assert broker.made == ["topic-1"]


@pytest.mark.parametrize(("api", "first"), [("CreateTopics", 6), ("DeleteTopics", 5), ("CreatePartitions", 3)])
def test_strict_are_the_versions_whose_clients_know_the_error(api: str, first: int) -> None:
    assert [is_known(ResourceExhaustedError, api, version) for version in (first - 1, first)] == [False, True]
    assert not is_known(ResourceExhaustedError, "Produce", 99)
