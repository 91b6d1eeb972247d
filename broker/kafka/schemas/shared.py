"""Structs that messages of several subjects have."""

from __future__ import annotations

from broker.kafka_codec.fields import int32, string
from broker.kafka_codec.structs import struct


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(null="0+", default=None)
