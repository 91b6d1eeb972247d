"""A client without rights to a topic gets the same answer whether there is one or not, whatever it asks of it.

`t-secret` has seven partitions, `t-secres` is a name that no topic has. Each API is asked in each version for
partitions that one of them has, and for some that it has not, once and twice, with every limit of a page: by somebody
without any right, and by somebody with every right to the group and the transactional id, since a check of those comes
first. A topic's id is no secret, as in Kafka: its answer may tell that the id is known, and nothing of the topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from broker.apis.served_apis import JUDGED_IN_PARTS
from broker.kafka.apis.reading.fetch import _found_again
from broker.kafka_codec.structs import facts_of
from broker.network.request_channel import Request
from penstock.errors import CoordinatorNotAvailableError
from penstock.messages.fetch import FetchPartition
from penstock.messages.security.acls import AclBinding, Operation, ResourceType
from penstock.types import TopicPartition
from tests.support.filled_requests import Named, filled, placed
from tests.unit.broker.authorization.test_every_kafka_api import (
    GIVEN,
    IMAGE,
    NOBODY,
    SECRET,
    TOPIC_ID,
    Node,
    every_version,
    guard,
)

MISSING = "t-secres"
"""Beside the other one in the order of names."""
NUMBERS = (0, 6, 7, 10**6, -1)
LIMITS = range(1, 12)


def right(kind: ResourceType, name: str) -> AclBinding:
    return AclBinding(kind, name, NOBODY.principal, Operation.ALL)


ACLS: Mapping[str, Mapping[str, AclBinding]] = {
    "no right": {},
    "all but topics": {
        "1": right(ResourceType.GROUP, "g-secret"),
        "2": right(ResourceType.TRANSACTIONAL_ID, "x-secret"),
        "3": right(ResourceType.TOPIC, "t-own"),
    },
}


class Coordinating(Node):
    """Coordinators that are away, and what they were asked."""

    def __init__(self, acls: Mapping[str, AclBinding]) -> None:
        super().__init__(guard(acls=acls))
        self.asked: list[str] = []

    def _handle(self, request: Request) -> None:
        if request.api not in JUDGED_IN_PARTS:  # their handlers judge before they look
            self.asked.append(f"{request.api} {request.body}")
        try:
            super()._handle(request)
        except AssertionError:
            request.fail(CoordinatorNotAvailableError("away"))

    def _answer_to(self, ask: Any) -> Any:
        response = super()._answer_to(ask)
        if response is None:
            raise CoordinatorNotAvailableError("away")
        return response


def answered(acls: str, key: int, version: int, named: Named, number: int, **fields: Any) -> tuple[str, list[str]]:
    """The answer, and what was asked of the node's own parts: without the names, and with partition 0."""
    node = Coordinating(ACLS[acls])
    row, twice = node.rows[key], bool(fields.pop("twice", False))
    body = placed(filled(row.request, version, named, key), number, twice=twice)
    for name, value in {**GIVEN.get(key, {}), **fields}.items():
        if version in dict(facts_of(row.request).fields)[name].versions:
            setattr(body, name, value)
    answer = repr(placed(node.answer(row, version, body), 0))
    return neutral(answer, named), [neutral(one, named) for one in node.asked]


def neutral(text: str, named: Named) -> str:
    return re.sub(r"<memory at \w+>", "BYTES", text).replace(named.topic, "TOPIC").replace(named.topic_id, "ID")


def by_name(topic: str) -> Named:
    return Named(topic, TOPIC_ID if topic == SECRET else "N" * 21 + "A", given=GIVEN)


def names_topics(key: int, version: int) -> bool:
    """The request has topics by name."""
    node = Coordinating({})
    return SECRET in repr(filled(node.rows[key].request, version, by_name(SECRET), key))


NAMED = [(key, version) for key, version in every_version() if names_topics(key, version)]


def variants() -> Iterator[dict[str, Any]]:
    yield {}
    yield {"twice": True}


@pytest.mark.parametrize("acls", ACLS)
@pytest.mark.parametrize(("key", "version"), NAMED)
def test_a_name_is_answered_alike_whether_there_is_such_a_topic_or_not(key: int, version: int, acls: str) -> None:
    for fields in variants():
        first = answered(acls, key, version, by_name(SECRET), NUMBERS[0], **fields)
        assert first == answered(acls, key, version, by_name(MISSING), NUMBERS[0], **fields), fields
        for number in NUMBERS[1:]:
            there, missing = (answered(acls, key, version, by_name(one), number, **fields) for one in (SECRET, MISSING))
            assert there == missing == first, (number, fields)


@pytest.mark.parametrize("acls", ACLS)
@pytest.mark.parametrize(("key", "version"), sorted(set(every_version()) - set(NAMED)))
def test_an_id_tells_nothing_of_its_topic(key: int, version: int, acls: str) -> None:
    expected = answered(acls, key, version, by_name(SECRET), 0)
    assert "secret" not in expected[0].replace("g-secret", "").replace("x-secret", "")
    for number in NUMBERS[1:]:
        assert answered(acls, key, version, by_name(SECRET), number) == expected, number


@pytest.mark.parametrize("acls", ACLS)
@pytest.mark.parametrize("other", ["a", "zzz", "t-own"])
def test_a_page_of_partitions_ends_alike_whether_there_is_such_a_topic_or_not(acls: str, other: str) -> None:
    node = Coordinating(ACLS[acls])
    row = node.rows[75]
    element = cast(Any, dict(facts_of(row.request).fields)["topics"].element)
    for limit in LIMITS:
        answers = []
        for topic in (SECRET, MISSING):
            body = row.request(topics=[element(name=topic), element(name=other)], response_partition_limit=limit)
            answers.append(repr(node.answer(row, 0, body)).replace(topic, "TOPIC"))
        assert answers[0] == answers[1], limit


def test_a_topic_that_is_created_is_no_news_to_a_session_that_may_not_read_it() -> None:
    """It would be answered at once, where one without news waits."""
    wanted = FetchPartition(TopicPartition(SECRET, 0), "", 0, -1, -1, -1, 1)
    view = cast(Any, type("View", (), {"in_trouble": staticmethod(lambda: [wanted])}))
    assert _found_again(IMAGE, view, [], lambda name: False, by_ids=False) == []
    (again,) = _found_again(IMAGE, view, [], lambda name: True, by_ids=False)
    assert again.topic_id == TOPIC_ID
