"""When a producer wrote whose batches a log has read, not taken as they came: after a kill, in a new replica.

Too late a time refuses new producers that there is room for. Too early a time forgets a producer that may still send a
batch again, and then takes that batch twice. So the bound decides who expires, and the guess only who makes room.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ResourceExhaustedError
from penstock.types import NO_TIMESTAMP, TopicPartition
from storage.append.producer_ids import SILENT_MS
from storage.log_config import DAY_MS
from tests.support.producer_node import Node, placed, sent
from tests.support.storage import NOW_MS, SMALL

ONE_SEGMENT = replace(SMALL, segment_bytes=1 << 30)
MINUTE = 60_000


def write(node: Node, producer_id: int, sequence: int = 0, behind_ms: int = 0) -> None:
    """A batch whose records are of `behind_ms` ago."""
    now_ms = node.clock.wall_ms()
    batch = sent(sequence, producer_id=producer_id, timestamp_ms=now_ms - behind_ms)
    node.log.append.as_leader(batch, 0, now_ms)


def killed(node: Node) -> Node:
    node.log.flush()
    node.restart(node.fs.after_kill())
    return node


def times(node: Node) -> dict[int, tuple[int, int]]:
    """By producer: the bound and the guess, in minutes before now."""
    now_ms = node.clock.wall_ms()
    known = node.log.producers.known.copy()
    return {
        one: ((now_ms - entry.last_append_ms) // MINUTE, (now_ms - entry.silent_since_ms) // MINUTE)
        for one, entry in known.items()
    }


def a_producer_each_minute(config: object = ONE_SEGMENT, count: int = 60, **bounds: int) -> Node:
    node = Node(config=config, **bounds)  # type: ignore[arg-type]
    for n in range(count):
        write(node, n)
        node.clock.advance(MINUTE)
    return node


def test_after_a_kill_nobody_makes_room_before_the_node_has_watched_for_ten_minutes() -> None:
    """The earlier process may have stamped by another calendar: a month behind, everyone would seem to be silent."""
    node = a_producer_each_minute(max_per_partition=20)
    node.clock.jump_wall(30 * DAY_MS)
    node = killed(node)
    node.clock.advance(SILENT_MS - 1)
    with pytest.raises(ResourceExhaustedError):
        write(node, 100)
    assert node.send(0, producer_id=40).is_duplicate

    node.clock.advance(1)
    for new in range(100, 120):
        write(node, new)
    assert list(node.log.producers.known) == list(range(100, 120))
    with pytest.raises(ResourceExhaustedError):
        write(node, 120)


def test_the_time_of_a_segment_is_that_of_its_last_write() -> None:
    node = a_producer_each_minute(SMALL, count=20)
    node.log.flush()
    node.manager.close(False)
    for name in node.fs.listdir(node.log.directory):  # else there is nothing to replay
        if name.endswith(".snapshot"):
            node.fs.unlink(f"{node.log.directory}/{name}")
    node.restart()
    bounds = [bound for bound, _ in times(node).values()]
    in_segments = [segment.next_offset - segment.base_offset for segment in node.log.segments]

    newest = [20 - (segment.next_offset - 1) for segment in node.log.segments]
    assert len(newest) > 2
    assert bounds == [time for time, count in zip(newest, in_segments, strict=True) for _ in range(count)]


def test_a_segment_that_was_written_anew_is_not_younger_than_the_one_behind_it() -> None:
    """The cleaner does that."""
    node = a_producer_each_minute(SMALL, count=20)
    node.log.flush()
    first, second = node.log.segments[:2]
    node.fs.file_at(first.log_path).modified_ms = node.clock.wall_ms()
    node.manager.close(False)
    for name in node.fs.listdir(node.log.directory):
        if name.endswith(".snapshot"):
            node.fs.unlink(f"{node.log.directory}/{name}")
    node.restart()

    assert {bound for bound, _ in list(times(node).values())[: first.next_offset]} == {20 - (second.next_offset - 1)}


def test_old_records_do_not_make_a_log_forget_their_producer() -> None:
    """A backfill: its records are of years ago, and it writes now."""
    node = Node(config=ONE_SEGMENT, expiration_ms=DAY_MS)
    write(node, 1, behind_ms=1_000 * DAY_MS)
    node = killed(node)
    node.clock.advance(DAY_MS - 1)
    node.log.producers.forget_silent()
    again = sent(0, producer_id=1, timestamp_ms=NOW_MS - 1_000 * DAY_MS)
    assert node.log.append.as_leader(again, 0, node.clock.wall_ms()).is_duplicate

    node.clock.advance(2)
    node.log.producers.forget_silent()
    assert times(node) == {}


def test_old_records_among_others_are_not_taken_for_older_than_what_is_ahead_of_them() -> None:
    node = Node(config=ONE_SEGMENT, max_per_partition=2)
    write(node, 1)
    write(node, 2, behind_ms=DAY_MS)
    killed(node)

    assert times(node) == {1: (0, 0), 2: (0, 0)}
    with pytest.raises(ResourceExhaustedError):
        write(node, 3)


def test_the_time_of_a_clock_that_is_ahead_tells_nothing() -> None:
    node = a_producer_each_minute(count=2, max_per_partition=4)
    write(node, 2, behind_ms=-30 * MINUTE)
    node.clock.advance(MINUTE)
    write(node, 3)
    killed(node)

    assert times(node) == {0: (0, 3), 1: (0, 2), 2: (0, 2), 3: (0, 0)}


def test_what_tells_no_time_at_all_counts_as_of_the_last_write() -> None:
    node = Node(config=ONE_SEGMENT, max_per_partition=1)
    write(node, 1, behind_ms=-30 * MINUTE)
    killed(node)
    assert node.log.producers.known.copy()[1].likely_append_ms == NO_TIMESTAMP
    with pytest.raises(ResourceExhaustedError):
        write(node, 2)
    node.clock.advance(SILENT_MS)
    write(node, 2)


def test_a_guess_survives_the_next_clean_stop() -> None:
    node = killed(a_producer_each_minute(count=30))
    before = times(node)
    node.restart(clean=True)

    assert times(node) == before == {n: (1, 30 - n) for n in range(30)}


def test_a_truncation_guesses_as_a_start_does() -> None:
    node = a_producer_each_minute(count=30)
    cut = node.log.producers.prepare_cut(20)
    assert cut is not None
    cut.run(lambda: True)
    node.log.truncate_to(20)
    assert times(node) == {n: (1, 30 - n) for n in range(20)}

    node.log.truncate_to(10)  # without a thread before it
    node.log.producers.reload()
    assert times(node) == {n: (0, 30 - n) for n in range(10)}  # the cut above was a write


def with_a_calendar_that_jumped_back() -> Node:
    """Producers 0 to 2 wrote after the jump. It stamps files, and no producers."""
    node = Node(config=ONE_SEGMENT, expiration_ms=DAY_MS)
    node.clock.advance(2 * DAY_MS)
    node.clock.jump_wall(-30 * DAY_MS)
    for producer_id in range(3):
        write(node, producer_id)
    return node


@pytest.mark.parametrize("is_prepared", [True, False], ids=["read before the cut", "read after it"])
@pytest.mark.parametrize("ends", [(1,), (2, 1)], ids=["one cut", "two cuts"])
def test_a_truncation_forgets_no_live_producer_after_a_jump_of_the_calendar(
    is_prepared: bool, ends: tuple[int, ...]
) -> None:
    node = with_a_calendar_that_jumped_back()
    for end in ends:
        cut = node.log.producers.prepare_cut(end) if is_prepared else None
        if cut is not None:
            cut.run(lambda: True)
        node.log.truncate_to(end)
    node.log.producers.known_now()

    node.log.producers.forget_silent()
    assert list(node.log.producers.known) == [0]
    assert node.send(0, producer_id=0).is_duplicate


def test_a_follower_that_reads_its_log_late_after_a_cut_forgets_nobody_who_wrote_meanwhile() -> None:
    node = with_a_calendar_that_jumped_back()
    node.log.truncate_to(1)
    node.log.append.as_follower(placed(sent(0, producer_id=4), 1), 0)
    node.log.producers.known_now()

    node.log.producers.forget_silent()
    assert list(node.log.producers.known) == [0, 4]


# -- a follower --------------------------------------------------------------------------------------------------------


def fetched(leader: Node, since: int = 0) -> bytes:
    return bytes(leader.log.reader.read(since, 1 << 24).records)


def test_a_new_replica_takes_a_new_producer_once_it_leads_as_its_leader_would() -> None:
    leader = a_producer_each_minute(max_per_partition=20)
    follower = Node(config=ONE_SEGMENT, max_per_partition=20)
    follower.clock.advance(60 * MINUTE)
    follower.log.append.as_follower(fetched(leader), 60)

    write(follower, 100)
    write(leader, 100)
    assert list(follower.log.producers.known) == list(leader.log.producers.known)


def test_what_the_leader_has_just_got_has_the_time_of_now_whatever_its_records_say() -> None:
    leader = Node(config=ONE_SEGMENT)
    write(leader, 1, behind_ms=DAY_MS)
    write(leader, 2, behind_ms=DAY_MS)
    follower = Node(config=ONE_SEGMENT)
    follower.log.append.as_follower(fetched(leader), 1)

    day = DAY_MS // MINUTE
    assert times(follower) == {1: (0, day), 2: (0, 0)}


def test_a_refused_append_of_a_follower_leaves_the_times_of_before() -> None:
    leader = a_producer_each_minute(count=3)
    follower = Node(config=ONE_SEGMENT)
    follower.clock.advance(3 * MINUTE)
    follower.log.append.as_follower(fetched(leader))
    before = times(follower)
    follower.fs.fail_on["write"] = 28
    with pytest.raises(Exception, match="append"):
        follower.log.append.as_follower(placed(sent(1, producer_id=0), 3), 0)

    assert times(follower) == before


# -- the bound of the node ---------------------------------------------------------------------------------------------


def test_a_rebuilt_replica_does_not_shut_out_the_producers_of_other_partitions() -> None:
    node = Node(config=ONE_SEGMENT, max_per_node=50)
    other = node.manager.get_or_create(TopicPartition("other", 0), "B" * 22, ONE_SEGMENT)
    node.clock.advance(60 * MINUTE)
    other.append.as_follower(b"".join(placed(sent(0, producer_id=5_000 + n), n) for n in range(50)))

    write(node, 1)
    assert node.known(1) == [(0, 0)]


@pytest.mark.parametrize("way", ["fetched", "replayed"])
def test_no_producer_of_old_records_is_forgotten_while_they_are_read(way: str) -> None:
    """It may write them at this moment, and send a batch again. Those that were silent longest go for a new one."""
    source = a_producer_each_minute(count=60)
    write(source, 60)
    if way == "replayed":
        source._bounds["max_per_node"] = 5
        node = killed(source)
    else:
        node = Node(config=ONE_SEGMENT, max_per_node=5)
        node.clock.advance(60 * MINUTE)
        node.log.append.as_follower(fetched(source))
    assert list(node.log.producers.known) == list(range(61))
    if way == "replayed":
        with pytest.raises(ResourceExhaustedError):
            write(node, 100)
        node.clock.advance(SILENT_MS)
        write(node, 100)
        assert list(node.log.producers.known) == [57, 58, 59, 60, 100]
        return

    write(node, 100)
    assert list(node.log.producers.known) == [*range(51, 61), 100]
    assert len(node.manager.producer_ids) == 11


def test_what_a_node_knows_of_old_files_is_within_its_bound_once_silence_is_sure() -> None:
    source = a_producer_each_minute(SMALL)
    source._bounds["max_per_node"] = 5
    node = killed(source)
    node.clock.advance(SILENT_MS - 1)
    node.log.producers.forget_silent()
    assert list(node.log.producers.known) == list(range(60))

    node.clock.advance(1)
    node.log.producers.forget_silent()
    kept = list(node.log.producers.known)
    assert kept == list(range(55, 60)) and len(node.manager.producer_ids) == 5
    node.log.producers.known.take_back()  # nobody is left who would come back, nor the memory for them
    assert list(node.log.producers.known) == kept
