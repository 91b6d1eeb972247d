"""PartitionSequences: the order of one partition's batches under an idempotent producer (KIP-98, KIP-360).

Each batch has a place: its records' sequence numbers under a producer id and an epoch. A broker takes a batch only
behind the one before it, and knows the five newest again. So a batch whose answer was lost is sent again without being
written again, and several batches may be with the broker at a time.

- A new batch is sent behind the others as long as all of them are with the broker. If one has to be sent again, only
  the oldest goes out until all of them are resolved. Batches count against the five until all before them are
  resolved, acked or not: the broker has to know the oldest one again.
- The epoch is over if the oldest batch does not follow what the log has: the log has lost something, or a batch before
  it has failed and was not written. Batches before that gap may be written, so they are resolved first, under their own
  epoch. Once nothing is with the broker, the unresolved batches begin the next epoch at sequence 0. The first of them
  that is written shuts out every late copy of the old epoch.
- A batch that may have been written under an epoch that is over may be written again; `doubts` counts that.

A transactional producer's epochs are its coordinator's: a partition begins at sequence 0 with each transaction, and
nothing in a transaction begins another epoch, because a part that failed has ended the whole.

Brokers compare epochs within a partition only, so each partition counts its own. A partition that was forgotten because
nothing was sent to it for long begins again above every epoch of a forgotten one: its sequence is not known any more.
Pure. Not here: which broker, and when (dispatcher.py); where producer ids come from (cluster/producer_ids.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from penstock.errors import (
    InvalidProducerEpochError,
    InvariantViolation,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from penstock.types import PRODUCER_EPOCH_MAX, ProducerIdAndEpoch

IN_FLIGHT_MAX = 5
"""How many batches of one producer a broker remembers, to recognize duplicates; no more may be unresolved."""
EPOCH_MAX = PRODUCER_EPOCH_MAX
SEQUENCES = 2**31
"""The count of sequence numbers: 2^31 - 1 is followed by 0."""

SequenceError = OutOfOrderSequenceError | UnknownProducerIdError | InvalidProducerEpochError
"""Nothing was written, and what follows depends on the batch's place."""


class Refusal(Enum):
    """The next step of a batch whose sequence was refused."""

    WAITS = "for an older batch: this attempt was sent behind it, so the refusal tells nothing"
    DOUBTED = "asks whoever leads now: it may be written, and a leader that is none any more would not know"
    BEGINS_EPOCH = "with all that is unresolved"


class SequencePlace:
    """The state of one batch that was sent at least once."""

    __slots__ = (
        "as_oldest",
        "doubts",
        "epochs_over",
        "in_flight",
        "is_resolved",
        "leaves_gap",
        "may_be_written",
        "record_count",
        "sequence",
        "was_refused",
    )

    def __init__(self, record_count: int, sequence: int) -> None:
        self.record_count = record_count
        self.sequence = sequence
        self.in_flight = False
        self.as_oldest = False  # nothing unresolved was before it when it was sent the last time
        self.may_be_written = False  # by an attempt under the present epoch whose outcome is unknown, or that is acked
        self.is_resolved = False  # acked, or failed for good
        self.leaves_gap = False  # it will not be written as it is: in this epoch nothing behind it can be
        self.was_refused = False  # since the last attempt whose outcome is unknown
        self.epochs_over = 0  # epochs under which it was sent in vain
        self.doubts = 0  # those of them under which it may have been written

    def __repr__(self) -> str:
        return f"SequencePlace({self.sequence}, records={self.record_count}, in_flight={self.in_flight})"


class PartitionSequences:
    """Decides which batch may be sent, under which sequence; used by the sender's thread."""

    __slots__ = (
        "_identity",
        "_is_over",
        "_needs_other_id",
        "_next",
        "_used_epochs",
        "_window",
        "in_flight_max",
        "is_transactional",
    )

    def __init__(
        self,
        in_flight_max: int = IN_FLIGHT_MAX,
        used_epochs: Mapping[int, int] | None = None,
        *,
        is_transactional: bool = False,
    ) -> None:
        """`used_epochs`: by producer id, what no partition that begins anew may use again, nor anything below."""
        self.is_transactional = is_transactional
        self._used_epochs = {} if used_epochs is None else used_epochs
        self.in_flight_max = min(in_flight_max, IN_FLIGHT_MAX)
        self._identity: ProducerIdAndEpoch | None = None
        self._next = 0
        self._window: list[SequencePlace] = []  # from the oldest unresolved one on, in the order of the partition
        self._is_over = False  # the epoch: nothing more is sent under it
        self._needs_other_id = False

    @property
    def identity(self) -> ProducerIdAndEpoch | None:
        """The present one; None before the first batch."""
        return self._identity

    # -- sending -------------------------------------------------------------------------------------------------------

    def settle(self, newest: ProducerIdAndEpoch | None) -> bool:
        """Begins an epoch where one is due and nothing is with the broker. False: that needs another producer id than
        `newest`, which is the last one that this producer has got."""
        if any(place.in_flight for place in self._window):
            return True
        if self._identity is not None and not self._is_over and (not self.is_transactional or self._identity == newest):
            return True
        following = self._following(newest)
        if following is None:
            return False
        self._begin(following)
        return True

    def _following(self, newest: ProducerIdAndEpoch | None) -> ProducerIdAndEpoch | None:
        now = self._identity
        if self.is_transactional:
            return newest if newest != now else None
        if now is not None and not self._needs_other_id and now.epoch < EPOCH_MAX:
            return ProducerIdAndEpoch(now.producer_id, now.epoch + 1)
        if newest is not None and now is not None and newest.producer_id == now.producer_id:
            return None
        used = self._used_epochs.get(newest.producer_id) if newest is not None else None
        if newest is None or used is None or used < newest.epoch:
            return newest
        return ProducerIdAndEpoch(newest.producer_id, used + 1) if used < EPOCH_MAX else None

    def _begin(self, identity: ProducerIdAndEpoch) -> None:
        self._identity, self._is_over, self._needs_other_id, self._next = identity, False, False, 0
        window, self._window = self._window, []
        is_doubtful = True
        for place in window:
            is_doubtful = is_doubtful and place.may_be_written  # it is in the log only if all before it are
            if not place.is_resolved:
                place.doubts += is_doubtful
                place.epochs_over += 1
                place.may_be_written = place.leaves_gap = False
                place.sequence = self._take(place.record_count)
                self._window.append(place)

    def _take(self, record_count: int) -> int:
        sequence, self._next = self._next, (self._next + record_count) % SEQUENCES
        return sequence

    def may_send(self, place: SequencePlace | None) -> bool:
        """True if the batch may go to the broker now; None: a batch that was not sent yet."""
        if self._is_over or self._identity is None:
            return False
        if place is not None:
            return place is self._window[0]
        if any(p.leaves_gap for p in self._window):
            return False
        return len(self._window) < self.in_flight_max and all(p.in_flight or p.is_resolved for p in self._window)

    def on_sent(self, place: SequencePlace | None, record_count: int) -> tuple[ProducerIdAndEpoch, SequencePlace]:
        """The batch is with the broker from now on: under which identity, and its place."""
        if self._identity is None or not self.may_send(place):
            raise InvariantViolation(f"{self!r}: {place!r} is sent out of turn")
        if place is None:
            place = SequencePlace(record_count, self._take(record_count))
            self._window.append(place)
        place.in_flight = True
        place.as_oldest = place is self._window[0]
        return self._identity, place

    # -- what became of it ---------------------------------------------------------------------------------------------

    def on_acked(self, place: SequencePlace) -> None:
        """The batch at this place is in the log."""
        place.may_be_written = True
        self._resolve(place)

    def on_back(self, place: SequencePlace, *, is_unknown: bool) -> None:
        """The batch at this place is not with the broker any more; `is_unknown`: it may have been written."""
        place.in_flight = False
        place.may_be_written |= is_unknown
        place.was_refused &= not is_unknown

    def on_refused(self, place: SequencePlace, error: SequenceError) -> Refusal:
        """The batch does not follow what the log has, says a broker; it has not written it."""
        if isinstance(error, InvalidProducerEpochError):
            self._is_over = self._needs_other_id = True  # another producer has this id
        elif not place.as_oldest:
            return Refusal.WAITS
        elif place.may_be_written and not place.was_refused:
            place.was_refused = True
            return Refusal.DOUBTED
        else:
            self._is_over = True
        return Refusal.BEGINS_EPOCH

    def on_failed(self, place: SequencePlace) -> None:
        """The batch will not be sent again. Unless it was written, no later batch of this epoch can follow its gap. If
        that is unknown, the answer to the next batch tells."""
        place.leaves_gap |= not place.may_be_written
        self._resolve(place)

    def _resolve(self, place: SequencePlace) -> None:
        place.in_flight, place.is_resolved = False, True
        self._note_gap()
        while self._window and self._window[0].is_resolved:
            del self._window[0]
            self._note_gap()

    def _note_gap(self) -> None:
        """The epoch is over AFTER all before the gap is resolved: under another one it would be written again."""
        self._is_over |= bool(self._window) and self._window[0].leaves_gap

    def split(self, place: SequencePlace, record_counts: Sequence[int]) -> list[SequencePlace]:
        """The places of a batch's parts: they keep its sequence numbers."""
        parts, sequence = [], place.sequence
        for count in record_counts:
            part = SequencePlace(count, sequence)
            part.may_be_written, part.doubts, part.epochs_over = place.may_be_written, place.doubts, place.epochs_over
            parts.append(part)
            sequence = (sequence + count) % SEQUENCES
        at = self._window.index(place)
        self._window[at : at + 1] = parts
        return parts

    def shrink(self, place: SequencePlace, record_count: int) -> SequencePlace:
        """The place of a batch that was refused and goes on with fewer records. The batches sent behind it do not
        follow them, so the epoch is over as soon as this is the oldest."""
        (shrunk,) = self.split(place, [record_count])
        shrunk.leaves_gap = True
        self._note_gap()
        return shrunk

    def is_before(self, one: SequencePlace, other: SequencePlace) -> bool:
        """True if `one` is before `other` in the order of the partition. Both must be unresolved."""
        return self._window.index(one) < self._window.index(other)

    def __repr__(self) -> str:
        return f"PartitionSequences({self._identity}, next={self._next}, window={len(self._window)})"
