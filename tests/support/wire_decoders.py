"""The decoders at the gRPC edge: from the bytes of a message to the values that brokers, quorum and clients know.

Protobuf's own refusal of bytes that are no message counts as a typed error: gRPC answers it before any of our code
runs. Good inputs are messages with every field set, made from their descriptors.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from broker.grpc.codec import (
    alter_partition,
    assign_replicas_to_dirs,
    configs,
    delete_records,
    describe_log_dirs,
    describe_metadata,
    describe_quorum,
    elections,
    fetch,
    heartbeat,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    producer_ids,
    quorum,
    reassignments,
    registration,
    topics,
)
from penstock.client.wire import protobuf as wire
from penstock.client.wire.log_dirs import decode_alter_log_dirs, decode_describe_log_dirs
from penstock.client.wire.metadata_page import decode_describe_metadata
from penstock.client.wire.offsets import decode_epochs, decode_list_offsets
from penstock.errors import CorruptMessageError
from penstock.pb import broker_pb2 as pb
from penstock.pb import configs_pb2, controller_pb2, elections_pb2, log_dirs_pb2, quorum_pb2, reassignments_pb2
from tests.support.decoders import ITEM_FLOOR_BYTES, Decoder

_NUMBERS = (0, 1, -1, 7, 127, 300, (1 << 31) - 1, -(1 << 31))
_LARGE_NUMBERS = (*_NUMBERS, (1 << 63) - 1, -(1 << 63))
_UNSIGNED = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED32)
_LARGE = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64)


def _filled(random: Random, message: Any) -> Any:
    """Every field set to something; repeated ones twice at most, maps left empty."""
    for field in message.DESCRIPTOR.fields:
        target = getattr(message, field.name)
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                continue
            for _ in range(random.randrange(3)):
                if field.message_type is not None:
                    _filled(random, target.add())
                else:
                    target.append(_scalar(random, field))
        elif field.message_type is not None:
            if random.random() < 0.5:
                _filled(random, target)
        elif random.random() < 0.8:
            setattr(message, field.name, _scalar(random, field))
    return message


def _scalar(random: Random, field: FieldDescriptor) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        return random.choice(("", "orders", "T" * 22, "näme", "x" * 200))
    if kind == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice((0, 9, 200, 3_000)))
    if kind == FieldDescriptor.TYPE_BOOL:
        return random.random() < 0.5
    if kind == FieldDescriptor.TYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if kind == FieldDescriptor.TYPE_DOUBLE:
        return random.random()
    number = random.choice(_LARGE_NUMBERS if kind in _LARGE else _NUMBERS)
    return abs(number) & 0xFFFF if kind in _UNSIGNED else number


def _decoder(
    message_class: Any, decode: Callable[[Any], object], parse: Callable[[bytes], Any] | None = None
) -> Decoder:
    """A decoder of one message; `parse` replaces protobuf's parser."""
    parse = parse or message_class.FromString

    def parsed(data: bytes) -> object:
        try:
            return decode(parse(data))
        except DecodeError:
            raise CorruptMessageError("no message: gRPC answers, or the connection that has read it") from None

    def size(data: bytes) -> int:
        try:
            return max(len(data), ITEM_FLOOR_BYTES * _elements(message_class.FromString(data)))
        except DecodeError:
            return len(data)

    name = f"{decode.__module__.rpartition('.')[2]}: {message_class.DESCRIPTOR.name}"
    return Decoder(name, lambda random: _filled(random, message_class()).SerializeToString(), parsed, size=size)


def _elements(message: Any) -> int:
    """How many messages there are in a message, itself included."""
    found = 1
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            found += sum(map(_elements, value if field.is_repeated else [value]))
        elif field.is_repeated:
            found += len(value)
    return found


_ROWS: tuple[tuple[Any, ...], ...] = (
    (pb.FetchRequest, fetch.request_from_pb),
    (pb.ListOffsetsRequest, list_offsets.request_from_pb),
    (pb.OffsetForLeaderEpochRequest, offset_for_leader_epoch.request_from_pb),
    (pb.CreateTopicsRequest, topics.create_topics_from_pb),
    (pb.CreatePartitionsRequest, topics.create_partitions_from_pb),
    (pb.DeleteTopicsRequest, topics.delete_topics_from_pb),
    (pb.UnregisterBrokerRequest, registration.unregister_from_pb),
    (pb.UnregisterBrokerResponse, registration.unregister_response_from_pb),
    (pb.DescribeQuorumResponse, describe_quorum.response_from_pb),
    (pb.DescribeMetadataRequest, describe_metadata.request_from_pb),
    (pb.DescribeMetadataResponse, decode_describe_metadata),
    (log_dirs_pb2.DescribeLogDirsRequest, describe_log_dirs.request_from_pb),
    (log_dirs_pb2.DescribeLogDirsResponse, decode_describe_log_dirs),
    (log_dirs_pb2.AlterReplicaLogDirsRequest, describe_log_dirs.alter_from_pb),
    (log_dirs_pb2.AlterReplicaLogDirsResponse, decode_alter_log_dirs),
    (pb.DeleteRecordsRequest, delete_records.request_from_pb),
    (configs_pb2.AlterConfigsRequest, configs.alter_configs_from_pb),
    (configs_pb2.DescribeConfigsRequest, configs.describe_configs_from_pb),
    (elections_pb2.ElectLeadersRequest, elections.elect_leaders_from_pb),
    (elections_pb2.ElectLeadersResponse, elections.elect_leaders_response_from_pb),
    (elections_pb2.ElectLeadersResponse, wire.decode_elect_leaders),
    (reassignments_pb2.AlterPartitionReassignmentsRequest, reassignments.request_from_pb),
    (reassignments_pb2.AlterPartitionReassignmentsResponse, reassignments.response_from_pb),
    (reassignments_pb2.AlterPartitionReassignmentsResponse, wire.decode_reassignments),
    (quorum_pb2.VoteRequest, quorum.vote_from_pb),
    (quorum_pb2.BeginQuorumEpochRequest, quorum.begin_from_pb),
    (quorum_pb2.EndQuorumEpochRequest, quorum.end_from_pb),
    (quorum_pb2.FetchMetadataRequest, quorum.fetch_from_pb),
    (quorum_pb2.FetchMetadataResponse, quorum.response_from_pb),
    (quorum_pb2.VoteResponse, quorum.response_from_pb),
    (controller_pb2.RegisterBrokerRequest, registration.request_from_pb),
    (controller_pb2.BrokerHeartbeatRequest, heartbeat.request_from_pb),
    (controller_pb2.BrokerHeartbeatResponse, heartbeat.response_from_pb),
    (controller_pb2.AlterPartitionRequest, alter_partition.request_from_pb),
    (controller_pb2.AlterPartitionResponse, alter_partition.response_from_pb),
    (controller_pb2.AssignReplicasToDirsRequest, assign_replicas_to_dirs.request_from_pb),
    (controller_pb2.AssignReplicasToDirsResponse, assign_replicas_to_dirs.response_from_pb),
    (controller_pb2.AllocateProducerIdsRequest, producer_ids.request_from_pb),
    (controller_pb2.AllocateProducerIdsResponse, producer_ids.response_from_pb),
    (pb.InitProducerIdResponse, wire.decode_init_producer_id),
    (pb.ProduceResponse, wire.decode_produce),
    (pb.ListOffsetsResponse, decode_list_offsets),
    (pb.OffsetForLeaderEpochResponse, decode_epochs),
    (pb.MetadataResponse, wire.decode_metadata),
    (pb.CreateTopicsResponse, wire.decode_topics),
    (pb.CreatePartitionsResponse, wire.decode_topics),
    (pb.DescribeClusterResponse, wire.decode_cluster),
    (pb.DescribeQuorumResponse, wire.decode_quorum),
    (pb.DeleteRecordsResponse, wire.decode_delete_records),
    (configs_pb2.AlterConfigsResponse, wire.decode_alter_configs),
    (configs_pb2.DescribeConfigsResponse, wire.decode_describe_configs),
    (pb.ProduceRequest, produce.request_from_pb, produce.PRODUCED.split),
    (pb.FetchResponse, fetch.response_from_bytes, bytes),
    (pb.FetchResponse, wire.decode_fetch, bytes),
)
WIRE_DECODERS = tuple(_decoder(*row) for row in _ROWS)
