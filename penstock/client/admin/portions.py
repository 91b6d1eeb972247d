"""Divides what an operator asks of many partitions into requests that the controller decides quickly, one by one.

The controller does nothing else while it decides: 10,000 partitions in one request would hold it for a second. So a
request names PARTITIONS_MAX at most, and the next one is sent when it was answered. Their answers become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from penstock.errors import PenstockError

T = TypeVar("T")
PARTITIONS_MAX = 1_000
"""The controller decides about this many in 0.1 s. A broker takes larger requests, because clients of older releases
send them."""
REPLICAS_MAX = 10_000
"""A broker takes no more in one request (docs/request-limits.md)."""


def portions(items: Iterable[T], replicas: Callable[[T], int] = lambda item: 0) -> Iterator[list[T]]:
    """The items in their order, in lists that a request may have; `replicas` says how many an item names."""
    portion: list[T] = []
    named = 0
    for item in items:
        if len(portion) == PARTITIONS_MAX or (portion and named + replicas(item) > REPLICAS_MAX):
            yield portion
            portion, named = [], 0
        portion.append(item)
        named += replicas(item)
    if portion:
        yield portion


@contextmanager
def after_others(done: int, total: int) -> Iterator[None]:
    """Guards a request that is not the first: its error says what the requests before it have done."""
    try:
        yield
    except PenstockError as error:
        if done:
            error.add_note(f"the requests before this one, for {done} of {total} partitions, were answered")
        raise
