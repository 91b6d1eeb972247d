"""compression.type on a real node: what is produced in one codec stands on the disk in another, and reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.record.batch import pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from penstock.testing import Cluster
from tests.support import raw_broker

TYPES = {"producer": Codec.GZIP, "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "zstd": Codec.ZSTD, "lz4": Codec.LZ4}
VALUES = [b"record %d of a topic that is kept in another codec" % row for row in range(2_000)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    directory = tmp_path_factory.mktemp("recompression")
    with Cluster(nodes=1, config={"compression.type": "snappy"}, directory=directory) as running:
        with Admin(running.bootstrap) as admin:
            for name in TYPES:
                admin.create_topic(name, partitions=1, config={"compression.type": name})
            admin.create_topic("snappy", partitions=1)  # the node's own default
        yield running, directory


def stored(directory: Path, topic: str) -> tuple[set[int], list[bytes | None]]:
    """Codecs and values of a topic as they stand on the disk, read by aiokafka's code."""
    (path,) = directory.glob(f"**/{topic}-0/00000000000000000000.log")
    codecs, values = set(), []
    records = MemoryRecords(path.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        assert batch is not None and batch.validate_crc()
        codecs.add(batch.compression_type)
        values += [record.value for record in batch]
    return codecs, values


@pytest.mark.parametrize(("topic", "codec"), [*TYPES.items(), ("snappy", Codec.SNAPPY)])
def test_what_comes_as_gzip_is_stored_in_the_topics_codec(node: tuple[Cluster, Path], topic: str, codec: Codec) -> None:
    cluster, directory = node
    with Producer(cluster.bootstrap, acks="all", compression_type="gzip", linger_ms=5) as producer:
        futures = [producer.send(topic, value) for value in VALUES]
        assert [future.result(60).offset for future in futures] == list(range(len(VALUES)))

    assert stored(directory, topic) == ({int(codec)}, VALUES)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read: list[bytes | None] = []
        while len(read) < len(VALUES):
            read += [record.value for record in consumer.poll(timeout_ms=60_000)]
    assert read == VALUES


def with_body(codec: int, body: bytes) -> bytes:
    header = read_header(build_batch([b"v"], timestamps_ms=1_700_000_000_000))
    return pack_batch(header._replace(attributes=codec), body)


BAD = {
    "a broken stream": (with_body(Codec.LZ4, b"no lz4 frame"), CorruptMessageError.code),
    "a bomb": (with_body(Codec.GZIP, compress(Codec.GZIP, bytes(66 << 20))), MessageTooLargeError.code),
    "an unknown codec": (with_body(6, b"what is it"), UnsupportedCompressionTypeError.code),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_converted_is_refused_and_nothing_is_written(node: tuple[Cluster, Path], name: str) -> None:
    cluster, directory = node
    data, code = BAD[name]
    size_bytes = len(b"".join(path.read_bytes() for path in directory.glob("**/zstd-0/*.log")))

    good = build_batch([b"good"], timestamps_ms=1_700_000_000_000)
    request = raw_broker.records("zstd", 0, data)
    request.partitions.add(topic="uncompressed", partition=0, records=data)
    request.partitions.add(topic="lz4", partition=0, records=good)
    (answer,) = raw_broker.produce(cluster.endpoint(0), request)

    assert [part.error.code for part in answer.partitions] == [code, code, 0], answer
    assert len(b"".join(path.read_bytes() for path in directory.glob("**/zstd-0/*.log"))) == size_bytes
