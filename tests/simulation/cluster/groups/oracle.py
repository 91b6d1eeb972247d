"""Finds what cannot be true of all that the members of one group were told (I61 to I64).

    I61  no partition has two owners: as their own acknowledged assignments say, none in one epoch, and none that is
         taken from a member which the coordinator still takes for one that has it
    I62  a committed offset is one that was committed, and never an older one than before
    I63  what is committed has been processed: everything below it, by somebody
    I64  a group that nobody disturbs is stable soon: every partition of its topics has one owner, and shares are even

A *life* is one member from its joining on; a static member's next life has the same identity. Places are partitions of
topic ids: a topic that is made anew is another one. The oracle hears of a taken partition BEFORE its owner reads it,
and of one that is given up BEFORE the coordinator hears of that. Not here: members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HEARD_SECONDS = 2.5
"""A session. If no member was heard of for so long, the group may be forgotten, and its epochs begin anew."""


class Spot(NamedTuple):
    """A partition of a topic id."""

    topic_id: str
    partition: int


@dataclass(slots=True, eq=False)
class Life:
    """One member as the oracle knows it. `identity`: its instance id, or its own name."""

    name: str
    identity: str
    epoch: int = -1
    held: set[Spot] = field(default_factory=set)
    taken: dict[Spot, tuple[float, str]] = field(default_factory=dict)
    """Partitions that another took while they were its own: when, and who."""
    heard_s: float = 0.0
    """When it was last told something as a member."""
    is_gone: bool = False
    """It knows that it is a member no more."""

    def __repr__(self) -> str:
        return f"Life({self.name})"


@dataclass(slots=True)
class _Committed:
    """By time: the newest offset that was acknowledged until then. `sent`: every offset that may have been written."""

    acked_s: list[float] = field(default_factory=list)
    newest: list[int] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)

    def before(self, at_s: float) -> int:
        place = bisect_left(self.acked_s, at_s)
        return self.newest[place - 1] if place else -1


@dataclass(slots=True)
class _Processed:
    """The offsets that somebody has processed: all below `reached`, and spans above."""

    reached: int = 0
    above: list[tuple[int, int]] = field(default_factory=list)

    def add(self, first: int, end: int) -> None:
        self.above.append((first, end))
        self.above.sort()
        while self.above and self.above[0][0] <= self.reached:
            self.reached = max(self.reached, self.above.pop(0)[1])


class GroupOracle:
    """See the module. `wrong` is told of each contradiction, with its kind."""

    def __init__(self, group_id: str, now_s: Callable[[], float], wrong: Callable[[str, str], None]) -> None:
        self.group_id, self._now_s, self._wrong = group_id, now_s, wrong
        self._lives: dict[Life, None] = {}
        self._holders: dict[tuple[Spot, int], Life] = {}
        self._committed: dict[Spot, _Committed] = {}
        self._processed: dict[Spot, _Processed] = {}

    # -- I61 -----------------------------------------------------------------------------------------------------------

    def begins(self, life: Life) -> None:
        self._lives[life] = None

    def holds(self, life: Life, epoch: int, spots: Iterable[Spot]) -> None:
        """The member's whole assignment from now on."""
        new, now_s = set(spots), self._now_s()
        for spot in sorted(new):
            holder = self._holders.setdefault((spot, epoch), life)
            if holder.identity != life.identity and now_s - holder.heard_s <= HEARD_SECONDS:
                self._report("two-owners", f"I61: {holder.name} and {life.name} have {spot} in epoch {epoch}")
            self._holders[spot, epoch] = life
        for other in self._lives if new - life.held else ():
            if other.identity != life.identity:
                for spot in sorted((new - life.held) & other.held):
                    other.taken.setdefault(spot, (now_s, life.name))
        life.epoch, life.held, life.heard_s = epoch, new, now_s

    def gone(self, life: Life) -> None:
        """It owns nothing any more: it has left, was put out, or its process has ended."""
        life.is_gone = True
        self._lives.pop(life, None)
        life.held, life.taken = set(), {}
        if not any(other.held for other in self._lives):
            self._holders.clear()  # an empty group may be forgotten, and its epochs begin again

    def joins_anew(self, life: Life) -> None:
        """It knows that it was put out, has given up everything, and asks to be a member again."""
        life.taken = {}

    def was_heard(self, life: Life, sent_s: float) -> None:
        """The coordinator has taken a heartbeat that was sent then for a member's: it has been one all the time."""
        life.heard_s = self._now_s()
        for spot, (taken_s, taker) in sorted(life.taken.items()):
            if taken_s < sent_s:
                text = (
                    f"I61: {taker} was given {spot} at {taken_s:.3f} s, and {life.name} was its owner at {sent_s:.3f} s"
                )
                self._report("two-owners", text)
                del life.taken[spot]

    # -- I62, I63 ------------------------------------------------------------------------------------------------------

    def processed(self, spot: Spot, first: int, end: int) -> None:
        self._processed.setdefault(spot, _Processed()).add(first, end)

    def reached(self, spot: Spot) -> int:
        """The first offset that nobody has processed."""
        return self._processed[spot].reached if spot in self._processed else 0

    def commits(self, life: Life, offsets: Mapping[Spot, int]) -> None:
        """BEFORE they are sent."""
        for spot, offset in offsets.items():
            self._committed.setdefault(spot, _Committed()).sent.add(offset)
            if offset > self.reached(spot):
                text = f"I63: {life.name} commits {offset} of {spot}, and nobody has processed {self.reached(spot)}"
                self._report("unprocessed", text)

    def acknowledged(self, spot: Spot, offset: int) -> None:
        found = self._committed[spot]
        newest = max(offset, found.newest[-1] if found.newest else -1)
        found.acked_s.append(self._now_s())
        found.newest.append(newest)

    def fetched(self, spot: Spot, offset: int, sent_s: float) -> None:
        """The coordinator says that this is committed, asked at `sent_s`; -1: nothing is."""
        found = self._committed.get(spot, _Committed())
        if offset >= 0 and offset not in found.sent:
            self._report("committed", f"I62: {offset} of {spot} was never committed, and is told")
        elif offset < found.before(sent_s):
            self._report("committed", f"I62: {found.before(sent_s)} of {spot} was committed, and {offset} is told")

    def deleted(self, spot: Spot) -> None:
        """BEFORE the deletion is asked for: what was committed until now may go, and must not be asked for again."""
        self._committed.pop(spot, None)

    # -- I64 -----------------------------------------------------------------------------------------------------------

    def unrest(self, spots: Iterable[Spot], *, is_even: bool) -> str:
        """Why the group is not stable; "" when it is."""
        wanted, lives = set(spots), list(self._lives)
        epochs = {life.epoch for life in lives}
        owned = [spot for life in lives for spot in life.held]
        if len(epochs) > 1:
            return f"members are in epochs {sorted(epochs)}"
        if set(owned) != wanted or len(owned) != len(wanted):
            missing, foreign = sorted(wanted - set(owned)), sorted(set(owned) - wanted)
            return f"nobody has {missing}, {foreign} is none of theirs, {len(owned) - len(set(owned))} are owned twice"
        sizes = [len(life.held) for life in lives]
        return f"shares are {sizes}" if is_even and sizes and max(sizes) - min(sizes) > 1 else ""

    def _report(self, kind: str, text: str) -> None:
        self._wrong(f"group-{kind}", f"{self.group_id}: {text}")

    def __repr__(self) -> str:
        return f"GroupOracle({self.group_id}, {len(self._lives)} members)"
