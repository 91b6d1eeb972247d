"""Quorums whose voters change while something else is wrong: they find a leader again, and no change takes it away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import NotLeaderOrFollowerError, RequestTimedOutError
from penstock.types import EpochEndOffset
from raft.messages import FetchMetadataRequest, FetchMetadataResponse, SnapshotTaken, VoteRequest, VoteResponse
from raft.voter_changes import AddVoter, NameDirectories
from raft.voters import VoterSet
from tests.support.raft_bench import CLUSTER, Bench
from tests.support.voters import voters_at
from tests.trace.raft.changing_stage import ChangingStage, disk, voter
from tests.trace.raft.stage import Stage


def leads(stage: Stage) -> bool:
    return any(actor.core.leadership for actor in stage.actors.values())


def test_two_followers_do_not_keep_a_dead_leader_alive_by_hearsay() -> None:
    stage = ChangingStage(3, 0)
    leader = stage.run_until_leader()
    stage.run_ms(1_000)
    behind = next(node_id for node_id in stage.ids if node_id != leader)
    stage.cut(leader, behind)
    stage.run_ms(20)
    stage.propose(leader, b"the time-out of the other follower ends later")
    stage.crash(leader)
    stage.heal()
    stage.run_until(lambda: leads(stage), limit_ms=20_000)


class StaticStage(Stage):
    def __init__(self) -> None:
        super().__init__(3, 0, terse=True, election_timeout_ms=200, fetch_timeout_ms=400)

    def config_of(self, node_id: int) -> tuple[tuple[int, ...], dict[str, Any]]:
        return self.ids, {**self._config, "directory_id": disk(node_id)}


def test_a_lost_name_directories_does_not_refuse_its_vote_to_a_static_candidate() -> None:
    stage = StaticStage()
    stage.lead(3)
    stage.run_ms(500)
    stage.cut(3)
    stage.actors[3].core.change_voters(NameDirectories(), stage.now_ms)
    stage.actors[3].perform()
    stage.stands(2)
    stage.run_until(lambda: (led := stage.actors[2].core.leadership) is not None and led.has_committed)
    stage.crash(1)
    stage.stands(1, 2, 3)
    stage.run_ms(3_000)
    assert not leads(stage), "no majority fetches from 2"
    stage.heal()
    stage.run_until(lambda: leads(stage))


def test_a_voter_that_never_fetched_from_a_new_leader_does_not_answer() -> None:
    stage = ChangingStage(3, 0)
    dead = stage.run_until_leader()
    stage.run_ms(1_000)
    stage.crash(dead)
    leader = stage.run_until_leader(dead)
    other = next(node_id for node_id in stage.actors if node_id != leader)
    with pytest.raises(RequestTimedOutError, match="answer"):
        stage.remove(leader, other)


def test_a_snapshot_without_voters_takes_away_what_an_uncommitted_record_said() -> None:
    bench = Bench(node_id=3, voters=voters_at(1, 2, 3), directory_id=disk(3))
    history = bench.core._quorum.history
    history.append(50, VoterSet(tuple(map(voter, (1, 2, 3)))))
    bench.core._following.on_snapshot_taken(SnapshotTaken(EpochEndOffset(7, 100), True), bench.now_ms)
    assert not history.newest.is_dynamic


def test_near_the_clocks_zero_a_newcomer_that_has_nothing_has_not_caught_up() -> None:
    stage = ChangingStage(1, 1)
    stage.cut(2)
    leader = stage.actors[stage.run_until_leader()]
    leader.ask(FetchMetadataRequest(CLUSTER, 2, leader.core.epoch, 0, -1, 0, 1 << 20, "", 0, disk(2)))
    with pytest.raises(RequestTimedOutError):
        leader.core.change_voters(AddVoter(voter(2)), stage.now_ms)


def test_an_empty_disk_whose_file_names_it_a_voter_does_not_vote_for_the_disk_before_it() -> None:
    """The quorum is dynamic since, and asks for the vote of the disk that is gone."""
    bench = Bench(node_id=3, voters=voters_at(1, 2, 3), directory_id="another disk")
    asked = VoteRequest(CLUSTER, 4, 1, 3, 3, 90, False, disk(1), disk(3))
    refused = bench.request(asked)
    assert isinstance(refused, VoteResponse) and (refused.vote_granted, refused.error_code) == (False, 42)
    assert bench.core.election.voted_id < 0
    granted = bench.request(replace(asked, voter_directory_id="another disk"))
    assert isinstance(granted, VoteResponse) and granted.vote_granted


def test_a_node_whose_file_is_old_follows_a_leader_that_it_does_not_name() -> None:
    """All of its voters may have been replaced since: only the leader's log says so."""
    bench = Bench(node_id=9, voters=voters_at(1, 2, 3), directory_id=disk(9))
    bench.advance_to_deadline()
    (question,) = bench.take_sent()
    bench.answer(question, FetchMetadataResponse(4, 7, error_code=NotLeaderOrFollowerError.code))
    assert (bench.core.leader_id, bench.core.epoch) == (4, 7)
    assert [sent.to for sent in bench.take_sent()] == [4]


def test_two_disks_of_one_id_do_not_end_each_others_fetches() -> None:
    """Else both ask again at once, for as long as both run."""
    bench = Bench(voters=VoterSet((voter(1),)), directory_id=disk(1))
    bench.perform()
    epoch, end = bench.core.epoch, bench.core.log_end_offset

    def fetch(directory_id: str) -> int:
        return bench.ask(FetchMetadataRequest(CLUSTER, 4, epoch, end, epoch, 500, 1 << 20, "", 0, directory_id))

    for directory_id in ("disk one", "disk two"):
        assert bench.replies.pop(fetch(directory_id))  # it brings the high watermark
    waiting = [fetch(directory_id) for directory_id in ("disk one", "disk two")]
    assert not bench.replies
    bench.core.propose([b"news"])
    bench.perform()
    assert set(waiting) <= bench.replies.keys()
