"""The options of a processor: their names, defaults and limits. Both faces, plain and async, take the same.

Not here: what each does (verdicts.py, processing_core.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, TypedDict

from penstock.client.cluster.arguments import checked_number, checked_topic
from penstock.lazy_dataclass import dataclass

DATA_ERRORS: Final[tuple[type[Exception], ...]] = (ValueError, LookupError, ArithmeticError)
"""Errors of reading and computing with what a record holds: no JSON, no UTF-8, a field that is missing, a zero."""
WAIT_MS_MAX: Final = 24 * 60 * 60 * 1_000


class ProcessingOptions(TypedDict, total=False):
    """Options of `process`, `async_process` and their processors."""

    batch_records: int | None
    """the most records that one transaction takes; None: what a poll gives"""
    dead_letters: str | None
    """the topic for records whose handler raises an error of `dead_letter_errors`; None: such an error ends the call"""
    dead_letter_errors: tuple[type[Exception], ...]
    """errors that are the record's fault: trying again does not help"""
    retries: int
    """how often a record is tried again after an error that nobody has classified; then the error ends the call"""
    backoff_ms: int
    """the wait before the first retry of a record; each further one waits twice as long"""
    backoff_max_ms: int
    """the longest wait between two retries"""
    delay_ms: int
    """a record is processed no sooner than this many ms after its timestamp: for topics of records that wait"""


@dataclass(frozen=True, slots=True)
class ProcessingConfig:
    """The options with their defaults, checked."""

    batch_records: int | None = None
    dead_letters: str | None = None
    dead_letter_errors: tuple[type[Exception], ...] = DATA_ERRORS
    retries: int = 9
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    delay_ms: int = 0

    def __post_init__(self) -> None:
        if self.batch_records is not None:
            checked_number("batch_records", self.batch_records, 1)
        if self.dead_letters is not None:
            checked_topic(self.dead_letters)
        checked_number("retries", self.retries, 0)
        checked_number("backoff_ms", self.backoff_ms, 0, WAIT_MS_MAX)
        checked_number("backoff_max_ms", self.backoff_max_ms, 0, WAIT_MS_MAX)
        checked_number("delay_ms", self.delay_ms, 0)
        given: Any = self.dead_letter_errors
        if not isinstance(given, tuple) or not all(isinstance(e, type) and issubclass(e, Exception) for e in given):
            raise TypeError(
                f"dead_letter_errors={given!r} must be a tuple of exception classes: (ValueError, BadOrder)"
            )


def processing_config(options: Mapping[str, Any]) -> ProcessingConfig:
    """The checked options; TypeError for a name that is no option."""
    names = list(ProcessingOptions.__annotations__)
    for name in options:
        if name not in names:
            near = get_close_matches(name, names, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise TypeError(f"process has no option {name}; {meant}")
    return ProcessingConfig(**options)
