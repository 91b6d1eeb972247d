"""Reads the metrics of a push: OpenTelemetry's MetricsData, in protobuf's wire format. Pure.

    MetricsData       1 resource_metrics*
    ResourceMetrics   2 scope_metrics*
    ScopeMetrics      2 metrics*
    Metric            1 name   5 Gauge   7 Sum            (histograms and summaries are left out: no client sends them)
    Gauge             1 data_points*
    Sum               1 data_points*   2 temporality (1 delta, 2 cumulative)   3 is_monotonic
    NumberDataPoint   4 as_double   6 as_int   7 attributes*
    KeyValue          1 key   2 AnyValue
    AnyValue          1 string   2 bool   3 int   4 double

Anybody who may connect writes these bytes. So they are walked field by field and no tree of messages is made of them: a
megabyte of empty messages would be hundreds of thousands of objects. The walk has a budget of fields, and comes up for
air (`None`) between some. Fields that are not in the drawing are skipped by their length. A test holds this against
protobuf's own library. Not here: which points are kept (client_series.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final, NamedTuple

from penstock.errors import InvalidRecordError, TelemetryTooLargeError

FIELDS_MAX: Final = 100_000
"""Fields of one push; each takes about half a microsecond. A Java client that pushes everything sends some 10,000."""
PAUSED_EVERY: Final = 2_000
ATTRIBUTES_MAX: Final = 16
"""Attributes of one point; the others are left out."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _INT = Struct("<d"), Struct("<q")
_DELTA: Final = 1


class Point(NamedTuple):
    """A number that a client has pushed. `is_sum`: it only grows; `is_delta`: by this number since the last push."""

    metric: str
    value: float
    is_sum: bool
    is_delta: bool
    attributes: dict[str, str]


Span = tuple[int, int]
"""A message within the bytes: where it begins and ends."""


def points(data: bytes) -> Iterator[Point | None]:
    """The points, and None wherever the caller may let others work. InvalidRecordError if it is no message,
    TelemetryTooLargeError if it has too many fields."""
    return _Walk(data).points()


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = FIELDS_MAX

    def points(self) -> Iterator[Point | None]:
        until_pause = self._left - PAUSED_EVERY
        for resource in self._messages((0, len(self._data)), 1):
            for scope in self._messages(resource, 2):
                for metric in self._messages(scope, 2):
                    for point in self._metric(metric):
                        yield point
                        if self._left < until_pause:
                            until_pause = self._left - PAUSED_EVERY
                            yield None
                    if self._left < until_pause:
                        until_pause = self._left - PAUSED_EVERY
                        yield None

    def _metric(self, span: Span) -> Iterator[Point]:
        name, found = "", list[tuple[bool, Span]]()
        for number, kind, value, end in self._fields(span):
            if kind == _BYTES and number == 1:
                name = self._text((value, end))
            elif kind == _BYTES and number in (5, 7):
                found.append((number == 7, (value, end)))
        for is_sum, body in found[:1]:
            is_delta = is_monotonic = False
            of_points = list[Span]()
            for number, kind, value, end in self._fields(body):
                if kind == _BYTES and number == 1:
                    of_points.append((value, end))
                elif kind == _VARINT and is_sum and number == 2:
                    is_delta = value == _DELTA
                elif kind == _VARINT and is_sum and number == 3:
                    is_monotonic = bool(value)
            for one in of_points:
                point = self._point(one, name, is_sum=is_sum and is_monotonic, is_delta=is_delta)
                if point is not None:
                    yield point

    def _point(self, span: Span, name: str, *, is_sum: bool, is_delta: bool) -> Point | None:
        number_found: float | None = None
        attributes: dict[str, str] = {}
        for number, kind, value, end in self._fields(span):
            if kind == _FIXED64 and number == 4:
                number_found = _DOUBLE.unpack_from(self._data, value)[0]
            elif kind == _FIXED64 and number == 6:
                number_found = float(_INT.unpack_from(self._data, value)[0])
            elif kind == _BYTES and number == 7 and len(attributes) < ATTRIBUTES_MAX:
                key, text = self._attribute((value, end))
                attributes[key] = text
        return None if number_found is None else Point(name, number_found, is_sum, is_delta, attributes)

    def _attribute(self, span: Span) -> tuple[str, str]:
        key = text = ""
        for number, kind, value, end in self._fields(span):
            if kind == _BYTES and number == 1:
                key = self._text((value, end))
            elif kind == _BYTES and number == 2:
                for of, form, inner, inner_end in self._fields((value, end)):
                    if form == _BYTES and of == 1:
                        text = self._text((inner, inner_end))
                    elif form == _VARINT and of == 2:
                        text = "true" if inner else "false"
                    elif form == _VARINT and of == 3:
                        text = str(inner - (1 << 64) if inner >> 63 else inner)
                    elif form == _FIXED64 and of == 4:
                        text = repr(_DOUBLE.unpack_from(self._data, inner)[0])
        return key, text

    def _text(self, span: Span) -> str:
        return self._data[span[0] : span[1]].decode(errors="replace")

    def _messages(self, span: Span, wanted: int) -> Iterator[Span]:
        return ((value, end) for number, kind, value, end in self._fields(span) if kind == _BYTES and number == wanted)

    def _fields(self, span: Span) -> Generator[tuple[int, int, int, int], None, None]:
        """The fields of a message: number, wire type, the value of a varint or where any other begins, and where it
        ends."""
        at, end = span
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise TelemetryTooLargeError(f"the push has more than {FIELDS_MAX} fields")
            tag, at = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, at = self._varint(at, end)
            elif kind == _BYTES:
                length, value = self._varint(at, end)
                at = value + length
            elif kind in (_FIXED64, _FIXED32):
                value, at = at, at + (8 if kind == _FIXED64 else 4)
            else:
                raise InvalidRecordError(f"the metrics of the push are broken: wire type {kind} at byte {at}")
            if number == 0 or at > end:
                raise InvalidRecordError(f"the metrics of the push are broken: a field at byte {value} is cut off")
            yield number, kind, value, at

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                break
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
        raise InvalidRecordError(f"the metrics of the push are broken: a number before byte {at} does not end")
