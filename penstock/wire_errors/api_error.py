"""The base of errors that have a wire code, and the table of them by code.

A class of errors enters the table by being defined (penstock/errors.py). Users import the names from penstock.errors.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from penstock.base_error import InvariantViolation, PenstockError
from penstock.types import LeaderHint

UNKNOWN: Final = -1
"""The code of an error that nobody expected; a peer's code that this version does not know is read as it."""

RECORD_ERRORS_MAX = 500
"""The most records that a refusal names. Records sent again without them are checked again."""


class RecordError(NamedTuple):
    """A record because of which its batch was refused: its place there, from 0, and why (KIP-467)."""

    batch_index: int
    message: str


class ApiError(PenstockError):
    """An error that has a wire code. Subclasses are the wire error table; do not raise this class itself.

    Attributes: `code`, `retriable` and `nothing_written` of the class; `leader`, if another node would have answered;
    `log_start_offset` and `log_end_offset` (the readable bound) if a position was out of range, -1 otherwise;
    `record_errors`, if some records are the reason why nothing of their batch was written; `is_told`, if it came over
    the wire, and is not the client's own word for an answer that did not come.
    """

    __module__ = "penstock.errors"

    record_errors: tuple[RecordError, ...] = ()
    is_told = False

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    kafka_name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"

    def __init_subclass__(cls, *, code: int, name: str, retriable: bool = False, nothing_written: bool = False) -> None:
        super().__init_subclass__()
        if code in ERRORS:
            raise InvariantViolation(f"error code {code} is defined twice")
        cls.code, cls.kafka_name, cls.retriable, cls.nothing_written = code, name, retriable, nothing_written
        ERRORS[code] = cls
        if cls.__module__.startswith("penstock.wire_errors."):
            cls.__module__ = ApiError.__module__  # a traceback names it as users import it

    def __init__(
        self,
        message: str = "",
        *,
        leader: LeaderHint | None = None,
        log_start_offset: int = -1,
        log_end_offset: int = -1,
    ) -> None:
        super().__init__(message or (self.__doc__ or self.kafka_name).strip())
        self.leader = leader
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset

    @property
    def message(self) -> str:
        return str(self)


ERRORS: dict[int, type[ApiError]] = {}
"""The wire error table: code to class. Code 0 is 'no error' and has no class."""


def error_for(code: int, message: str = "", *, nothing_written: bool = False, **details: object) -> ApiError:
    """The exception for a wire code; a code that this version does not know becomes `UnknownServerError`."""
    if (cls := ERRORS.get(code)) is None:
        cls, message = ERRORS[UNKNOWN], f"error code {code}, which this version does not know: {message}"
    error = cls(message, **details)  # type: ignore[arg-type]
    error.nothing_written |= nothing_written
    error.is_told = True
    return error
