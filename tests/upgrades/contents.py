"""The contents of a data directory of a release: made on a running node, and read back from one.

One of everything that has a form of its own on a disk: topics of each codec, with headers, times and empty values; a
log of several segments whose beginning was deleted; a compacted topic; committed, aborted and open transactions; a
topic that was deleted; a group of each protocol with offsets; a user, an ACL, quotas, a configuration of brokers.
`make` returns what was made, `read` what is there, both as plain JSON, and they must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from penstock import Admin, CommittedOffset, Consumer, Producer, TopicPartition
from penstock.security import (
    AclBinding,
    Operation,
    QuotaEntity,
    ResourceType,
    UserScramCredentialUpsertion,
)
from tests.support.decided import wait_decided
from tests.support.waiting import wait_until

Contents = dict[str, Any]
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 12
BEGAN_MS = 1_700_000_000_000
"""The time of the first record: long ago, so nothing here may depend on the age of records."""
SEGMENTED, COMPACTED, CONVERTED, TRANSACTIONAL = "segmented", "compacted", "converted", "transactional"
GONE, LATER = "gone", "made-later"
DELETED_BELOW = 17
TRANSACTIONAL_ID, OPEN_ID = "teller", "left-open"
OPEN_MS = 1_500
OURS, CLASSIC = "group-ours", "group-classic"
FIRST: Final = TopicPartition("none", 0)
NOTE = "a note"
MANY = 2**40
KEEP: Final = {"retention.ms": -1}
CONFIG: Final[Mapping[str, object]] = {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.retention.minutes": 50_000_000,
    "transactional.id.expiration.ms": 2_000_000_000,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 2**20,
}
"""The keys of a node that makes such contents, or opens them."""


def make(bootstrap: str, kafka_bootstrap: str) -> Contents:
    """Makes everything, on one node that has CONFIG."""
    with Admin(bootstrap) as admin:
        topics = {codec: _coded(admin, bootstrap, codec, codec, {}) for codec in CODECS}
        topics[CONVERTED] = _coded(admin, bootstrap, CONVERTED, "gzip", {"compression.type": "zstd"})
        topics[SEGMENTED] = _segmented(admin, bootstrap)
        topics[COMPACTED] = _compacted(admin, bootstrap)
        topics[TRANSACTIONAL] = _transactions(admin, bootstrap)
        admin.create_topic(GONE, 1, 1)
        _send(bootstrap, GONE, [(b"k", b"v")])
        admin.delete_topic(GONE)
        made = {"topics": topics, "groups": _groups(bootstrap, kafka_bootstrap), "security": _security(admin)}
        admin.alter_broker_config(None, {"log.retention.bytes": MANY})
    return {**made, "broker_config": str(MANY)}


def leave_open(kafka_bootstrap: str) -> None:
    """A transaction that is open when the node ends, which is to be within OPEN_MS. A node that loads it counts
    on from the time that the one before has watched, so a test waits for no more than that."""
    # librdkafka aborts nothing when a producer is forgotten.
    forgotten = ConfluentProducer(
        {"bootstrap.servers": kafka_bootstrap, "transactional.id": OPEN_ID, "transaction.timeout.ms": OPEN_MS}
    )
    forgotten.init_transactions(60)
    forgotten.begin_transaction()
    forgotten.produce(TRANSACTIONAL, b"open", b"k")
    assert forgotten.flush(60) == 0


def read(bootstrap: str) -> Contents:
    """Everything that is there, by this tree's clients."""
    with Admin(bootstrap) as admin:
        names = [name for name in admin.list_topics() if not name.startswith("__")]
        groups = {one.group_id: admin.group_offsets(one.group_id) for one in admin.list_groups()}
        quotas = admin.describe_client_quotas()
        topics: dict[str, Any] = dict(_records(bootstrap, names))
        topics[COMPACTED] = {row[1]: row[2] for row in topics[COMPACTED] if row[2] is not None}
        security = {
            "users": sorted(admin.describe_user_scram_credentials()),
            "acls": sorted(map(str, admin.describe_acls())),
            "quotas": sorted([str(entity), dict(keys)] for entity, keys in quotas.items()),
        }
        limit = admin.describe_broker_config(None)["log.retention.bytes"].value
    offsets = {group: {str(tp): [of.offset, of.metadata] for tp, of in each.items()} for group, each in groups.items()}
    return {"topics": topics, "groups": offsets, "security": security, "broker_config": limit}


def write_on(bootstrap: str, kafka_bootstrap: str) -> None:
    """Everything goes on: producers, ids of transactions, groups of both protocols, changes of the metadata.

    Each step is checked by what it answers, or by what is read afterwards."""
    with Admin(bootstrap) as admin:
        admin.create_topic(LATER, 1, 1)
        written = (*CODECS, LATER)
        before = {name: len(rows) for name, rows in _records(bootstrap, [*written, TRANSACTIONAL]).items()}
        with Producer(bootstrap, acks="all") as producer:
            for name in written:
                producer.send(name, b"later")
        for transactional_id in (TRANSACTIONAL_ID, OPEN_ID):
            _transact(bootstrap, transactional_id, [b"later"])
        after = {name: len(rows) - before[name] for name, rows in _records(bootstrap, list(before)).items()}
        assert after == {**dict.fromkeys(written, 1), TRANSACTIONAL: 2}
        _join_ours(bootstrap, RECORDS + 2)
        _join_classic(kafka_bootstrap, RECORDS + 3)
        for group, offset in ((OURS, RECORDS + 2), (CLASSIC, RECORDS + 3)):
            found = admin.group_offsets(group)[FIRST]
            assert found.offset == offset, (group, found)
        admin.delete_topic(SEGMENTED)
        admin.alter_topic_config("none", {"retention.ms": None})


# -- topics ------------------------------------------------------------------------------------------------------------


def _coded(admin: Admin, bootstrap: str, name: str, codec: str, config: Mapping[str, object]) -> list[Any]:
    """Records with headers, times, and values that are empty or null, in batches of a codec."""
    admin.create_topic(name, 1, 1, {**KEEP, **config})
    rows: list[Any] = []
    with Producer(bootstrap, acks="all", compression_type=codec) as producer:
        for number in range(RECORDS):
            value = None if number == 3 else b"" if number == 4 else b"%s %d" % (codec.encode(), number) * 9
            key, at, headers = b"key-%d" % (number % 3), BEGAN_MS + number, [("n", b"%d" % number), ("none", None)]
            placed = producer.send(name, value, key=key, headers=headers, timestamp_ms=at).result(60)
            rows.append([placed.offset, key.decode(), None if value is None else value.decode(), at, _plain(headers)])
    return rows


def _segmented(admin: Admin, bootstrap: str) -> list[Any]:
    """Several segments, and a log start within one."""
    admin.create_topic(SEGMENTED, 1, 1, {**KEEP, "segment.bytes": 1024, "index.interval.bytes": 64})
    sent = [(b"k", b"%03d" % number * 30) for number in range(60)]
    rows = [row for number in range(0, 60, 5) for row in _send(bootstrap, SEGMENTED, sent[number : number + 5])]
    admin.delete_records({TopicPartition(SEGMENTED, 0): DELETED_BELOW})
    return rows[DELETED_BELOW:]


def _compacted(admin: Admin, bootstrap: str) -> dict[str, str]:
    """The last values, in a log that was cleaned; one key is deleted."""
    admin.create_topic(
        COMPACTED, 1, 1, {"cleanup.policy": "compact", "segment.bytes": 1024, "min.cleanable.dirty.ratio": 0.01}
    )
    rows = [(b"key-%d" % (number % 4), b"%03d" % number * 10) for number in range(80)]
    _send(bootstrap, COMPACTED, rows)
    _send(bootstrap, COMPACTED, [(b"key-3", None)])
    _send(bootstrap, COMPACTED, [(b"last", b"%d" % number * 100) for number in range(30)])
    wait_until(lambda: len(_records(bootstrap, [COMPACTED])[COMPACTED]) < 60)
    values = {key.decode(): value.decode() for key, value in rows if key != b"key-3" and value is not None}
    return {**values, "last": "29" * 100}


def _transactions(admin: Admin, bootstrap: str) -> list[Any]:
    """The records of committed transactions, beside an aborted one."""
    admin.create_topic(TRANSACTIONAL, 1, 1, KEEP)
    rows = _transact(bootstrap, TRANSACTIONAL_ID, [b"one", b"two"])
    with Producer(bootstrap, transactional_id=TRANSACTIONAL_ID) as producer:
        producer.begin_transaction()
        producer.send(TRANSACTIONAL, b"aborted", key=b"k").result(60)
        producer.abort_transaction()
    rows += _transact(bootstrap, TRANSACTIONAL_ID, [b"three"])
    return rows


def _transact(bootstrap: str, transactional_id: str, values: Sequence[bytes]) -> list[Any]:
    with Producer(bootstrap, transactional_id=transactional_id) as producer, producer.transaction() as transaction:
        sent = [transaction.send(TRANSACTIONAL, one, key=b"k", timestamp_ms=BEGAN_MS) for one in values]
    placed = [future.result(60).offset for future in sent]
    return [[at, "k", value.decode(), BEGAN_MS, []] for at, value in zip(placed, values, strict=True)]


def _send(bootstrap: str, topic: str, rows: Sequence[tuple[bytes, bytes | None]]) -> list[Any]:
    """One batch; the rows as they are read."""
    with Producer(bootstrap, acks="all", linger_ms=20) as producer:
        sent = [producer.send(topic, value, key=key, timestamp_ms=BEGAN_MS) for key, value in rows]
        placed = [future.result(60).offset for future in sent]
    return [
        [offset, key.decode(), None if value is None else value.decode(), BEGAN_MS, []]
        for offset, (key, value) in zip(placed, rows, strict=True)
    ]


def _records(bootstrap: str, topics: Sequence[str]) -> dict[str, list[Any]]:
    """All records of partition 0 of each topic, as a reader of committed records gets them once no transaction is
    open."""
    partitions = [TopicPartition(topic, 0) for topic in topics]
    wait_decided(bootstrap, partitions)
    rows: dict[str, list[Any]] = {topic: [] for topic in topics}
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for r in consumer.poll(timeout_ms=200):
                row = [r.offset, (r.key or b"").decode(), _text(r.value), r.timestamp_ms, _plain(r.headers)]
                rows[r.topic].append(row)
    return rows


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _plain(headers: Iterable[tuple[str, bytes | None]]) -> list[Any]:
    return [[name, _text(value)] for name, value in headers]


# -- groups, users, rights ---------------------------------------------------------------------------------------------


def _groups(bootstrap: str, kafka_bootstrap: str) -> dict[str, Any]:
    _join_ours(bootstrap, 5)
    _join_classic(kafka_bootstrap, 7)
    return {OURS: {str(FIRST): [5, NOTE]}, CLASSIC: {str(FIRST): [7, ""]}}


def _join_ours(bootstrap: str, offset: int) -> None:
    """A member of the new protocol commits an offset, and leaves."""
    with Consumer(bootstrap, group_id=OURS, enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([FIRST.topic])
        wait_until(lambda: bool(consumer.poll(timeout_ms=100)) or bool(consumer.assignment()))
        consumer.commit({FIRST: CommittedOffset(offset, metadata=NOTE)})


def _join_classic(kafka_bootstrap: str, offset: int) -> None:
    """A member of the classic protocol, by confluent-kafka."""
    consumer = ConfluentConsumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": CLASSIC, "enable.auto.commit": False}
    )
    consumer.subscribe([FIRST.topic])
    wait_until(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()))
    consumer.commit(offsets=[ConfluentPartition(FIRST.topic, FIRST.partition, offset)], asynchronous=False)
    consumer.close()


def _security(admin: Admin) -> dict[str, Any]:
    """A user (its password is of these tests alone), a right, and quotas."""
    acl = AclBinding(ResourceType.TOPIC, "orders", "User:anna", Operation.READ)
    rates = {"producer_byte_rate": 1_000_000.0, "consumer_byte_rate": 2_000_000.0}
    user, everybody = QuotaEntity(user="anna"), QuotaEntity(client_id="")
    answers = [
        *admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", "of the tests alone")]).values(),
        *admin.create_acls([acl]).values(),
        *admin.alter_client_quotas({user: rates, everybody: {"request_percentage": 80.0}}).values(),
    ]
    assert not any(answers), answers
    quotas = [[str(user), rates], [str(everybody), {"request_percentage": 80.0}]]
    return {"users": ["anna"], "acls": [str(acl)], "quotas": sorted(quotas)}
