"""The metrics that clients push (KIP-714)."""

from __future__ import annotations

from broker.kafka_codec.fields import array, boolean, bytes_, int8, int16, int32, string, uuid
from broker.kafka_codec.structs import message


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: str = uuid()


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: str = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: str = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytes_()


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
