from __future__ import annotations

import pytest

from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    MalformedConsumerProtocolError,
    decode_assignment,
    decode_subscription,
    encode_consumer_protocol,
    subscription_version,
)

OWNED = [ConsumerProtocolTopicPartitions(topic="t", partitions=[0, 2])]
SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["t", "u"], user_data=b"x", owned_partitions=OWNED, generation_id=4, rack_id="r"
)
LAST_VERSION = encode_consumer_protocol(SUBSCRIPTION)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_of_each_version_has_what_the_version_has(version: int) -> None:
    data = encode_consumer_protocol(SUBSCRIPTION, version)
    found = decode_subscription(data)
    assert data[:2] == version.to_bytes(2, "big")
    assert subscription_version(data) == version
    assert (found.topics, found.user_data) == (["t", "u"], b"x")
    assert found.owned_partitions == (OWNED if version >= 1 else [])
    assert found.generation_id == (4 if version >= 2 else -1)
    assert found.rack_id == ("r" if version >= 3 else None)


def test_a_later_version_is_read_as_the_last_known_one() -> None:
    data = (9).to_bytes(2, "big") + LAST_VERSION[2:] + b"what it adds"
    assert decode_subscription(data) == SUBSCRIPTION
    assert subscription_version(data) == 3


def test_an_assignment_returns_as_it_was_written() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=OWNED, user_data=None)
    assert decode_assignment(encode_consumer_protocol(assignment)) == assignment
    assert decode_assignment(b"") == ConsumerProtocolAssignment()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff" + LAST_VERSION[2:],
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0",
        LAST_VERSION[:-2],
        b"not of this protocol at all",
        b"\0\0" + (200_000).to_bytes(4, "big") + bytes(400_000),
        b"\0\0" + b"\0\0\0\1\xff\xff",
    ],
)
def test_bytes_that_are_no_subscription_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedConsumerProtocolError):
        decode_subscription(data)
    with pytest.raises(MalformedConsumerProtocolError):
        subscription_version(data)


def test_what_is_cut_anywhere_is_malformed() -> None:
    assignment = encode_consumer_protocol(ConsumerProtocolAssignment(OWNED, b"data"))
    for data, decode in ((LAST_VERSION, decode_subscription), (assignment, decode_assignment)):
        for end in range(1, len(data)):
            with pytest.raises(MalformedConsumerProtocolError):
                decode(data[:end])


def test_the_bytes_are_those_of_kafka() -> None:
    assert encode_consumer_protocol(ConsumerProtocolAssignment(OWNED), 1) == bytes.fromhex(
        "0001 00000001 0001 74 00000002 00000000 00000002 ffffffff"
    )
    assert (
        bytes.fromhex(
            "0003 00000002 0001 74 0001 75 00000001 78 00000001 0001 74 00000002 00000000 00000002 00000004 0001 72"
        )
        == LAST_VERSION
    )
