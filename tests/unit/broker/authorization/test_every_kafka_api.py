"""A client of Kafka's protocol without rights sees this of each API in each version: the error codes, and no names.

The topic `t` is there, with the group `g`; `gone` is not there, and is answered just like it. A new API, or one that
asks the node for something else than before, fails here until its row says what is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.cluster.describe_cluster import DescribeClusterApi
from broker.apis.cluster.metadata import MetadataApi
from broker.apis.cluster.topic_views import TopicViews
from broker.apis.served_apis import JUDGED_IN_PARTS, RULES
from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.kafka.api_row import ApiRow, failed_answer
from broker.kafka.api_rows import api_rows
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.structs import facts_of
from broker.network.client_names import ClientNames
from broker.network.named_sessions import no_named_sessions
from broker.network.request_channel import Caller, Request
from broker.network.telemetry.client_telemetry import no_telemetry
from metadata.features import TABLE as FEATURES
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages.fetch import FetchResponse, PartitionFetchResult
from penstock.messages.groups.listing import GroupType, ListedGroup, ListGroupsResponse
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.messages.security.acls import AclBinding, Operation
from penstock.messages.transactions.listing import ListTransactionsResponse, TransactionListing
from penstock.types import ListenerType
from tests.support.filled_requests import Named, codes, filled
from tests.support.kafka_plans import LISTENER, ME, parts_of, topic_of
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink
from tests.support.voters import voters_of
from tests.unit.broker.kafka.apis.admin_node import STANDING

TOPIC, GROUP, ID, CLUSTER, OFF = 29, 30, 53, 31, 61
UNKNOWN_SUBSCRIPTION = 117
TOPIC_ID = "T" * 21 + "A"
NOBODY = Caller(CALLER.peer, LISTENER, "User:nobody", ListenerType.KAFKA)
SECRET, MISSING = "t-secret", "t-gone"
NO_ACLS: Mapping[str, AclBinding] = {}
IMAGE: MetadataImage = parts_of(topic_of(SECRET, TOPIC_ID, *[ME] * 7)).image()

TABLE: dict[int, set[int]] = {
    0: {TOPIC},
    1: {TOPIC},
    2: {TOPIC},
    3: {TOPIC},
    8: {GROUP},
    9: {GROUP},
    10: {GROUP},
    11: {GROUP},
    12: {GROUP},
    13: {GROUP},
    14: {GROUP},
    15: {GROUP},
    16: set(),
    17: {34},
    18: set(),
    19: {TOPIC},
    20: {TOPIC},
    21: {TOPIC},
    22: {CLUSTER},
    23: {TOPIC},
    24: {ID},
    25: {ID},
    26: {ID},
    28: {ID},
    29: {CLUSTER},
    30: {CLUSTER},
    31: {CLUSTER},
    32: {TOPIC},
    33: {TOPIC},
    34: {CLUSTER},
    35: {CLUSTER},
    36: {34},
    37: {TOPIC},
    38: {OFF},
    39: {OFF},
    40: {OFF},
    41: {OFF},
    42: {GROUP},
    43: {CLUSTER},
    44: {TOPIC},
    45: {CLUSTER},
    46: {CLUSTER},
    47: {GROUP},
    48: {CLUSTER},
    49: {CLUSTER},
    50: {CLUSTER},
    51: {CLUSTER},
    55: {CLUSTER},
    57: {CLUSTER},
    60: set(),
    61: {TOPIC},
    64: {CLUSTER},
    65: {ID},
    66: set(),
    68: {GROUP},
    69: {GROUP},
    71: set(),
    72: {UNKNOWN_SUBSCRIPTION},
    74: {CLUSTER},
    75: {TOPIC},
    80: {CLUSTER},
    81: {CLUSTER},
    94: {CLUSTER},
}
"""By key, every error code in the answer. At a listener without SASL nobody can log in: ILLEGAL_SASL_STATE."""
GIVEN: dict[int, dict[str, Any]] = {
    22: {"transactional_id": None},
    0: {"transactional_id": None, "acks": 1},
    55: {},
}
"""Values of fields besides what their names suggest."""


def guard(principals: tuple[str, ...] = (), acls: Mapping[str, AclBinding] = NO_ACLS) -> RequestAuthorizer:
    return RequestAuthorizer(
        Authorizer(lambda: acls, principals), lambda: IMAGE, "INTERNAL", AuditLog(lambda: 0), RULES, JUDGED_IN_PARTS
    )


class Session(SimpleNamespace):
    """A fetch session that has nothing yet."""

    partitions = SimpleNamespace(find=lambda key: None, wanted=lambda: iter(()), in_trouble=list, __len__=lambda: 0)

    def close(self) -> None:
        """Nothing is held."""


class Node:
    """Answers what plans ask, after the check."""

    def __init__(self, request_authorizer: RequestAuthorizer) -> None:
        self.request_authorizer = request_authorizer
        service = SimpleNamespace(
            cluster_id="c",
            image=lambda: IMAGE,
            voters=lambda: voters_of(1),
            features=FEATURES,
            wall_ms=lambda: 1,
            names=ClientNames(),
            permissions=request_authorizer,
            new_session=lambda host, is_stream: Session(),
            named_sessions=no_named_sessions(),
            channel=SimpleNamespace(now_ns=NOW_NS),
            authentication=None,
            telemetry=no_telemetry(),
        )
        config = SimpleNamespace(node_id=ME, auto_create_topics_enable=True)
        self.rows = api_rows(PlanParts(cast(Any, config), cast(Any, service)))

    def answer(self, row: ApiRow, version: int, body: Any) -> Any:
        asked = Asked(version, NOBODY)
        try:
            return received(self._performed(row, asked, received(body, version)), version)
        except ApiError as error:
            return received(failed_answer(row, asked, body, error), version)

    def _performed(self, row: ApiRow, asked: Asked, body: Any) -> Any:
        plan = row.plan(asked, body)
        try:
            ask = next(plan)
            while True:
                try:
                    response = self._answer_to(ask)
                except ApiError as error:
                    ask = plan.throw(error)
                else:
                    ask = plan.send(response)
        except StopIteration as end:
            return end.value

    def _answer_to(self, ask: Ask) -> Any:
        if ask is PAUSE:
            return None
        request = Request(ask.api, ask.body, Sink(), NOBODY, NOW_NS)
        if self.request_authorizer.passes(request):
            self._handle(request)
        return request.response

    def _handle(self, request: Request) -> None:
        """The handlers of what is asked by somebody who may not know of anything."""
        body: Any = request.body

        def refusal(operation: Operation, name: str) -> ApiError | None:
            return None if request.rights is None else request.rights.refusal(operation, name)

        if request.api == "Metadata":
            MetadataApi("c", lambda: IMAGE, lambda: ME, TopicViews(ME, lambda *_: "")).handle(request, body)
        elif request.api == "DescribeCluster":
            DescribeClusterApi("c", lambda: IMAGE, lambda: ME, lambda: (STANDING, ())).handle(request, body)
        elif request.api == "ListGroups":
            request.complete(ListGroupsResponse((ListedGroup("g-secret", "", "", GroupType.CLASSIC),)))
        elif request.api == "ListTransactions":
            request.complete(ListTransactionsResponse((TransactionListing("x-secret", 1, "Empty"),)))
        elif request.api == "Produce":
            results = [
                PartitionProduceResult(key, refusal(Operation.WRITE, key.topic)) for key, _, _ in body.partitions
            ]
            request.complete(ProduceResponse(results))
        elif request.api == "FetchConsumer":
            found = [
                (one.partition, one.topic_id, refusal(Operation.READ, one.partition.topic)) for one in body.partitions
            ]
            request.complete(FetchResponse([PartitionFetchResult(key, of, 0, error=error) for key, of, error in found]))
        else:
            raise AssertionError(f"{request.api} was let through")


def received(message: Any, version: int) -> Any:
    """As the other side reads it."""
    frame = b"".join(bytes(part) for part in encode(message, version))
    return decode(type(message), version, memoryview(frame))[0]


def every_version() -> list[tuple[int, int]]:
    rows = Node(guard()).rows
    return [(key, version) for key, row in rows.items() for version in range(row.versions[0], row.versions[1] + 1)]


def test_every_key_has_a_row() -> None:
    assert {key for key, _ in every_version()} == set(TABLE)


@pytest.mark.parametrize(("key", "version"), every_version())
@pytest.mark.parametrize("topic", [SECRET, MISSING])
def test_what_somebody_without_rights_is_told(key: int, version: int, topic: str) -> None:
    if (key, version) in OLD:
        pytest.skip("a version that is answered without asking")
    node = Node(guard())
    row = node.rows[key]
    body = filled(row.request, version, Named(topic, TOPIC_ID, given=GIVEN), key)
    for name, value in GIVEN.get(key, {}).items():
        if version in dict(facts_of(row.request).fields)[name].versions:
            setattr(body, name, value)
    answer = node.answer(row, version, body)
    expected = set() if (key, version) in WITHOUT_CODE else TABLE[key]
    assert {code for code in codes(answer) if code} == expected, answer
    if not TABLE[key]:
        assert "secret" not in repr(answer)


WITHOUT_CODE = {(35, 1), (35, 2)}
"""The answer has no place for an error: it has no log dir, as in Kafka."""
OLD = {(0, version) for version in range(3)}
"""Produce below version 3 carries record formats that are refused before anything is looked at."""


def test_nothing_is_told_of_what_nobody_named() -> None:
    node = Node(guard())
    metadata = node.answer(node.rows[3], 12, node.rows[3].request(topics=None))
    assert metadata.topics == [] and [broker.node_id for broker in metadata.brokers] == [ME, 2]
    described = node.answer(node.rows[75], 0, node.rows[75].request(response_partition_limit=1))
    assert described.topics == [] and described.next_cursor is None


def test_a_topic_by_its_id_is_refused_without_its_name() -> None:
    node = Node(guard())
    request = node.rows[3].request
    named = facts_of(request).fields
    element = cast(Any, dict(named)["topics"].element)
    metadata = node.answer(node.rows[3], 13, request(topics=[element(topic_id=TOPIC_ID, name=None)]))
    assert [(one.error_code, one.name, one.topic_id) for one in metadata.topics] == [(TOPIC, None, TOPIC_ID)]
    deleted = node.rows[20].request
    state = cast(Any, dict(facts_of(deleted).fields)["topics"].element)
    answer = node.answer(node.rows[20], 6, deleted(topics=[state(name=None, topic_id=TOPIC_ID)]))
    assert [(one.error_code, one.name, one.topic_id) for one in answer.responses] == [(TOPIC, None, TOPIC_ID)]
    assert "secret" not in repr(answer)


def test_records_for_a_topic_by_its_id_are_refused_without_its_name() -> None:
    node = Node(guard())
    row = node.rows[0]
    body = filled(row.request, 13, Named(SECRET, TOPIC_ID, given=GIVEN), 0)
    body.transactional_id, body.acks = None, 1
    answer = node.answer(row, 13, body)
    assert list(codes(answer)) == [TOPIC] and TOPIC_ID in repr(answer)
    assert "secret" not in repr(answer)


@pytest.mark.parametrize("topic", [SECRET, MISSING])
def test_a_transactional_id_that_one_may_not_use_is_told_before_any_topic(topic: str) -> None:
    node = Node(guard())
    body = filled(node.rows[0].request, 12, Named(topic, TOPIC_ID, given=GIVEN), 0)
    body.transactional_id, body.acks = "mine", 1
    assert set(codes(node.answer(node.rows[0], 12, body))) == {ID}


def test_the_operations_that_are_told_are_those_that_one_may_do() -> None:
    nobody, somebody = Node(guard()), Node(guard((NOBODY.principal,)))
    for node, of_cluster in ((nobody, 0), (somebody, 0b1111110100000)):
        request = node.rows[60].request(include_cluster_authorized_operations=True)
        operations = node.answer(node.rows[60], 1, request).cluster_authorized_operations
        assert operations & of_cluster == of_cluster and bool(operations) == bool(of_cluster)
        request = node.rows[3].request(topics=None, include_topic_authorized_operations=True)
        topics = node.answer(node.rows[3], 12, request).topics
        assert [bool(one.topic_authorized_operations > 0) for one in topics] == [True] * bool(of_cluster)
