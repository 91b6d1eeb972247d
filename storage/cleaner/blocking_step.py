"""Lets a generator on the loop have its blocking work done in another thread, without knowing of loops or threads.

The generator does `result = yield from in_thread(work)`. Its driver calls each yielded object, in any thread, before it
asks for the next. The call never raises: an error of `work` is raised in the generator, which so handles all its errors
in one place. Threads, executors and cancellation belong to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from penstock.errors import InvariantViolation

T = TypeVar("T")
Steps = Generator[Callable[[], None], None, T]
"""A generator of blocking work with a result."""


class BlockingStep(Generic[T]):
    """Work that is done by calling it, once."""

    __slots__ = ("_error", "_result", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: list[T] = []
        self._error: Exception | None = None

    def __call__(self) -> None:
        try:
            self._result.append(self._work())
        except Exception as error:
            self._error = error

    def result(self) -> T:
        """Returns the result of the work, or raises its error."""
        if self._error is not None:
            raise self._error
        if not self._result:
            raise InvariantViolation(f"{self!r} was not run before the next step was asked for")
        return self._result[0]

    def __repr__(self) -> str:
        return f"BlockingStep({self._work!r})"


def in_thread(work: Callable[[], T]) -> Steps[T]:
    """Has the work done by the driver."""
    step = BlockingStep(work)
    yield step
    return step.result()
