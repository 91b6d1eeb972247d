"""A typed error as a protobuf message, for the whole of an answer or for one of its parts, and back.

Shared by both edges: clients read what nodes answer, and nodes what other nodes answer. A newer node may send a code
that its reader does not know; `error_for` makes an error of it all the same. Not here: errors without a message
(error_trailer.py).
"""

from __future__ import annotations

from penstock.errors import ApiError, error_for
from penstock.pb import common_pb2
from penstock.types import Endpoint, LeaderHint


def error_to_message(error: ApiError | None) -> common_pb2.Error | None:
    """The message of an error; None sets no field."""
    if error is None:
        return None
    return common_pb2.Error(
        code=error.code,
        message=error.message,
        leader=hint_to_message(error.leader) if error.leader is not None else None,
        log_start_offset=error.log_start_offset,
        log_end_offset=error.log_end_offset,
        nothing_written=error.nothing_written and not type(error).nothing_written,
    )


def hint_to_message(hint: LeaderHint) -> common_pb2.LeaderHint:
    message = common_pb2.LeaderHint(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch, topic_id=hint.topic_id)
    if hint.endpoint is not None:
        message.host, message.port = hint.endpoint
    return message


def error_in_message(message: common_pb2.Error) -> ApiError | None:
    """The error in a message; None for code 0, which is what an absent error reads as."""
    if message.code == 0:
        return None
    hint = None
    if message.HasField("leader"):
        leader = message.leader
        endpoint = Endpoint(leader.host, leader.port) if leader.host else None
        hint = LeaderHint(leader.leader_id, leader.leader_epoch, endpoint, leader.topic_id)  # 0 is a good node id
    return error_for(
        message.code,
        message.message,
        leader=hint,
        log_start_offset=message.log_start_offset,
        log_end_offset=message.log_end_offset,
        nothing_written=message.nothing_written,
    )
