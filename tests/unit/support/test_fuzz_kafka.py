"""The generators of the fuzzing of Kafka's protocol: every API is reached, a seed draws the same again, and the judge
of answers sees what is forbidden."""

from __future__ import annotations

import struct
from random import Random

import pytest

from broker.kafka.schemas.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from broker.kafka.schemas.produce import ProduceRequest
from broker.kafka.schemas.table import REQUESTS
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.headers import read_header_rest, response_header
from broker.kafka_codec.structs import facts_of
from tests.fuzz_live.hostile import HONEST_TOPIC, TOPICS, Known
from tests.fuzz_live.kafka.client import Answers, sent
from tests.fuzz_live.kafka.hostile import READS, Drawing, empty_arrays

IDS = {name: f"{number}" * 22 for number, name in enumerate((HONEST_TOPIC, *TOPICS))}
KNOWN = Known("the-cluster", IDS)
DRAWS = 8


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: REQUESTS[key].__name__)
def test_a_seed_draws_the_same_requests_again_and_all_can_be_read_in_every_version(key: int) -> None:
    first, last = facts_of(REQUESTS[key]).versions
    for version in range(first, last + 1):
        for seed in range(DRAWS):
            frame = sent(Drawing(Random(seed), KNOWN).request(key, version), version, 7).frame
            assert frame == sent(Drawing(Random(seed), KNOWN).request(key, version), version, 7).frame
            view = memoryview(frame)[4:]
            assert struct.unpack_from(">ihhi", frame) == (len(view), key, version, 7)
            _, at = read_header_rest(view, version in facts_of(REQUESTS[key]).flexible)
            assert decode(REQUESTS[key], version, view, at, 1 << 30)[1] == len(view)
            if key not in READS:
                assert HONEST_TOPIC.encode() not in frame, "no order names the honest topic"


def test_arrays_of_the_smallest_elements_can_be_read() -> None:
    for key, cls in REQUESTS.items():
        version = facts_of(cls).versions.last
        for made in empty_arrays(key, version, 50):
            data = b"".join(encode(made, version))
            assert decode(cls, version, memoryview(data))[1] == len(data)


def test_the_judge_reports_unknown_errors_wrong_numbers_and_what_is_no_message() -> None:
    found: list[str] = []
    answers = Answers(lambda kind, text: found.append(kind))
    request = sent(REQUESTS[3](), 9, 5)

    def judged(message: object, number: int = 5) -> None:
        frame = response_header(3, number, True) + b"".join(encode(message, 9))
        answers.answer(request, 5, memoryview(frame))

    judged(MetadataResponse(topics=[MetadataResponseTopic(name="a", error_code=3)]))
    assert not found and answers.codes[3] == 1
    judged(MetadataResponse(topics=[MetadataResponseTopic(partitions=[MetadataResponsePartition(error_code=-1)])]))
    judged(MetadataResponse(), number=6)
    answers.answer(request, 5, memoryview(b"\0\0\0\5\0\xff"))
    assert found == [
        "MetadataRequest v9 answered UNKNOWN_SERVER_ERROR",
        "an answer out of order",
        "MetadataRequest v9 answered what is no message",
    ]


def test_a_produce_request_without_acks_expects_no_answer() -> None:
    assert not sent(ProduceRequest(acks=0), 9, 1).is_answered and sent(ProduceRequest(acks=1), 9, 1).is_answered
