r"""A format string like '%t/%p@%o %k=%s\n' becomes a function that prints a record: the letters of kcat.

%t topic, %p partition, %o offset, %T timestamp in ms, %k key, %K its length, %s value, %S its length (-1: null),
%h headers as name=value with commas, %% a percent sign; and \n \t \r \0 \\ \xHH. Nothing is added: a format without \n
prints records without a line end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from penstock.errors import ConfigError

RecordPrinter = Callable[[Any], bytes]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
TOKEN = re.compile(r"%(?P<field>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL)


def compile_format(text: str, null_marker: bytes) -> RecordPrinter:
    """The function of a format; ConfigError for a letter that means nothing."""
    fields = _fields(null_marker)
    parts = [_part(token, text, fields) for token in TOKEN.finditer(text)]
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def header_text(record: Any, null_marker: bytes) -> bytes:
    """name=value,name=value."""
    pairs = [(name.encode(), null_marker if value is None else value) for name, value in record.headers]
    return b",".join(b"=".join(pair) for pair in pairs)


def _part(token: re.Match[str], text: str, fields: dict[str, RecordPrinter]) -> bytes | RecordPrinter:
    if token["text"] is not None:
        return os.fsencode(token["text"])
    if token["hex"] is not None:
        return bytes.fromhex(token["hex"])
    known: dict[str, Any] = {"%": b"%", **fields} if token["field"] is not None else ESCAPES
    letter = token["field"] if token["field"] is not None else token["escape"]
    if letter not in known:
        words = ", ".join(f"{token[0][0]}{letter}" for letter in known)
        raise ConfigError(f"--format {text!r}: {token[0]!r} means nothing; there are {words}")
    part: bytes | RecordPrinter = known[letter]
    return part


def _fields(null_marker: bytes) -> dict[str, RecordPrinter]:
    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "k": lambda record: null_marker if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "s": lambda record: null_marker if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "h": lambda record: header_text(record, null_marker),
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
