"""Between protobuf and a typed error, which any answer may carry, for the whole of it or for one of its parts."""

from __future__ import annotations

from penstock.errors import ApiError, error_for
from penstock.pb import common_pb2
from penstock.types import Endpoint, LeaderHint


def hint_to_pb(hint: LeaderHint) -> common_pb2.LeaderHint:
    message = common_pb2.LeaderHint(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch, topic_id=hint.topic_id)
    if hint.endpoint is not None:
        message.host, message.port = hint.endpoint
    return message


def error_to_pb(error: ApiError | None) -> common_pb2.Error | None:
    """None sets no field."""
    if error is None:
        return None
    return common_pb2.Error(
        code=error.code,
        message=error.message,
        leader=hint_to_pb(error.leader) if error.leader is not None else None,
        log_start_offset=error.log_start_offset,
        log_end_offset=error.log_end_offset,
        nothing_written=error.nothing_written and not type(error).nothing_written,
    )


def error_from_pb(message: common_pb2.Error) -> ApiError | None:
    """None for code 0, which is what an absent error reads as."""
    if message.code == 0:
        return None
    leader = None
    if message.HasField("leader"):
        found = message.leader
        endpoint = Endpoint(found.host, found.port) if found.host else None
        leader = LeaderHint(found.leader_id, found.leader_epoch, endpoint, found.topic_id)  # 0 is a good node id
    return error_for(
        message.code,
        message.message,
        leader=leader,
        log_start_offset=message.log_start_offset,
        log_end_offset=message.log_end_offset,
    )
