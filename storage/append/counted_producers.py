"""The producers of one log as the node counts them: too many make room, silent ones are forgotten.

The bounds and the count are the node's (producer_ids.py). A producer that is forgotten does not come back if the append
under way fails. Not here: the producers (producer_state.py), and what is written of them (`producer_log.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from storage.append.producer_ids import ProducerIds
from storage.append.producer_state import KnownProducers


class CountedProducers:
    """The counted producers of one log, which keeps producers if `ids` is given."""

    __slots__ = ("_counted", "_ids", "_known", "_on_forgotten")

    def __init__(self, ids: ProducerIds | None, known: KnownProducers, on_forgotten: Callable[[], None]) -> None:
        """`on_forgotten`: some were, and a snapshot that was written does not know it."""
        self._ids, self._known, self._on_forgotten = ids, known, on_forgotten
        self._counted = 0

    def settle(self, known: KnownProducers) -> None:
        """Takes all loaded producers. Producers above the bounds are forgotten, and do not come back."""
        self._known = known
        self.recount()
        if self._ids is not None:
            self.keep_bounds(self._ids)
            known.begin_append()

    def keep_bounds(self, ids: ProducerIds) -> None:
        """Forgets the longest silent ones above the bound of the log, and above the node's those that are surely
        silent."""
        known, count = self._known, len(self._known)
        while len(known) > ids.config.max_per_partition and known.forget_oldest():
            pass
        self.recount()
        for _ in range(min(ids.above_bound, len(known))):
            if not ids.is_silent(known.surely_silent_since_ms):
                break
            known.forget_oldest()
        if len(known) < count:
            self._on_forgotten()
            ids.counts.evicted += count - len(known)
            self.recount()

    @property
    def silent_since_ms(self) -> int | None:
        return self._ids.silent_since_ms(self._known) if self._ids is not None else None

    def forget_oldest(self) -> None:
        """The producer that was silent longest: for good, as `forget` frees the memory of a log that is idle, too."""
        producer_id = self._known.longest_silent
        if producer_id is not None:
            self._known.forget((producer_id,))
        self._on_forgotten()
        self.recount()

    def forget_silent(self) -> None:
        """Forgets the producers that were silent for `producer.id.expiration.ms`, once this process has watched for
        that time. Above the bound of the node it also forgets producers that may make room: a start may have found more
        than the bound."""
        ids = self._ids
        if ids is None or not self._known:
            return
        until_ms = ids.expiry_ms()
        if until_ms is not None:
            silent = self._known.silent_before(until_ms - ids.config.expiration_ms)
            self._known.forget(silent)
            if silent:
                self._on_forgotten()
            ids.counts.expired += len(silent)
        self._known.count_as_appended(ids.clock.wall_ms())
        self.recount()
        for _ in range(min(ids.above_bound, len(self._known))):
            if not ids.is_silent(self._known.surely_silent_since_ms):
                break
            self.forget_oldest()
            ids.counts.evicted += 1

    def recount(self) -> None:
        """Tell the node how many there are now."""
        count = len(self._known)
        if count != self._counted and self._ids is not None:
            self._ids.add(self, count - self._counted)
            self._counted = count

    def close(self) -> None:
        if self._ids is not None:
            self._ids.remove(self, self._counted)
            self._counted = 0

    def __repr__(self) -> str:
        return f"CountedProducers({self._known!r})"
