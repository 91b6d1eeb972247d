"""The honest clients beside a flood: python -m tests.attack.floods.honest JSON; ends when stdin does.

One thread for each kind of work, in a process of their own, so that neither the flooder's work nor the campaign's is
theirs. An act is one whole piece of work: a record acked, records read, a log-in with a question, a commit. Each act
that succeeds is a line `ok KIND TIME` on stdout, each that fails a line `bad KIND TIME ERROR`; TIME is the monotonic
clock, which all processes of a machine share. A kind waits a moment between two acts, so its rate alone is steady.

Not here: rates and pauses (measures.py), and who may do what (stage.py).
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient

from penstock import Admin, Consumer, Producer
from tests.attack.floods.links import KafkaLink, Target

TOPIC, LARGE_TOPIC, GROUP, COMMITTED_TOPIC = "honest", "honest-large", "honest-group", "honest-group-input"
CONVERTED_TOPIC: Final = "honest-converted"
"""The node compresses what is written there."""
PREFIX: Final = "honest"
"""Honest users have all rights to names that begin so."""
SMALL, LARGE = bytes(100), bytes(200_000)
"""Requests with the larger value have a budget of their own in the node."""
TIMEOUT_S: Final = 30.0
TIMEOUT_MS: Final = 30_000
PARTITIONS: Final = 1

Work = Generator[bool, None, None]
"""Each step does one act. It yields False where nothing was to be done, which is no act."""


@dataclass(frozen=True)
class Where:
    """A cluster, and the passwords of its users; no users: it is open to all."""

    bootstrap: str
    kafka_bootstrap: str
    metrics_port: int
    ca: str = ""
    passwords: dict[str, str] = field(default_factory=dict)
    kafka_port: int = 0

    def penstock(self, user: str) -> dict[str, Any]:
        """The options of a Penstock client of that user."""
        if not self.ca:
            return {}
        return {"tls_ca": self.ca, "username": user, "password": self.passwords[user]}

    def kafka(self, user: str) -> dict[str, Any]:
        """The configuration of librdkafka."""
        common = {"bootstrap.servers": self.kafka_bootstrap, "log_level": 0, "socket.timeout.ms": TIMEOUT_MS}
        if not self.ca:
            return common
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": user, "sasl.password": self.passwords[user]}
        return {**common, "security.protocol": "SASL_SSL", "ssl.ca.location": self.ca, **login}

    def link(self, user: str) -> KafkaLink:
        """A connection of Kafka's protocol, logged in."""
        target = Target(self.kafka_port, 0, 0, self.ca, user, self.passwords.get(user, ""))
        return target.kafka_link(timeout_s=TIMEOUT_S)


def penstock_produce(where: Where, user: str, topic: str, value: bytes) -> Work:
    with Producer(where.bootstrap, acks="all", delivery_timeout_ms=TIMEOUT_MS, **where.penstock(user)) as producer:
        while True:
            producer.send(topic, value=value).result(TIMEOUT_S)
            yield True


def penstock_consume(where: Where) -> Work:
    with Consumer(where.bootstrap, auto_offset_reset="latest", **where.penstock("honest-b")) as consumer:
        consumer.assign(consumer.partitions_for(TOPIC))
        while True:
            yield bool(consumer.poll(timeout_ms=200))


def penstock_log_in(where: Where) -> Work:
    while True:
        with Admin(where.bootstrap, request_timeout_ms=TIMEOUT_MS, **where.penstock("honest-c")) as admin:
            admin.describe_topic(TOPIC)
        yield True


def kafka_produce(where: Where, user: str, topic: str, value: bytes) -> Work:
    how = {"acks": "all", "linger.ms": 0, "message.timeout.ms": TIMEOUT_MS}
    producer, told = confluent_kafka.Producer({**where.kafka(user), **how}), list[Any]()
    while True:
        producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
        producer.flush(TIMEOUT_S)
        if told != [None]:
            raise TimeoutError(f"not acked: {told}")
        told.clear()
        yield True


def kafka_consume(where: Where) -> Work:
    how = {"group.id": "honest-reader", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    consumer = confluent_kafka.Consumer({**where.kafka("honest-e"), **how})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_END)])
    try:
        while True:
            yield any(message.error() is None for message in consumer.consume(500, 0.1))
    finally:
        consumer.close()


def kafka_log_in(where: Where) -> Work:
    while True:
        AdminClient(where.kafka("honest-f")).list_topics(TOPIC, timeout=TIMEOUT_S)
        yield True


def group_commit(where: Where) -> Work:
    """A member of a group, which reads what it writes and commits it."""
    who = where.penstock("honest-g")
    reader = Consumer(where.bootstrap, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False, **who)
    with Producer(where.bootstrap, acks="all", **who) as producer, reader as consumer:
        consumer.subscribe([COMMITTED_TOPIC])
        while True:
            producer.send(COMMITTED_TOPIC, value=SMALL).result(TIMEOUT_S)
            if not consumer.poll(timeout_ms=200):
                yield False
                continue
            consumer.commit()
            yield True


def new_group(where: Where) -> Work:
    """Commits of groups that were not there before, and are deleted."""
    link = where.link("honest-h")
    for number in count():
        name = f"honest-{number}"
        if code := link.commit_offset(name, TOPIC, ""):
            raise ConnectionError(f"a commit of a new group: error code {code}")
        link.delete_group(name)
        yield True


def new_transactional_id(where: Where) -> Work:
    link = where.link("honest-i")
    for number in count():
        if code := link.init_transactional_id(f"honest-{time.time_ns()}-{number}"):
            raise ConnectionError(f"a new transactional id: error code {code}")
        yield True


def page(where: Where, path: str) -> Work:
    while True:
        url = f"http://127.0.0.1:{where.metrics_port}{path}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            answer.read()
        yield True


@dataclass(frozen=True)
class Kind:
    """One kind of honest work, and the seconds between two acts."""

    name: str
    work: Callable[[Where], Work]
    pause_s: float


KINDS: Final = (
    Kind("penstock-produce", lambda where: penstock_produce(where, "honest-a", TOPIC, SMALL), 0.04),
    Kind("penstock-large", lambda where: penstock_produce(where, "honest-j", LARGE_TOPIC, LARGE), 0.25),
    Kind("penstock-converted", lambda where: penstock_produce(where, "honest-l", CONVERTED_TOPIC, SMALL), 0.25),
    Kind("penstock-consume", penstock_consume, 0.04),
    Kind("penstock-log-in", penstock_log_in, 0.25),
    Kind("kafka-produce", lambda where: kafka_produce(where, "honest-d", TOPIC, SMALL), 0.04),
    Kind("kafka-large", lambda where: kafka_produce(where, "honest-k", LARGE_TOPIC, LARGE), 0.25),
    Kind("kafka-consume", kafka_consume, 0.04),
    Kind("kafka-log-in", kafka_log_in, 0.25),
    Kind("group-commit", group_commit, 0.1),
    Kind("new-group", new_group, 0.25),
    Kind("new-transactional-id", new_transactional_id, 0.5),
    Kind("metrics", lambda where: page(where, "/metrics"), 0.25),
    Kind("livez", lambda where: page(where, "/livez"), 0.25),
)
USERS: Final = tuple(f"honest-{letter}" for letter in "abcdefghijkl")
"""One for each kind that logs in."""
FAILED_PAUSE_S: Final = 0.2
_ONE_LINE: Final = threading.Lock()


def _say(*words: object) -> None:
    with _ONE_LINE:
        print(*words, flush=True)


def _run(kind: Kind, where: Where, ended: threading.Event) -> None:
    """Acts until told to end. After an error the work begins anew, as a program would by hand."""
    work = kind.work(where)
    while not ended.wait(kind.pause_s):
        try:
            if next(work):
                _say("ok", kind.name, f"{time.monotonic():.4f}")
        except Exception as error:  # whatever a client raises is what its user sees
            _say("bad", kind.name, f"{time.monotonic():.4f}", " ".join(repr(error).split())[:300])
            work = kind.work(where)
            ended.wait(FAILED_PAUSE_S)


def main(given: str) -> None:
    """Works until stdin ends."""
    logging.disable(logging.CRITICAL)
    where, ended = Where(**json.loads(given)), threading.Event()
    for kind in KINDS:
        threading.Thread(target=_run, args=(kind, where, ended), daemon=True).start()
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main(sys.argv[1])
