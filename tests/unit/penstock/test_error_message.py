"""Promises of the error in a message: it keeps its hint and its bounds, and an unknown code is an error too."""

from __future__ import annotations

from penstock.errors import NotLeaderOrFollowerError, OffsetOutOfRangeError, UnknownServerError
from penstock.pb import common_pb2
from penstock.types import Endpoint, LeaderHint
from penstock.wire.error_message import error_in_message


def test_an_error_keeps_its_hint_and_its_bounds() -> None:
    hint = common_pb2.LeaderHint(leader_id=2, leader_epoch=5, host="b", port=9, topic_id="id")
    moved = error_in_message(common_pb2.Error(code=6, message="moved", leader=hint))
    assert isinstance(moved, NotLeaderOrFollowerError) and moved.leader == LeaderHint(2, 5, Endpoint("b", 9), "id")
    ranged = error_in_message(common_pb2.Error(code=1, message="x", log_start_offset=3, log_end_offset=8))
    assert isinstance(ranged, OffsetOutOfRangeError) and (ranged.log_start_offset, ranged.log_end_offset) == (3, 8)
    assert error_in_message(common_pb2.Error()) is None
    newer = error_in_message(common_pb2.Error(code=9_999, message="x", leader=hint, nothing_written=True))
    assert isinstance(newer, UnknownServerError) and "error code 9999" in str(newer)
    assert newer.leader == LeaderHint(2, 5, Endpoint("b", 9), "id") and newer.nothing_written
