"""ElectLeaders, between protobuf and values. A broker forwards it to the controller."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from metadata.requests import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersResult, NamedPartitions
from penstock.error_message import error_in_message
from penstock.pb import elections_pb2 as pb


def elect_leaders_from_pb(message: pb.ElectLeadersRequest) -> ElectLeadersRequest:
    named = tuple(NamedPartitions(t.topic, tuple(t.partitions)) for t in message.topics)
    return ElectLeadersRequest(int(message.election_type), None if message.all_partitions else named)


def elect_leaders_to_pb(request: ElectLeadersRequest, timeout_ms: int) -> pb.ElectLeadersRequest:
    message = pb.ElectLeadersRequest(
        topics=[pb.TopicPartitions(topic=t.topic, partitions=t.partitions) for t in request.topics or ()],
        all_partitions=request.topics is None,
        timeout_ms=timeout_ms,
    )
    # An enum is open on the wire: a number that is not known travels on, to be judged by the controller.
    message.election_type = request.election_type  # type: ignore[assignment]
    return message


def elect_leaders_response_to_pb(response: ElectLeadersResponse) -> pb.ElectLeadersResponse:
    return pb.ElectLeadersResponse(
        partitions=[
            pb.ElectLeadersResult(
                topic=r.topic, partition=r.partition, error=error_to_pb(r.error), leader_id=r.leader_id
            )
            for r in response.partitions
        ],
        metadata_offset=response.metadata_offset,
    )


def elect_leaders_response_from_pb(message: pb.ElectLeadersResponse) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        tuple(
            ElectLeadersResult(r.topic, r.partition, error_in_message(r.error), r.leader_id) for r in message.partitions
        ),
        message.metadata_offset,
    )
