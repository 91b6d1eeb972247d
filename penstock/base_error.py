"""The base of all errors, how one is passed on to another process or kept, and the error of a caught bug.

An error that is raised in a worker (multiprocessing, concurrent.futures, joblib, Spark) is pickled there and must come
out as it was, with its fields and notes. Python's own way calls the constructor with the text alone, so an error is
made anew without its constructor. `copy` and `deepcopy` take the same way. Users import them from penstock.errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

E = TypeVar("E", bound="PenstockError")
Kept = TypeVar("Kept", bound=BaseException)


class PenstockError(Exception):
    """The base of every error raised here; its text names the key, file, topic or limit, and the remedy."""

    __module__ = "penstock.errors"

    nothing_written: bool = False
    """True guarantees that the refused produce request wrote none of the partition's records. Without it they may be in
    the log, and sending them again may make duplicates. Code that knows more than the class sets it on one error. A
    producer's error has it only if it holds for every attempt to send the record."""

    def __reduce__(self) -> tuple[Callable[..., PenstockError], tuple[Any, ...]]:
        return _made_anew, (type(self), self.args, self.__dict__)


def _made_anew(cls: type[E], args: tuple[Any, ...], fields: dict[str, Any]) -> E:
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class InvariantViolation(PenstockError):
    """A bug that would lose or reorder data was caught before it did. Never retried, never swallowed."""

    __module__ = "penstock.errors"


def without_frames(error: Kept) -> Kept:
    """The error without tracebacks, its own and those of its causes; for an error that is kept in an answer or a batch.

    A traceback holds the frames that the error passed, with the records in their variables. If a frame leads back to
    the error, only Python's cycle collector frees them, and that counts objects, not megabytes.
    """
    passed: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        one = left.pop()
        if id(one) not in passed:
            passed.add(id(one))
            one.__traceback__ = None
            left += [source for source in (one.__cause__, one.__context__) if source is not None]
    return error
