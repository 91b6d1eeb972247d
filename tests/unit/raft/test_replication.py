"""Fetching and leading of one core on the bench: acks, high watermark, parking, truncation, limits, check-quorum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import (
    InvalidRequestError,
    InvariantViolation,
    MessageTooLargeError,
    NotControllerError,
    ResourceExhaustedError,
)
from penstock.types import EpochEndOffset
from raft import progress
from raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
)
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench, batch, log_of
from tests.support.raft_fakes import values_of


def fetch(replica: int, offset: int, last_epoch: int, *, epoch: int = 1, wait_ms: int = 500) -> FetchMetadataRequest:
    return FetchMetadataRequest(CLUSTER, replica, epoch, offset, last_epoch, wait_ms, 1 << 20)


def ask_fetch(bench: Bench, request: FetchMetadataRequest) -> FetchMetadataResponse | None:
    response = bench.request(request)
    assert response is None or isinstance(response, FetchMetadataResponse)
    return response


def leader(**config: int) -> Bench:
    """Leads epoch 1 with its LeaderChange at offset 0, nothing committed."""
    bench = Bench(**config).become_leader()
    bench.take_sent()
    return bench


def follower(*epochs: int, epoch: int = 5) -> Bench:
    """Follows node 2 in `epoch` with one record of each of `epochs`, its first fetch not answered yet."""
    bench = Bench(stored=ElectionState(epoch, 2), log=log_of(*epochs))
    bench.perform()
    return bench


# -- the rules over data -----------------------------------------------------------------------------------------------


def test_majority_offset_is_what_the_slower_half_still_has() -> None:
    assert progress.majority_offset([9, 5, 7], 2) == 7
    assert progress.majority_offset([9], 1) == 9
    assert progress.majority_offset([1, 2, 3, 4, 5], 3) == 3


def test_only_a_record_of_the_own_epoch_commits_by_counting() -> None:
    assert progress.committed_offset(10, 10, 3) == 3
    assert progress.committed_offset(11, 10, 3) == 11


# -- the leader --------------------------------------------------------------------------------------------------------


def test_high_watermark_waits_for_a_majority_and_then_covers_the_leader_change() -> None:
    bench = leader()
    assert bench.core.high_watermark == 0
    answer = ask_fetch(bench, fetch(2, 0, -1))
    assert answer is not None and answer.high_watermark == 0
    assert b"LeaderChange" in values_of(answer.records)[0]
    ask_fetch(bench, fetch(2, 1, 1))
    assert bench.core.high_watermark == 1
    assert bench.readys[-1].committed_offset == 1


def test_leader_counts_itself_only_up_to_its_own_fsync() -> None:
    bench = leader()
    bench.core.propose([b"x"])
    ready = bench.core.ready()  # handed out, not performed: nothing is durable on the leader
    assert ready is not None
    bench.ask(fetch(2, 2, 1))
    assert bench.core.high_watermark == 1
    bench.core.advance(flushed_offset=2)
    assert bench.core.high_watermark == 2


def test_observers_do_not_count_for_the_majority() -> None:
    bench = leader()
    for observer in (7, 8, 9):
        ask_fetch(bench, fetch(observer, 1, 1))
    assert bench.core.high_watermark == 0


def test_fetch_without_news_is_parked_until_data_comes() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))  # answered: the high watermark is news
    parked = bench.ask(fetch(2, 1, 1))
    assert parked not in bench.replies
    bench.core.propose([b"x"])
    bench.perform()
    answer = bench.replies[parked]
    assert isinstance(answer, FetchMetadataResponse) and values_of(answer.records) == [b"x"]


def test_parked_fetch_is_answered_when_the_high_watermark_moves() -> None:
    bench = leader()
    ask_fetch(bench, fetch(3, 1, 1))
    parked = bench.ask(fetch(3, 1, 1))
    bench.core.propose([b"x"])
    bench.perform()
    bench.replies.pop(parked)
    parked = bench.ask(fetch(3, 2, 1))
    assert bench.replies[parked].high_watermark == 2  # type: ignore[union-attr]


def test_parked_fetch_is_answered_empty_when_its_time_is_up() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))
    parked = bench.ask(fetch(2, 1, 1, wait_ms=40))
    before_ms = bench.now_ms
    bench.advance_to_deadline()
    assert bench.now_ms - before_ms == 40
    answer = bench.replies[parked]
    assert isinstance(answer, FetchMetadataResponse) and answer.records == b""


def test_second_fetch_of_a_replica_releases_the_first() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))
    first = bench.ask(fetch(2, 1, 1))
    second = bench.ask(fetch(2, 1, 1))
    assert first in bench.replies and second not in bench.replies


def test_abandoned_fetch_gets_no_answer() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))
    parked = bench.ask(fetch(2, 1, 1))
    bench.core.step(RequestAbandoned(parked), bench.now_ms)
    bench.core.propose([b"x"])
    bench.perform()
    assert parked not in bench.replies


def test_parked_fetches_learn_that_leadership_ended() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))
    parked = bench.ask(fetch(2, 1, 1))
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, 2, 1))
    answer = bench.replies[parked]
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (6, 3, 2)


def test_records_are_not_handed_out_after_leadership_ended() -> None:
    bench = leader()
    bench.core.propose([b"x"])
    slow = bench.core.ready()  # a slow disk: the answer below waits for the next Ready
    assert slow is not None
    bench.core.step(RequestReceived(77, fetch(2, 0, -1)), bench.now_ms)
    bench.core.step(RequestReceived(78, BeginQuorumEpochRequest(CLUSTER, 3, 2, 1)), bench.now_ms)
    bench.core.advance(1)
    after = bench.core.ready()
    assert after is not None
    assert [(reply.request_id, reply.response.error_code, reply.read) for reply in after.fetch_replies] == [
        (77, 6, None)
    ]


def test_diverging_fetch_is_answered_with_the_end_of_the_older_epoch_and_acks_nothing() -> None:
    bench = Bench(log=log_of(1, 1, 2), stored=ElectionState(2)).become_leader()  # LeaderChange of epoch 3 at 3
    answer = ask_fetch(bench, fetch(2, 5, 2, epoch=3))
    assert answer is not None and answer.diverging_epoch == EpochEndOffset(2, 3)
    assert bench.core.high_watermark == 0


def test_fetch_beyond_the_start_that_names_no_epoch_is_refused() -> None:
    answer = ask_fetch(leader(), fetch(2, 1, -1))
    assert answer is not None and answer.error_code == 42


def test_leader_resigns_when_a_majority_stops_fetching() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 1, 1))
    last_fetch_ms = bench.now_ms
    while bench.core.state is State.LEADER:
        bench.advance_to_deadline()
    assert bench.now_ms - last_fetch_ms == 3_000
    assert bench.core.state is State.RESIGNED


def test_one_live_follower_of_two_keeps_the_leader() -> None:
    bench = leader()
    for _ in range(20):
        bench.advance(400)
        ask_fetch(bench, fetch(2, 1, 1, wait_ms=0))
    assert bench.core.state is State.LEADER


def test_voter_that_does_not_fetch_is_told_again_who_leads() -> None:
    bench = Bench().become_leader()
    notices = [message for message in bench.take_sent() if isinstance(message.request, BeginQuorumEpochRequest)]
    assert sorted(message.to for message in notices) == [2, 3]
    bench.core.step(RequestFailed(notices[0].correlation_id), bench.now_ms)
    bench.advance(60)
    (again,) = bench.take_sent()
    assert again.request == notices[0].request


def test_resigning_leader_names_the_voter_with_most_log_first() -> None:
    bench = leader()
    ask_fetch(bench, fetch(3, 1, 1))
    bench.core.resign(bench.now_ms)
    bench.perform()
    requests = [message.request for message in bench.take_sent()]
    assert requests == [EndQuorumEpochRequest(CLUSTER, 1, 1, (3, 2))] * 2


def test_proposal_is_refused_by_a_follower_with_a_hint() -> None:
    with pytest.raises(NotControllerError) as caught:
        follower().core.propose([b"x"])
    assert caught.value.leader is not None and caught.value.leader.leader_id == 2


def test_proposals_beyond_the_bound_are_refused_until_some_are_committed() -> None:
    bench = leader(uncommitted_max_bytes=1_000)
    ask_fetch(bench, fetch(2, 1, 1))
    bench.core.propose([b"x" * 600])
    with pytest.raises(ResourceExhaustedError):
        bench.core.propose([b"x" * 600])
    bench.perform()
    ask_fetch(bench, fetch(2, 2, 1))
    assert bench.core.propose([b"x" * 600]) == 2


def test_proposal_too_large_for_a_batch_or_empty_changes_nothing() -> None:
    bench = leader(batch_max_bytes=500)
    with pytest.raises(MessageTooLargeError):
        bench.core.propose([b"x" * 500])
    with pytest.raises(InvalidRequestError):
        bench.core.propose([])
    assert bench.core.log_end_offset == 1


def test_values_of_one_proposal_stay_in_one_batch() -> None:
    bench = leader()
    assert bench.core.propose([b"a", b"b", b"c"]) == 3
    bench.perform()
    assert len(bench.log.batches) == 2


# -- the follower ------------------------------------------------------------------------------------------------------


def test_restarted_follower_fetches_from_its_leader_at_once_and_without_waiting() -> None:
    (message,) = follower(1, 1, 4).take_sent()
    assert (message.to, message.request) == (2, FetchMetadataRequest(CLUSTER, 1, 5, 3, 4, 0, 1 << 20))


def test_fetch_is_sent_only_with_what_it_acks_already_in_the_ready() -> None:
    bench = follower()
    (message,) = bench.take_sent()
    bench.answer(message, FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 0, 5)))
    ready = bench.readys[-1]
    (next_fetch,) = ready.messages
    assert len(ready.append) == 1
    assert isinstance(next_fetch.request, FetchMetadataRequest) and next_fetch.request.fetch_offset == 1
    assert next_fetch.request.max_wait_ms == 500


def test_high_watermark_of_a_follower_stays_below_its_log_end_and_never_falls() -> None:
    bench = follower()
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 99, 0, batch(b"a", 0, 5)))
    assert bench.core.high_watermark == 1
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 0, 0))
    assert bench.core.high_watermark == 1


def test_follower_truncates_to_the_diverging_epoch_before_it_fetches_again() -> None:
    bench = follower(1, 1, 4, 4)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 0, 0, diverging_epoch=EpochEndOffset(1, 2)))
    assert bench.readys[-1].truncate_to == 2
    assert bench.log.log_end_offset == 2
    (again,) = bench.take_sent()
    assert isinstance(again.request, FetchMetadataRequest)
    assert (again.request.fetch_offset, again.request.last_fetched_epoch) == (2, 1)


def test_high_watermark_in_a_diverging_answer_is_not_believed() -> None:
    bench = follower(1, 1, 4, 4)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 4, 0, diverging_epoch=EpochEndOffset(4, 3)))
    assert bench.core.high_watermark == 0


def test_truncation_below_the_high_watermark_is_refused() -> None:
    bench = follower(1)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 1, 0))
    with pytest.raises(InvariantViolation, match="committed"):
        bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 5, 1, 0, diverging_epoch=EpochEndOffset(0, 0)))
    assert bench.log.log_end_offset == 1


GOOD = batch(b"a", 1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        FetchMetadataResponse(2, 5, 0, 0, GOOD[:-1]),
        FetchMetadataResponse(2, 5, 0, 0, GOOD + b"trailing"),
        FetchMetadataResponse(2, 5, 0, 0, b"garbage" * 20),
        FetchMetadataResponse(2, 5, 0, 0, GOOD[:-1] + b"\xff"),
        FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 2, 5)),
        FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 0, 5)),
        FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 1, 6)),
        FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 1, 0)),
        FetchMetadataResponse(2, 5, 0, 0, batch(b"a", 1, -1)),
        FetchMetadataResponse(2, 5, 0, 0, diverging_epoch=EpochEndOffset(-1, -1)),
        FetchMetadataResponse(2, 5, 0, 0, diverging_epoch=EpochEndOffset(-7, 3)),
        FetchMetadataResponse(2, 5, 0, 0, snapshot_id=EpochEndOffset(6, 2)),
    ],
    ids=lambda answer: "",
)
def test_malformed_answer_changes_nothing_and_is_asked_again_later(answer: FetchMetadataResponse) -> None:
    bench = follower(1)
    bench.answer(bench.take_sent()[0], answer)
    assert (bench.log.log_end_offset, bench.core.high_watermark, bench.sent) == (1, 0, [])
    assert bench.core.statistics().answers_malformed == 1
    bench.advance(50)
    assert len(bench.take_sent()) == 1


@pytest.mark.parametrize("error_code", [-1, 42, 56, 75, 104, 12345])
def test_error_answers_back_off_until_the_fetch_timeout_ends_the_wait(error_code: int) -> None:
    bench = follower(1)
    started_ms = bench.now_ms
    fetches = 0
    while bench.core.state is State.FOLLOWER:
        for message in bench.take_sent():
            fetches += 1
            bench.answer(message, FetchMetadataResponse(2, 5, error_code=error_code))
        bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE
    assert bench.now_ms - started_ms == 2_000
    assert 4 <= fetches <= 10


def test_leader_that_says_it_leads_no_more_is_left_at_once() -> None:
    bench = follower(1)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(-1, 5, error_code=6))
    assert bench.core.state is State.UNATTACHED


def test_answer_of_an_older_epoch_is_not_applied() -> None:
    bench = follower()
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, 4, 9, 0, batch(b"a", 0, 4)))
    assert bench.log.log_end_offset == 0


def test_answer_that_comes_after_the_leader_changed_is_dropped() -> None:
    bench = follower()
    (old,) = bench.take_sent()
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, 6, 1))
    bench.answer(old, FetchMetadataResponse(2, 5, 1, 0, batch(b"a", 0, 5)))
    assert bench.log.log_end_offset == 0
    assert bench.core.statistics().answers_dropped == 1


def test_observer_gives_its_leader_up_after_the_fetch_timeout_and_searches() -> None:
    bench = Bench(node_id=9, stored=ElectionState(5, 2))
    bench.perform()
    bench.take_sent()
    while bench.core.state is State.FOLLOWER:
        bench.advance_to_deadline()
    assert bench.core.state is State.UNATTACHED
    bench.advance_to_deadline()
    (search,) = bench.take_sent()
    assert search.to in (1, 3), "the old leader may hang"


# -- since when another leader may have been elected -------------------------------------------------------------------


def heard_ms(bench: Bench) -> int:
    assert bench.core.leadership is not None
    return bench.core.leadership.replicas.quorum_heard_ms(bench.now_ms)


def test_a_voter_is_known_to_follow_until_the_answer_that_it_names_and_not_until_its_fetch_comes() -> None:
    """The fetch may have been on its way for long: its voter may have voted for another leader since."""
    bench = leader()
    first = ask_fetch(bench, fetch(2, 0, -1, wait_ms=0))
    assert first is not None and first.leader_time_ms == bench.now_ms and heard_ms(bench) == 0
    bench.advance(300)
    bench.request(replace(fetch(2, 1, 1), heard_ms=first.leader_time_ms))
    assert heard_ms(bench) == bench.now_ms - 300
    bench.advance(100)
    bench.request(replace(fetch(2, 1, 1, wait_ms=0), heard_ms=first.leader_time_ms))
    assert heard_ms(bench) == bench.now_ms - 400, "it was asked again, and has heard nothing since"


def test_the_answer_of_an_older_node_is_its_next_fetch_that_may_wait() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, 0, -1, wait_ms=0))
    bench.advance(300)
    bench.request(fetch(2, 1, 1, wait_ms=500))
    assert heard_ms(bench) == bench.now_ms


def test_a_voter_cannot_have_heard_what_this_leader_has_not_said() -> None:
    bench = leader()
    bench.request(replace(fetch(2, 1, 1), heard_ms=bench.now_ms + 60_000))
    assert heard_ms(bench) == bench.now_ms


def test_a_follower_names_the_newest_answer_of_this_leader_alone() -> None:
    bench = follower(4)
    (first,) = bench.take_sent()
    assert isinstance(first.request, FetchMetadataRequest) and first.request.heard_ms == 0
    bench.answer(first, FetchMetadataResponse(2, 5, 0, 0, log_end_offset=1, leader_time_ms=777))
    (second,) = bench.take_sent()
    assert isinstance(second.request, FetchMetadataRequest) and second.request.heard_ms == 777
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, 6, 1))
    (other,) = [one.request for one in bench.take_sent() if isinstance(one.request, FetchMetadataRequest)]
    assert (other.current_leader_epoch, other.heard_ms) == (6, 0), "another leader's clock is another one"


def test_a_leader_that_needs_nobody_is_never_deposed() -> None:
    bench = Bench(voters=(1,))
    bench.perform()
    bench.advance(60_000)
    assert heard_ms(bench) == bench.now_ms
