"""A client of ours, as a process: a producer, a reader, a writer of transactions, or a member of a group.

    ours.py ROLE BOOTSTRAP TOPIC[,TOPIC…] NAME

It runs with the tree of any release on the path, so it imports nothing but `penstock` and its neighbour, and uses only
what all releases have. It works until its standard input ends, and tells what telling.py says; NAME begins the keys of
a writer, and is the transactional id or the group. An error that it does not expect ends it with a traceback. TLS and
log-in come from the environment, as in a deployment.
"""

from __future__ import annotations

import contextlib
import sys
import time
from itertools import count
from typing import Any

from telling import ABORTED_EACH, FAILED, IN_TRANSACTION, KEYS, QUIET_S, TICK_S, ended, tell

from penstock import Consumer, Producer, TopicPartition
from penstock.errors import PenstockError


class Aborted(Exception):
    """A transaction is aborted on purpose."""


def produce(bootstrap: str, topic: str, name: str) -> None:
    """Sends numbers under a few keys, in order. Records that may be in the log twice are an error."""
    is_over = ended()

    def on_done(key: str, value: int, sent_at: float, future: Any) -> None:
        error = future.exception(0)
        if error is not None:
            tell(FAILED, repr(error), sent_at)
            return
        placed = future.result(0)
        tell(placed.partition, placed.offset, key, value, sent_at, time.monotonic())

    with Producer(bootstrap, acks="all", linger_ms=5) as producer:
        for number in count():
            if is_over.wait(TICK_S):
                break
            key, sent_at = f"{name}-{number % KEYS}", time.monotonic()
            future = producer.send(topic, b"%d" % number, key=key.encode())
            future.add_done_callback(
                lambda done, key=key, value=number, sent_at=sent_at: on_done(key, value, sent_at, done)
            )
        producer.flush()
        doubtful = producer.statistics().possible_duplicates
    if doubtful:
        raise SystemExit(f"{doubtful} records are in doubt")


def consume(bootstrap: str, topic: str, name: str) -> None:
    """Reads every record from the beginning, to the end that the topic has when it is told to end."""
    is_over = ended()
    with Consumer(bootstrap) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends: dict[TopicPartition, int] = {}
        while not ends or any(consumer.position(tp) < end for tp, end in ends.items()):
            for r in consumer.poll(timeout_ms=100):
                tell(r.partition, r.offset, (r.key or b"").decode(), int(r.value or b""))
            if is_over.is_set() and not ends:
                ends = consumer.end_offsets(partitions)


def transact(bootstrap: str, topic: str, name: str) -> None:
    """Writes numbers in transactions, some of which it aborts."""
    is_over = ended()
    with Producer(bootstrap, transactional_id=name) as producer:
        for turn in count():
            if is_over.wait(TICK_S):
                return
            key, began = f"{name}-{turn % KEYS}", time.monotonic()
            values = list(range(turn * IN_TRANSACTION, (turn + 1) * IN_TRANSACTION))
            outcome = "committed"
            try:
                with contextlib.suppress(Aborted), producer.transaction() as transaction:
                    for value in values:
                        transaction.send(topic, b"%d" % value, key=key.encode())
                    if turn % ABORTED_EACH == ABORTED_EACH - 1:
                        outcome = "aborted"
                        raise Aborted
            except PenstockError as error:
                tell(FAILED, repr(error), began)
                continue
            tell(outcome, key, values, began, time.monotonic())


def member(bootstrap: str, topics: str, name: str) -> None:
    """Reads topics as a member of a group, committed records alone, and commits what it has read."""
    is_over, quiet_since = ended(), time.monotonic()
    with Consumer(bootstrap, group_id=name, auto_offset_reset="earliest", auto_commit_interval_ms=500) as consumer:
        consumer.subscribe(topics.split(","))
        while not is_over.is_set() or time.monotonic() - quiet_since < QUIET_S:
            for r in consumer.poll(timeout_ms=200):
                quiet_since = time.monotonic()
                tell(r.topic, r.partition, r.offset, (r.key or b"").decode(), int(r.value or b""))


ROLES = {"produce": produce, "consume": consume, "transact": transact, "member": member}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
