"""One member of the group, as a process: it reads, says what it has done, and commits.

    python -m tests.groups_under_faults.member KIND NAME BOOTSTRAP GROUP TOPIC STORY

KIND is `ours` (penstock.Consumer), `consumer` or `classic` (confluent-kafka by either protocol of Kafka). STORY is a
file; each event is a JSON line, written at once, with the machine's monotonic time: what was assigned, revoked and
lost, what was processed, what was committed. A record counts as processed BEFORE it is committed, so a kill at any
place may have it processed twice and never not at all. SIGTERM ends the member in order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

POLL_S = 0.1
RECORDS_MAX = 200
COMMIT_EVERY_S = 0.3
SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
AUTO_OFFSET_RESET = "earliest"
Offsets = dict[int, int]
"""By partition: the next offset."""


class Story:
    """The member's own account."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, what: str, **facts: Any) -> None:
        line = json.dumps({"at": round(time.monotonic(), 4), "what": what, **facts})
        os.write(self._file, f"{line}\n".encode())

    def partitions(self, what: str, partitions: Iterable[int]) -> None:
        if found := sorted(partitions):
            self.tell(what, partitions=found)


class Ending:
    """Set by SIGTERM."""

    is_set = False

    def __init__(self) -> None:
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self.is_set = True


class Progress:
    """The records that were processed, and those of them that are not committed yet."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.uncommitted: Offsets = {}
        self._committed_at = time.monotonic()

    def take(self, spans: dict[int, tuple[int, int]]) -> None:
        """First and last offset of each partition that had records."""
        if spans:
            self._story.tell("processed", spans={str(p): span for p, span in spans.items()})
            self.uncommitted |= {partition: last + 1 for partition, (_, last) in spans.items()}

    @property
    def is_due(self) -> bool:
        return bool(self.uncommitted) and time.monotonic() - self._committed_at > COMMIT_EVERY_S

    def committing(self) -> Offsets:
        self._committed_at = time.monotonic()
        self._story.tell("commits", offsets={str(p): offset for p, offset in self.uncommitted.items()})
        offsets, self.uncommitted = self.uncommitted, {}
        return offsets

    def committed(self, offsets: Offsets) -> None:
        self._story.tell("committed", offsets={str(p): offset for p, offset in offsets.items()})

    def refused(self, error: object) -> None:
        self._story.tell("refused", error=f"{type(error).__name__}: {error}"[:200])

    def gone(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.uncommitted.pop(partition, None)


def spans_of(places: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Partition and offset of records, which come in the order of each partition."""
    found: dict[int, tuple[int, int]] = {}
    for partition, offset in places:
        first, _ = found.get(partition, (offset, offset))
        found[partition] = first, offset
    return found


def run_confluent(protocol: str, name: str, bootstrap: str, group: str, topic: str, story: Story) -> None:
    """A member by confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": name,
        "group.protocol": protocol,
        "auto.offset.reset": AUTO_OFFSET_RESET,
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 5_000,
        "error_cb": lambda error: story.tell("error", error=str(error)[:200]),
    }
    if protocol == "classic":
        options |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        options["partition.assignment.strategy"] = "cooperative-sticky"
    consumer, ending, progress = Consumer(options), Ending(), Progress(story)

    def commit() -> None:
        offsets = progress.committing()
        try:
            asked = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            committed = consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            progress.refused(error)
            return
        progress.committed({each.partition: each.offset for each in committed if each.error is None})

    def assigned(_: Any, partitions: list[Any]) -> None:
        story.partitions("assigned", (each.partition for each in partitions))
        consumer.incremental_assign(partitions)

    def revoked(_: Any, partitions: list[Any]) -> None:
        if progress.uncommitted:
            commit()
        progress.gone(each.partition for each in partitions)
        story.partitions("revoked", (each.partition for each in partitions))
        consumer.incremental_unassign(partitions)

    def lost(_: Any, partitions: list[Any]) -> None:
        progress.gone(each.partition for each in partitions)
        story.partitions("lost", (each.partition for each in partitions))
        consumer.incremental_unassign(partitions)

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not ending.is_set:
        found = consumer.consume(RECORDS_MAX, POLL_S)
        progress.take(spans_of((each.partition(), each.offset()) for each in found if each.error() is None))
        if progress.is_due:
            commit()
    consumer.close()


def run_ours(name: str, bootstrap: str, group: str, topic: str, story: Story) -> None:
    """A member by penstock.Consumer."""
    from penstock import Consumer, TopicPartition
    from penstock.errors import PenstockError

    ending, progress = Ending(), Progress(story)
    options = {"client_id": name, "auto_offset_reset": AUTO_OFFSET_RESET, "enable_auto_commit": False}
    consumer = Consumer(bootstrap, group_id=group, **options)

    def commit() -> None:
        offsets = progress.committing()
        try:
            consumer.commit({TopicPartition(topic, partition): offset for partition, offset in offsets.items()})
        except PenstockError as error:
            progress.refused(error)
            return
        progress.committed(offsets)

    def assigned(partitions: Iterable[TopicPartition]) -> None:
        story.partitions("assigned", (each.partition for each in partitions))

    def revoked(partitions: Iterable[TopicPartition]) -> None:
        if progress.uncommitted:
            commit()
        progress.gone(each.partition for each in partitions)
        story.partitions("revoked", (each.partition for each in partitions))

    def lost(partitions: Iterable[TopicPartition]) -> None:
        progress.gone(each.partition for each in partitions)
        story.partitions("lost", (each.partition for each in partitions))

    with consumer:
        consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked, on_lost=lost)
        while not ending.is_set:
            try:
                found = consumer.poll(timeout_ms=int(1000 * POLL_S), max_records=RECORDS_MAX)
            except PenstockError as error:
                progress.refused(error)
                continue
            progress.take(spans_of((each.partition, each.offset) for each in found))
            if progress.is_due:
                commit()


def main() -> None:
    kind, name, bootstrap, group, topic, path = sys.argv[1:7]
    story = Story(path)
    story.tell("begins", kind=kind)
    if kind == "ours":
        run_ours(name, bootstrap, group, topic, story)
    else:
        run_confluent(kind, name, bootstrap, group, topic, story)
    story.tell("ends")


if __name__ == "__main__":
    main()
