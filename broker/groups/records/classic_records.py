"""The record of a group of the classic protocol: one generation with all of its members. A tombstone deletes the group.

A group that holds committed offsets and has had no members has no such record.
"""

from __future__ import annotations

from broker.kafka_codec.fields import Bytes, array, bytes_, int32, int64, string
from broker.kafka_codec.structs import message, struct


@message(versions="0")
class GroupMetadataKey:
    group: str = string()


@struct
class MemberMetadata:
    """`subscription` is the metadata of the protocol that the group chose."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", null="3+", ignorable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", ignorable=True, default=-1)
    session_timeout: int = int32()
    subscription: Bytes = bytes_()
    assignment: Bytes = bytes_()


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(null="0+", default=None)
    leader: str | None = string(null="0+", default=None)
    current_state_timestamp: int = int64("2+", ignorable=True, default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
