"""Promises of Fetch in Kafka's protocol: which records, which errors, and what a session remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.apis.fetch_sessions.session_partitions import SESSION_PARTITION_BYTES
from broker.kafka.plan import ConnectionMemory
from broker.kafka.schemas.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestForgottenTopic,
    FetchRequestReplicaState,
    FetchResponse,
    FetchResponsePartitionData,
)
from broker.network.memory_budget import MemoryBudget
from broker.replication.leader.record_deletion import delete_below
from penstock.errors import TopicAuthorizationFailedError
from penstock.record.batch import iter_headers
from penstock.types import Endpoint, ListenerEndpoint, TopicPartition
from storage.segment.transaction_index import AbortedRange
from tests.support.memory import unlimited
from tests.support.readers import RackedBroker, broker
from tests.support.undecided_log import said_transactions
from tests.unit.broker.kafka.apis.reading.reading_node import EPOCH, LISTENER, Exchange, ReadingNode

VERSIONS = range(4, 19)
LONG_MS = 600_000
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, INVALID_REQUEST, UNKNOWN_ID = 1, 3, 6, 42, 100


def part(offset: int = 0, partition: int = 0, **more: Any) -> FetchRequestFetchPartition:
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
    return FetchRequestFetchPartition(**wanted)


class Client:
    """A client of one version, on one connection. It knows the ids of the topics that it has heard of."""

    def __init__(self, node: ReadingNode, version: int) -> None:
        self.node, self.version = node, version
        self.connection = ConnectionMemory()
        self.ids: dict[str, str] = {}
        self.session_id, self.epoch = 0, -1

    def sends(
        self,
        topics: dict[str, list[FetchRequestFetchPartition]],
        forgets: dict[str, list[int]] | None = None,
        **more: Any,
    ) -> Exchange:
        fields = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 20, **more}
        if self.version >= 7:
            fields.setdefault("session_id", self.session_id)
            fields.setdefault("session_epoch", self.epoch)
        body = FetchRequest(
            topics=[FetchRequestFetchTopic(**self._named(name), partitions=parts) for name, parts in topics.items()],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(**self._named(name), partitions=n) for name, n in (forgets or {}).items()
            ],
            **fields,
        )
        return self.node.ask(body, self.version, self.connection)

    def fetches(self, topics: dict[str, list[FetchRequestFetchPartition]] | None = None, **more: Any) -> FetchResponse:
        """The answer, which comes at once."""
        answer: FetchResponse = self.sends(topics or {}, **more).answer
        if self.version >= 7 and answer.session_id:
            self.session_id, self.epoch = answer.session_id, max(self.epoch, 0) + 1
        return answer

    def wants_session(self) -> None:
        self.epoch = 0

    def name(self, topic: Any) -> str:
        ids = {topic_id: name for name, topic_id in self.ids.items()}
        return ids.get(topic.topic_id, topic.topic_id) if self.version >= 13 else topic.topic

    def _named(self, name: str) -> dict[str, str]:
        if self.version < 13:
            return {"topic": name}
        topic = self.node.image.topics_by_name.get(name)
        return {"topic_id": self.ids.setdefault(name, topic.topic_id if topic is not None else self.node.ids.new_id())}


def parts_of(client: Client, answer: FetchResponse) -> dict[tuple[str, int], FetchResponsePartitionData]:
    return {(client.name(topic), one.partition_index): one for topic in answer.responses for one in topic.partitions}


def only(answer: FetchResponse) -> FetchResponsePartitionData:
    ((one,),) = (topic.partitions for topic in answer.responses)
    return one


Story = Callable[[ReadingNode], Awaitable[None]]


@pytest.fixture
def node(tmp_path: Path) -> ReadingNode:
    return ReadingNode(tmp_path)


def run(node: ReadingNode, story: Story) -> None:
    asyncio.run(story(node))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_records_and_the_bounds_of_the_log(node: ReadingNode, version: int) -> None:
    node.create("t")
    records = node.produce("t", b"a", b"b")
    answer = Client(node, version).fetches({"t": [part()]})
    one = only(answer)
    assert (one.partition_index, one.error_code, bytes(one.records)) == (0, 0, records)  # type: ignore[arg-type]
    assert (one.high_watermark, one.last_stable_offset) == (2, 2)
    assert one.log_start_offset == (0 if version >= 5 else -1)
    assert (one.aborted_transactions, one.preferred_read_replica) == (None, -1)
    assert (answer.session_id, answer.error_code, answer.node_endpoints) == (0, 0, [])


@pytest.mark.parametrize("version", [10, 11, 12, 17])
@pytest.mark.parametrize("has_session", [True, False])
def test_a_consumer_with_a_rack_is_told_of_the_follower_there_from_version_11_on(
    node: ReadingNode, version: int, has_session: bool
) -> None:
    racks = RackedBroker("a", {1: "a", 2: "b"})
    node.readers, node.clock = racks.readers, racks.clock
    racks.brokers[2] = broker(2, "b", listeners=(ListenerEndpoint(LISTENER, Endpoint("host", 9092)),))
    node.create("t")
    node.produce("t", b"a")
    node.follow("t", 2)
    racks.contacts.fetched(2, True)
    client = Client(node, version)
    if has_session:
        client.wants_session()
    for _ in range(2):  # the answer may be lost
        one = only(client.fetches({"t": [part()]}, rack_id="b" if version >= 11 else ""))
        assert one.error_code == 0
        assert (one.preferred_read_replica, bool(one.records)) == ((2, False) if version >= 11 else (-1, True))
    one = only(client.fetches({"t": [part()]}, rack_id="a" if version >= 11 else ""))
    assert one.preferred_read_replica == -1 and one.records


def test_a_fetch_from_the_middle_of_a_batch_gets_the_whole_batch(node: ReadingNode) -> None:
    node.create("t")
    records = node.produce("t", b"a", b"b", b"c")
    assert bytes(only(Client(node, 11).fetches({"t": [part(1)]})).records) == records  # type: ignore[arg-type]


def test_records_are_the_object_that_the_log_gave(node: ReadingNode) -> None:
    node.create("t")
    node.produce("t", b"a")
    exchange = Client(node, 11).sends({"t": [part()]})
    assert exchange.request is not None
    of_log: Any = exchange.request.response
    assert exchange.written.responses[0].partitions[0].records is of_log.partitions[0].records


def test_a_reader_of_committed_records_is_told_of_aborted_transactions(node: ReadingNode) -> None:
    node.create("t")
    for value in (b"a", b"b", b"c"):
        node.produce("t", value)
    said = said_transactions(node.hosted[TopicPartition("t", 0)])
    said.undecided[2], said.ended = 2**60, [AbortedRange(7, 0, 1)]
    for version in VERSIONS:
        one = only(Client(node, version).fetches({"t": [part()]}, isolation_level=1))
        assert [(found.producer_id, found.first_offset) for found in one.aborted_transactions or ()] == [(7, 0)]
        assert (one.last_stable_offset, one.high_watermark) == (2, 3)
        assert [header.base_offset for _, header in iter_headers(one.records)] == [0, 1]
        other = only(Client(node, version).fetches({"t": [part()]}))
        assert other.aborted_transactions is None and other.last_stable_offset == 2


@pytest.mark.parametrize("isolation_level", [-1, 2, 127])
@pytest.mark.parametrize("version", [4, 12])
def test_an_isolation_level_that_there_is_not_is_refused(node: ReadingNode, version: int, isolation_level: int) -> None:
    node.create("t")
    answer = Client(node, version).fetches({"t": [part()]}, isolation_level=isolation_level)
    assert (answer.error_code if version >= 7 else only(answer).error_code) == INVALID_REQUEST


def test_a_reader_of_committed_records_is_told_of_no_aborted_transaction(node: ReadingNode) -> None:
    node.create("t")
    node.produce("t", b"a")
    one = only(Client(node, 12).fetches({"t": [part()]}, isolation_level=1))
    assert (one.aborted_transactions, one.last_stable_offset) == ([], 1)


@pytest.mark.parametrize("version", [4, 6, 12, 18])
def test_without_a_session_all_that_is_asked_for_is_answered_each_time(node: ReadingNode, version: int) -> None:
    client = Client(node, version)
    for name in ("b", "a"):
        node.create(name, partitions=2)
    node.produce("a", b"x", partition=1)
    wanted = {"b": [part(), part(partition=1)], "a": [part(partition=1), part()]}
    for _ in range(3):
        answer = client.fetches(wanted)
        assert list(parts_of(client, answer)) == [("b", 0), ("b", 1), ("a", 1), ("a", 0)]
        assert parts_of(client, answer)["a", 1].records and answer.session_id == 0
    assert len({id(ask.session) for ask in node.asks}) == 1, "one session of the connection"


def test_an_empty_fetch_waits_for_records(node: ReadingNode) -> None:
    async def story(node: ReadingNode) -> None:
        node.create("t")
        exchange = Client(node, 11).sends({"t": [part()]})
        assert not exchange.is_answered
        node.produce("t", b"a")
        await asyncio.sleep(0)
        assert only(exchange.answer).records

    run(node, story)


@pytest.mark.parametrize("limits", [{"max_wait_ms": 0}, {"max_wait_ms": -5}, {"min_bytes": 0}, {"min_bytes": -1}])
def test_a_fetch_that_wants_to_wait_for_nothing_does_not_wait(node: ReadingNode, limits: dict[str, int]) -> None:
    node.create("t")
    assert not only(Client(node, 11).fetches({"t": [part()]}, **limits)).records


def test_a_fetch_waits_for_no_more_bytes_than_it_may_get(node: ReadingNode) -> None:
    node.create("t")
    size = len(node.produce("t", b"a"))
    assert only(Client(node, 11).fetches({"t": [part()]}, min_bytes=1 << 20, max_bytes=size)).records


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_bytes": 1}])
def test_a_batch_larger_than_the_answer_may_be_gets_through_alone(node: ReadingNode, limits: dict[str, int]) -> None:
    node.create("t", partitions=2)
    for partition in (0, 1):
        node.produce("t", b"x" * 1000, partition=partition)
    client = Client(node, 11)
    answer = parts_of(client, client.fetches({"t": [part(), part(partition=1)]}, **limits))
    assert [bool(one.records) for one in answer.values()] == [True, False]


def test_a_batch_larger_than_its_partition_may_be_gets_through_if_it_is_the_first(node: ReadingNode) -> None:
    node.create("t", partitions=2)
    for partition in (0, 1):
        node.produce("t", b"x" * 1000, partition=partition)
    client = Client(node, 11)
    wanted = [part(partition_max_bytes=0), part(partition=1, partition_max_bytes=10)]
    answer = parts_of(client, client.fetches({"t": wanted}))
    assert [bool(one.records) for one in answer.values()] == [True, False]


@pytest.mark.parametrize("offset", [-1, -(2**63), 3, 2**63 - 1])
def test_a_position_outside_the_log_is_told_with_the_bounds(node: ReadingNode, offset: int) -> None:
    node.create("t")
    node.produce("t", b"a")
    node.produce("t", b"b")
    delete_below(node.hosted[TopicPartition("t", 0)], 1)
    one = only(Client(node, 12).fetches({"t": [part(offset)]}))
    assert (one.error_code, one.log_start_offset, one.high_watermark) == (OUT_OF_RANGE, 1, 2)
    assert not one.records


def test_a_position_below_the_log_start_is_out_of_range(node: ReadingNode) -> None:
    node.create("t")
    node.produce("t", b"a")
    delete_below(node.hosted[TopicPartition("t", 0)], 1)
    assert only(Client(node, 12).fetches({"t": [part(0)]})).error_code == OUT_OF_RANGE


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [(9, EPOCH - 1, 74), (9, EPOCH + 1, 75), (18, EPOCH - 1, 74), (18, EPOCH + 1, 75), (18, EPOCH, 0), (18, -1, 0)],
)
def test_the_leader_epoch_of_the_client_is_checked(node: ReadingNode, version: int, epoch: int, code: int) -> None:
    node.create("t")
    node.produce("t", b"a")
    assert only(Client(node, version).fetches({"t": [part(current_leader_epoch=epoch)]})).error_code == code


def test_a_position_of_another_history_is_answered_with_where_it_leaves_this_one(node: ReadingNode) -> None:
    node.create("t")
    node.produce("t", b"a")
    one = only(Client(node, 12).fetches({"t": [part(1, last_fetched_epoch=EPOCH - 2)]}))
    assert (one.error_code, one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (0, EPOCH - 2, 0)
    assert not one.records


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_a_topic_and_a_partition_that_do_not_exist_are_unknown(node: ReadingNode, version: int) -> None:
    node.create("t")
    client = Client(node, version)
    answer = parts_of(client, client.fetches({"t": [part(partition=9)], "gone": [part()]}))
    unknown = UNKNOWN_ID if version >= 13 else UNKNOWN_TOPIC
    assert [one.error_code for one in answer.values()] == [unknown, unknown]


@pytest.mark.parametrize("version", [11, 15, 16, 18])
def test_a_partition_that_is_led_elsewhere_says_by_whom(node: ReadingNode, version: int) -> None:
    node.create("t")
    node.create("other", leader_id=2)
    node.move("t", 2)
    client = Client(node, version)
    answer = client.fetches({"t": [part()], "other": [part()]})
    assert [one.error_code for one in parts_of(client, answer).values()] == [NOT_LEADER, NOT_LEADER]
    leaders = [
        (one.current_leader.leader_id, one.current_leader.leader_epoch) for one in parts_of(client, answer).values()
    ]
    nodes = [(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints]
    if version < 16:
        assert (leaders, nodes) == ([(-1, -1)] * 2, [])
    else:
        assert (leaders, nodes) == ([(2, EPOCH + 1), (2, EPOCH)], [(2, "kafka-2", 9092, "rack")])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_says_it_is_a_replica_may_not_fetch(node: ReadingNode, version: int) -> None:
    """Its position would count as an acknowledgement."""
    node.create("t")
    node.produce("t", b"a")
    says: dict[str, Any] = {"replica_id": 2}
    if version >= 15:
        says = {"replica_state": FetchRequestReplicaState(replica_id=2, replica_epoch=1)}
    one = only(Client(node, version).fetches({"t": [part()]}, **says))
    assert (one.error_code, bytes(one.records or b"")) == (TopicAuthorizationFailedError.code, b"")  # type: ignore[arg-type]
    assert not node.asks


@pytest.mark.parametrize("version", [4, 6, 7, 18])
@pytest.mark.parametrize("wrong", [{"max_bytes": -1}, {"partition_max_bytes": -1}])
def test_negative_sizes_are_refused(node: ReadingNode, version: int, wrong: dict[str, int]) -> None:
    node.create("t")
    of_partition = {key: value for key, value in wrong.items() if key != "max_bytes"}
    limits = {key: value for key, value in wrong.items() if key == "max_bytes"}
    answer = Client(node, version).fetches({"t": [part(**of_partition)]}, **limits)
    if version >= 7:
        assert (answer.error_code, answer.responses) == (INVALID_REQUEST, [])
    else:
        assert only(answer).error_code == INVALID_REQUEST


def test_huge_sizes_count_as_the_nodes_own_limits(node: ReadingNode) -> None:
    node.create("t")
    for _ in range(3):
        node.produce("t", b"x" * 500_000)
    limits = {"max_bytes": 2**31 - 1, "min_bytes": 2**31 - 1, "max_wait_ms": 2**31 - 1}
    one = only(Client(node, 11).fetches({"t": [part(partition_max_bytes=2**31 - 1)]}, **limits))
    assert 1_000_000 < len(one.records or b"") <= 1 << 20


def test_a_partition_that_is_named_twice_counts_as_it_is_named_last(node: ReadingNode) -> None:
    node.create("t")
    node.produce("t", b"a")
    assert only(Client(node, 11).fetches({"t": [part(7), part(0)]})).error_code == 0


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_answers_all_first_and_then_what_is_new(node: ReadingNode, version: int) -> None:
    node.create("t", partitions=3)
    client = Client(node, version)
    client.wants_session()
    first = client.fetches({"t": [part(partition=n) for n in range(3)]}, max_wait_ms=0)
    assert len(parts_of(client, first)) == 3 and first.session_id > 0
    assert client.fetches(max_wait_ms=0).responses == []
    node.produce("t", b"a", partition=1)
    assert list(parts_of(client, client.fetches())) == [("t", 1)]
    assert list(parts_of(client, client.fetches())) == [("t", 1)], "it has not said that it has them"
    client.fetches({"t": [part(1, partition=1)]}, max_wait_ms=0)
    assert client.fetches(max_wait_ms=0).responses == []


def test_a_session_outlives_its_connection(node: ReadingNode) -> None:
    node.create("t")
    client = Client(node, 13)
    client.wants_session()
    client.fetches({"t": [part()]}, max_wait_ms=0)
    client.connection.close()
    client.connection = ConnectionMemory()
    node.produce("t", b"a")
    assert only(client.fetches()).records


def test_a_request_of_a_session_whose_connection_is_gone_holds_up_no_later_one(node: ReadingNode) -> None:
    async def story(node: ReadingNode) -> None:
        node.create("t")
        client = Client(node, 13)
        client.wants_session()
        client.fetches({"t": [part()]}, max_wait_ms=0)
        waits = client.sends({})
        assert not waits.is_answered
        waits.abandon()
        client.epoch += 1
        node.produce("t", b"a")
        assert only(client.fetches()).records

    run(node, story)


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [(None, 7, 71), (None, 2, 71), (12345, 1, 70), (0, 1, 70), (None, -2, 71)],
)
def test_a_stale_session_is_refused_as_a_whole(
    node: ReadingNode, session_id: int | None, epoch: int, code: int
) -> None:
    node.create("t")
    client = Client(node, 12)
    client.wants_session()
    real = client.fetches({"t": [part()]}, max_wait_ms=0).session_id
    answer = client.sends({}, session_id=real if session_id is None else session_id, session_epoch=epoch).answer
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])
    assert client.fetches(max_wait_ms=0).session_id == real, "the session goes on as it was"


def test_a_session_that_names_topics_by_id_is_not_gone_on_with_by_name(node: ReadingNode) -> None:
    node.create("t")
    client = Client(node, 13)
    client.wants_session()
    client.fetches({"t": [part()]}, max_wait_ms=0)
    client.version = 12
    assert client.sends({}).answer.error_code == 106


def test_a_session_ends_by_its_client_and_by_a_new_one(node: ReadingNode) -> None:
    node.create("t")
    client = Client(node, 12)
    client.wants_session()
    first = client.fetches({"t": [part()]}, max_wait_ms=0).session_id
    client.wants_session()
    second = client.fetches({"t": [part()]}, max_wait_ms=0).session_id
    assert second not in (0, first)
    assert client.sends({}, session_id=first, session_epoch=1).answer.error_code == 70
    client.epoch = -1
    last = client.sends({"t": [part()]}, max_wait_ms=0).answer
    assert last.session_id == 0 and len(parts_of(client, last)) == 1
    assert client.sends({}, session_id=second, session_epoch=1).answer.error_code == 70
    assert len(node.hosted[TopicPartition("t", 0)].watchers) == 1, "the connection's own session"


def test_a_session_without_partitions_is_over(node: ReadingNode) -> None:
    node.create("t")
    client = Client(node, 12)
    client.wants_session()
    session_id = client.fetches({"t": [part()]}, max_wait_ms=0).session_id
    answer = client.fetches(forgets={"t": [0]})
    assert answer.session_id == 0, "and its last request does not wait"
    assert client.sends({}, session_id=session_id, session_epoch=2).answer.error_code == 70
    assert not node.hosted[TopicPartition("t", 0)].watchers


def test_a_full_cache_refuses_the_session_and_answers_the_fetch(tmp_path: Path) -> None:
    node = ReadingNode(tmp_path, slots=1)
    node.create("t", partitions=2)
    node.produce("t", b"a")
    first, second = Client(node, 13), Client(node, 13)
    for client in (first, second):
        client.wants_session()
    assert first.fetches({"t": [part(), part(partition=1)]}).session_id
    answer = second.fetches({"t": [part()]})
    assert answer.session_id == 0 and only(answer).records
    node.clock.advance(120_001)
    answer = second.fetches({"t": [part()]})
    assert answer.session_id, "the first one was not used for so long"
    assert first.sends({}).answer.error_code == 70


@pytest.mark.parametrize("version", [6, 12])
def test_a_node_without_memory_for_sessions_refuses_and_remembers_none(node: ReadingNode, version: int) -> None:
    budget = MemoryBudget(8 * SESSION_PARTITION_BYTES, 1)
    node.memory = lambda host: replace(unlimited(), session=budget.open(host))
    node.create("t", partitions=9)
    client = Client(node, version)
    client.epoch = 0 if version >= 7 else -1
    answer = client.sends({"t": [part(partition=n) for n in range(9)]}).answer
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (7, 0)
    else:
        assert {one.error_code for one in parts_of(client, answer).values()} == {NOT_LEADER}
    client.connection.close()
    assert budget.statistics().used_bytes == 0
    client.connection = ConnectionMemory()
    answer = client.fetches({"t": [part(), part(partition=1)]}, max_wait_ms=0)
    assert [one.error_code for one in parts_of(client, answer).values()] == [0, 0]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_this_node_hears_of_later_is_served_in_its_session(node: ReadingNode, version: int) -> None:
    node.create("t")
    node.produce("t", b"a")
    client = Client(node, version)
    client.ids["t"] = node.image.topics_by_name["t"].topic_id
    hidden = node.hide("t")
    client.wants_session()
    unknown = UNKNOWN_ID if version >= 13 else UNKNOWN_TOPIC
    assert parts_of(client, client.fetches({"t": [part()]}))["t", 0].error_code == unknown
    assert parts_of(client, client.fetches(max_wait_ms=0))["t", 0].error_code == unknown, "told again"
    node.show(hidden)
    answer = parts_of(client, client.fetches())
    assert list(answer) == [("t", 0)] and answer["t", 0].records
    assert client.fetches(forgets={"t": [0]}).session_id == 0


def test_a_topic_that_was_made_anew_is_served_by_its_name_and_not_by_the_old_id(node: ReadingNode) -> None:
    node.create("t")
    by_name, by_id = Client(node, 12), Client(node, 13)
    for client in (by_name, by_id):
        client.wants_session()
        client.fetches({"t": [part()]}, max_wait_ms=0)
    node.delete("t")
    assert only(by_name.fetches()).error_code == UNKNOWN_TOPIC
    assert only(by_id.fetches()).error_code == UNKNOWN_ID
    new_id = node.create("t")
    node.produce("t", b"new")
    assert only(by_name.fetches()).records
    assert only(by_id.fetches(max_wait_ms=0)).error_code == UNKNOWN_ID
    old_id, by_id.ids["t"] = by_id.ids["t"], new_id
    by_id.ids["old"] = old_id
    answer = parts_of(by_id, by_id.fetches({"t": [part()]}, forgets={"old": [0]}))
    assert list(answer) == [("t", 0)] and answer["t", 0].records


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_deleted_topic_that_is_named_again_by_its_id_stays_one_partition(
    node: ReadingNode, is_made_anew: bool
) -> None:
    old_id = node.create("t")
    client = Client(node, 13)
    client.wants_session()
    client.ids["old"] = old_id
    client.ids["other"] = node.create("other")
    client.fetches({"old": [part()], "other": [part()]}, max_wait_ms=0)
    node.delete("t")
    if is_made_anew:
        node.create("t")
    assert only(client.fetches({"old": [part(5)]}, max_wait_ms=0)).error_code == UNKNOWN_ID
    assert only(client.fetches(max_wait_ms=0)).error_code == UNKNOWN_ID
    forgotten = client.sends({}, forgets={"old": [0]}, max_wait_ms=0).answer
    assert forgotten.error_code == 0 and forgotten.responses == []


def test_an_id_that_is_forgotten_late_takes_nothing_from_the_new_topic_of_the_name(node: ReadingNode) -> None:
    old_id = node.create("t")
    client = Client(node, 13)
    client.wants_session()
    client.fetches({"t": [part()]}, max_wait_ms=0)
    node.delete("t")
    client.ids["old"], client.ids["t"] = old_id, node.create("t")
    client.fetches({"t": [part()]}, max_wait_ms=0)
    client.fetches(forgets={"old": [0]}, max_wait_ms=0)
    node.produce("t", b"a")
    assert only(client.fetches()).records


def test_leadership_that_is_lost_under_a_waiting_fetch_is_told_at_once(node: ReadingNode) -> None:
    async def story(node: ReadingNode) -> None:
        node.create("t")
        waits = Client(node, 16).sends({"t": [part()]})
        node.move("t", 2)
        await asyncio.sleep(0)
        assert only(waits.answer).error_code == NOT_LEADER
        assert waits.answer.node_endpoints[0].host == "kafka-2"

    run(node, story)


def test_a_deletion_under_a_waiting_fetch_is_told_at_once(node: ReadingNode) -> None:
    async def story(node: ReadingNode) -> None:
        node.create("t")
        waits = Client(node, 11).sends({"t": [part()]})
        node.delete("t")
        await asyncio.sleep(0)
        assert only(waits.answer).error_code == UNKNOWN_TOPIC

    run(node, story)
