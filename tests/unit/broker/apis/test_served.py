"""Every API is served by one row; changes of topics count by their partitions, and too many are waited for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.api_parts import ApiParts
from broker.apis.router import Handle
from broker.apis.served import Served
from broker.apis.served_apis import SERVED
from broker.network.request_channel import Caller, Request
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import ClientQuotaRecord, PartitionRecord, TopicRecord
from penstock.errors import ResourceExhaustedError
from penstock.messages.api import ApiKind
from penstock.messages.apis import APIS
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
)
from penstock.types import ListenerType
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
    counts = {row.name: row.counts for row in SERVED}[api]
    assert counts is not None and counts(body, IMAGE) == count


def charged(handle: Handle, quotas: RequestQuotas, image: MetadataImage) -> dict[str, Handle]:
    """The handlers of all APIs that change partitions, with this one in their place."""
    parts = cast(ApiParts, SimpleNamespace(quotas=quotas, image=lambda: image))
    changing = [replace(row, make=lambda parts: handle) for row in SERVED if row.counts is not None]
    return {row.name: row.handler(parts) for row in changing}


class Charged:
    """A broker's handlers, with a quota of one change a second for whoever is `app`."""

    def __init__(self) -> None:
        self.handled: list[Any] = []
        self.quotas = RequestQuotas(ClientQuotas(QuotaWindows()))
        self._handlers = charged(lambda request, body: self.handled.append(body), self.quotas, IMAGE)

    def begin(self) -> None:
        delta = MetadataDelta(IMAGE)
        delta.replay(ClientQuotaRecord("controller_mutation_rate", client_id="app", value=1.0))
        self.quotas.published(delta, delta.apply(4, 0))

    def ask(self, partitions: int = 13, caller: Caller = CALLER, *, validate_only: bool = False) -> Request:
        body = CreateTopicsRequest((NewTopic("a", partitions),), validate_only=validate_only)
        request = Request("CreateTopics", body, Sink(), caller, NOW_NS, client_id="app")
        self._handlers["CreateTopics"](request, body)
        return request


def test_a_change_above_the_quota_is_made_and_waited_for() -> None:
    broker = Charged()
    assert broker.ask().throttle_ms == 0
    broker.begin()
    request = broker.ask()
    assert request.throttle_ms == 2_000 and len(broker.handled) == 2
    assert broker.quotas.answered(request, request, 0, NOW_NS()) == 0, "told by itself"
    describe = Request("DescribeConfigs", request.body, Sink(), CALLER, NOW_NS, client_id="app")
    later_ns = request.dequeued_ns + 500_000_000
    assert (broker.quotas.owed(request, later_ns), broker.quotas.owed(describe, later_ns)) == (1_500, 0), (
        "changes wait, and no more"
    )


def test_a_call_that_does_not_wait_changes_nothing_and_is_told_how_long() -> None:
    """A client says how long it waits for an answer: one that says a moment, and asks again, would have no quota."""
    broker = Charged()
    broker.begin()
    assert broker.ask().throttle_ms == 2_000
    with pytest.raises(ResourceExhaustedError, match=r"is used up for another 2\.0 s: try again"):
        broker.ask(1)
    assert len(broker.handled) == 1
    broker.ask(1, validate_only=True)
    of_kafkas = broker.ask(1, CALLER._replace(listener_type=ListenerType.KAFKA))
    assert of_kafkas.throttle_ms == 3_000 and len(broker.handled) == 3, "its connection is left unread instead"


def test_an_api_that_changes_partitions_is_counted_or_no_row() -> None:
    assert {row.name for row in SERVED if row.counts is not None} == {
        api.name for api in APIS.values() if api.changes_partitions
    }
    with pytest.raises(ValueError, match="CreateTopics changes partitions"):
        Served(api=APIS["CreateTopics"], rule=None, make=lambda parts: pytest.fail("made"))


def test_every_api_at_a_brokers_listeners_is_served_once() -> None:
    names = [row.name for row in SERVED]
    assert len(set(names)) == len(names)
    assert {row.api for row in SERVED} == {
        api for api in APIS.values() if api.kind.at_broker or api.kind is ApiKind.BROKERS
    }
