"""Judges what the members of a group have said of themselves, and measures how long each fault kept the group unstable.

Pure. An *ownership* begins when a member is told of its assignment, and ends when it has given the partition up or its
process has ended. One that ends as lost ended, for the others, with the member's session: from then on they own it in a
later epoch, the member cannot know, and must not commit any more. So it is with one that stands still (SIGSTOP).

    unread      a record was processed by nobody
    twice       two members owned a partition at one time
    ahead       an offset was committed, and a record before it was processed by nobody until then
    back        a commit was acknowledged after one of a later offset had been
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

NEVER = float("inf")
EXAMPLES_MAX = 5
SLACK_S = 0.02
"""A commit is acknowledged before the member says so."""
Event = Mapping[str, Any]
Stories = Mapping[str, Sequence[Event]]
"""By process: the events of its life, in their order."""


class Span(NamedTuple):
    """A time of a process in which it lived, or stood still."""

    begin: float
    end: float


class Ownership(NamedTuple):
    partition: int
    member: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Facts:
    """The campaign's own deeds. `deaths`: when a process was killed; `pauses`: when it stood still,
    and from when on that was longer than its session."""

    ends: Mapping[int, int]
    """By partition: the offset after the last record."""
    deaths: Mapping[str, float] = field(default_factory=dict)
    pauses: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    session_s: float = 6.0


@dataclass(slots=True)
class Verdict:
    anomalies: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def report(self, kind: str, text: str) -> None:
        self.anomalies[kind] += 1
        if self.anomalies[kind] <= EXAMPLES_MAX:
            self.examples.append(f"{kind}: {text}")


def judge(stories: Stories, facts: Facts) -> Verdict:
    found = Verdict()
    _judge_processed(found, stories, facts.ends)
    _judge_ownership(found, stories, facts)
    _judge_commits(found, stories)
    return found


def ownerships(stories: Stories, facts: Facts) -> list[Ownership]:
    """Everything that counts, a pause that outlasted its session left out."""
    found = []
    for member, events in stories.items():
        for whole in _ownerships(member, events, facts.deaths.get(member, NEVER), facts.session_s):
            found += _without_pauses(whole, facts.pauses.get(member, ()), facts.session_s)
    return found


def _ownerships(member: str, events: Iterable[Event], death: float, session_s: float) -> Iterator[Ownership]:
    since: dict[int, float] = {}
    for event in events:
        if event["what"] == "assigned":
            since |= {partition: event["at"] for partition in event["partitions"] if partition not in since}
        elif event["what"] in ("revoked", "lost"):
            for partition in event["partitions"]:
                if partition in since:
                    begin, end = since.pop(partition), event["at"] - (session_s if event["what"] == "lost" else 0)
                    yield Ownership(partition, member, begin, max(begin, end))
        elif event["what"] == "ends":
            death = min(death, event["at"])
    for partition, begin in since.items():
        yield Ownership(partition, member, begin, death)


def _without_pauses(whole: Ownership, pauses: Sequence[Span], session_s: float) -> Iterator[Ownership]:
    """An ownership that a long pause has met is over with its session, as seen from outside."""
    end = whole.end
    for pause in pauses:
        if pause.begin < end and whole.begin < pause.end and pause.end - pause.begin > session_s:
            end = min(end, pause.begin)
    if end > whole.begin:
        yield whole._replace(end=end)


def _judge_ownership(found: Verdict, stories: Stories, facts: Facts) -> None:
    by_partition: dict[int, list[Ownership]] = {}
    for each in ownerships(stories, facts):
        by_partition.setdefault(each.partition, []).append(each)
    for partition, each_of in by_partition.items():
        each_of.sort(key=lambda each: each.begin)
        for before, after in pairwise(each_of):
            if after.begin < before.end and after.member != before.member:
                shared_s = min(before.end, after.end) - after.begin
                text = f"partition {partition}: {before.member} and {after.member} for {shared_s:.3f} s"
                found.report("twice", f"{text}, from {after.begin:.3f} on")


def _judge_processed(found: Verdict, stories: Stories, ends: Mapping[int, int]) -> None:
    spans: dict[int, list[tuple[int, int]]] = {}
    for events in stories.values():
        for event in events:
            for partition, (first, last) in event.get("spans", {}).items():
                spans.setdefault(int(partition), []).append((first, last))
    for partition, end in ends.items():
        reached = 0
        for first, last in sorted(spans.get(partition, [])):
            if first > reached:
                found.report("unread", f"partition {partition}: offsets {reached} to {first - 1}")
            reached = max(reached, last + 1)
        if reached < end:
            found.report("unread", f"partition {partition}: offsets {reached} to {end - 1}")


def _judge_commits(found: Verdict, stories: Stories) -> None:
    """In the order of time. What was processed before an offset is one span from 0 on: members read in order, from what
    was committed."""
    merged = sorted((e["at"], n, name, e) for name, events in stories.items() for n, e in enumerate(events))
    processed: dict[int, list[tuple[int, int]]] = {}
    reached: dict[int, int] = {}
    committed: dict[int, int] = {}
    sent_at: dict[str, float] = {}
    acked_at: dict[int, float] = {}
    for at, _, name, event in merged:
        for partition, (first, last) in event.get("spans", {}).items():
            processed.setdefault(int(partition), []).append((first, last))
        if event["what"] == "commits":
            sent_at[name] = at
        if event["what"] != "committed":
            continue
        for key, offset in event["offsets"].items():
            partition = int(key)
            reached[partition] = _reached(processed, partition, reached.get(partition, 0))
            if offset > reached[partition]:
                text = f"partition {partition}: {name} committed {offset}, {reached[partition]} was processed"
                found.report("ahead", text)
            if offset < committed.get(partition, 0) and sent_at[name] > acked_at[partition] + SLACK_S:
                found.report("back", f"partition {partition}: {name} committed {offset} after {committed[partition]}")
            if offset >= committed.get(partition, 0):
                committed[partition], acked_at[partition] = offset, at


def _reached(processed: dict[int, list[tuple[int, int]]], partition: int, reached: int) -> int:
    """The end of what was processed without a gap; what it has passed is forgotten."""
    waiting = sorted(processed.get(partition, []))
    while waiting and waiting[0][0] <= reached:
        reached = max(reached, waiting.pop(0)[1] + 1)
    processed[partition] = waiting
    return reached


class Struck(NamedTuple):
    """A fault: its kind, when it began, and the time until which the group was watched."""

    kind: str
    at: float
    until: float


class Times(NamedTuple):
    """`stable_s`: until each partition had an owner for good; `stall_s`: the longest time in which a partition's
    records were not processed."""

    kind: str
    stable_s: float
    stall_s: float


def times(stories: Stories, facts: Facts, faults: Iterable[Struck]) -> list[Times]:
    owned = ownerships(stories, facts)
    processed = _processed_at(stories)
    return [
        Times(
            fault.kind,
            max((_unowned_until(owned, partition, fault) for partition in facts.ends), default=fault.at) - fault.at,
            max((_longest_gap(processed.get(partition, []), fault) for partition in facts.ends), default=0.0),
        )
        for fault in faults
    ]


def _processed_at(stories: Stories) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for events in stories.values():
        for event in events:
            for partition in event.get("spans", {}):
                found.setdefault(int(partition), []).append(event["at"])
    return {partition: sorted(each) for partition, each in found.items()}


def _unowned_until(owned: Iterable[Ownership], partition: int, fault: Struck) -> float:
    """The last time in the fault's window at which nobody owned the partition; its beginning if there is none."""
    spans = sorted(
        (each.begin, each.end)
        for each in owned
        if each.partition == partition and each.end > fault.at and each.begin < fault.until
    )
    reached = last = fault.at
    for begin, end in spans:
        if begin > reached:
            last = begin
        reached = max(reached, end)
    return fault.until if reached < fault.until else last


def _longest_gap(at: Sequence[float], fault: Struck) -> float:
    inside = [fault.at, *(each for each in at if fault.at < each < fault.until), fault.until]
    return max(after - before for before, after in pairwise(inside))
