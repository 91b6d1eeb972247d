"""The JSON of one record, as `penstock consume --json` prints it and `penstock produce --json` takes it back.

    {"topic": …, "partition": …, "offset": …, "timestamp_ms": …, "key": …, "value": …,
     "headers": [{"name": …, "value": …}]}

Bytes that are UTF-8 stand there as text, all others in base64 under the name with `_base64` behind it; null is null. So
what is read back is equal byte for byte. `headers` is left out of a record without headers. Not here: where a record
goes (produce_lines.py), and other forms of output (record_format.py).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from penstock.cli.output import bytes_fields
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.plain_text import plain_json
from penstock.written.numbers import INT32_MAX, INT64_MAX

FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "key_base64", "value", "value_base64", "headers")
HEADER_FIELDS = ("name", "value", "value_base64")
REMEDY = "; `--lines` takes plain lines"


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A record that was read back; what its line does not say is None, and no headers."""

    topic: str | None
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def json_line(record: Any) -> bytes:
    """One line, with its end."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **bytes_fields("key", record.key),
        **bytes_fields("value", record.value),
    }
    if record.headers:
        fields["headers"] = [{"name": name, **bytes_fields("value", value)} for name, value in record.headers]
    return plain_json(json.dumps(fields, ensure_ascii=False)).encode() + b"\n"


def parse_record(line: bytes) -> JsonRecord:
    """The record of a line; ConfigError says what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is no JSON: {error}{REMEDY}") from None
    _check_fields(found, FIELDS, "a record")
    if not any(name in found for name in ("key", "key_base64", "value", "value_base64")):
        raise ConfigError("has neither a key nor a value; a null value is written as null")
    topic = found.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise ConfigError("topic must be a text")
    time_ms = _number(found, "timestamp_ms", INT64_MAX, lowest=-1)
    headers = found.get("headers") or []
    if not isinstance(headers, list):
        raise ConfigError("headers must be a list of objects with name and value")
    return JsonRecord(
        topic=topic,
        partition=_number(found, "partition", INT32_MAX),
        timestamp_ms=None if time_ms == -1 else time_ms,  # the record had none
        key=_bytes(found, "key"),
        value=_bytes(found, "value"),
        headers=tuple(map(_header, headers)),
    )


def _check_fields(found: object, known: tuple[str, ...], what: str) -> None:
    if not isinstance(found, dict):
        raise ConfigError(f"is no JSON object; {what} is one with the fields of `penstock consume --json`{REMEDY}")
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None:
        raise ConfigError(f"{what} has no field {unknown!r}; there are {', '.join(known)}{REMEDY}")


def _header(found: object) -> tuple[str, bytes | None]:
    if not isinstance(found, dict):
        raise ConfigError(f"headers must be a list of objects with name and value, not of {json.dumps(found)[:40]}")
    _check_fields(found, HEADER_FIELDS, "a header")
    name = found.get("name")
    if not isinstance(name, str):
        raise ConfigError("a header needs a name")
    _utf8(name, "the name of a header")
    return name, _bytes(found, "value")


def _number(found: Mapping[str, Any], name: str, highest: int, lowest: int = 0) -> int | None:
    number = found.get(name)
    if number is None:
        return None
    if type(number) is not int or not lowest <= number <= highest:
        raise ConfigError(f"{name} must be a whole number from {lowest} to {highest}")
    return number


def _bytes(found: Mapping[str, Any], name: str) -> bytes | None:
    text, coded = found.get(name), found.get(f"{name}_base64")
    if text is not None and coded is not None:
        raise ConfigError(f"{name} and {name}_base64: both say the bytes; keep one")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (ValueError, TypeError, binascii.Error):
            raise ConfigError(f"{name}_base64 is no base64") from None
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigError(f"{name} must be a text or null, not {json.dumps(text)[:40]}")
    return _utf8(text, name)


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what} has half a surrogate pair, which is no letter; write bytes as base64") from None
