"""Atomic batches of the plain client on a real cluster: a version is read whole or never, whoever is killed."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from broker.transactions.transactional_ids import partition_of_transactional_id
from penstock import Admin, AtomicBatches, Consumer
from penstock.client.producer.transactions.atomic_batches import AtomicWriter
from penstock.errors import (
    AtomicBatchVersionError,
    ConfigError,
    InvalidTxnStateError,
    PenstockError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from penstock.testing import Cluster
from penstock.types import ProducerIdAndEpoch
from tests.support.command_line import penstock

NODES = 3
PATIENCE_S = 60
STATE = "__transaction_state"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES) as running:
        yield running


def values_of(cluster: Cluster, topic: str, level: str = "read_committed") -> list[bytes]:
    """All that the topic has for such a reader, up to the end of its log: it waits for markers."""
    with (
        Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_uncommitted") as any_reader,
        Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level=level) as consumer,  # type: ignore[arg-type]
    ):
        partitions = consumer.partitions_for(topic)
        any_reader.assign(partitions)
        ends = any_reader.end_offsets(partitions)
        consumer.assign(partitions)
        found: list[bytes] = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=200)]
        return found


def wrote(
    batches: AtomicBatches, application: str, version: int, topic: str, values: list[bytes], run: str = ""
) -> ProducerIdAndEpoch:
    writer = batches.begin(application, version, run=run)
    assert writer is not None
    with writer:
        for number, value in enumerate(values):
            writer.send(topic, value, partition=number % 3)
        writer.send_many(topic, values)
    return writer.identity


def coordinator_of(cluster: Cluster, application: str) -> int:
    with Admin(cluster.bootstrap) as admin:
        partitions = admin.describe_topic(STATE).partitions
    return cluster.leader(STATE, partition_of_transactional_id(f"penstock.batch:{application}", len(partitions)))


def said(cluster: Cluster, *words: str) -> str:
    done = penstock("transactions", *words, bootstrap=cluster.bootstrap)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_two_writers_are_read_together_and_what_nobody_accepts_never(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    with AtomicBatches(cluster.bootstrap) as batches, AtomicBatches(cluster.bootstrap) as elsewhere:
        one = wrote(batches, topic, 0, topic, [b"a", b"b"])
        two = wrote(elsewhere, topic, 0, topic, [b"c"])
        wrote(batches, topic, 0, topic, [b"lost"])
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            assert consumer.poll(timeout_ms=500) == []
        assert elsewhere.commit(topic, 0, [one, two], records=6)[:2] == (False, 6)
        assert elsewhere.commit(topic, 0, [one, two])[:2] == (True, 6)
        assert batches.begin(topic, 0) is None
    assert Counter(values_of(cluster, topic)) == {b"a": 2, b"b": 2, b"c": 2}
    assert b"lost" in values_of(cluster, topic, "read_uncommitted")


def test_the_coordinator_is_killed_as_soon_as_it_has_answered(cluster: Cluster) -> None:
    """Its markers may be written or not: the next one writes them by what the log says."""
    topic, expected = cluster.topic(partitions=3), Counter[bytes]()
    with AtomicBatches(cluster.bootstrap) as batches:
        for version in range(2):
            values = [b"%d-%d" % (version, number) for number in range(20)]
            writers = [wrote(batches, topic, version, topic, values, run="r") for _ in range(3)]
            wrote(batches, topic, version, topic, [b"lost"], run="r")
            assert not batches.commit(topic, version, writers, run="r", records=120).was_committed
            node = coordinator_of(cluster, topic)
            cluster.kill(node)
            expected.update(values * 6)
            assert batches.commit(topic, version, writers, run="r")[:2] == (True, 120)
            assert Counter(values_of(cluster, topic)) == expected
            cluster.start(node)


@pytest.mark.long  # unit/client/producer/transactions/test_atomic_batches.py has power cuts in a commit
def test_the_coordinator_is_killed_while_it_decides(cluster: Cluster) -> None:
    """All of a version or nothing is read, and who begins again is told which."""
    topic, expected = cluster.topic(partitions=3), Counter[bytes]()
    with AtomicBatches(cluster.bootstrap) as batches:
        for version in range(2):
            values = [b"%d-%d" % (version, number) for number in range(10)]
            writers = [wrote(batches, topic, version, topic, values, run=f"{version}") for _ in range(4)]
            node, errors = coordinator_of(cluster, topic), list[PenstockError]()
            decides = threading.Thread(target=_commit, args=(batches, topic, version, writers, errors))
            decides.start()
            cluster.kill(node)
            decides.join(PATIENCE_S)
            assert not decides.is_alive() and not errors, errors
            expected.update(values * 8)
            assert batches.begin(topic, version, run=f"{version} again") is None
            assert Counter(values_of(cluster, topic)) == expected
            cluster.start(node)


def _commit(
    batches: AtomicBatches,
    topic: str,
    version: int,
    writers: list[ProducerIdAndEpoch],
    errors: list[PenstockError],
) -> None:
    try:
        batches.commit(topic, version, writers, run=f"{version}")
    except PenstockError as error:
        errors.append(error)


@pytest.mark.long  # simulation/cluster/sink/
def test_a_writer_that_loses_a_broker_goes_on(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    with AtomicBatches(cluster.bootstrap, linger_ms=0) as batches:
        writer = batches.begin(topic, 0)
        assert writer is not None
        with writer:
            for number in range(50):
                writer.send(topic, b"%d" % number, partition=number % 3)
            with cluster.down(cluster.leader(topic, 0)):
                for number in range(50, 100):
                    writer.send(topic, b"%d" % number, partition=number % 3)
                writer.flush(PATIENCE_S)
        batches.commit(topic, 0, [writer.identity])
    assert Counter(values_of(cluster, topic)) == {b"%d" % number: 1 for number in range(100)}


def test_runs_versions_and_ends_as_a_user_meets_them(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    with AtomicBatches(cluster.bootstrap) as batches:
        old = batches.begin(topic, 1, run="one")
        new = batches.begin(topic, 1, run="two")
        assert old is not None and new is not None
        calls: list[Callable[[], object]] = [
            lambda: batches.begin(topic, 1, run="one"),
            lambda: batches.commit(topic, 1, [old.identity], run="one"),
            lambda: batches.abort(topic, 1, run="one"),
        ]
        for call in calls:
            with pytest.raises(ProducerFencedError, match="run 'two' has begun"):
                call()
        old.close()
        new.send(topic, b"new")
        new.flush()
        with pytest.raises(InvalidTxnStateError):
            batches.commit(topic, 1, [new.identity, old.identity], run="two")
        batches.commit(topic, 1, [new.identity], run="two")
        with pytest.raises(AtomicBatchVersionError, match="Give it another application, or say that it goes back"):
            batches.begin(topic, 0, run="two")
        assert batches.abort(topic, 1) is True and batches.abort(topic, 5) is False
    closed: list[Callable[[], object]] = [lambda: new.send(topic, b"late"), lambda: new.flush()]
    for call in closed:
        with pytest.raises(PenstockError):
            call()
    assert values_of(cluster, topic) == [b"new"]


def test_an_operator_sees_the_writers_and_aborts_a_version_by_one_of_them(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    with AtomicBatches(cluster.bootstrap) as batches:
        writers = [wrote(batches, topic, 0, topic, [b"x"]) for _ in range(2)]
        names = [f"penstock.batch:{topic}#{one.producer_id}" for one in writers]
        listed = said(cluster, "list", "--state", "Ongoing")
        assert all(name in listed for name in names)
        assert "Ongoing" in said(cluster, "describe", names[0])
        printed = said(cluster, "abort", names[0])
        assert f"no writer of application {topic} has an open transaction any more" in printed
        with pytest.raises(InvalidTxnStateError):
            batches.commit(topic, 0, writers)
    assert values_of(cluster, topic) == []


def test_what_cannot_be_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(ConfigError, match="has no option transactional_id"):
        AtomicBatches("127.0.0.1:1", transactional_id="t")
    with pytest.raises(ConfigError, match="acks='all'"):
        AtomicBatches("127.0.0.1:1", acks=1)
    batches = AtomicBatches("127.0.0.1:1", max_block_ms=500, bootstrap_timeout_ms=500)
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (ValueError, lambda: batches.begin("", 0)),
        (ValueError, lambda: batches.begin("a#b", 0)),
        (ValueError, lambda: batches.begin("a", -1)),
        (ValueError, lambda: batches.begin("a", 0, timeout_ms=0)),
        (ValueError, lambda: batches.begin("a", 0, run="r" * 201)),
        (TypeError, lambda: batches.begin(7, 0)),  # type: ignore[arg-type]
        (TypeError, lambda: batches.begin("a", "0")),  # type: ignore[arg-type]
        (TypeError, lambda: batches.begin("a", 0, run=None)),  # type: ignore[arg-type]
        (TypeError, lambda: batches.commit("a", 0, 7)),  # type: ignore[arg-type]
        (TypeError, lambda: batches.commit("a", 0, [7])),  # type: ignore[list-item]
        (ValueError, lambda: batches.commit("a", 0, [(1, -1)])),
        (ValueError, lambda: batches.commit("a", 0, [], records=-2)),
        (ValueError, lambda: batches.abort("a", -1)),
        (AttributeError, lambda: batches.send("t", b"v")),  # type: ignore[attr-defined]
        (PenstockError, lambda: batches.commit("a", 0, [])),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()
    batches.close()
    batches.close()


def test_a_writer_that_is_dropped_leaves_its_producer_and_says_what_it_has_not_flushed(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=1)
    with AtomicBatches(cluster.bootstrap, linger_ms=60_000) as batches:
        writer = batches.begin(topic, 0)
        assert writer is not None
        future = writer.send(topic, b"lost")
        with pytest.warns(ResourceWarning, match="1 of its records were not acked yet: they are not sent, so its part"):
            del writer
            gc.collect()
        with pytest.raises(TransactionAbortedError):
            future.result(PATIENCE_S)
        kept = wrote_one(batches, topic)
        batches.commit(topic, 0, [kept])
    assert values_of(cluster, topic) == [b"kept"]


def wrote_one(batches: AtomicBatches, topic: str) -> ProducerIdAndEpoch:
    writer = batches.begin(topic, 0)
    assert writer is not None
    with writer:
        writer.send(topic, b"kept")
    return writer.identity


def test_a_client_has_so_many_writers_open(cluster: Cluster) -> None:
    topic, writers = cluster.topic(partitions=1), list[AtomicWriter]()
    with AtomicBatches(cluster.bootstrap) as batches:
        with pytest.raises(TransactionStateError, match="close those that are done"):
            for _ in range(101):
                writer = batches.begin(topic, 0)
                assert writer is not None
                writers.append(writer)
        assert len(writers) == 100
        writers.pop().close()
        again = batches.begin(topic, 0)
        assert again is not None
        with again:
            again.send(topic, b"last")
        batches.commit(topic, 0, [again.identity])
    assert values_of(cluster, topic) == [b"last"]
