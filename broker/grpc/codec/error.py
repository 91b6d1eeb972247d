"""A typed error as a protobuf message, for the whole of an answer or for one of its parts.

Not here: reading it (penstock/error_message.py).
"""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.pb import common_pb2
from penstock.types import LeaderHint


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
