"""The client's calls of the two streams, and their answers, as plain values.

stream_messages.py turns these into `penstock.pb` messages and back. An `error` field is None or the exception that the
wire's code stands for.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import ApiError
from penstock.types import EpochEndOffset


class ProducePart(NamedTuple):
    """Whole batches for one partition."""

    topic: str
    partition: int
    topic_id: str
    records: bytes


class ProduceCall(NamedTuple):
    """One ProduceRequest: every partition of one broker that has data."""

    correlation_id: int
    acks: int
    timeout_ms: int
    parts: tuple[ProducePart, ...]
    client_id: str


class ProduceResult(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ApiError | None
    base_offset: int
    log_append_time_ms: int


class ProduceAnswer(NamedTuple):
    """One ProduceResponse; `error` is of the request as a whole. If `more_follows`, it is a part: others come."""

    correlation_id: int
    results: tuple[ProduceResult, ...]
    error: ApiError | None
    more_follows: bool = False


class FetchPart(NamedTuple):
    """What a fetch session is told about one partition."""

    topic: str
    partition: int
    topic_id: str
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchCall(NamedTuple):
    """One FetchRequest of a session: only what changed."""

    correlation_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    changed: tuple[FetchPart, ...]
    forgotten: tuple[tuple[str, int], ...]
    client_id: str


class FetchResult(NamedTuple):
    """The answer for one partition; `topic_id` and `fetch_offset` are those of the question that it answers."""

    topic: str
    partition: int
    topic_id: str
    error: ApiError | None
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverging_epoch: EpochEndOffset | None
    fetch_offset: int


class FetchAnswer(NamedTuple):
    """One FetchResponse."""

    correlation_id: int
    results: tuple[FetchResult, ...]
    error: ApiError | None
