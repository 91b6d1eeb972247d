"""Changes of topics count by their partitions, and whoever made too many waits: only where somebody has a quota."""

from __future__ import annotations

from typing import Any

import pytest

from broker.apis.security.charged_changes import charged
from broker.network.request_channel import Request
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.partition_changes import COUNTS
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ClientQuotaRecord, PartitionRecord, TopicRecord
from penstock.messages.apis import APIS
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
)
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

DELTA = MetadataDelta(EMPTY_IMAGE)
for _record in (TopicRecord("t", "T"), *(PartitionRecord("T", number, (1,), (1,), 1) for number in range(3))):
    DELTA.replay(_record)
IMAGE = DELTA.apply(3, 0)


@pytest.mark.parametrize(
    ("api", "body", "count"),
    [
        ("CreateTopics", CreateTopicsRequest((NewTopic("a", 5), NewTopic("b"))), 6),
        ("CreateTopics", CreateTopicsRequest((NewTopic("a", 5),), validate_only=True), 0),
        ("CreatePartitions", CreatePartitionsRequest((NewPartitions("t", 7), NewPartitions("gone", 9))), 4),
        ("CreatePartitions", CreatePartitionsRequest((NewPartitions("t", 2),)), 0),
        ("DeleteTopics", DeleteTopicsRequest(("T", "T", "gone")), 3),
    ],
)
def test_partitions_are_counted(api: str, body: Any, count: int) -> None:
    assert COUNTS[api](body, IMAGE) == count


def test_a_change_above_the_quota_is_made_and_waited_for() -> None:
    handled: list[Any] = []
    quotas = RequestQuotas(ClientQuotas(QuotaWindows()))
    handlers = charged(dict.fromkeys(COUNTS, lambda request, body: handled.append(body)), quotas, lambda: IMAGE)
    body = CreateTopicsRequest((NewTopic("a", 13),))

    def asked() -> Request:
        request = Request("CreateTopics", body, Sink(), CALLER, NOW_NS, client_id="app")
        handlers["CreateTopics"](request, body)
        return request

    assert asked().throttle_ms == 0
    delta = MetadataDelta(IMAGE)
    delta.replay(ClientQuotaRecord("controller_mutation_rate", client_id="app", value=1.0))
    quotas.published(delta, delta.apply(4, 0))
    request = asked()
    assert request.throttle_ms == 2_000 and handled == [body, body]
    assert quotas.answered(request, request, 0, NOW_NS()) == 0, "told by itself"
    describe = Request("DescribeConfigs", body, Sink(), CALLER, NOW_NS, client_id="app")
    later_ns = request.dequeued_ns + 500_000_000
    assert (quotas.owed(request, later_ns), quotas.owed(describe, later_ns)) == (1_500, 0), "changes wait, and no more"


def test_every_api_that_changes_partitions_is_counted() -> None:
    assert set(COUNTS) == {api.name for api in APIS.values() if api.changes_partitions}
