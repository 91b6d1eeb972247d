"""The `.txnindex` files of a log: written with the snapshots that name them, and believed only as far as these say."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from penstock.errors import KafkaStorageError
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR
from storage.log.log_types import CleanedSegment
from storage.segment.transaction_index import AbortedRange, iter_entries
from tests.support.producer_node import Node
from tests.support.storage import NOW_MS, batch

NEVER = 10**9


def aborts(node: Node, count: int) -> None:
    """One transaction of one record after another, each aborted."""
    for n in range(count):
        producer_id = 100 + n
        records = build_batch(
            [b"value-00"],
            timestamps_ms=NOW_MS,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        node.log.append.as_leader(records, 0, NOW_MS)
        marker = build_marker(Marker(producer_id, 0, False, 1), NOW_MS)
        node.log.append.as_leader(marker, 0, NOW_MS, COORDINATOR)


def files(node: Node) -> dict[int, list[int]]:
    """The offsets of the markers in each file."""
    names = [name for name in node.fs.listdir(node.log.directory) if name.endswith(".txnindex")]
    contents = {int(name[:20]): node.fs.read_file(f"{node.log.directory}/{name}") for name in names}
    return {base: [entry.aborted.last_offset for entry in iter_entries(content)] for base, content in contents.items()}


def aborted(node: Node) -> list[AbortedRange]:
    return node.log.transactions.aborted(0, NEVER)


def all_of(count: int) -> list[AbortedRange]:
    return [AbortedRange(100 + n, 2 * n, 2 * n + 1) for n in range(count)]


def test_a_full_segment_has_its_file_with_the_next_flush_and_the_active_one_at_a_clean_stop() -> None:
    node = Node()
    aborts(node, 5)
    assert [segment.base_offset for segment in node.log.segments] == [0, 7] and files(node) == {}
    node.log.flush()
    assert files(node) == {0: [1, 3, 5]}

    node.restart(clean=True)

    assert files(node) == {0: [1, 3, 5], 7: [7, 9]}
    assert aborted(node) == all_of(5)


def test_the_bytes_are_kafkas() -> None:
    node = Node()
    aborts(node, 1)
    node.restart(clean=True)
    content = node.fs.read_file(f"{node.log.directory}/00000000000000000000.txnindex")
    assert content == bytes.fromhex("00000000000000000064000000000000000000000000000000010000000000000002")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "harm",
    [
        lambda node, path: node.fs.unlink(path),
        lambda node, path: node.fs.cut(path, 0),
        lambda node, path: node.fs.cut(path, 34),
        lambda node, path: node.fs.cut(path, 50),
        lambda node, path: node.fs.damage(path, 33, 1),
        lambda node, path: node.fs.damage(path, 34 + 10, 0xFF),
        lambda node, path: node.fs.rename(f"{node.log.directory}/{0 if '07.' in path else 7:020d}.txnindex", path),
    ],
)
@pytest.mark.parametrize("base", [0, 7])
def test_a_file_that_is_not_as_the_snapshot_says_is_made_anew(
    base: int, harm: Callable[[Node, str], None], clean: bool
) -> None:
    node = Node()
    aborts(node, 9)
    node.log.flush()
    written = files(node)
    path = f"{node.log.directory}/{base:020d}.txnindex"
    node.restart(clean=clean, between=lambda: harm(node, path))
    assert aborted(node) == all_of(9) and node.log.transactions.first_undecided(NEVER) is None

    aborts(node, 0)
    node.log.append.as_leader(batch(b"x" * 500), 0, NOW_MS)
    node.restart(clean=True)
    assert {**files(node), **written} == files(node) and aborted(node) == all_of(9)


def test_without_any_snapshot_all_is_read_from_the_log() -> None:
    node = Node()
    aborts(node, 9)

    def harm() -> None:
        for name in node.fs.listdir(node.log.directory):
            if name.endswith((".snapshot", ".txnindex")):
                node.fs.unlink(f"{node.log.directory}/{name}")

    node.restart(clean=True, between=harm)
    assert aborted(node) == all_of(9)


def test_a_file_without_a_log_is_removed_at_a_start() -> None:
    node = Node()
    node.log.flush()
    path = f"{node.log.directory}/{900:020d}.txnindex"
    node.restart(between=lambda: node.fs.close(node.fs.open(path, create=True)))
    assert not node.fs.exists(path)


def test_a_cut_takes_entries_out_and_opens_transactions_again() -> None:
    node = Node()
    aborts(node, 9)
    node.restart(clean=True)
    assert files(node)[14] == [15, 17]
    node.log.truncate_to(9)

    assert aborted(node) == all_of(4)
    assert node.log.transactions.first_undecided(NEVER) == 8 and node.log.transactions.open_of(104) == 8
    assert files(node) == {0: [1, 3, 5]}
    for clean in (False, True):
        node.restart(clean=clean)
        assert aborted(node) == all_of(4) and node.log.transactions.open_of(104) == 8
    assert files(node) == {0: [1, 3, 5], 7: [7]}
    node.log.truncate_fully_and_start_at(50)
    assert aborted(node) == [] and node.log.transactions.first_undecided(NEVER) is None and files(node) == {}


def test_a_file_goes_with_its_segment() -> None:
    node = Node()
    aborts(node, 9)
    node.log.flush()
    node.log.full.remove_oldest(1)
    node.log.full.run_file_changes(sync=True)

    assert files(node) == {7: [7, 9, 11, 13]} and aborted(node) == all_of(9)[3:]
    assert [name for name in node.fs.listdir(node.log.directory) if name.endswith(".txnindex.deleted")] != []
    node.restart(node.fs.after_kill())
    assert aborted(node) == all_of(9)[3:]


def test_without_room_for_a_file_the_next_start_reads_more() -> None:
    node = Node()
    aborts(node, 5)
    opened = node.fs.open

    def no_room(path: str, *, create: bool = False) -> int:
        if create and ".txnindex" in path:
            raise OSError(errno.ENOSPC, "no room")
        return opened(path, create=create)

    node.fs.open = no_room  # type: ignore[method-assign]
    node.log.flush()
    with pytest.raises(KafkaStorageError):
        node.log.close()
    node.fs.open = opened  # type: ignore[method-assign]

    assert files(node) == {} and node.snapshots() == []
    node.restart(node.fs.after_kill())
    assert aborted(node) == all_of(5)


def cleaned_of(node: Node, count: int, left: tuple[AbortedRange, ...]) -> CleanedSegment:
    """The first segments merged as they are; `left`: what the cleaner keeps of the entries."""
    merged = node.log.segments[:count]
    path = merged[0].log_path + ".cleaned"
    content = b"".join(node.fs.read_file(segment.log_path) for segment in merged)
    fd = node.fs.open(path, create=True)
    node.fs.pwritev(fd, [content], 0)
    node.fs.fdatasync(fd)
    node.fs.close(fd)
    return CleanedSegment(path, merged[0].base_offset, merged[-1].next_offset, len(content), left)


@pytest.mark.parametrize("flushes", [True, False])
def test_a_cleaned_segment_has_the_entries_that_the_cleaner_leaves(flushes: bool) -> None:
    node = Node()
    aborts(node, 9)
    node.log.flush()
    left = tuple(all_of(9)[2:7])
    node.log.full.replace(cleaned_of(node, 2, left), node.log.segments[:2])
    node.log.full.run_file_changes(sync=True)

    assert aborted(node) == [*left, *all_of(9)[7:]]
    assert files(node) == {}
    if flushes:
        node.log.append.as_leader(batch(b"plain"), 0, NOW_MS)
        node.log.flush()
        assert files(node) == {0: [5, 7, 9, 11, 13], 14: [15, 17]}
    node.restart(node.fs.after_kill())
    wanted = [*left, *all_of(9)[7:]] if flushes else all_of(9)
    assert aborted(node) == wanted, "without a flush the log tells: it has all their batches here"


def test_a_snapshot_with_an_open_transaction_goes_before_its_segments_are_cleaned() -> None:
    """The cleaner may take out the marker that ended it; from that snapshot it would be open for ever."""
    node = Node()
    node.log.append.as_leader(batch(b"x" * 500), 0, NOW_MS)
    aborts(node, 3)
    node.log.flush()
    opened = build_batch(
        [b"value-00"], timestamps_ms=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    node.log.append.as_leader(opened, 0, NOW_MS)
    aborts(node, 3)
    node.log.append.as_leader(build_marker(Marker(7, 0, True, 1), NOW_MS), 0, NOW_MS, COORDINATOR)
    aborts(node, 6)
    node.log.flush()
    before = node.snapshots()
    bases = [segment.base_offset for segment in node.log.segments]
    open_at = [offset for offset in before if 7 < offset <= 14]
    assert open_at and len(bases) > 3

    node.log.full.replace(cleaned_of(node, 3, ()), node.log.segments[:3])
    node.log.full.run_file_changes(sync=True)

    assert not set(open_at) & set(node.snapshots())
