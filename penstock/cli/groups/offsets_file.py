"""Reads the offsets of `reset-offsets --from-file`: a line `topic,partition,offset` for each partition.

The form is that of Kafka's tool for one group. A line of another form, or a partition that is named twice, is refused
with its number before anything is changed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TextIO

from penstock.errors import ConfigError
from penstock.types import TopicPartition
from penstock.written.numbers import INT32_MAX, INT64_MAX, parse_number

LINES_MAX = 1_000_000
LINE_LETTERS_MAX = 1_000
"""A topic's name has 249 at most."""
STANDARD_INPUT = "-"


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offsets of a file; ConfigError names the line that is wrong."""
    if path == STANDARD_INPUT:
        return parse_offsets(_lines(sys.stdin), "standard input")
    try:
        with open(path, encoding="utf-8") as file:
            return parse_offsets(_lines(file), path)
    except UnicodeDecodeError:
        raise ConfigError(f"--from-file {path}: the file is not UTF-8") from None


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file; of one that is too long only so much that this is seen."""
    return iter(lambda: file.readline(LINE_LETTERS_MAX + 1), "")


def parse_offsets(lines: Iterable[str], name: str) -> dict[TopicPartition, int]:
    """The offsets of these lines; empty lines count for nothing."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(islice(lines, LINES_MAX + 1), 1):
        if number > LINES_MAX:
            raise ConfigError(f"--from-file {name}: has more than {LINES_MAX} lines; give it in parts")
        if not line.strip():
            continue
        tp, offset = _parsed(line, f"--from-file {name}: line {number}")
        if tp in found:
            raise ConfigError(f"--from-file {name}: line {number}: {tp} is given twice")
        found[tp] = offset
    if not found:
        raise ConfigError(f"--from-file {name}: has no line; write topic,partition,offset, like orders,0,4711")
    return found


def _parsed(line: str, place: str) -> tuple[TopicPartition, int]:
    try:
        cells = next(csv.reader([line], strict=True)) if len(line) <= LINE_LETTERS_MAX else []
    except csv.Error:
        cells = []
    if len(cells) == 3:
        partition, offset = parse_number(cells[1].strip(), INT32_MAX), parse_number(cells[2].strip(), INT64_MAX)
        if cells[0].strip() and partition is not None and offset is not None:
            return TopicPartition(cells[0].strip(), partition), offset
    raise ConfigError(f"{place} must be topic,partition,offset, like orders,0,4711; it is {line.strip()[:80]!r}")
