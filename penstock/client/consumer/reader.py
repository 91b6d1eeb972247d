"""Hands fetched pieces over to the user: the half of reading that runs in the user's thread.

`poll`, `poll_arrow` and raw ranges take pieces here, in order. A turn counts only when it ends well: then
positions move. If it fails on the way, everything is the next again. An error of one partition is raised only by a turn
that has nothing to give, so what is good always comes first; the position stays at the error until the user seeks.
The refusal of a whole fetch is raised in the same order, once each time that the broker refuses, and moves no position.
Not here: fetching (fetcher.py), decoding (decode.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from penstock.client.consumer.decode import Decoder, decode_good
from penstock.client.consumer.fetching.effects import Deliver, ReportError
from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer, FetchRefusal, Item
from penstock.client.consumer.fetching.partition_state import GenerationOffset, PartitionState, ReadFailure
from penstock.client.consumer.fetching.positions import Positions
from penstock.errors import UndecodableBatchError
from penstock.types import TopicPartition

C = TypeVar("C")
Piece = Deliver | ReportError


class Reader:
    """Takes pieces out of the buffer and moves positions. One thread at a time."""

    def __init__(self, positions: Positions, buffer: FetchBuffer, *, keeps_places: bool = False) -> None:
        """`keeps_places`: each partition's place before the last turn is kept, for who commits."""
        self._keeps_places = keeps_places
        self._positions = positions
        self._buffer = buffer
        self._held: dict[TopicPartition, deque[Piece]] = {}  # of partitions that are or were paused, in order
        self._resumed: dict[TopicPartition, None] = {}  # of those in `_held`: the ones that are not paused any more
        self._set_aside: list[Piece] = []  # what this turn has put there
        self._front: deque[Item] = deque()  # what was taken out of the buffer and given back; comes before the rest
        self._drawn: list[Item] = []  # what this turn has taken out of the buffer
        self._moves: list[tuple[Deliver, int]] = []
        self._failures: list[tuple[PartitionState, ReadFailure]] = []
        self._refusals: list[FetchRefusal] = []
        self._given: list[PartitionState] = []  # the last turn gave something of these
        self._unraised: deque[tuple[PartitionState, ReadFailure] | FetchRefusal] = deque()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The context of one poll: the pieces that it took are handed over at the end, or are next again if it
        fails."""
        while self._given:  # the user is done with what the last turn gave
            self._given.pop().read_before = None
        self.raise_new()
        before = tuple(self._front)
        try:
            yield
        except BaseException:
            self._front = deque((*before, *self._drawn))
            for piece in self._set_aside:
                self._held[piece.topic_partition].pop()
            for state, _ in self._failures:
                state.failed = None
            self._forget_turn()
            raise
        finally:
            self._drawn.clear()
            self._set_aside.clear()
        self._hand_over()

    def _hand_over(self) -> None:
        for piece, next_offset in self._moves:
            state = self._positions.states.get(piece.topic_partition)
            if state is not None:  # should the loop have begun a newer generation, this place is void
                epoch = piece.origin.epoch_at(next_offset - 1)
                if self._keeps_places and state.read_before is None:
                    state.read_before = state.read
                    self._given.append(state)
                state.read = GenerationOffset(piece.generation, next_offset, epoch)
        self._unraised += self._failures
        self._unraised += self._refusals
        self._forget_turn()

    def _forget_turn(self) -> None:
        self._moves.clear()
        self._failures.clear()
        self._refusals.clear()

    # -- within a turn -------------------------------------------------------------------------------------------------

    def next_piece(self) -> Deliver | None:
        """The next piece that still counts; None if no such piece is ready."""
        while (found := self._draw()) is not None:
            if isinstance(found, FetchRefusal):
                self._refusals.append(found)
                continue
            state = self._current(found.topic_partition, found.generation)
            if state is None:
                continue
            if state.paused:
                self._held.setdefault(found.topic_partition, deque()).append(found)
                self._set_aside.append(found)
                state.is_held = True
                continue
            if isinstance(found, Deliver):
                return found
            state.failed = ReadFailure(found.generation, found.error)
            self._failures.append((state, state.failed))
        return None

    def _draw(self) -> Item | None:
        if self._front:
            return self._front.popleft()
        found = self._take_held() if self._resumed else self._buffer.take()
        if found is not None:
            self._drawn.append(found)
        return found

    def _current(self, tp: TopicPartition, generation: int) -> PartitionState | None:
        """The state of a partition, if a piece of this generation still counts; None for a piece from before a seek, or
        behind an error."""
        state = self._positions.states.get(tp)
        return state if state is not None and state.generation == generation and state.failure is None else None

    def _take_held(self) -> Item | None:
        """The oldest piece of a partition that was resumed; nothing more of it is fetched before it has none."""
        tp = next(iter(self._resumed))
        pieces = self._held[tp]
        found = pieces.popleft()
        if not pieces:
            del self._held[tp], self._resumed[tp]
            if (state := self._positions.states.get(tp)) is not None:
                state.is_held = False
            self._buffer.wake_fetcher()
        return found

    def pause(self, state: PartitionState) -> None:
        """Holds back, in order, what was taken out of the buffer for the partition."""
        tp = state.topic_partition
        state.paused = True
        self._resumed.pop(tp, None)
        mine = [item for item in self._front if not isinstance(item, FetchRefusal) and item.topic_partition == tp]
        if mine:
            self._front = deque(
                item for item in self._front if isinstance(item, FetchRefusal) or item.topic_partition != tp
            )
            self._held[tp] = deque((*mine, *self._held.get(tp, ())))
            state.is_held = True
        for gone in [known for known in self._held if known not in self._positions.states]:
            del self._held[gone]
            self._resumed.pop(gone, None)

    def resume(self, state: PartitionState) -> None:
        """Hands over next what is held of the partition."""
        state.paused = False
        if state.topic_partition in self._held:
            self._resumed[state.topic_partition] = None

    def decode(self, piece: Deliver, decoder: Decoder[C]) -> tuple[C, Deliver]:
        """The records of a piece up to the first damage, and the part that holds them; the rest is the next piece."""
        columns, next_offset, size_bytes, bad = decode_good(
            piece.records, piece.from_offset, piece.next_offset, decoder
        )
        if size_bytes == len(piece.records):
            return columns, piece
        if bad is not None:
            error = UndecodableBatchError(piece.topic_partition, (bad.offset, bad.next_offset), bad.why)
            error.__cause__ = bad.cause
            self._front.appendleft(ReportError(piece.topic_partition, piece.generation, error))
        else:
            self._front.appendleft(replace(piece, records=piece.records[size_bytes:], from_offset=next_offset))
        return columns, replace(piece, records=piece.records[:size_bytes], next_offset=next_offset)

    def give(self, piece: Deliver) -> None:
        """This turn gives the user the whole piece."""
        self._moves.append((piece, piece.next_offset))

    def give_part(self, piece: Deliver, next_offset: int) -> Deliver:
        """This turn gives the user what is before `next_offset`; the rest, which is returned, is next."""
        rest = replace(piece, from_offset=next_offset)
        self._moves.append((piece, next_offset))
        self._front.appendleft(rest)
        return rest

    # -- errors --------------------------------------------------------------------------------------------------------

    def raise_new(self) -> None:
        """Raises the oldest error that was not raised yet."""
        while self._unraised:
            oldest = self._unraised.popleft()
            if isinstance(oldest, FetchRefusal):
                if (refused := oldest.take()) is not None:
                    raise refused
                continue
            state, failed = oldest
            if self._positions.states.get(state.topic_partition) is state and state.failure is failed.error:
                raise failed.error.with_traceback(None)

    def raise_waiting(self) -> None:
        """Raises the error of a partition that waits for a seek, whether it was raised before or not."""
        self.raise_new()
        for state in self._positions.states.values():
            if state.failure is not None and not state.paused:
                raise state.failure.with_traceback(None)
