"""Snapshots in the core on the bench: who is sent one, how it is fetched, what counts once it is there (KIP-630)."""

from __future__ import annotations

import pytest

from penstock.errors import InvariantViolation, PositionOutOfRangeError, SnapshotNotFoundError
from penstock.types import EpochEndOffset, EpochEntry
from raft.decided_log import DecidedLog
from raft.messages import (
    AnswerReceived,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Outbound,
    RequestFailed,
    SnapshotsKept,
    SnapshotTaken,
    VoteRequest,
)
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench, batch, log_of
from tests.support.raft_fakes import MemoryLog, snapshot_bytes, values_of

NEWEST = EpochEndOffset(3, 5)


def cut_log() -> MemoryLog:
    """Epochs 1, 1, 2, 3, 3, 3; snapshots end at 3 and at 5, and the log begins at 3."""
    log = log_of(1, 1, 2, 3, 3, 3)
    log.cut_prefix(log.take_snapshot(3).end_offset)
    assert log.take_snapshot(5) == NEWEST
    return log


def leader() -> Bench:
    """The leader of epoch 5; its LeaderChange is at 6."""
    bench = Bench(log=cut_log(), stored=ElectionState(4)).become_leader()
    bench.take_sent()
    return bench


def fetch(offset: int, last_epoch: int, replica: int = 2) -> FetchMetadataRequest:
    return FetchMetadataRequest(CLUSTER, replica, 5, offset, last_epoch, 0, 1 << 20)


def ask(
    bench: Bench, request: FetchMetadataRequest | FetchSnapshotRequest
) -> FetchMetadataResponse | FetchSnapshotResponse:
    answer = bench.request(request)
    assert isinstance(answer, FetchMetadataResponse | FetchSnapshotResponse)
    return answer


def follower() -> Bench:
    """Follows node 2 in epoch 5 with an empty log; its first fetch is answered with the newest snapshot."""
    bench = Bench(stored=ElectionState(5, 2))
    bench.perform()
    return tell(bench, FetchMetadataResponse(2, 5, 7, 3, snapshot_id=NEWEST, log_end_offset=7))


def tell(bench: Bench, answer: FetchMetadataResponse | FetchSnapshotResponse) -> Bench:
    """The answer to the only question."""
    (question,) = bench.take_sent()
    bench.answer(question, answer)
    return bench


def question_of(bench: Bench) -> Outbound:
    (question,) = bench.sent
    return question


DATA = snapshot_bytes([b"old"] * 5)


def chunk(position: int, data: bytes, *, size: int = len(DATA), of: EpochEndOffset = NEWEST) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(2, 5, of, size, position, data)


# -- the leader --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "last_epoch"),
    [(0, -1), (2, 1), (3, 1), (4, 1), (3, 3)],
    ids=["empty", "below", "other record before the start", "older epoch beyond it", "newer epoch there"],
)
def test_a_follower_that_lacks_or_differs_below_the_log_start_gets_the_newest_snapshot(
    offset: int, last_epoch: int
) -> None:
    answer = ask(leader(), fetch(offset, last_epoch))
    assert isinstance(answer, FetchMetadataResponse)
    assert (answer.snapshot_id, answer.error_code, answer.records, answer.diverging_epoch) == (NEWEST, 0, b"", None)


@pytest.mark.parametrize(("offset", "last_epoch"), [(3, 2), (5, 3), (6, 3)])
def test_a_follower_that_has_what_is_before_gets_records(offset: int, last_epoch: int) -> None:
    bench = leader()
    answer = ask(bench, fetch(offset, last_epoch))
    assert isinstance(answer, FetchMetadataResponse) and answer.snapshot_id is None
    assert len(values_of(answer.records)) == 7 - offset


def test_a_follower_that_differs_above_the_start_is_told_where() -> None:
    answer = ask(leader(), fetch(6, 2))
    assert isinstance(answer, FetchMetadataResponse)
    assert (answer.diverging_epoch, answer.snapshot_id) == (EpochEndOffset(2, 3), None)


def test_a_fetch_that_needs_a_snapshot_acks_nothing_and_is_contact() -> None:
    bench = leader()
    bench.advance(1_000)
    ask(bench, fetch(6, 1))
    leadership = bench.core.leadership
    assert leadership is not None
    replica = leadership.replicas.voters()[0]
    assert (replica.acked_offset, replica.last_fetch_ms) == (-1, bench.now_ms)
    assert bench.core.high_watermark == 5, "what the newest snapshot has is committed"


def test_reading_a_snapshot_keeps_the_leader_in_office() -> None:
    bench = leader()
    for _ in range(20):
        bench.advance(400)
        ask(bench, FetchSnapshotRequest(CLUSTER, 2, 5, NEWEST, 0, 10))
    assert bench.core.state is State.LEADER


def test_a_leader_sends_the_bytes_that_it_is_asked_for() -> None:
    bench, whole = leader(), b""
    while True:
        answer = ask(bench, FetchSnapshotRequest(CLUSTER, 2, 5, NEWEST, len(whole), 30))
        assert isinstance(answer, FetchSnapshotResponse) and answer.error_code == 0
        assert (answer.snapshot_id, answer.position, answer.size_bytes) == (NEWEST, len(whole), len(DATA))
        whole += answer.data
        if len(whole) == answer.size_bytes:
            break
    assert whole == DATA


def test_a_snapshot_that_is_not_kept_and_one_asked_of_a_follower_are_refused() -> None:
    gone = ask(leader(), FetchSnapshotRequest(CLUSTER, 2, 5, EpochEndOffset(1, 2), 0, 30))
    assert gone.error_code == SnapshotNotFoundError.code
    other = ask(Bench(stored=ElectionState(5, 2)), FetchSnapshotRequest(CLUSTER, 3, 5, NEWEST, 0, 30))
    assert other.error_code == 6


# -- the follower ------------------------------------------------------------------------------------------------------


def test_a_follower_fetches_a_snapshot_chunk_by_chunk_and_goes_on_behind_it() -> None:
    bench = follower()
    for at in range(0, len(DATA), 20):
        asked = question_of(bench).request
        assert asked == FetchSnapshotRequest(CLUSTER, 1, 5, NEWEST, at, 1 << 20)
        assert bench.log.log_end_offset == 0, "nothing counts before all is there"
        tell(bench, chunk(at, DATA[at : at + 20]))

    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (5, 5)
    assert (bench.core.log_end_offset, bench.core.high_watermark) == (5, 5)
    assert bench.core.statistics().snapshots_installed == 1
    bench.advance(0)
    asked = question_of(bench).request
    assert isinstance(asked, FetchMetadataRequest) and (asked.fetch_offset, asked.last_fetched_epoch) == (5, 3)
    tell(bench, FetchMetadataResponse(2, 5, 6, 3, batch(b"new", 5, 3), log_end_offset=7))
    assert (bench.log.log_end_offset, bench.core.high_watermark) == (6, 6)


def test_a_damaged_snapshot_changes_nothing_and_is_fetched_anew_after_a_pause() -> None:
    bench = follower()
    tell(bench, chunk(0, DATA[:-1] + b"?"))
    assert (bench.core.log_end_offset, bench.log.snapshots, bench.sent) == (0, {}, [])
    assert bench.core.statistics().snapshots_refused == 1
    bench.advance_to_deadline()
    assert isinstance(question_of(bench).request, FetchMetadataRequest)


@pytest.mark.parametrize(
    "answer",
    [
        chunk(1, DATA),
        chunk(0, DATA, of=EpochEndOffset(3, 4)),
        chunk(0, b""),
        chunk(0, DATA + b"x"),
        chunk(0, DATA, size=-1),
        chunk(0, DATA[:5], size=1 << 40),
        FetchSnapshotResponse(2, 5, None, len(DATA), 0, DATA),
        FetchSnapshotResponse(2, 5, error_code=SnapshotNotFoundError.code),
        FetchSnapshotResponse(2, 5, error_code=PositionOutOfRangeError.code),
    ],
)
def test_an_answer_that_is_no_part_of_it_ends_that_fetch(answer: FetchSnapshotResponse) -> None:
    bench = tell(follower(), answer)
    assert bench.log.part == b"" and bench.sent == []
    bench.advance_to_deadline()
    assert isinstance(question_of(bench).request, FetchMetadataRequest)


def test_a_leader_that_changes_the_size_is_not_believed() -> None:
    bench = tell(follower(), chunk(0, DATA[:10]))
    tell(bench, chunk(10, DATA[10:], size=len(DATA) + 1))
    assert bench.core.log_end_offset == 0


def test_after_a_lost_answer_it_goes_on_where_it_was() -> None:
    bench = tell(follower(), chunk(0, DATA[:10]))
    (question,) = bench.take_sent()
    bench.core.step(RequestFailed(question.correlation_id), bench.now_ms)
    bench.advance_to_deadline()
    asked = question_of(bench).request
    assert isinstance(asked, FetchSnapshotRequest) and asked.position == 10


@pytest.mark.parametrize("bad", [EpochEndOffset(3, 0), EpochEndOffset(-1, 9), EpochEndOffset(6, 9)])
def test_a_snapshot_that_cannot_be_is_not_asked_for(bad: EpochEndOffset) -> None:
    bench = Bench(stored=ElectionState(5, 2))
    bench.perform()
    tell(bench, FetchMetadataResponse(2, 5, 7, 3, snapshot_id=bad, log_end_offset=7))
    assert bench.sent == [] and bench.core.statistics().answers_malformed == 1


def test_a_snapshot_of_what_is_committed_here_is_not_asked_for() -> None:
    bench = Bench(stored=ElectionState(5, 2), log=cut_log())
    bench.perform()
    tell(bench, FetchMetadataResponse(2, 5, 7, 3, snapshot_id=NEWEST, log_end_offset=7))
    assert bench.sent == [] and bench.core.statistics().answers_malformed == 1


def test_a_snapshot_replaces_a_log_that_differs_below_its_end() -> None:
    bench = Bench(stored=ElectionState(5, 2), log=log_of(1, 1, 1, 1, 1, 1, 1, 1))
    bench.perform()
    tell(bench, FetchMetadataResponse(2, 5, 7, 3, snapshot_id=NEWEST, log_end_offset=7))
    tell(bench, chunk(0, DATA))
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.batches) == (5, 5, [])
    assert bench.core.log_end_offset == 5


def test_a_new_leader_ends_the_fetch_of_a_snapshot() -> None:
    bench = tell(follower(), chunk(0, DATA[:10]))
    bench.take_sent()
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 5))
    assert bench.core.state is State.UNATTACHED
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE, "a part of a snapshot counts nothing"
    votes = [one.request for one in bench.sent if isinstance(one.request, VoteRequest)]
    assert {vote.last_epoch_end_offset for vote in votes} == {0}


def test_nobody_stands_for_election_while_its_log_is_being_replaced() -> None:
    bench = follower()
    (question,) = bench.take_sent()
    bench.core.step(AnswerReceived(question.correlation_id, chunk(0, DATA)), bench.now_ms)
    ready = bench.core.ready()
    assert ready is not None and ready.complete_snapshot == NEWEST
    bench.now_ms += 60_000
    bench.core.tick(bench.now_ms)
    assert bench.core.state is State.FOLLOWER
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 5, (1,)))
    for _ in range(5):
        bench.now_ms = max(bench.now_ms + 1, bench.core.next_deadline_ms())
        bench.core.tick(bench.now_ms)
    assert bench.core.state is State.UNATTACHED

    bench.core.advance(0)
    bench.core.step(SnapshotTaken(NEWEST, is_installed=True), bench.now_ms)
    assert bench.core.high_watermark == 5
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_the_log_is_cut_behind_the_reads_that_were_decided_before() -> None:
    bench = leader()
    for replica in (2, 3):
        ask(bench, fetch(7, 5, replica))
    newer = bench.log.take_snapshot(7)
    bench.core.step(SnapshotsKept((NEWEST, newer)), bench.now_ms)
    ready = bench.core.ready()
    assert ready is not None and ready.cut_prefix_to == 5
    bench._perform(ready)
    assert bench.log.log_start_offset == 5
    answer = ask(bench, fetch(4, 3))
    assert isinstance(answer, FetchMetadataResponse) and answer.snapshot_id == newer
    assert ask(bench, FetchSnapshotRequest(CLUSTER, 2, 5, EpochEndOffset(2, 3), 0, 9)).error_code == 98
    bench.core.step(SnapshotsKept((NEWEST, newer)), bench.now_ms)
    ready = bench.core.ready()
    assert ready is not None and ready.cut_prefix_to == 5, "told of each snapshot: a segment may end there"


def test_a_snapshot_of_what_is_not_committed_or_an_older_start_is_a_bug() -> None:
    log = DecidedLog(cut_log())
    for ids in ([EpochEndOffset(3, 6)], [EpochEndOffset(1, 2), NEWEST]):
        with pytest.raises(InvariantViolation):
            log.keep_snapshots(ids)
    with pytest.raises(InvariantViolation):
        log.install(NEWEST)


@pytest.mark.parametrize(("start", "end"), [(3, 4), (4, 6)])
def test_a_log_that_does_not_fit_its_snapshots_is_refused(start: int, end: int) -> None:
    log = cut_log()
    log.log_start_offset = start
    while log.log_end_offset > end:
        log.truncate_to(log.log_end_offset - 1)
    with pytest.raises(InvariantViolation, match="do not fit"):
        DecidedLog(log)


def test_an_epoch_that_a_crash_left_behind_an_empty_log_does_not_count() -> None:
    log = cut_log()
    log.truncate_to(5)
    log.cut_prefix(5)
    log.drop_snapshots_but([NEWEST])
    log.epoch_entries = (EpochEntry(7, 5),)
    assert DecidedLog(log).last_epoch == NEWEST.epoch == 3


def test_a_follower_whose_snapshot_took_long_to_check_follows_on() -> None:
    bench = follower()
    (question,) = bench.take_sent()
    bench.core.step(AnswerReceived(question.correlation_id, chunk(0, DATA)), bench.now_ms)
    assert bench.core.ready() is not None
    bench.now_ms += 60_000
    bench.core.advance(0)
    bench.core.step(SnapshotTaken(NEWEST, is_installed=True), bench.now_ms)
    bench.core.tick(bench.now_ms)
    assert bench.core.state is State.FOLLOWER


def test_an_epoch_goes_on_where_the_snapshot_ended() -> None:
    log = cut_log()
    log.truncate_to(5)
    log.cut_prefix(5)
    log.drop_snapshots_but([NEWEST])
    decided = DecidedLog(log)
    assert (decided.last_epoch, decided.log_end_offset) == (3, 5)
    decided.extend(6, 3)
    decided.extend(8, 6)
    assert decided.last_epoch == 6
    assert decided.diverging_epoch(6, 3) is None
    assert EpochEntry(6, 6) in decided._entries
