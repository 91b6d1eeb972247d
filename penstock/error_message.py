"""The error that a protobuf message carries, for the whole of an answer or for one of its parts, as a typed one.

Shared by both edges: clients read what nodes answer, and nodes what other nodes answer. A newer node may send a code
that its reader does not know; `error_for` makes an error of it all the same. Not here: writing the message
(broker/grpc/codec/error.py), and errors without one (error_trailer.py).
"""

from __future__ import annotations

from penstock.errors import ApiError, error_for
from penstock.pb import common_pb2
from penstock.types import Endpoint, LeaderHint


def error_in_message(message: common_pb2.Error) -> ApiError | None:
    """None for code 0, which is what an absent error reads as."""
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
