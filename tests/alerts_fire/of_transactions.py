"""Faults of transactions: one that nobody ends, and a log that its coordinator cannot read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import Producer
from tests.alerts_fire.stage import Stage, must_come
from tests.alerts_fire.unreadable_end import unreadable_end

ID = "transfers-1"
LONG_MS = 900_000
"""The longest time-out that a coordinator accepts by default."""


@contextmanager
def transaction_that_nobody_ends(stage: Stage) -> Iterator[None]:
    """Its program hangs, and its time-out is far away."""
    topic = stage.topic("t")
    with Producer(stage.cluster.bootstrap, transactional_id=ID, transaction_timeout_ms=LONG_MS) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, value=b"v")
        stage.begins()
        producer.begin_transaction()
        producer.send(topic, value=b"v").result(30)
        yield
        stage.admin.fence_producer(ID)


@contextmanager
def transaction_of_a_later_release(stage: Stage) -> Iterator[None]:
    """Every replica ends with a transaction in a version that this release does not know."""
    topic = stage.topic("t")
    with (
        Producer(stage.cluster.bootstrap, transactional_id=ID) as producer,
        producer.transaction() as transaction,
    ):
        transaction.send(topic, value=b"v")
    must_come(lambda: stage.admin.describe_transactions([ID])[ID].state == "CompleteCommit", "the end of a transaction")
    with unreadable_end(stage, "__transaction_state", struct.pack(f">hh{len(ID)}s", 0, len(ID), ID.encode())):
        yield
