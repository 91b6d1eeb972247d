"""OpenTelemetry's metrics as protobuf's own library writes them: the messages of a push, without a generated file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_D = descriptor_pb2.FieldDescriptorProto
_FIELDS: Final[Mapping[str, Sequence[tuple[str, int, Any]]]] = {
    "AnyValue": (
        ("string_value", 1, _D.TYPE_STRING),
        ("bool_value", 2, _D.TYPE_BOOL),
        ("int_value", 3, _D.TYPE_INT64),
        ("double_value", 4, _D.TYPE_DOUBLE),
    ),
    "KeyValue": (("key", 1, _D.TYPE_STRING), ("value", 2, "AnyValue")),
    "NumberDataPoint": (
        ("start_time_unix_nano", 2, _D.TYPE_FIXED64),
        ("time_unix_nano", 3, _D.TYPE_FIXED64),
        ("as_double", 4, _D.TYPE_DOUBLE),
        ("as_int", 6, _D.TYPE_SFIXED64),
        ("attributes", 7, ["KeyValue"]),
        ("flags", 8, _D.TYPE_UINT32),
    ),
    "Gauge": (("data_points", 1, ["NumberDataPoint"]),),
    "Sum": (
        ("data_points", 1, ["NumberDataPoint"]),
        ("aggregation_temporality", 2, _D.TYPE_INT32),
        ("is_monotonic", 3, _D.TYPE_BOOL),
    ),
    "Metric": (
        ("name", 1, _D.TYPE_STRING),
        ("description", 2, _D.TYPE_STRING),
        ("unit", 3, _D.TYPE_STRING),
        ("gauge", 5, "Gauge"),
        ("sum", 7, "Sum"),
    ),
    "ScopeMetrics": (("schema_url", 3, _D.TYPE_STRING), ("metrics", 2, ["Metric"])),
    "Resource": (("attributes", 1, ["KeyValue"]),),
    "ResourceMetrics": (("resource", 1, "Resource"), ("scope_metrics", 2, ["ScopeMetrics"])),
    "MetricsData": (("resource_metrics", 1, ["ResourceMetrics"]),),
}
CUMULATIVE, DELTA = 2, 1


def _made() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="tests/otlp.proto", package="tests.otlp", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            inner = kind[0] if isinstance(kind, list) else kind
            label = _D.LABEL_REPEATED if isinstance(kind, list) else _D.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if isinstance(inner, str):
                made.type, made.type_name = _D.TYPE_MESSAGE, f".tests.otlp.{inner}"
            else:
                made.type = inner
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.otlp.MetricsData"))


MetricsData: Final = _made()


class Number(NamedTuple):
    """A metric with one point. `temporality` None: a gauge."""

    name: str
    value: float
    temporality: int | None = None
    is_monotonic: bool = True
    attributes: Mapping[str, str | int | bool | float] = {}


def push_of(*numbers: Number) -> bytes:
    """The metrics of a push."""
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="client_rack").value.string_value = "a"
    scope = resource.scope_metrics.add(schema_url="x")
    for one in numbers:
        metric = scope.metrics.add(name=one.name, description="d", unit="1")
        if one.temporality is None:
            point = metric.gauge.data_points.add(time_unix_nano=5)
        else:
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = one.temporality, one.is_monotonic
            point = metric.sum.data_points.add(start_time_unix_nano=1, time_unix_nano=5)
        if isinstance(one.value, int):
            point.as_int = one.value
        else:
            point.as_double = one.value
        for key, value in one.attributes.items():
            found = point.attributes.add(key=key).value
            if isinstance(value, bool):
                found.bool_value = value
            elif isinstance(value, int):
                found.int_value = value
            elif isinstance(value, float):
                found.double_value = value
            else:
                found.string_value = value
    encoded: bytes = data.SerializeToString()
    return encoded
