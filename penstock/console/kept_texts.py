"""The newest texts of views that several browsers look at: made once, as long as the view is the same object.

A view is shared by those who ask for a page in the same moment (cluster_link.py), and to write it as HTML or JSON costs
more than to ask for it. Pure. Not here: for how long a view is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

KEPT_MAX: Final = 32
TEXT_LETTERS_MAX: Final = 64 * 1024
"""A longer text is not kept, and neither is its view: the page of a lone reader, such as one of many records."""


class KeptTexts:
    """Texts by their key, each with the view that it was made of."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: dict[object, tuple[object, str]] = {}

    def of(self, key: object, view: object, make: Callable[[], str]) -> str:
        """The text of this very view."""
        before = self._kept.pop(key, None)
        found = before if before is not None and before[0] is view else (view, make())
        if len(found[1]) <= TEXT_LETTERS_MAX:
            self._kept[key] = found
            if len(self._kept) > self._kept_max:
                del self._kept[next(iter(self._kept))]
        return found[1]

    def __repr__(self) -> str:
        return f"KeptTexts({len(self._kept)} of {self._kept_max})"
