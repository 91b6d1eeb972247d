"""A view as JSON: dataclasses are objects, partitions are topic and partition, errors are their name and text. Pure."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from penstock.errors import ApiError, PenstockError
from penstock.types import TopicPartition


def jsonable(value: Any) -> Any:
    """The value in what JSON has. Bytes are base64; a mapping by partitions has keys like orders:0."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, PenstockError):
        return {
            "name": value.kafka_name if isinstance(value, ApiError) else type(value).__name__,
            "message": str(value),
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: jsonable(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: jsonable(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {_key(name): jsonable(one) for name, one in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(one) for one in value]
    return str(value)


def _key(name: object) -> str:
    return f"{name.topic}:{name.partition}" if isinstance(name, TopicPartition) else str(name)
