"""`penstock log dump`: the rows of each kind of file, good and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.markers import Marker, build_marker
from penstock.types import NO_OFFSET
from storage.append.producer_state import ProducerEntry, TakenBatch
from storage.append.transaction_state import ProducerTransaction
from storage.recovery.producer_snapshot import ProducerSnapshot, snapshot_content
from storage.segment.transaction_index import ENTRY
from storage.tools.dump_files import dump
from storage.tools.dump_log import DumpOptions, Row, cut_bytes_fields
from storage.tools.overlay import OverlayFileSystem
from tests.support.log_dirs import BATCH_BYTES, FIRST, SECOND, THIRD, flip, make_log_dir
from tests.support.storage import CLUSTER_ID, NOW_MS, TOPIC_ID
from tests.support.transactions import placed


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data")


def rows(path: Path, what: str = "batches", **options: int) -> list[Row]:
    return list(dump(OverlayFileSystem(), str(path), DumpOptions(what, **options)))


def test_batches_of_a_partition_in_order(data: Path) -> None:
    found = rows(data / "orders-0")
    assert [row["base_offset"] for row in found] == list(range(20))
    assert found[8] == {
        "type": "batch",
        "file": str(data / "orders-0" / SECOND),
        "position": BATCH_BYTES,
        "base_offset": 8,
        "last_offset": 8,
        "leader_epoch": 1,
        "records": 1,
        "bytes": BATCH_BYTES,
        "codec": "none",
        "base_timestamp_ms": NOW_MS + 8,
        "max_timestamp_ms": NOW_MS + 8,
        "timestamp_type": "create",
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "kind": "data",
        "is_transactional": False,
        "is_control": False,
        "attributes": 0,
        "crc": found[8]["crc"],
    }


def test_a_log_dir_is_all_its_partitions(data: Path) -> None:
    assert len(rows(data)) == 20
    assert {row["file"] for row in rows(data, "epochs")} == {str(data / "orders-0" / "leader-epoch-checkpoint")}


def test_an_offset_leaves_out_what_is_before(data: Path) -> None:
    assert [row["base_offset"] for row in rows(data / "orders-0", from_offset=17)] == [17, 18, 19]
    assert [row["offset"] for row in rows(data / "orders-0", "records", from_offset=18)] == [18, 19]
    assert [row["base_offset"] for row in rows(data / "orders-0" / FIRST, from_offset=5)] == [5, 6]


def test_records_with_keys_headers_and_nulls(tmp_path: Path) -> None:
    segment = tmp_path / FIRST
    headers = [[("h", b"\xff"), ("n", None)], []]
    columns = {"keys": [b"k", None], "headers": headers, "timestamps_ms": [5, 7], "codec": Codec.ZSTD}
    control = build_batch([b"v"], timestamps_ms=9, base_offset=2, is_control=True)
    segment.write_bytes(build_batch([b"\xff\x00", None], **columns) + control)  # type: ignore[arg-type]
    common = {"type": "record", "file": str(segment)}
    position = len(segment.read_bytes()) - len(control)
    assert rows(segment, "records") == [
        common
        | {"position": 0, "offset": 0, "timestamp_ms": 5, "key": "k", "value_base64": "/wA="}
        | {"headers": [{"name": "h", "value_base64": "/w=="}, {"name": "n", "value": None}]},
        common | {"position": 0, "offset": 1, "timestamp_ms": 7, "key": None, "value": None},
        common | {"position": position, "offset": 2, "is_control": True, "timestamp_ms": 9, "key": None, "value": "v"},
    ]


@pytest.mark.parametrize(
    "data, max_bytes, expected",
    [
        (b"abc", None, {"v": "abc"}),
        (b"abc", 3, {"v": "abc"}),
        (b"abc", 2, {"v": "ab", "v_bytes": 3}),
        ("aé".encode(), 2, {"v": "a", "v_bytes": 3}),
        (b"\xff\xfe\xfd", 1, {"v_base64": "/w==", "v_bytes": 3}),
        (b"", 0, {"v": ""}),
        (None, 1, {"v": None}),
    ],
)
def test_bytes_as_json_can_hold_them(data: bytes | None, max_bytes: int | None, expected: Row) -> None:
    assert cut_bytes_fields("v", data, max_bytes) == expected


def test_damage_is_a_row_and_what_follows_is_shown(data: Path) -> None:
    flip(data / "orders-0" / FIRST, 50)
    for what, place in (("batches", "base_offset"), ("records", "offset")):
        found = rows(data / "orders-0" / FIRST, what)
        assert found[0]["type"] == "problem" and "checksum" in str(found[0]["problem"])
        assert [row[place] for row in found[1:]] == [1, 2, 3, 4, 5, 6]


def test_what_is_no_batch_is_a_row(data: Path) -> None:
    flip(data / "orders-0" / THIRD, 2 * BATCH_BYTES + 16)
    last = rows(data / "orders-0")[-1]
    assert (last["type"], last["position"]) == ("problem", 2 * BATCH_BYTES)


def test_entries_of_both_indexes(data: Path) -> None:
    found = rows(data / "orders-0" / SECOND, "index")
    index = [row for row in found if row["type"] == "index"]
    times = [row for row in found if row["type"] == "timeindex"]
    assert index and all(row["log_position"] == (int(str(row["offset"])) - 7) * BATCH_BYTES for row in index)
    assert [row["position"] for row in times] == list(range(0, 12 * len(times), 12))
    assert times[-1]["offset"] == 13 and times[-1]["timestamp_ms"] == NOW_MS + 13
    assert rows((data / "orders-0" / SECOND).with_suffix(".index")) == index
    assert rows((data / "orders-0" / SECOND).with_suffix(".timeindex")) == times


def test_a_segment_without_index_files_says_when_they_are_written(data: Path) -> None:
    for suffix in (".index", ".timeindex"):
        (data / "orders-0" / SECOND).with_suffix(suffix).unlink()
    (found,) = rows(data / "orders-0" / SECOND, "index")
    assert found["type"] == "note" and "written when the segment is rolled, or the node stopped" in str(found["note"])


def test_an_index_that_ends_within_an_entry(data: Path) -> None:
    path = (data / "orders-0" / SECOND).with_suffix(".index")
    path.write_bytes(path.read_bytes() + b"123")
    assert rows(path)[-1]["problem"] == "3 bytes that are no whole entry"


def test_epochs_and_checkpoints(data: Path) -> None:
    epochs = [(row["epoch"], row["start_offset"]) for row in rows(data / "orders-0", "epochs")]
    assert epochs == [(0, 0), (1, 8), (2, 16)]
    found = rows(data, "checkpoints")
    assert {(row["topic"], row["partition"], row["offset"]) for row in found} == {("orders", 0, 20), ("other", 0, 0)}
    assert [row["topic"] for row in rows(data / "orders-0", "checkpoints")] == ["orders"]
    assert rows(data / "recovery-point-offset-checkpoint") == found


def test_small_files_one_by_one(data: Path) -> None:
    assert rows(data / "orders-0" / "partition.metadata")[0]["topic_id"] == TOPIC_ID
    properties = rows(data / "meta.properties")[0]
    assert (properties["cluster_id"], properties["node_id"]) == (CLUSTER_ID, 1)
    marker = rows(data / ".kafka_cleanshutdown")[0]
    assert marker["brokerEpoch"] == 7 and marker["sealed"] is True


@pytest.mark.parametrize(
    "name",
    [
        "orders-0/partition.metadata",
        "orders-0/leader-epoch-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        ".kafka_cleanshutdown",
    ],
)
def test_a_damaged_small_file_is_a_row(data: Path, name: str) -> None:
    flip(data / name, 14)
    assert [row["type"] for row in rows(data / name)] == ["problem"]


def test_markers_are_told_with_their_kind_and_coordinator_epoch(tmp_path: Path) -> None:
    segment = tmp_path / FIRST
    data = build_batch([b"v"], timestamps_ms=5, is_transactional=True, producer_id=7, producer_epoch=2, base_sequence=0)
    ends = [placed(build_marker(Marker(7, 3, commits, 9), 6), 1 + commits) for commits in (False, True)]
    other = build_batch([b"v"], timestamps_ms=9, base_offset=3, is_control=True)
    segment.write_bytes(data + b"".join(ends) + other)

    found = rows(segment)
    assert [row["kind"] for row in found] == ["transactional", "abort", "commit", "control"]
    assert [row.get("coordinator_epoch") for row in found] == [None, 9, 9, None]
    assert [(row["producer_id"], row["producer_epoch"]) for row in found[:3]] == [(7, 2), (7, 3), (7, 3)]
    records = rows(segment, "records")
    assert [row.get("kind") for row in records] == [None, "abort", "commit", None]
    assert [row.get("is_control", False) for row in records] == [False, True, True, True]


def test_entries_of_an_index_of_aborted_transactions(tmp_path: Path) -> None:
    path = (tmp_path / FIRST).with_suffix(".txnindex")
    path.write_bytes(ENTRY.pack(0, 7, 3, 9, 10) + ENTRY.pack(0, 8, 4, 11, 12) + b"123")
    entry = {"type": "txnindex", "file": str(path), "position": 0, "producer_id": 7, "first_offset": 3}
    assert rows(path) == [
        entry | {"last_offset": 9, "last_stable_offset": 10},
        entry | {"position": 34, "producer_id": 8, "first_offset": 4, "last_offset": 11, "last_stable_offset": 12},
        {"type": "problem", "file": str(path), "position": 68, "problem": "3 bytes that are no whole entry"},
    ]
    (tmp_path / FIRST).touch()
    assert [row["type"] for row in rows(tmp_path / FIRST, "index")] == ["note", "txnindex", "txnindex", "problem"]
    path.write_bytes(ENTRY.pack(1, 7, 3, 9, 10))
    assert rows(path)[0]["problem"] == "version 1, not 0"


def test_a_file_of_no_known_kind_is_refused(data: Path) -> None:
    (data / "README").touch()
    with pytest.raises(ConfigError, match="not a file that can be dumped"):
        rows(data / "README")


def test_the_open_transactions_of_a_snapshot(tmp_path: Path) -> None:
    entries = {
        7: ProducerEntry(3, (), 1_000, transaction=ProducerTransaction(12, 5, 11)),
        8: ProducerEntry(0, (), 2_000, transaction=ProducerTransaction(NO_OFFSET, 6, 14)),
        9: ProducerEntry(0, (TakenBatch(0, 15, 0, 3_000),), 3_000),
    }
    path = tmp_path / f"{20:020d}.snapshot"
    path.write_bytes(snapshot_content(ProducerSnapshot(20, 2, entries)))
    _, *producers = rows(path)
    printed = [(row["producer_id"], row["transaction_start_offset"], row["coordinator_epoch"]) for row in producers]
    assert printed == [(7, 12, 5), (8, None, 6), (9, None, None)]


def test_the_producers_of_a_snapshot(tmp_path: Path) -> None:
    data = make_log_dir(tmp_path / "data", producers=2)
    snapshots = sorted((data / "orders-0").glob("*.snapshot"))
    assert [path.stem for path in snapshots] == [f"{base:020d}" for base in (7, 14, 20)]

    first, *producers = rows(snapshots[-1])
    assert (first["type"], first["offset"], first["leader_epoch"], first["producers"]) == ("snapshot", 20, 2, 2)
    assert [row["producer_id"] for row in producers] == [0, 1]
    assert producers[1]["batches"] == [
        {"base_sequence": n // 2, "last_sequence": n // 2, "base_offset": n, "last_offset": n, "append_time_ms": -1}
        for n in range(11, 20, 2)
    ]
    assert rows(data / "orders-0", "producers")[-3:] == [first, *producers]
    flip(snapshots[0], 3)
    assert rows(snapshots[0])[0]["type"] == "problem"
