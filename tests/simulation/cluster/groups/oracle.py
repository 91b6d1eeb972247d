"""Finds what cannot be true of all that the members of one group were told (I61 to I64).

    I61  no partition has two owners: as their own acknowledged assignments say, none in one epoch, and none that is
         taken from a member which the coordinator still takes for one that has it
    I62  a committed offset is one that was committed, and never an older one than before; no commit counts that comes
         after its sender has given the partition up
    I63  what is committed has been processed: everything below it, by somebody
    I64  a group that nobody disturbs is stable soon: every partition of its topics has one owner, and shares are even

A *life* is one member from its joining on; a static member's next life has the same identity. Places are partitions of
topic ids: a topic that is made anew is another one. The oracle hears of a taken partition BEFORE its owner reads it,
and of one that is given up BEFORE the coordinator hears of that. Not here: members.
"""

from __future__ import annotations

import math
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


@dataclass(slots=True)
class Membership:
    """A life's time as a member: it ends when it joins anew, though it goes by the same name."""

    heard_s: float = 0.0
    """When it sent what the coordinator last took for a member's: its session is counted from then at the earliest. The
    answer may come much later, when its records are committed, and its session be over by then."""
    began_s: float = math.inf
    """When it heard that it is a member first."""
    expired: tuple[float, str] | None = None
    """An offset was gone then, in words: wrong if it has been a member all the time."""

    def heard(self, sent_s: float, now_s: float) -> None:
        self.heard_s, self.began_s = sent_s, min(self.began_s, now_s)


@dataclass(slots=True, eq=False)
class Life:
    """One member as the oracle knows it. `identity`: its instance id, or its own name."""

    name: str
    identity: str
    epoch: int = -1
    held: set[Spot] = field(default_factory=set)
    taken: dict[Spot, tuple[float, str]] = field(default_factory=dict)
    """Partitions that another took while they were its own: when, and who."""
    membership: Membership = field(default_factory=Membership)
    is_gone: bool = False
    """It knows that it is a member no more."""

    def __repr__(self) -> str:
        return f"Life({self.name})"


@dataclass(slots=True)
class _Committed:
    """By time: the newest offset that was acknowledged until then. `sent`: every offset that may have been written, and
    when it was sent last."""

    acked_s: list[float] = field(default_factory=list)
    newest: list[int] = field(default_factory=list)
    sent: dict[int, float] = field(default_factory=dict)

    def before(self, at_s: float) -> int:
        place = bisect_left(self.acked_s, at_s)
        return self.newest[place - 1] if place else -1

    def since_s(self, newest: int) -> float:
        """When this newest offset was acknowledged."""
        return self.acked_s[bisect_left(self.newest, newest)]

    def may_have_begun_anew(self, offset: int, newest: int) -> bool:
        """As after its expiry: nothing is there, or an older offset was sent since the newest one was acknowledged."""
        return offset < 0 or self.sent[offset] >= self.since_s(newest)


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

    def __init__(
        self,
        group_id: str,
        now_s: Callable[[], float],
        wrong: Callable[[str, str], None],
        *,
        may_expire: bool = False,
        reads_all: bool = False,
    ) -> None:
        """`may_expire`: calendars jump by more than offsets.retention.minutes. `reads_all`: each member reads all of
        the group's topics."""
        self.group_id, self._now_s, self._wrong, self._may_expire = group_id, now_s, wrong, may_expire
        self._reads_all = reads_all
        self._lives: dict[Life, None] = {}
        self._holders: dict[tuple[Spot, int], tuple[Life, Membership]] = {}
        self._committed: dict[Spot, _Committed] = {}
        self._processed: dict[Spot, _Processed] = {}

    # -- I61 -----------------------------------------------------------------------------------------------------------

    def begins(self, life: Life) -> None:
        self._lives[life] = None

    def holds(self, life: Life, epoch: int, spots: Iterable[Spot], sent_s: float | None = None) -> None:
        """The member's whole assignment from now on. `sent_s`: when it asked for what told it so; now, if not given."""
        new, now_s = set(spots), self._now_s()
        for spot in sorted(new):
            holder, was = self._holders.get((spot, epoch), (life, life.membership))
            if holder.identity != life.identity and now_s - was.heard_s <= HEARD_SECONDS:
                self._report("two-owners", f"I61: {holder.name} and {life.name} have {spot} in epoch {epoch}")
            self._holders[spot, epoch] = life, life.membership
        for other in self._lives if new - life.held else ():
            if other.identity != life.identity:
                for spot in sorted((new - life.held) & other.held):
                    other.taken.setdefault(spot, (now_s, life.name))
        if epoch > max(life.epoch, 0):
            if now_s - life.membership.heard_s > HEARD_SECONDS:
                life.taken = {}  # its session may have ended, and a JoinGroup by its old id made it a member again
            life.membership.heard(now_s if sent_s is None else sent_s, now_s)
        life.epoch, life.held = epoch, new

    def gone(self, life: Life) -> None:
        """It owns nothing any more: it has left, was put out, or its process has ended."""
        life.is_gone, life.membership = True, Membership()
        self._lives.pop(life, None)
        life.held, life.taken = set(), {}
        if not any(other.held for other in self._lives):
            self._holders.clear()  # an empty group may be forgotten, and its epochs begin again

    def joins_anew(self, life: Life) -> None:
        """It knows that it was put out, has given up everything, and asks to be a member again."""
        life.taken, life.membership = {}, Membership()

    def was_heard(self, life: Life, sent_s: float) -> None:
        """The coordinator has taken a heartbeat that was sent then for a member's: it has been one all the time."""
        membership = life.membership
        membership.heard(sent_s, self._now_s())
        if membership.expired is not None and membership.expired[0] < sent_s:
            self._report("committed", f"{membership.expired[1]}; {life.name} has been a member all the time")
            membership.expired = None
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
            self._committed.setdefault(spot, _Committed()).sent[offset] = self._now_s()
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
        newest = found.before(sent_s)
        if offset >= 0 and offset not in found.sent:
            self._report("committed", f"I62: {offset} of {spot} was never committed, and is told")
        elif offset < newest:
            text = f"I62: {newest} of {spot} was committed, and {offset} is told"
            if self._may_expire and found.may_have_begun_anew(offset, newest):
                self._has_expired(text, found.since_s(newest))
            else:
                self._report("committed", text)

    def _has_expired(self, text: str, since_s: float) -> None:
        """Nothing expires that a member reads (KIP-211): some member was none since then, or it is wrong. Whoever was
        may have been put out, and says so when it is heard next."""
        for life in self._lives if self._reads_all else ():
            if life.membership.began_s <= since_s and life.membership.expired is None:
                life.membership.expired = self._now_s(), text

    def came_late(self, life: Life, spot: Spot, offset: int, epoch: int) -> None:
        """It was taken, though its sender is in a newer epoch than this one, in which it gave the partition up."""
        text = f"I62: {life.name} has committed {offset} of {spot} in epoch {epoch}, and is in {life.epoch}"
        self._report("committed", text)

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
