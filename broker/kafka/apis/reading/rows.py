"""The rows of the APIs in this folder."""

from __future__ import annotations

from broker.kafka.api_row import ApiRow
from broker.kafka.apis.reading import fetch_answer, list_offsets, offset_for_leader_epoch
from broker.kafka.apis.reading.fetch import FetchPlans
from broker.kafka.apis.reading.list_offsets import ListOffsetsPlans
from broker.kafka.apis.reading.offset_for_leader_epoch import OffsetForLeaderEpochPlans
from broker.kafka.parts import DoorParts
from broker.kafka.schemas.fetch import FetchRequest, FetchResponse
from broker.kafka.schemas.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)


def reading_rows(parts: DoorParts) -> list[ApiRow]:
    return [
        ApiRow(
            1,
            fetch_answer.API,
            FetchRequest,
            FetchResponse,
            (4, 18),
            FetchPlans(parts),
            failed=fetch_answer.failed,
            is_paced=False,
        ),
        ApiRow(
            2,
            list_offsets.API,
            ListOffsetsRequest,
            ListOffsetsResponse,
            (1, 11),
            ListOffsetsPlans(parts),
            failed=list_offsets.failed,
        ),
        ApiRow(
            23,
            offset_for_leader_epoch.API,
            OffsetForLeaderEpochRequest,
            OffsetForLeaderEpochResponse,
            (2, 4),
            OffsetForLeaderEpochPlans(parts),
            failed=offset_for_leader_epoch.failed,
        ),
    ]
