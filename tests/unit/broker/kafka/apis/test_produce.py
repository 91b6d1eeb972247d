"""Promises of Produce in Kafka's protocol: each partition has its place in the answer, and records are never copied."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.apis.producing.produce import TIMEOUT_MS_MAX
from broker.kafka.apis.produce import SERVED, produce_failed, produce_plan
from broker.kafka.plan import PAUSE, PAUSED_EVERY, ConnectionEnds, Plan
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka_codec.codec import decode, encode
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
    RecordError,
    TransactionAbortableError,
    UnknownTopicIdError,
)
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint, TopicPartition
from tests.support.kafka_plans import (
    LEADER_EPOCH,
    ME,
    OTHER,
    asked,
    ended,
    first_ask,
    parts_of,
    read_by_client,
    topic_of,
)

VERSIONS = range(3, 14)
T_ID, U_ID, GONE_ID = ("T" * 21 + "A", "U" * 21 + "A", "G" * 21 + "A")
PARTS = parts_of(topic_of("t", T_ID, ME, ME), topic_of("u", U_ID, OTHER))
BATCH = build_batch([b"v"], timestamps_ms=1)
IDS = {"t": T_ID, "u": U_ID, "gone": GONE_ID}


def request(*partitions: tuple[str, int], records: Any = BATCH, acks: int = -1, **fields: Any) -> ProduceRequest:
    """One topic after the other, also when one comes twice."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=fields.pop("timeout_ms", 1_000),
        topic_data=[
            TopicProduceData(
                name=topic, topic_id=IDS[topic], partition_data=[PartitionProduceData(index=index, records=records)]
            )
            for topic, index in partitions
        ],
        **fields,
    )


def planned(version: int, body: ProduceRequest) -> Plan:
    return produce_plan(PARTS)(asked(version), body)


def outcomes(answer: Any, version: int) -> list[tuple[str, int, int]]:
    read = read_by_client(answer, version)
    return [
        (topic.name or topic.topic_id, part.index, part.error_code)
        for topic in read.responses
        for part in topic.partition_responses
    ]


def only(answer: Any, version: int) -> Any:
    ((part,),) = [topic.partition_responses for topic in read_by_client(answer, version).responses]
    return part


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_is_answered_with_its_offsets(version: int) -> None:
    plan = planned(version, request(("t", 1)))
    body = first_ask(plan, "Produce")
    assert (body.acks, body.timeout_ms, body.answer_in_parts) == (-1, 1_000, False)
    assert [(key, topic_id) for key, topic_id, _ in body.partitions] == [(TopicPartition("t", 1), T_ID)]
    part = only(ended(plan, ProduceResponse([PartitionProduceResult(TopicPartition("t", 1), None, 7, 9, 3)])), version)
    assert (part.error_code, part.base_offset, part.log_append_time_ms) == (0, 7, 9)
    assert part.log_start_offset == (3 if version >= 5 else -1)


def test_the_records_are_the_frames_own_memory_and_nothing_of_the_plan_holds_them_while_it_waits() -> None:
    frame = bytearray(BATCH)
    body = request(("t", 0), records=memoryview(frame))
    plan = planned(9, body)
    made = first_ask(plan, "Produce")
    assert made.partitions[0].records.obj is frame
    made.partitions = []  # as the log does once it has them
    frame.append(0)  # a BufferError while anybody has a view of it


@pytest.mark.parametrize("version", [3, 12, 13])
def test_unknown_topics_and_partitions_keep_their_places_and_the_log_is_not_asked_for_them(version: int) -> None:
    plan = planned(version, request(("gone", 0), ("t", 1), ("t", 2), ("t", 0), ("t", -1)))
    body = first_ask(plan, "Produce")
    assert [key.partition for key, _, _ in body.partitions] == [1, 0]
    results = [PartitionProduceResult(key, None, 5) for key, _, _ in body.partitions]
    gone = ("gone", 3) if version < 13 else (GONE_ID, 100)
    t = "t" if version < 13 else T_ID
    assert outcomes(ended(plan, ProduceResponse(results)), version) == [
        (gone[0], 0, gone[1]),
        (t, 1, 0),
        (t, 2, 3),
        (t, 0, 0),
        (t, -1, 3),
    ]


def test_a_partition_that_is_named_twice_is_appended_twice_and_answered_twice() -> None:
    plan = planned(9, request(("t", 0), ("t", 0)))
    body = first_ask(plan, "Produce")
    results = [PartitionProduceResult(key, None, offset) for offset, (key, _, _) in enumerate(body.partitions, 4)]
    read = read_by_client(ended(plan, ProduceResponse(results)), 9)
    assert [part.base_offset for topic in read.responses for part in topic.partition_responses] == [4, 5]


LONG = BATCH + BATCH
REFUSED: dict[str, tuple[Any, int, int]] = {
    "null": (None, 13, 87),
    "empty": (b"", 13, 87),
    "a few bytes": (b"\0" * 22, 13, 87),
    "two batches": (LONG, 13, 87),
    "a batch and some bytes": (BATCH + b"\0", 9, 87),
    "a cut batch": (BATCH[:-1], 9, 87),
    "message format 0": (BATCH[:16] + b"\0" + BATCH[17:], 3, 87),
    "message format 1": (BATCH[:16] + b"\1" + BATCH[17:], 9, 87),
    "magic 3": (BATCH[:16] + b"\3" + BATCH[17:], 9, 2),
    "zstd too early": (build_batch([b"v"] * 99, timestamps_ms=1, codec=Codec.ZSTD), 6, 76),
    "a transaction": (build_batch([b"v"], timestamps_ms=1, is_transactional=True), 9, 53),
    **{f"version {version}": (BATCH, version, 43) for version in range(3)},
}


@pytest.mark.parametrize("row", REFUSED)
def test_batches_that_the_protocol_forbids_are_refused_before_the_log_sees_them(row: str) -> None:
    records, version, code = REFUSED[row]
    part = only(ended(planned(version, request(("t", 0), records=records))), version)
    assert (part.error_code, part.base_offset, part.log_append_time_ms) == (code, -1, -1)
    assert (part.error_message is not None) == (version >= 8)


def test_zstd_is_taken_from_version_7_on() -> None:
    records, _, _ = REFUSED["zstd too early"]
    assert first_ask(planned(7, request(("t", 0), records=records)), "Produce").partitions


@pytest.mark.parametrize("version", range(3, 14))
def test_a_batch_of_a_transaction_is_passed_on_with_the_way_in_which_its_partition_is_added(version: int) -> None:
    """From version 12 on the leader does it (KIP-890)."""
    records, _, _ = REFUSED["a transaction"]
    ask = first_ask(planned(version, request(("t", 0), records=records, transactional_id="a")), "Produce")
    assert (ask.transactional_id, ask.adds_partitions) == ("a", version >= 12)
    assert ask.partitions[0].records == records


def test_an_empty_transactional_id_is_an_invalid_request() -> None:
    records, version, _ = REFUSED["a transaction"]
    body = request(("t", 0), records=records, transactional_id="")
    part = only(ended(planned(version, body)), version)
    assert part.error_code == 42 and "empty" in part.error_message


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFencedError(), {3: 47, 11: 47, 13: 47}),
        (TransactionAbortableError(), {3: 48, 10: 48, 11: 120, 13: 120}),
        (ConcurrentTransactionsError(), {3: 19, 11: 19, 12: 51, 13: 51}),
        (InvalidTxnStateError(), {3: 48, 13: 48}),
    ],
    ids=lambda value: getattr(value, "kafka_name", ""),
)
def test_an_error_of_a_transaction_is_one_that_the_version_knows(error: ApiError, codes: dict[int, int]) -> None:
    records, _, _ = REFUSED["a transaction"]
    for version, code in codes.items():
        plan = planned(version, request(("t", 0), records=records, transactional_id="a"))
        ask = first_ask(plan, "Produce")
        answer = PartitionProduceResult(ask.partitions[0].partition, error)
        assert only(ended(plan, ProduceResponse([answer])), version).error_code == code


def test_a_transactional_id_without_such_batches_does_no_harm() -> None:
    assert first_ask(planned(9, request(("t", 0), transactional_id="a")), "Produce").partitions


def test_acks_0_gets_no_answer() -> None:
    plan = planned(9, request(("t", 0), acks=0))
    first_ask(plan, "Produce")
    unanswered = [PartitionProduceResult(TopicPartition("t", 0), None, 1)]
    assert ended(plan, ProduceResponse(unanswered=unanswered)) is None


def ends_with(error: str, plan: Plan, answer: Any = None) -> None:
    with pytest.raises(ConnectionEnds, match=error):
        plan.throw(answer) if isinstance(answer, ApiError) else plan.send(answer)


def test_an_error_with_acks_0_ends_the_connection() -> None:
    ends_with("no topic 'gone'", planned(9, request(("gone", 0), acks=0)))
    for answer in (
        ProduceResponse(unanswered=[PartitionProduceResult(TopicPartition("t", 0), KafkaStorageError("EIO"))]),
        KafkaStorageError("EIO"),
    ):
        plan = planned(9, request(("t", 0), acks=0))
        first_ask(plan, "Produce")
        ends_with("EIO", plan, answer)
    with pytest.raises(ConnectionEnds, match="EIO"):
        produce_failed(asked(9), request(("t", 0), acks=0), KafkaStorageError("EIO"))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_for_all_is_told_for_each_partition_that_was_asked_for(version: int) -> None:
    plan = planned(version, request(("gone", 0), ("t", 0), ("t", 1), acks=5))
    first_ask(plan, "Produce")
    codes = [code for _, _, code in outcomes(ended(plan, InvalidRequiredAcksError()), version)]
    assert codes == [100 if version >= 13 else 3, 21, 21]
    failed = produce_failed(asked(version), request(("gone", 0), ("t", 0)), InvalidRequiredAcksError())
    assert [code for _, _, code in outcomes(failed, version)] == [21, 21]


@pytest.mark.parametrize(("given", "used"), [(-1, 0), (0, 0), (2**31 - 1, TIMEOUT_MS_MAX)])
def test_any_time_out_is_taken(given: int, used: int) -> None:
    assert first_ask(planned(9, request(("t", 0), timeout_ms=given)), "Produce").timeout_ms == used


def led_elsewhere(version: int) -> Any:
    hint = LeaderHint(OTHER, 6, Endpoint("broker2", 9192), T_ID, (ListenerEndpoint("KAFKA", Endpoint("kafka2", 9092)),))
    plan = planned(version, request(("t", 0), ("t", 1)))
    body = first_ask(plan, "Produce")
    results = [PartitionProduceResult(key, NotLeaderOrFollowerError(leader=hint)) for key, _, _ in body.partitions]
    return read_by_client(ended(plan, ProduceResponse(results)), version)


@pytest.mark.parametrize("version", [9, 10, 13])
def test_the_new_leader_is_told_once_and_as_the_clients_of_the_listener_reach_it(version: int) -> None:
    read = led_elsewhere(version)
    parts = [part for topic in read.responses for part in topic.partition_responses]
    assert [part.error_code for part in parts] == [6, 6]
    leaders = [(part.current_leader.leader_id, part.current_leader.leader_epoch) for part in parts]
    endpoints = [(one.node_id, one.host, one.port, one.rack) for one in read.node_endpoints]
    if version < 10:
        assert leaders == [(-1, -1)] * 2 and endpoints == []
    else:
        assert leaders == [(OTHER, 6)] * 2 and endpoints == [(OTHER, "kafka2", 9092, "rack2")]


@pytest.mark.parametrize("version", [3, 13])
def test_a_broker_without_a_replica_of_the_partition_says_that_it_does_not_lead_it(version: int) -> None:
    plan = planned(version, request(("u", 0)))
    body = first_ask(plan, "Produce")
    result = PartitionProduceResult(body.partitions[0].partition, UnknownTopicIdError())
    part = only(ended(plan, ProduceResponse([result])), version)
    assert part.error_code == 6
    expected = (OTHER, LEADER_EPOCH) if version >= 10 else (-1, -1)
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == expected


def test_a_topic_that_was_created_again_meanwhile_is_unknown_by_its_old_id() -> None:
    for version, code in ((12, 3), (13, 100)):
        parts = parts_of(topic_of("t", T_ID, ME))
        plan = produce_plan(parts)(asked(version), request(("t", 0)))
        first_ask(plan, "Produce")
        again = parts_of(topic_of("t", "N" * 21 + "A", ME)).image()
        cast(Any, parts).metadata = again
        result = PartitionProduceResult(TopicPartition("t", 0), UnknownTopicIdError())
        assert only(ended(plan, ProduceResponse([result])), version).error_code == code


@pytest.mark.parametrize("version", [3, 9, 10, 13])
def test_a_broker_that_has_not_made_its_new_log_yet_says_that_it_does_not_lead_yet(version: int) -> None:
    """Metadata has told of it already: a client that is told "no such topic" by that very broker fails its send."""
    plan = planned(version, request(("t", 0)))
    first_ask(plan, "Produce")
    result = PartitionProduceResult(TopicPartition("t", 0), UnknownTopicIdError())
    assert only(ended(plan, ProduceResponse([result])), version).error_code == 6


@pytest.mark.parametrize("version", [7, 8, 13])
def test_the_records_that_are_to_blame_are_named(version: int) -> None:
    error = InvalidTimestampError("too late")
    error.record_errors = (RecordError(2, "in the year 3000"),)
    plan = planned(version, request(("t", 0)))
    first_ask(plan, "Produce")
    part = only(
        ended(plan, ProduceResponse([PartitionProduceResult(TopicPartition("t", 0), error, -1, -1, 3)])), version
    )
    named = [(one.batch_index, one.batch_index_error_message) for one in part.record_errors]
    assert part.error_code == 32 and part.log_start_offset == 3
    assert named == ([(2, "in the year 3000")] if version >= 8 else [])
    assert part.error_message == ("too late" if version >= 8 else None)


def test_more_partitions_than_a_request_may_have_are_refused_before_they_are_read() -> None:
    row = SERVED[0].over(PARTS)
    assert row.name == "Produce"
    many = [PartitionProduceData(index=0, records=b"")] * row.elements_max
    for count, fits in ((len(many) - 1, True), (len(many), False)):
        body = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=many[:count])])
        frame = memoryview(b"".join(encode(body, 9)))
        if fits:
            assert decode(row.request, 9, frame, 0, row.elements_max)[0] == body
        else:
            with pytest.raises(InvalidRequestError, match="more elements"):
                decode(row.request, 9, frame, 0, row.elements_max)


def test_a_request_with_many_partitions_leaves_the_event_loop_to_others_in_between() -> None:
    """However few of them the log is asked for."""
    body = request(*[("gone", 0)] * 3 * PAUSED_EVERY, ("t", 0))
    plan = planned(9, body)
    assert [next(plan) for _ in range(3)] == [PAUSE] * 3
    assert len(next(plan).body.partitions) == 1
