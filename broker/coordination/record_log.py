"""A part of a coordinator's log, read. Not here: who reads it (loading.py), and how its records are decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

StateRecord = tuple[Any, Any | None]
"""The key and the value of a record, as classes of its topic; a value of None is a tombstone."""


@dataclass(slots=True)
class LogPart:
    """See the module."""

    next_offset: int
    """Where reading goes on: after the last whole batch."""
    records: list[StateRecord] = field(default_factory=list)
    read: int = 0
    """All records, also those that a later one has replaced."""
    unknown: int = 0
    """Records of types that are not known here."""
    transactional: int = 0
    """Records of transactional batches."""


ReadLog = Callable[[bytes, int], LogPart]
"""Reads the records at an offset and after, in these bytes. A partial last batch is left for the next time; one that is
damaged is a `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""
