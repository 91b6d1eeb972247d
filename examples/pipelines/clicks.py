"""Sends a seeded click-stream of a web shop to a topic, and writes the answers that a pipeline over it must find.

    python examples/pipelines/clicks.py --topic clicks --answers answers.json

Needs no more than `pip install penstock`; the address and the log-in are a client's, by `--bootstrap` and the variables
`PENSTOCK_…`. A topic that does not exist is created with `retention.ms=-1`, because the events are older than any usual
retention. `answers` is a JSON file: the number of records of each kind and the windows that are final.

Pages and users are Zipf-distributed, so some partitions get far more than others. The faults, each a share of all
events: out of order by up to 2 minutes; late by 1 to 24 hours; sent twice, the second time up to a minute later;
malformed (cut off, a wrong type, a missing field); beside them tombstones. From the middle on events have the field
`referrer` (schema 2). Each record says which kind it is, so the answers need no parser. Time is simulated, and equal
seeds give equal records.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from penstock import Admin, Producer

CHUNK = 500
"""Records sent before the acks are awaited: so far partitions can be apart in the records' own time."""
WINDOW_MS, WATERMARK_MS = 5 * 60_000, 20 * 60_000
"""The windows of the answers; a window is in them if it ends the watermark before the last event."""
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


@dataclass(slots=True)
class Window:
    """The sums of one page in one window."""

    views: int = 0
    orders: int = 0
    revenue_cents: int = 0


@dataclass(slots=True)
class Answers:
    """The right results of one stream."""

    window_ms: int
    kinds: Counter[ClickKind] = field(default_factory=Counter)
    windows: dict[tuple[int, str], Window] = field(default_factory=dict)
    latest_event_ms: int = 0

    @staticmethod
    def of(records: Iterable[ClickRecord], window_ms: int) -> Answers:
        answers = Answers(window_ms)
        for record in records:
            answers.take(record)
        return answers

    def take(self, record: ClickRecord) -> None:
        """Counts one record."""
        self.kinds[record.kind] += 1
        click = record.click
        if record.kind is not ClickKind.GOOD or click is None:
            return
        self.latest_event_ms = max(self.latest_event_ms, click.event_time_ms)
        start_ms = click.event_time_ms - click.event_time_ms % self.window_ms
        window = self.windows.setdefault((start_ms, click.page), Window())
        window.views += click.action == "view"
        window.orders += click.action == "order"
        window.revenue_cents += click.amount_cents or 0

    @property
    def records(self) -> int:
        """All that were sent."""
        return self.kinds.total()

    def final_windows(self, watermark_ms: int) -> dict[tuple[int, str], Window]:
        """The windows that end at or before the watermark, which is `watermark_ms` behind the latest good event."""
        final_until_ms = self.latest_event_ms - watermark_ms
        return {at: window for at, window in self.windows.items() if at[0] + self.window_ms <= final_until_ms}


def answers_json(answers: Answers, watermark_ms: int) -> dict[str, Any]:
    """The content of the answers' file."""
    final = sorted(answers.final_windows(watermark_ms).items())
    return {
        "records": answers.records,
        "kinds": {kind.value: count for kind, count in answers.kinds.items()},
        "windows": [{"window_start_ms": start, "page": page, **asdict(window)} for (start, page), window in final],
    }


def send(producer: Producer, topic: str, stream: ClickStream, events_per_second: int = 0) -> Answers:
    """Sends everything, every ack before the next chunk; the first failure is raised. 0: as fast as it goes."""
    answers, began, sent = Answers(WINDOW_MS), time.monotonic(), 0
    records = stream.records()
    while chunk := list(itertools.islice(records, CHUNK)):
        futures = [
            producer.send(topic, one.value, one.key, list(one.headers), timestamp_ms=one.timestamp_ms) for one in chunk
        ]
        for future in futures:
            future.result()
        for record in chunk:
            answers.take(record)
        sent += len(chunk)
        if events_per_second:
            time.sleep(max(0.0, began + sent / events_per_second - time.monotonic()))
    return answers


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """The numbers of records, which it prints, too."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="the brokers, HOST:PORT[,…]; default: PENSTOCK_BOOTSTRAP")
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds give equal records")
    parser.add_argument("--events", type=int, default=10_000, help="duplicates and tombstones come on top")
    parser.add_argument("--events-per-second", type=int, default=0, help="0: as fast as it goes")
    parser.add_argument("--partitions", type=int, default=6, help="of the topic, if it must be created")
    parser.add_argument("--answers", type=Path, help="a file for the answers, as JSON")
    asked = parser.parse_args(arguments)
    at = [asked.bootstrap] if asked.bootstrap else []
    with Admin(*at) as admin:
        if asked.topic not in admin.list_topics():
            admin.create_topic(asked.topic, asked.partitions, config={"retention.ms": -1})
    with Producer(*at) as producer:
        answers = send(producer, asked.topic, ClickStream(asked.seed, asked.events), asked.events_per_second)
    if asked.answers:
        waiting = asked.answers.with_name(asked.answers.name + ".tmp")
        waiting.write_text(json.dumps(answers_json(answers, WATERMARK_MS), indent=1), encoding="utf-8")
        os.replace(waiting, asked.answers)
    kinds = sorted((kind.value, count) for kind, count in answers.kinds.items())
    done = {"topic": asked.topic, "records": answers.records, **dict(kinds)}
    print(json.dumps(done))
    return done


if __name__ == "__main__":
    main()
