"""GetTelemetrySubscriptions 0 (key 71) and PushTelemetry 0 (key 72): clients push their metrics (KIP-714).

Any client that may use the listener may ask and push, as in Kafka: subscriptions are the operator's, and say which do.
Sums are asked for since the client's start: a broker that restarts, or a push that is lost, costs no count then. The
node is asked nothing; the state is in broker/network/telemetry/.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Asked, Plan
from broker.kafka.schemas.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from broker.network.parties import party_of
from broker.network.telemetry.client_telemetry import (
    TELEMETRY_MAX_BYTES,
    UNPACKED_MAX_BYTES,
    TelemetryClient,
)
from broker.network.telemetry.otlp import points
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    TelemetryTooLargeError,
)
from penstock.record.codecs import Codec, codec_from_id, decompress

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The codecs that clients may choose from, the best first; uncompressed always goes."""
BYTES_MAX: Final = TELEMETRY_MAX_BYTES + (64 << 10)


def get_telemetry_subscriptions(parts: PlanParts, asked: Asked, body: GetTelemetrySubscriptionsRequest) -> Plan:
    yield from ()
    telemetry = parts.telemetry
    try:
        instance_id, offer = telemetry.subscribe(body.client_instance_id, _client(asked))
    except ApiError as error:
        telemetry.refused(error)
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=offer.subscription_id,
        accepted_compression_types=list(map(int, ACCEPTED)),
        push_interval_ms=offer.interval_ms,
        telemetry_max_bytes=TELEMETRY_MAX_BYTES,
        delta_temporality=False,
        requested_metrics=list(offer.metrics),
    )


def push_telemetry(parts: PlanParts, asked: Asked, body: PushTelemetryRequest) -> Plan:
    telemetry, instance = parts.telemetry, None
    try:
        instance = telemetry.begin_push(
            body.client_instance_id, _client(asked), body.subscription_id, is_last=body.terminating
        )
        data = _unpacked(body)
        yield PAUSE
        for point in points(data):
            if point is None:
                yield PAUSE
            else:
                telemetry.note(instance, point)
    except ApiError as error:
        telemetry.refused(error, instance)
        return PushTelemetryResponse(error_code=error.code)  # Kafka's own: clients know each of these here
    telemetry.pushed()
    return PushTelemetryResponse()


def _unpacked(body: PushTelemetryRequest) -> bytes:
    codec = codec_from_id(body.compression_type)
    if len(body.metrics) > TELEMETRY_MAX_BYTES:
        raise TelemetryTooLargeError(f"the push has {len(body.metrics)} bytes; {TELEMETRY_MAX_BYTES} at most")
    if not body.metrics:
        return b""
    try:
        return decompress(codec, body.metrics, UNPACKED_MAX_BYTES)
    except MessageTooLargeError:
        raise TelemetryTooLargeError(f"the push has more than {UNPACKED_MAX_BYTES} bytes when it is unpacked") from None
    except CorruptMessageError as error:
        raise InvalidRecordError(f"the metrics of the push cannot be unpacked: {error}") from None


def _client(asked: Asked) -> TelemetryClient:
    software, caller = asked.connection.software, asked.caller
    name, version = ("", "") if software is None else software.named
    return TelemetryClient(
        client_id=asked.client_id,
        software_name=name,
        software_version=version,
        host=caller.peer.host,
        port=caller.peer.port,
        party=party_of(caller),
    )


SERVED: Final = (
    serves(
        GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, (0, 0), over(get_telemetry_subscriptions)
    ),
    serves(PushTelemetryRequest, PushTelemetryResponse, (0, 0), over(push_telemetry), bytes_max=BYTES_MAX),
)
