"""Bad input at a real node's listener: one exact typed error a row, and nothing is lost or written."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import grpc
import grpc.aio
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import (
    BootstrapError,
    CorruptMessageError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    TopicExistsError,
    UnknownProducerIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.pb import broker_pb2 as pb
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from tests.support import raw_broker
from tests.support.grpc_stub import Stub

BATCH = build_batch([b"one", b"two"], timestamps_ms=1_700_000_000_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("t", partitions=1, replication_factor=3)
        with Producer(running.bootstrap, acks="all") as producer:
            producer.send("t", value=b"first").result(60)
        yield running


def address(cluster: Cluster, node: int) -> str:
    return cluster.bootstrap.split(",")[node]


def leader_of(cluster: Cluster) -> int:
    with Admin(cluster.bootstrap) as admin:
        return admin.describe_topic("t").partitions[0].leader_id


def leader_address(cluster: Cluster) -> str:
    with Admin(cluster.bootstrap) as admin:
        leader_id = admin.describe_topic("t").partitions[0].leader_id
        (node,) = [b for b in admin.describe_cluster().brokers if b.node_id == leader_id]
    return f"{node.host}:{node.port}"


def end_of(cluster: Cluster) -> int:
    with Consumer(cluster.bootstrap) as consumer:
        return consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


BAD_BATCHES = {
    "flipped bit in a record": (flipped(BATCH, 70), CorruptMessageError.code),
    "flipped bit in the checksum": (flipped(BATCH, 18), CorruptMessageError.code),
    "wrong magic": (BATCH[:16] + b"\x01" + BATCH[17:], None),
    "cut short": (BATCH[:-3], CorruptMessageError.code),
    "trailing bytes": (BATCH + b"xyz", CorruptMessageError.code),
    "nothing at all": (b"", None),
    "garbage": (b"\xef" * 200, CorruptMessageError.code),
    "garbage that says it is part of a transaction": (b"\xff" * 200, InvalidRequestError.code),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_written(cluster: Cluster, name: str) -> None:
    data, code = BAD_BATCHES[name]
    before = end_of(cluster)
    (answer,) = raw_broker.produce(leader_address(cluster), raw_broker.records("t", 0, data))
    error = answer.partitions[0].error
    assert error.code not in (0, -1), f"{name} was answered with {error}"
    assert code is None or error.code == code, error
    assert error.message
    assert end_of(cluster) == before


def sequenced(sequence: int, *, epoch: int = 0, producer_id: int, count: int = 1) -> bytes:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return build_batch([b"%d" % sequence] * count, timestamps_ms=1_700_000_000_000, **fields)  # type: ignore[arg-type]


TAKEN = ((0, 2, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0), (5, 1, 0), (6, 1, 0))
"""The batches that the producer of each row has written: first sequence, records, epoch."""
REFUSED_SEQUENCES = {
    "a gap": (TAKEN, (8, 1, 0), OutOfOrderSequenceError),
    "sent again, and not one of the last five": (TAKEN, (0, 2, 0), OutOfOrderSequenceError),
    "another batch that begins with the same sequence": (TAKEN, (5, 2, 0), OutOfOrderSequenceError),
    "the last sequence of all, where 7 is next": (TAKEN, (2**31 - 1, 1, 0), OutOfOrderSequenceError),
    "a new epoch that does not begin with 0": (TAKEN, (7, 1, 1), OutOfOrderSequenceError),
    "fenced": ((*TAKEN, (0, 1, 1)), (7, 1, 0), InvalidProducerEpochError),
    "fenced, with what it has written": ((*TAKEN, (0, 1, 1)), (6, 1, 0), InvalidProducerEpochError),
    "unknown producer": ((), (7, 1, 0), UnknownProducerIdError),
    "a negative sequence": (TAKEN, (-1, 1, 0), InvalidRecordError),
    "a negative epoch": (TAKEN, (7, 1, -1), InvalidRecordError),
}


@pytest.mark.parametrize("row", REFUSED_SEQUENCES)
def test_a_batch_out_of_turn_is_refused_and_the_next_one_goes_on(cluster: Cluster, row: str) -> None:
    taken, (sequence, count, epoch), refusal = REFUSED_SEQUENCES[row]
    leader, producer_id = leader_address(cluster), 10**12 + list(REFUSED_SEQUENCES).index(row)
    batches = [sequenced(first, count=n, epoch=e, producer_id=producer_id) for first, n, e in taken]
    answers = raw_broker.produce(leader, *(raw_broker.records("t", 0, one) for one in batches))
    assert all(not answer.partitions[0].HasField("error") for answer in answers)
    before = end_of(cluster)

    bad = sequenced(sequence, count=count, epoch=epoch, producer_id=producer_id)
    (answer,) = raw_broker.produce(leader, raw_broker.records("t", 0, bad))
    assert (answer.partitions[0].error.code, end_of(cluster)) == (refusal.code, before)
    following, epoch = (taken[-1][0] + taken[-1][1], taken[-1][2]) if taken else (0, 0)
    good = sequenced(following, epoch=epoch, producer_id=producer_id)
    (answer,) = raw_broker.produce(leader, raw_broker.records("t", 0, good))
    assert answer.partitions[0].base_offset == before


def test_a_batch_that_is_sent_again_is_answered_with_its_first_offsets_and_written_once(cluster: Cluster) -> None:
    leader, batches = leader_address(cluster), [sequenced(n, producer_id=10**13) for n in range(5)]
    requests = [raw_broker.records("t", 0, one) for one in batches]
    first = [answer.partitions[0] for answer in raw_broker.produce(leader, *requests)]
    before = end_of(cluster)
    again = [answer.partitions[0] for answer in raw_broker.produce(leader, *requests, *requests)]
    assert [part.base_offset for part in again] == [part.base_offset for part in first] * 2
    assert end_of(cluster) == before


def test_acks_must_be_zero_one_or_all(cluster: Cluster) -> None:
    (answer,) = raw_broker.produce(leader_address(cluster), raw_broker.records("t", 0, BATCH, acks=5))
    assert answer.error.code == 21 and "acks is 5" in answer.error.message


def test_an_unknown_topic_is_said_to_be_unknown(cluster: Cluster) -> None:
    (answer,) = raw_broker.produce(address(cluster, 0), raw_broker.records("nope", 0, BATCH, topic_id="x" * 22))
    assert answer.partitions[0].error.code == UnknownTopicIdError.code
    (answer,) = raw_broker.produce(address(cluster, 0), raw_broker.records("nope", 0, BATCH))
    assert answer.partitions[0].error.code == InvalidRequestError.code
    with Admin(cluster.bootstrap) as admin, pytest.raises(UnknownTopicOrPartitionError, match="nope"):
        admin.describe_topic("nope")
    with Admin(cluster.bootstrap) as admin, pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topic("nope")


def test_a_record_that_is_too_large_is_refused_with_size_and_limit(cluster: Cluster) -> None:
    large = build_batch([b"x" * 2_000_000], timestamps_ms=1_700_000_000_000)
    (answer,) = raw_broker.produce(leader_address(cluster), raw_broker.records("t", 0, large))
    assert answer.partitions[0].error.code == MessageTooLargeError.code
    assert str(len(large)) in answer.partitions[0].error.message and "1048588" in answer.partitions[0].error.message
    with Producer(cluster.bootstrap) as producer, pytest.raises(MessageTooLargeError):
        producer.send("t", value=b"x" * 2_000_000).result(60)


def test_not_the_leader_says_who_is_and_the_client_follows(cluster: Cluster) -> None:
    leader_id, right = leader_of(cluster), leader_address(cluster)
    wrong = next(a for a in cluster.bootstrap.split(",") if a != right)
    (answer,) = raw_broker.produce(wrong, raw_broker.records("t", 0, BATCH))
    error = answer.partitions[0].error
    assert error.code == NotLeaderOrFollowerError.code
    assert error.leader.leader_id == leader_id
    assert f"{error.leader.host}:{error.leader.port}" == right
    with Producer(wrong, acks="all") as producer:
        assert producer.send("t", value=b"followed").result(60).topic == "t"


@pytest.mark.parametrize("offset", [-5, 10**12])
def test_out_of_range_tells_both_bounds(cluster: Cluster, offset: int) -> None:
    (answer,) = raw_broker.fetch(leader_address(cluster), raw_broker.position("t", offset))
    error = answer.partitions[0].error
    assert error.code == OffsetOutOfRangeError.code
    assert (error.log_start_offset, error.log_end_offset) == (0, end_of(cluster))


def test_the_consumer_raises_out_of_range_with_both_bounds(cluster: Cluster) -> None:
    with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 10**9)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            for _ in range(100):
                consumer.poll(timeout_ms=1_000)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, end_of(cluster))


def test_a_stale_and_a_future_leader_epoch_are_told_apart(cluster: Cluster) -> None:
    answers = raw_broker.fetch(
        leader_address(cluster),
        raw_broker.position("t", 0, current_leader_epoch=10**6),
    )
    assert raw_broker.codes(answers) == [75]


def test_a_consumer_cannot_pass_for_a_replica(cluster: Cluster) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="replica id 2 is not served to clients"):
        raw_broker.fetch(leader_address(cluster), raw_broker.position("t", 0, replica_id=2))


def test_negative_sizes_are_refused(cluster: Cluster) -> None:
    (answer,) = raw_broker.fetch(leader_address(cluster), pb.FetchRequest(replica_id=-1, max_bytes=-1))
    assert answer.error.code == 42


TOPIC_ROWS = {
    "exists": ("t", {}, TopicExistsError, "t"),
    "empty name": ("", {}, InvalidTopicError, ""),
    "dot": (".", {}, InvalidTopicError, ""),
    "path": ("../x", {}, InvalidTopicError, ""),
    "long": ("x" * 250, {}, InvalidTopicError, "249"),
    "reserved": ("__cluster_metadata", {}, InvalidTopicError, ""),
    "reserved for groups": ("__consumer_offsets", {}, InvalidTopicError, "offsets of consumer groups"),
    "no partitions": ("a", {"partitions": 0}, InvalidPartitionsError, ""),
    "too many partitions": ("a", {"partitions": 10**9}, InvalidPartitionsError, ""),
    "no replicas": ("a", {"replication_factor": 0}, InvalidReplicationFactorError, ""),
    "more replicas than brokers": ("a", {"replication_factor": 4}, InvalidReplicationFactorError, "3"),
    "unknown config": ("a", {"config": {"retention.mss": "1"}}, InvalidConfigError, "retention.ms"),
    "ill-typed config": ("a", {"config": {"retention.ms": "soon"}}, InvalidConfigError, "retention.ms"),
}


@pytest.mark.parametrize("row", TOPIC_ROWS)
def test_a_bad_topic_is_refused_with_its_own_error(cluster: Cluster, row: str) -> None:
    name, options, error, words = TOPIC_ROWS[row]
    with Admin(cluster.bootstrap) as admin:
        with pytest.raises(error, match=words or None):
            admin.create_topic(name, **{"partitions": 1, "replication_factor": 1, **options})  # type: ignore[arg-type]
        assert "a" not in admin.list_topics()


def test_garbage_on_the_port_hurts_nobody(cluster: Cluster) -> None:
    host, port = leader_address(cluster).rsplit(":", 1)
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" + bytes(200), bytes(range(256)) * 40):
        with (
            socket.create_connection((host, int(port)), timeout=60) as connection,
            contextlib.suppress(OSError),  # the node may hang up first
        ):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    with Producer(cluster.bootstrap, acks="all") as producer:
        assert producer.send("t", value=b"after the garbage").result(60).offset >= 0
    assert all(cluster.is_running(node) for node in range(3))


def test_a_server_that_speaks_garbage_is_named_in_a_typed_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.0 400 go away\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        host, port = server.getsockname()
        try:
            with pytest.raises(BootstrapError, match=f"{host}:{port}"), Admin(f"{host}:{port}") as admin:
                admin.list_topics()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_too_many_elements_are_refused_at_once_by_name_limit_and_count(cluster: Cluster) -> None:
    node = address(cluster, 0)
    with grpc.insecure_channel(node) as channel, pytest.raises(grpc.RpcError) as refused:
        Stub(channel, "Broker").Metadata(pb.MetadataRequest(topics=[""] * 100_000), timeout=30)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "topics has 1001 elements or more; at most 1000" in refused.value.details()

    for ask, message in (
        (raw_broker.produce, pb.ProduceRequest(partitions=[pb.PartitionRecords()] * 100_000)),
        (raw_broker.fetch, pb.FetchRequest(partitions=[pb.FetchPartition()] * 100_000)),
    ):
        with pytest.raises(grpc.RpcError, match="partitions has 2001 elements or more; at most 2000"):
            ask(node, message)  # type: ignore[arg-type]
