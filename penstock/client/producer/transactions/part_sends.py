"""The sends of a transaction, and of a writer of atomic batches.

`within` of faces.py makes a method of each for every plain face that has them, and `awaited_within` one with the same
signature for every async face. Not here: what a send does (producer.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.client.faces import Within
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.record.builder import HeadersLike


def send(
    self: Within,
    topic: str,
    value: bytes | None = None,
    key: bytes | None = None,
    headers: HeadersLike | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
) -> RecordFuture:
    self._must_be_open()
    sent: RecordFuture = self._producer.send(topic, value, key, headers, partition, timestamp_ms)
    return sent


def send_many(
    self: Within,
    topic: str,
    values: Iterable[bytes | None] | Any,
    keys: Iterable[bytes | None] | Any = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
) -> BulkFuture:
    self._must_be_open()
    sent: BulkFuture = self._producer.send_many(topic, values, keys, partition, timestamp_ms)
    return sent
