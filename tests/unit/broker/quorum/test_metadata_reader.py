"""`penstock metadata` reads what the nodes have: the image at each decision, over snapshots and over the log alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from broker.quorum.metadata_reader import read_metadata
from broker.quorum.metadata_snapshots import MetadataSnapshots
from metadata.codec import encode_record
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import Record, RemoveTopicRecord, TopicRecord
from penstock.errors import ConfigError, CorruptFileError
from storage.disk.file_names import parse_metadata_snapshot
from storage.log.log import Log
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log

DIRECTORY = "/d/orders-0"
DECISIONS: tuple[tuple[Record, ...], ...] = (
    (TopicRecord("a", "id-a"),),
    (TopicRecord("b", "id-b"), TopicRecord("c", "id-c"), TopicRecord("d", "id-d")),
    (RemoveTopicRecord("id-a"),),
    (TopicRecord("e", "id-e"), TopicRecord("f", "id-f")),
)
ENDS = (0, 3, 4, 6)


class ChangingFiles(LosingFileSystem):
    """Calls `change` before the reading with the number `change_at`."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.change_at = 0, 0
        self.change: Callable[[], object] = lambda: None

    def _read(self) -> None:
        self.reads += 1
        if self.reads == self.change_at:
            self.change()

    def listdir(self, path: str) -> list[str]:
        self._read()
        return super().listdir(path)

    def read_file(self, path: str) -> bytes:
        self._read()
        return super().read_file(path)


class Node:
    """A metadata log with these decisions, and the images that the node had."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        self.fs = ChangingFiles()
        self.log: Log = new_log(self.fs, LogConfig(segment_bytes=segment_bytes))
        self.images: dict[int, MetadataImage] = {}
        image = EMPTY_IMAGE
        for decision, end in zip(DECISIONS, ENDS, strict=True):
            self.log.append.as_leader(batch(*map(encode_record, decision)), 1, NOW_MS)
            delta = MetadataDelta(image)
            for record in decision:
                delta.replay(record)
            image = self.images[end] = delta.apply(end, 1)

    def write_snapshot(self, at: int) -> str:
        snapshots = MetadataSnapshots(self.fs, DIRECTORY)
        return snapshots.path(snapshots.write(self.images[at], NOW_MS).snapshot_id)

    def cut_to(self, at: int) -> None:
        """The snapshot at this offset stands for what was before; as the node does it, while it runs."""
        before = [name for name in self.fs.listdir(DIRECTORY) if parse_metadata_snapshot(name)]
        self.write_snapshot(at)
        self.log.roll()
        self.log.flush()
        self.log.advance_log_start(at + 1)
        self.log.full.remove_oldest(sum(segment.next_offset <= at + 1 for segment in self.log.segments[:-1]))
        self.log.full.run_file_changes(sync=True)
        for name in before:
            self.fs.unlink(f"{DIRECTORY}/{name}")

    def read(self, at: int | None = None) -> MetadataImage:
        return read_metadata(self.fs, DIRECTORY, at)


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
@pytest.mark.parametrize("snapshots", [(), (3,), (0, 4)])
def test_every_image_is_read_again(segment_bytes: int, snapshots: tuple[int, ...]) -> None:
    node = Node(segment_bytes)
    for at in snapshots:
        node.write_snapshot(at)
    assert {at: node.read(at) for at in ENDS} == node.images
    assert node.read() == node.images[ENDS[-1]]


def test_what_a_snapshot_covers_need_not_be_in_the_log() -> None:
    node = Node(300)
    node.write_snapshot(4)
    node.log.flush()
    node.log.advance_log_start(5)
    node.log.full.remove_oldest(sum(segment.next_offset <= 5 for segment in node.log.segments))
    node.log.full.run_file_changes(sync=True)
    assert node.read() == node.images[6] and node.read(4) == node.images[4]
    with pytest.raises(ConfigError, match="is in a snapshot that ends later"):
        node.read(3)


def test_a_damaged_snapshot_is_passed_over() -> None:
    node = Node()
    node.fs.damage(node.write_snapshot(4), 100, 1)
    assert node.read() == node.images[6]


def test_an_offset_that_no_image_has_is_named() -> None:
    node = Node()
    with pytest.raises(ConfigError, match="offset 1 is inside one decision; the metadata stands at 0 and at 3"):
        node.read(1)
    with pytest.raises(ConfigError, match="there is nothing at offset 7; the last one is 6"):
        node.read(7)


def test_a_torn_end_is_left_out_and_damage_before_it_is_an_error() -> None:
    node = Node(300)
    last = f"{DIRECTORY}/{node.log.segments[-1].base_offset:020d}.log"
    node.fs.cut(last, node.fs.size(last) - 1)
    assert node.read() == node.images[4]
    node.fs.damage(f"{DIRECTORY}/{0:020d}.log", 70, 1)
    with pytest.raises(CorruptFileError, match="wrong checksum"):
        node.read()


def readings(at: int, segment_bytes: int, change: Callable[[Node], object]) -> list[MetadataImage | str]:
    """The images that are read at this offset while the node changes its files, for every moment at which it may do
    so."""
    outcomes: list[MetadataImage | str] = []
    while True:
        node = Node(segment_bytes)
        node.write_snapshot(0)
        node.fs.change = partial(change, node)
        node.fs.reads, node.fs.change_at = 0, len(outcomes) + 1
        try:
            outcomes.append(node.read(at))
        except (ConfigError, FileNotFoundError) as error:
            outcomes.append(str(error))
        if node.fs.reads < node.fs.change_at:
            return outcomes[:-1]


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
def test_a_node_that_cuts_its_log_meanwhile_changes_nothing_of_what_is_read(segment_bytes: int) -> None:
    images = Node().images
    for at in (4, 6):
        outcomes = readings(at, segment_bytes, lambda node: node.cut_to(4))
        assert len(outcomes) >= 4 and all(outcome == images[at] for outcome in outcomes), outcomes
    outcomes = readings(3, segment_bytes, lambda node: node.cut_to(4))
    gone = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(gone) == (len(outcomes) if segment_bytes == 300 else 0), "or one segment still holds all of it"
    assert all("is in a snapshot that ends later" in outcome for outcome in gone), gone
    assert all(outcome == images[3] for outcome in outcomes if not isinstance(outcome, str))


def test_what_comes_behind_the_offset_and_goes_again_is_not_read() -> None:
    """Records that are not committed: a new leader has others in their place."""

    def appended(node: Node, name: str) -> None:
        node.log.append.as_leader(batch(encode_record(TopicRecord(name, f"id-{name}"))), 2, NOW_MS)

    def replaced(node: Node) -> None:
        appended(node, "lost")
        node.log.truncate_to(7)
        appended(node, "kept")

    for change in (partial(appended, name="x"), replaced, lambda node: node.log.truncate_to(5)):
        for at in (0, 3, 4):
            outcomes = readings(at, 300, change)
            assert outcomes and all(outcome == Node().images[at] for outcome in outcomes), outcomes


def test_the_log_is_not_read_behind_the_offset() -> None:
    node = Node(300)
    node.fs.damage(f"{DIRECTORY}/{node.log.segments[-1].base_offset:020d}.log", 70, 1)
    assert node.read(4) == node.images[4]
    node.write_snapshot(3)
    node.log.flush()
    node.log.truncate_fully_and_start_at(9)
    assert node.read(3) == node.images[3], "the snapshot says it all"
