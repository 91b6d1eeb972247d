"""Fetched bytes on their way to poll: the loop fills it, the caller of `poll` empties it; bounded in bytes.

A request is sent only while a quarter is free: asking for the last few kilobytes would make many small answers. The
taker that brings it below that mark calls `on_room`. Not here: which items still count (reader.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.client.consumer.fetching.effects import Deliver, ReportError
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads


@dataclass(slots=True, eq=False)
class FetchRefusal:
    """A broker refused a whole fetch: the next poll raises its error. No partition stops: the broker is asked again."""

    error: ApiError | None = None  # None when it is over: the broker has answered since, or is asked no more
    queued: bool = False  # it is in the buffer or at the reader; the loop sets this, the user's thread clears it

    def take(self) -> ApiError | None:
        """The error to raise now, if any; from now on the refusal may be queued again."""
        self.queued, error = False, self.error
        return error.with_traceback(None) if error is not None else None


Item = Deliver | ReportError | FetchRefusal

FREE_SHARE = 4
"""One part in FREE_SHARE must be free before more is asked for."""


class FetchBuffer:
    """A queue of answers. The taker calls `on_room` when there is room again; the caller of `put` wakes takers."""

    def __init__(self, limit_bytes: int, threads: Threads, on_room: Callable[[], object]) -> None:
        self.limit_bytes = limit_bytes
        self._on_room = on_room
        self._items: deque[Item] = deque()
        self._used = 0
        self._lock = threads.lock()

    def put(self, item: Item) -> None:
        with self._lock:
            self._items.append(item)
            self._used += _size(item)

    def take(self) -> Item | None:
        """The oldest item, or None."""
        with self._lock:
            if not self._items:
                return None
            item = self._items.popleft()
            was_full = self.is_full
            self._used -= _size(item)
            has_room = was_full and not self.is_full
        if has_room:
            self._on_room()
        return item

    def wake_fetcher(self) -> None:
        """The taker wants more of something, whether there was room or not."""
        self._on_room()

    @property
    def is_full(self) -> bool:
        """True if there is too little room to ask for more."""
        return self._used * FREE_SHARE > self.limit_bytes * (FREE_SHARE - 1)

    @property
    def room_bytes(self) -> int:
        return self.limit_bytes - self._used

    @property
    def used_bytes(self) -> int:
        return self._used

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"FetchBuffer({len(self._items)} answers, {self._used} of {self.limit_bytes} bytes)"


def _size(item: Item) -> int:
    return len(item.records) if isinstance(item, Deliver) else 0
