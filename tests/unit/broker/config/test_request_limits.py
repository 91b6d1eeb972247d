"""Every request has a limit on its bytes and on each repeated field, and what is over it costs no work per element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, MethodDescriptor

from broker.config.request_limits import reference
from broker.grpc.incoming.request_decoder import RequestDecoder, RequestDecoders
from broker.kafka.api_row import REPLICA_ELEMENTS_MAX
from penstock.errors import InvalidRequestError
from penstock.messages.apis import APIS
from penstock.messages.metadata import MetadataRequest
from penstock.pb import broker_pb2 as pb
from penstock.pb import controller_pb2, elections_pb2, quorum_pb2, reassignments_pb2, replication_pb2
from penstock.wire.message_codec import request_codec

SERVICES = [
    service
    for module in (pb, controller_pb2, quorum_pb2, replication_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
]
METHODS = {method.name: method for service in SERVICES for method in service.methods}
MESSAGE_BYTES_MAX = 100 << 20


def decoder(api: str) -> RequestDecoder:
    return RequestDecoder(APIS[api], MESSAGE_BYTES_MAX)


def repeated_fields(message: Descriptor, prefix: str = "") -> set[str]:
    """The paths of every repeated field of a message."""
    found: set[str] = set()
    for field in message.fields:
        path = f"{prefix}{field.name}"
        found |= {path} if field.is_repeated else set()
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is not None and not is_map:
            found |= repeated_fields(field.message_type, f"{path}.")
    return found


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_every_request_and_every_repeated_field_has_a_limit(method: MethodDescriptor) -> None:
    decoder(method.name)  # a node would not start where this raises
    assert set(APIS[method.name].limits.elements) == repeated_fields(method.input_type)


def test_the_table_has_no_row_for_an_api_that_does_not_exist() -> None:
    assert set(APIS) == set(METHODS)


def test_the_page_of_the_limits_is_current() -> None:
    page = Path(__file__).parents[4] / "docs" / "request-limits.md"
    assert page.read_text() == reference(), "run python -m broker.config.request_limits > docs/request-limits.md"


def test_a_request_at_its_limit_is_taken_and_one_more_element_is_refused() -> None:
    at_limit = pb.MetadataRequest(topics=[""] * 1_000)
    assert decoder("Metadata").decode(at_limit.SerializeToString()) == MetadataRequest(("",) * 1_000)
    with pytest.raises(InvalidRequestError, match=r"Metadata: topics has 1001 elements or more; at most 1000"):
        decoder("Metadata").decode(pb.MetadataRequest(topics=[""] * 1_001).SerializeToString())


def test_no_message_of_a_client_has_more_elements_of_a_kind_than_a_request_at_kafka_may_have() -> None:
    """Kafka's are decoded in pieces, and a message in one, while nobody else has the loop."""
    most = {api.name: max(api.limits.elements.values(), default=0) for api in APIS.values() if api.kind.at_broker}
    assert {name: count for name, count in most.items() if count > REPLICA_ELEMENTS_MAX} == {}


@pytest.mark.parametrize("api", ["CreateTopics", "CreatePartitions"])
def test_partitions_are_placed_by_hand_in_requests_as_large_as_those_that_kafkas_listeners_forward(api: str) -> None:
    """The smallest element at KAFKA is a partition with one replica, which are two."""
    limits = APIS[api].limits.elements
    assert limits["topics.assignment"] * 2 == limits["topics.assignment.replicas"] == REPLICA_ELEMENTS_MAX


@pytest.mark.parametrize(
    ("api", "largest"),
    [
        ("ElectLeaders", elections_pb2.ElectLeadersRequest(topics=[{"topic": "t", "partitions": range(10_000)}])),
        (
            "AlterPartitionReassignments",
            reassignments_pb2.AlterPartitionReassignmentsRequest(
                partitions=[{"topic": "t", "partition": n, "replicas": [1]} for n in range(10_000)]
            ),
        ),
    ],
)
def test_what_an_older_client_asks_in_an_incident_is_taken(api: str, largest: Any) -> None:
    codec = request_codec(APIS[api])
    assert codec.to_message(decoder(api).decode(largest.SerializeToString())) == largest


OVER: list[tuple[str, Any, str]] = [
    ("Produce", pb.ProduceRequest(partitions=[pb.PartitionRecords()] * 2_001), "partitions"),
    ("Fetch", pb.FetchRequest(forgotten=[pb.ForgottenPartition()] * 2_001), "forgotten"),
    ("CreateTopics", pb.CreateTopicsRequest(topics=[{"config": {str(n): "" for n in range(10_001)}}]), "topics.config"),
    (
        "CreateTopics",
        pb.CreateTopicsRequest(topics=[{"assignment": [{"replicas": [1] * 250_001}]}] * 2),
        "topics.assignment.replicas",
    ),
    ("EndQuorumEpoch", quorum_pb2.EndQuorumEpochRequest(preferred_successors=[1] * 101), "preferred_successors"),
    (
        "AlterPartition",
        controller_pb2.AlterPartitionRequest(partitions=[{"new_isr": [{}] * 100}] * 2_001),
        "partitions.new_isr",
    ),
]


@pytest.mark.parametrize(("api", "request_", "path"), OVER, ids=[path for _, _, path in OVER])
def test_nested_and_packed_fields_and_maps_are_counted_over_the_whole_request(
    api: str, request_: Any, path: str
) -> None:
    with pytest.raises(InvalidRequestError, match=rf"{api}: {path} has \d+ elements or more; at most"):
        decoder(api).decode(request_.SerializeToString())


def test_numbers_that_are_not_packed_count_too() -> None:
    with pytest.raises(InvalidRequestError, match="preferred_successors has 101 elements"):
        decoder("EndQuorumEpoch").decode(b"\x20\x01" * 101)


def test_the_walk_stops_at_the_limit_and_never_sees_the_rest_of_the_message() -> None:
    not_a_message = b"\xff" * 1_000_000
    over = pb.ProduceRequest(partitions=[pb.PartitionRecords()] * 2_001).SerializeToString()
    with pytest.raises(InvalidRequestError, match="partitions has 2001 elements or more"):
        decoder("Produce").decode(over + not_a_message)


def test_fields_that_nobody_knows_are_limited_too() -> None:
    unknown = b"\x98\x06\x01"
    with pytest.raises(InvalidRequestError, match=r"Produce: the request has more than \d+ fields"):
        decoder("Produce").decode(unknown * 1_000_000)
    hidden = pb.ProduceRequest(partitions=[pb.PartitionRecords.FromString(unknown * 1_000_000)])
    with pytest.raises(InvalidRequestError, match="fields"):
        decoder("Produce").decode(hidden.SerializeToString())


def test_bytes_over_the_limit_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(InvalidRequestError, match=r"DescribeCluster: the request has 4097 bytes; at most 4096"):
        decoder("DescribeCluster").decode(b"\xff" * 4_097)


def test_a_large_produce_request_of_few_partitions_passes_and_its_records_are_not_walked() -> None:
    request = pb.ProduceRequest(
        correlation_id=7,
        partitions=[pb.PartitionRecords(topic="t", partition=n, records=b"x" * 1_000_000) for n in (0, 1)],
    )
    found = decoder("Produce")
    assert found.check(request.SerializeToString()) == {"partitions": 2}
    assert [part.records for part in found.decode(request.SerializeToString())[1].partitions] == [b"x" * 1_000_000] * 2


def test_refusals_are_counted_by_api() -> None:
    decoders = RequestDecoders(MESSAGE_BYTES_MAX)
    vote = decoders.of(APIS["Vote"])
    decoders.of(APIS["Fetch"]).decode(b"")
    for raw in (b"\xff", b"\x00" * 5_000):
        with pytest.raises(InvalidRequestError):
            vote.decode(raw)
    assert decoders.refused() == {"Vote": 2}
