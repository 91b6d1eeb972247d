"""Reads a node's configuration file: TOML with Kafka's dotted names, flattened to name → value.

Every way in which the file itself can be wrong (missing, a directory, unreadable, not UTF-8, not TOML, a key twice)
becomes one ConfigError of one line. config.py reads the values of the keys.

Kafka has both `max.connections` and `max.connections.per.ip`; in TOML the first would be a value and a table at once.
So a bare dotted key is read as one quoted name, and tables (`[log]`, then `segment.bytes = 1`) are joined by dots.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import ConfigError

FILE_BYTES_MAX = 1024 * 1024
"""A configuration is a page of text; a larger file is a wrong path."""

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BARE_KEY = re.compile(r"^([ \t]*)([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)([ \t]*=)", re.MULTILINE)
_PROPERTY = re.compile(r"^[ \t]*[a-z][a-z0-9._]*[ \t]*=[ \t]*[A-Za-z/][^\"'\[]*$", re.MULTILINE)
"""A line like log.dirs=/tmp/kafka-logs, of a properties file; `true` and `false` are read as TOML."""
_TOML_TEXT = re.compile(r"=[ \t]*[\"'\[]")
_LINE = re.compile(r"at line (\d+)")


def read_config_file(path: str) -> bytes:
    """The content of the file; ConfigError if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: OSError) -> ConfigError:
    """The error that says why the file cannot be read, and what to do."""
    if isinstance(error, FileNotFoundError):
        return ConfigError(f"{path}: no such configuration file; give an existing one with --config")
    if isinstance(error, IsADirectoryError):
        return ConfigError(f"{path}: is a directory; give the configuration file itself with --config")
    return ConfigError(f"{path}: cannot be read ({error.strerror}); check its owner and mode")


def config_values(path: str, data: bytes) -> dict[str, object]:
    """The flat names and values of a file with these bytes; ConfigError names what is wrong with it."""
    text = _text(path, data)
    try:
        tables = tomllib.loads(_BARE_KEY.sub(r'\1"\2"\3', text))
    except ValueError as error:  # TOMLDecodeError, or a number with more digits than Python reads
        raise ConfigError(_toml_message(path, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: arrays or tables in each other; remove the brackets") from None
    values: dict[str, object] = {}
    for name, value in _flatten("", tables):
        if name in values:
            raise ConfigError(f"{path}: duplicate key {name}; keep one of the two")
        values[name] = value
    return values


def _text(path: str, data: bytes) -> str:
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: larger than {FILE_BYTES_MAX} bytes; this is no configuration file")
    if data.startswith(_UTF16_MARKS):
        raise ConfigError(f"{path}: is UTF-16, as PowerShell and Notepad may write it; save the file as UTF-8")
    try:
        return data.decode("utf-8-sig")  # a byte order mark, which some editors of Windows write, says nothing more
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None


def _flatten(prefix: str, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _toml_message(path: str, text: str, why: str) -> str:
    """tomllib's message, or a better one if a key is in the file twice."""
    found = _LINE.search(why)
    line = int(found.group(1)) if found else 0
    lines = text.splitlines()
    if "Cannot overwrite a value" in why and 0 < line <= len(lines):
        key = lines[line - 1].split("=")[0].strip()
        return f"{path}: duplicate key {key} in line {line}; keep one of the two"
    if _PROPERTY.search(text) and not _TOML_TEXT.search(text):
        return (
            f"{path}: is in the form of Kafka's server.properties; this file is TOML, with Kafka's names. Write texts"
            ' in quotes and lists in brackets, like listeners = ["BROKER://0.0.0.0:9192"]; docs/configuration.md has'
            " all keys"
        )
    return f"{path}: not valid TOML: {why}; a key is written like log.segment.bytes = 1073741824"
