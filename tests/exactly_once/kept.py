"""Keeps what expires, in a cluster whose calendars are wrong, and tells what was forgotten.

    offsets       of groups without members, one more in each round
    ids           of transactional producers, of which each writes once, rests, and must be able to go on at the end
    batches       of one version each: to begin it again finds it committed
    records       of a topic with the producers' times (`plain`), and of one that leaders stamp (`stamped`)

All of it is kept for an hour, and no run takes so long. Not here: whose calendar is wrong (clocks.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from penstock import Admin, AtomicBatches, Producer, TopicPartition
from penstock.errors import PenstockError
from tests.support.campaign.frame import Run
from tests.support.campaign.reading import places_of, values_of

PARTITIONS: Final = 3
TOPICS: Final = {"plain": "CreateTime", "stamped": "LogAppendTime"}
RECORDS: Final = 30
IDS_MAX: Final = 6
"""Each is a producer with its connections."""
OFFSET_OF: Final = TopicPartition("plain", 0)


class Kept:
    """See the module."""

    def __init__(self, run: Run[Any], bootstrap: str, admin: Admin) -> None:
        self._run, self._bootstrap, self._admin = run, bootstrap, admin
        for topic, stamps in TOPICS.items():
            config = {"retention.ms": 3_600_000, "segment.ms": 1_000, "message.timestamp.type": stamps}
            admin.create_topic(topic, PARTITIONS, PARTITIONS, config)
        self._producer = run.enter(Producer(bootstrap))
        self._batches = run.enter(AtomicBatches(bootstrap))
        self._offsets, self._names = dict[str, int](), list[str]()
        self._resting = dict[str, Producer]()
        self._records = {topic: list[bytes]() for topic in TOPICS}

    def keep(self, number: int) -> None:
        """One more of each."""
        for topic, acked in self._records.items():
            values = [b"%d-%d" % (number, each) for each in range(RECORDS)]
            sent = [self._producer.send(topic, value, partition=each % PARTITIONS) for each, value in enumerate(values)]
            self._producer.flush()
            for future in sent:
                future.result()
            acked += values
        name = f"kept-{number}"
        for error in self._admin.alter_group_offsets(name, {OFFSET_OF: number + 1}).values():
            if error is not None:
                raise error
        self._offsets[name] = number + 1
        if len(self._resting) < IDS_MAX:
            producer = self._run.enter(Producer(self._bootstrap, transactional_id=name))
            self._resting[name] = producer
            self._write_with(name)
        self._commit_batch(name)

    def _write_with(self, name: str) -> None:
        with self._resting[name].transaction() as transaction:
            values = {topic: b"%s of %d" % (name.encode(), len(acked)) for topic, acked in self._records.items()}
            sent = [transaction.send(topic, value, partition=0) for topic, value in values.items()]
        for future in sent:
            future.result()
        for topic, value in values.items():
            self._records[topic].append(value)

    def _commit_batch(self, name: str) -> None:
        writer = self._batches.begin(name, 1)
        if writer is None:
            self._wrong(f"version 1 of {name} was never committed, and is told so")
            return
        with writer:
            sent = [writer.send(topic, name.encode(), partition=1) for topic in self._records]
        for future in sent:
            future.result()
        self._batches.commit(name, 1, [writer.identity], records=len(TOPICS))
        for acked in self._records.values():
            acked.append(name.encode())
        self._names.append(name)

    def look(self) -> None:
        """Everything is there."""
        for name, offset in self._offsets.items():
            committed = self._admin.group_offsets(name).get(OFFSET_OF)
            if committed is None or committed.offset != offset:
                self._wrong(f"group {name}: committed {offset}, told {committed}")
        known = {one.transactional_id for one in self._admin.list_transactions()}
        self._wrong(*(f"transactional id {name} is forgotten" for name in self._resting if name not in known))
        for name in self._names:
            if (last := self._batches.last_version(name)) != 1:
                self._wrong(f"version 1 of {name} is committed, told {last}")

    def judge(self) -> None:
        """Looks a last time, goes on with what rests, and reads everything."""
        self.look()
        for name in self._resting:
            try:
                self._write_with(name)
            except PenstockError as error:
                self._wrong(f"transactional id {name} cannot go on: {error!r}")
        self._wrong(*(f"{name} opens again" for name in self._names if self._batches.begin(name, 1) is not None))
        for topic, acked in self._records.items():
            places = places_of(topic, PARTITIONS)
            starts = self._admin.list_offsets(dict.fromkeys(places, "earliest"))
            self._wrong(*(f"{place} begins at {start.offset}" for place, start in starts.items() if start.offset))
            found = values_of(self._bootstrap, places)
            self._wrong(*(f"{topic}: {value!r} {found[value]} times" for value in acked if found[value] != 1))
            self._wrong(*(f"{topic}: {value!r} is strange" for value in found.keys() - set(acked)))

    def _wrong(self, *texts: str) -> None:
        self._run.report.all_wrong("forgotten", texts)

    def counts(self) -> Counter[str]:
        records = sum(map(len, self._records.values()))
        return Counter(offsets=len(self._offsets), ids=len(self._resting), batches=len(self._names), records=records)

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.counts().items())
