"""A click-stream of a web shop, made from a seed: events of users in sessions, with the faults that real streams have.

    for record in ClickStream(seed=7, events=5_000).records(): producer.send("clicks", record.value, key=record.key, …)

Pages and users are Zipf-distributed, so some partitions get far more than others. The faults, each a share of all
events: out of order by up to 2 minutes; late by 1 to 24 hours; sent twice, the second time up to a minute later;
malformed (cut off, a wrong type, a missing field); beside them tombstones. From the middle on events have the field
`referrer` (schema 2). Each record says which kind it is, so that answers.py can tell what a pipeline must find without
parsing anything. Time is simulated, and equal seeds give equal records.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
MEAN_GAP_MS = 1_000
"""Simulated time between two events."""
PAGES, USERS = 200, 1_000
ZIPF = 1.1
SESSION_GAP = 12
"""About how many events a user has before a new session."""

DISORDER, DISORDER_MS_MAX = 0.01, 120_000
LATE, LATE_MS_MIN, LATE_MS_MAX = 0.001, 3_600_000, 86_400_000
DUPLICATES, DUPLICATE_MS_MAX = 0.005, 60_000
MALFORMED = 0.002
TOMBSTONES = 0.001
ACTIONS, ACTION_BOUNDS = ("view", "cart", "order"), (0.90, 0.96)
PRICE_CENTS_MAX = 20_000


class ClickKind(Enum):
    """A pipeline's duty with a record: count it, drop it, or set it aside."""

    GOOD = "good"
    DUPLICATE = "duplicate"
    LATE = "late"
    MALFORMED = "malformed"
    TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True)
class Click:
    """An event, as it is before it becomes JSON."""

    event_id: str
    event_time_ms: int
    user: str
    session: str
    page: str
    action: str
    amount_cents: int | None
    referrer: str | None


@dataclass(frozen=True, slots=True)
class ClickRecord:
    """A record to be sent; `click` is None for a tombstone."""

    kind: ClickKind
    timestamp_ms: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    click: Click | None


class ClickStream:
    """`events` events from `seed`; duplicates and tombstones come on top."""

    def __init__(self, seed: int, events: int, start_ms: int = START_MS) -> None:
        self.seed = seed
        self.events = events
        self._start_ms = start_ms

    def records(self) -> Iterator[ClickRecord]:
        """The records in the order in which they arrive; the same at each call."""
        waiting: list[tuple[int, int, ClickRecord]] = []
        numbers, chance = itertools.count(), random.Random(f"{self.seed} again")
        for record in self._made():
            while waiting and waiting[0][0] <= record.timestamp_ms:
                yield heapq.heappop(waiting)[2]
            yield record
            if record.kind is ClickKind.GOOD and chance.random() < DUPLICATES:
                again = replace(
                    record,
                    kind=ClickKind.DUPLICATE,
                    timestamp_ms=record.timestamp_ms + chance.randint(1, DUPLICATE_MS_MAX),
                )
                heapq.heappush(waiting, (again.timestamp_ms, next(numbers), again))
        while waiting:
            yield heapq.heappop(waiting)[2]

    def _made(self) -> Iterator[ClickRecord]:
        chance = random.Random(self.seed)
        users, pages = _Zipf(USERS), _Zipf(PAGES)
        sessions: dict[int, int] = {}
        now_ms = self._start_ms
        for number in range(self.events):
            now_ms += 1 + int(chance.expovariate(1 / MEAN_GAP_MS))
            user = users.draw(chance)
            sessions[user] = sessions.get(user, 0) + (chance.random() < 1 / SESSION_GAP)
            click = self._click(chance, number, now_ms, user, sessions[user], pages.draw(chance))
            trace = (("trace", b"%016x" % chance.getrandbits(64)),)
            key = click.user.encode()
            kind, value = _kind(click, now_ms), _encoded(click)
            if chance.random() < MALFORMED:
                kind, value = ClickKind.MALFORMED, _spoiled(chance, click)
            yield ClickRecord(kind, now_ms, key, value, trace, click)
            if chance.random() < TOMBSTONES:
                yield ClickRecord(ClickKind.TOMBSTONE, now_ms, key, None, trace, None)

    def _click(self, chance: random.Random, number: int, now_ms: int, user: int, session: int, page: int) -> Click:
        draw, action = chance.random(), chance.random()
        event_time_ms = now_ms
        if draw < LATE:
            event_time_ms -= chance.randint(LATE_MS_MIN, LATE_MS_MAX)
        elif draw < LATE + DISORDER:
            event_time_ms -= chance.randint(1, DISORDER_MS_MAX)
        name = ACTIONS[bisect.bisect(ACTION_BOUNDS, action)]
        return Click(
            event_id=f"{self.seed}-{number}",
            event_time_ms=event_time_ms,
            user=f"user-{user}",
            session=f"user-{user}/{session}",
            page=f"/page/{page}",
            action=name,
            amount_cents=chance.randint(100, PRICE_CENTS_MAX) if name == "order" else None,
            referrer=f"/page/{chance.randrange(PAGES)}" if number >= self.events // 2 else None,
        )


class _Zipf:
    """Numbers from 0, the first by far the most frequent."""

    def __init__(self, count: int) -> None:
        self._sums = list(itertools.accumulate(1 / (rank**ZIPF) for rank in range(1, count + 1)))

    def draw(self, chance: random.Random) -> int:
        return bisect.bisect(self._sums, chance.random() * self._sums[-1])


def time_text(ms: int) -> str:
    """The time as the events write it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def _kind(click: Click, now_ms: int) -> ClickKind:
    return ClickKind.LATE if now_ms - click.event_time_ms > DISORDER_MS_MAX else ClickKind.GOOD


def _encoded(click: Click) -> bytes:
    return json.dumps(_fields(click), separators=(",", ":")).encode()


def _fields(click: Click) -> dict[str, object]:
    fields: dict[str, object] = {
        "schema": 1,
        "event_id": click.event_id,
        "event_time": time_text(click.event_time_ms),
        "user": click.user,
        "session": click.session,
        "page": click.page,
        "action": click.action,
    }
    if click.amount_cents is not None:
        fields["amount_cents"] = click.amount_cents
    if click.referrer is not None:
        fields |= {"schema": 2, "referrer": click.referrer}
    return fields


def _spoiled(chance: random.Random, click: Click) -> bytes:
    """Cut off, with a wrong type, or without a field that is needed."""
    whole, fields = _encoded(click), _fields(click)
    how: Sequence[bytes] = (
        whole[: len(whole) // 2],
        json.dumps(fields | {"event_time": "yesterday"}).encode(),
        json.dumps({name: value for name, value in fields.items() if name != "event_id"}).encode(),
        b"",
    )
    return chance.choice(how)
