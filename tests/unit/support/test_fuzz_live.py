"""The generators of the live fuzzing: every RPC is reached, a seed draws the same again, the honest topic is spared."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from google.protobuf.message import DecodeError

from penstock.pb import broker_pb2, common_pb2, configs_pb2, controller_pb2, quorum_pb2
from penstock.record.batch import HEADER_BYTES, iter_headers, verify_crc
from penstock.record.builder import build_batch
from tests.fuzz_live import attacks
from tests.fuzz_live.attacks import ATTACKS, Stage
from tests.fuzz_live.batches import NOW_MS
from tests.fuzz_live.batches import batch as make_batch
from tests.fuzz_live.campaign import draw_attacks
from tests.fuzz_live.driver import Answers, Call, Driver, error_codes
from tests.fuzz_live.hostile import HONEST_TOPIC, NODE_IDS, READS, TOPICS, Known, draw_request, tamed
from tests.fuzz_live.surface import Method, all_methods

KNOWN = Known("the-cluster", {HONEST_TOPIC: "honest-id", **{name: f"{name}-id" for name in TOPICS}})
METHODS = {str(method): method for method in all_methods()}
DRAWS = 30


class Recorder:
    """A driver that keeps what it should send."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def run(self, calls: list[Call]) -> None:
        self.calls += calls


def draws(method: Method, seed: int = 1) -> list[bytes]:
    source = Random(seed)
    return [draw_request(source, method, KNOWN) for _ in range(DRAWS)]


def test_every_method_of_every_service_is_attacked() -> None:
    modules = (broker_pb2, controller_pb2, quorum_pb2)
    declared = {
        f"{service.name}.{method.name}"
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(METHODS) >= declared and len(declared) > 20
    assert METHODS["Broker.Produce"].takes_stream and not METHODS["Quorum.Vote"].takes_stream


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_draws_the_same_requests_again_and_most_can_be_parsed(name: str) -> None:
    method = METHODS[name]
    found = draws(method)
    assert found == draws(method)
    parsed = 0
    for data in found:
        try:
            method.new_request().ParseFromString(data)
            parsed += 1
        except DecodeError:
            continue
    assert parsed > DRAWS // 2


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.name not in READS])
def test_no_order_names_the_honest_topic(name: str) -> None:
    for data in draws(METHODS[name]):
        message = METHODS[name].new_request()
        try:
            message.ParseFromString(data)
        except DecodeError:
            continue
        assert f'"{HONEST_TOPIC}"' not in str(message)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.is_between_nodes])
def test_no_message_between_nodes_bears_a_nodes_name(name: str) -> None:
    for data in draws(METHODS[name]):
        message = METHODS[name].new_request()
        try:
            message.ParseFromString(data)
        except DecodeError:
            continue
        for field in ("broker_id", "replica_id", "candidate_id", "leader_id"):
            if field in message.DESCRIPTOR.fields_by_name:
                assert not 0 <= getattr(message, field) < NODE_IDS


def test_the_honest_topic_is_not_deleted() -> None:
    drawn = b"".join(draws(METHODS["Broker.DeleteTopics"]))
    assert b"honest-id" not in drawn and f"{TOPICS[0]}-id".encode() in drawn


def test_orders_for_the_honest_topic_are_redirected_and_reads_are_not() -> None:
    create = broker_pb2.CreateTopicsRequest(topics=[broker_pb2.NewTopic(name=HONEST_TOPIC)])
    change = configs_pb2.AlterConfigsRequest(resources=[configs_pb2.AlterConfigsResource(resource_name=HONEST_TOPIC)])
    read = broker_pb2.FetchRequest(replica_id=-1, partitions=[broker_pb2.FetchPartition(topic=HONEST_TOPIC)])
    tamed(create, METHODS["Broker.CreateTopics"])
    tamed(change, METHODS["Controller.AlterConfigs"])
    tamed(read, METHODS["Broker.Fetch"])
    assert create.topics[0].name == TOPICS[0]
    assert change.resources[0].resource_name == TOPICS[0]
    assert read.partitions[0].topic == HONEST_TOPIC


def test_error_codes_are_found_at_any_depth() -> None:
    error = common_pb2.Error(code=-1)
    answer = broker_pb2.ProduceResponse(partitions=[broker_pb2.PartitionProduceResult(error=error)], error=error)
    assert error_codes(answer) == [-1, -1]
    assert error_codes(broker_pb2.ProduceResponse()) == []


def test_an_unknown_server_error_is_reported_with_the_request() -> None:
    found: list[tuple[str, str]] = []
    answers = Answers(lambda kind, text: found.append((kind, text)))
    call = Call(METHODS["Broker.DescribeCluster"], 1, (b"\x01\x02",))
    answers.message(Call(METHODS["Broker.Produce"], 1, (b"\x01\x02",)), _failed(-1))
    answers.message(Call(METHODS["Broker.Produce"], 1, (b"\x01\x02",)), _failed(3))
    answers.message(call, b"\xff\xff")
    assert [kind for kind, _ in found] == [
        "Broker.Produce answered UNKNOWN_SERVER_ERROR",
        "Broker.DescribeCluster answered what is no message",
    ]
    assert "0102" in found[0][1]


def _failed(code: int) -> bytes:
    return broker_pb2.ProduceResponse(error=common_pb2.Error(code=code)).SerializeToString()


def test_a_hostile_batch_has_the_right_checksum() -> None:
    good = build_batch([b"v" * 10], timestamps_ms=NOW_MS)
    batch = make_batch(good[HEADER_BYTES:], count=(1 << 31) - 1, last_delta=(1 << 31) - 2)
    ((position, header),) = iter_headers(batch)
    assert verify_crc(batch, position, header)
    assert header.record_count == (1 << 31) - 1 and len(batch) == len(good)


def test_many_elements_are_empty_elements_of_each_repeated_field() -> None:
    recorder = Recorder()
    stage = _stage(recorder)
    asyncio.run(attacks.many_elements(stage))
    assert recorder.calls
    for call in recorder.calls:
        message = call.method.new_request()
        message.ParseFromString(call.requests[0])
        ((_, elements),) = message.ListFields()
        assert len(elements) == attacks.ELEMENTS


def test_every_attack_comes_once_before_any_comes_again_and_a_seed_draws_the_same() -> None:
    names = list(ATTACKS)
    first = [name for name, _ in zip(draw_attacks(Random(3), names), names, strict=False)]
    again = [name for name, _ in zip(draw_attacks(Random(3), names), names, strict=False)]
    assert first == again and sorted(first) == sorted(names)


def _stage(driver: object) -> Stage:
    answers = Answers(lambda kind, text: None)
    assert isinstance(driver, Driver | Recorder)
    return Stage("127.0.0.1", [1, 2, 3], [4, 5, 6], [], driver, answers, KNOWN, Random(1))  # type: ignore[arg-type]
