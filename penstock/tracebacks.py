"""Frees what an error would keep alive."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
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
