"""A command for several things: each is changed by itself, one after the other, in the order of the command line.

At the first that is refused the command ends, and its error says which were done before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError


@contextmanager
def telling_what_was_done() -> Iterator[list[str]]:
    """Adds to an error the things that are in the list by then."""
    done: list[str] = []
    try:
        yield done
    except PenstockError as error:
        if done:
            error.add_note(f"before that: {', '.join(done)}")
        raise


def only_or_all(shown: Sequence[dict[str, Any]]) -> object:
    """The JSON of a command: one thing is an object, and several are a list of them."""
    return shown[0] if len(shown) == 1 else list(shown)
