"""The driver, three nodes in one loop of virtual time: elections, commits, hand-over, and the end by a disk error."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.errors import (
    KafkaStorageError,
    NetworkError,
    NotControllerError,
    PositionOutOfRangeError,
    UnknownLeaderEpochError,
)
from penstock.types import EpochEndOffset
from raft.decided_log import BEGINNING
from raft.driver.describe import promises_text
from raft.messages import BeginQuorumEpochRequest, FetchMetadataRequest, FetchSnapshotRequest, VoteRequest
from raft.quorum_state import ElectionState, State
from tests.support.raft_cluster import Cluster, Node, Recorder, wait_until
from tests.support.raft_fakes import InlineExecutor, MemoryLog
from tests.support.virtual_time import run_virtual, virtual_clock


def with_cluster(test: Callable[[Cluster], Awaitable[None]], count: int = 3, observers: int = 0) -> None:
    async def run() -> None:
        async with Cluster(count, observers) as cluster:
            await test(cluster)

    run_virtual(run())


def test_three_nodes_elect_a_leader_and_commit_everywhere() -> None:
    async def scenario(cluster: Cluster) -> None:
        started_ms = virtual_clock().now_ms()
        leader = await cluster.wait_leader()
        assert virtual_clock().now_ms() - started_ms < 500
        base_offset = leader.driver.next_offset
        last_offset = await leader.driver.propose([b"a", b"b"])
        assert last_offset == base_offset + 1
        assert leader.recorder.own_values == [b"a", b"b"]
        await wait_until(lambda: all(node.recorder.own_values == [b"a", b"b"] for node in cluster.nodes.values()))

    with_cluster(scenario)


def test_single_voter_elects_itself_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        started_ms = virtual_clock().now_ms()
        leader = await cluster.wait_leader()
        assert virtual_clock().now_ms() - started_ms < 20
        assert await leader.driver.propose([b"x"]) == 1
        assert leader.recorder.leaders[-1] == (1, 1)

    with_cluster(scenario, count=1)


def test_a_snapshot_that_cannot_be_read_ends_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_log: MemoryLog, _id: EpochEndOffset, _position: int, _max_bytes: int) -> tuple[int, bytes] | None:
        raise OSError(errno.EIO, "rot")

    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"a"])
        snapshot_id = leader.log.take_snapshot(leader.driver.high_watermark)
        leader.driver.keep_snapshots([BEGINNING, snapshot_id])
        epoch = leader.driver.leader_and_epoch[1]
        for position in (1 << 29, (1 << 63) - 1):
            asked = FetchSnapshotRequest("c", leader.node_id % 3 + 1, epoch, snapshot_id, position, 100)
            assert (await leader.driver.handle(asked)).error_code in (PositionOutOfRangeError.code, 42)
        monkeypatch.setattr(MemoryLog, "read_snapshot", broken)
        asked = FetchSnapshotRequest("c", leader.node_id % 3 + 1, epoch, snapshot_id, 0, 100)
        assert (await leader.driver.handle(asked)).error_code == KafkaStorageError.code
        assert await leader.driver.propose([b"b"]) > 0

    with_cluster(scenario)


class TellingExecutor(InlineExecutor):
    """Says whether it runs a call just now."""

    runs = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.runs = True
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            self.runs = False


def test_what_changes_the_log_runs_on_the_loop_and_what_takes_long_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers on the loop trust the log between two of their lines; a cut in another thread would change it there."""
    executor, seen = TellingExecutor(), set[tuple[str, bool]]()

    def watched(name: str) -> None:
        call = getattr(MemoryLog, name)

        def with_note(log: MemoryLog, *arguments: object) -> object:
            seen.add((name, executor.runs))
            return call(log, *arguments)

        monkeypatch.setattr(MemoryLog, name, with_note)

    on_loop = ("append_as_leader", "append_as_follower", "cut_prefix", "begin_after")
    elsewhere = ("write_snapshot", "complete_snapshot", "remove_files", "ask_disk")
    for name in (*on_loop, *elsewhere):
        watched(name)

    async def run() -> None:
        async with Cluster(3, executor=executor) as cluster:
            leader = await cluster.wait_leader()
            away = next(node for node in cluster.nodes.values() if node is not leader)
            await away.stop()
            await leader.driver.propose([b"a"])
            snapshot_id = leader.log.take_snapshot(leader.driver.high_watermark)
            leader.driver.keep_snapshots([snapshot_id])
            await leader.driver.propose([b"b"])
            await away.restart()
            await wait_until(lambda: away.recorder.own_values == [b"a", b"b"])

    run_virtual(run())
    assert seen == {*((name, False) for name in on_loop), *((name, True) for name in elsewhere)}


def test_a_log_that_the_page_cache_lacks_is_read_in_the_executor_and_commits_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor, seen = TellingExecutor(), set[bool]()
    read = MemoryLog.read

    def watched(log: MemoryLog, *arguments: int) -> bytes:
        seen.add(executor.runs)
        return read(log, *arguments)

    monkeypatch.setattr(MemoryLog, "read", watched)
    monkeypatch.setattr(MemoryLog, "read_nowait", lambda *_: None)

    async def run() -> None:
        async with Cluster(3, executor=executor) as cluster:
            leader = await cluster.wait_leader()
            seen.clear()  # the start reads all of it
            await leader.driver.propose([b"a"])
            await wait_until(lambda: all(node.recorder.own_values == [b"a"] for node in cluster.nodes.values()))

    run_virtual(run())
    assert seen == {True}


def test_a_node_has_met_the_quorum_when_it_hears_from_a_leader_and_not_by_its_snapshot() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"a"])
        alone = next(node for node in cluster.nodes.values() if node is not leader)
        await wait_until(lambda: alone.driver.met_quorum.is_set() and alone.recorder.own_values == [b"a"])
        alone.log.take_snapshot(alone.driver.high_watermark)
        for node in cluster.nodes.values():
            await node.power_cut()
        await alone.start()
        await asyncio.sleep(30)
        assert alone.recorder.own_values == [b"a"] and not alone.driver.met_quorum.is_set()
        await leader.start()
        await asyncio.wait_for(alone.driver.met_quorum.wait(), 30)

    with_cluster(scenario)


def test_forged_epochs_end_no_elections_and_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        epoch = leader.driver.leader_and_epoch[1]
        for node in cluster.nodes.values():
            candidate = node.node_id % 3 + 1
            for _ in range(3):
                forged = VoteRequest("c", 2**31 - 3, candidate, node.node_id, 0, 0, False)
                assert (await node.driver.handle(forged)).error_code == UnknownLeaderEpochError.code
            assert node.driver.statistics().core.epoch_jumps_refused == 3
        await leader.driver.propose([b"a"])
        assert leader.driver.leader_and_epoch == (leader.node_id, epoch)
        logged = [record for record in caplog.records if "VoteRequest with epoch 2147483645" in record.message]
        assert len(logged) == 3

    with_cluster(scenario)


def test_a_voter_that_comes_back_without_what_it_acked_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        epoch = leader.driver.leader_and_epoch[1]
        end = await leader.driver.propose([b"a"]) + 1
        voter = leader.node_id % 3 + 1
        cluster.network.isolate(voter, [1, 2, 3])
        for process, offset, last_epoch in (("before", end, epoch), ("copy", 0, -1), ("copy", end, epoch)):
            fetch = FetchMetadataRequest("c", voter, epoch, offset, last_epoch, 0, 1 << 20, process)
            assert not (await leader.driver.handle(fetch)).error_code
        logged = [record.message for record in caplog.records if "is an older copy" in record.message]
        assert logged == [one for one in logged if f"voter {voter}, " in one and f"acked up to {end}:" in one]
        assert len(logged) == 1

    with_cluster(scenario)


def test_voter_that_lost_everything_says_so_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"a"])
        lost, other = (node for node in cluster.nodes.values() if node is not leader)
        await lost.power_cut()
        lost.lose_everything()
        cluster.network.isolate(other.node_id, [1, 2, 3])
        await lost.start()
        await asyncio.sleep(1)
        assert lost.driver.has_forgotten and lost.log.log_end_offset == 0
        assert f"voters [{other.node_id}] have told it their epochs" in described_promises(lost)
        cluster.network.heal()
        await wait_until(lambda: not lost.driver.has_forgotten)
        await wait_until(lambda: lost.recorder.own_values == [b"a"])
        logged = [record.message for record in caplog.records if record.message.startswith(f"voter {lost.node_id}:")]
        assert ["(votes)" in logged[0], "(records)" in logged[1], "it takes part" in logged[2]] == [True] * 3

    with_cluster(scenario)


def described_promises(node: Node) -> str:
    core = node.driver.core
    assert core is not None
    return promises_text(core)


def test_leader_is_announced_only_after_a_commit_of_its_own_epoch() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        followers = [node for node in cluster.nodes.values() if node is not leader]
        cluster.network.isolate(leader.node_id, [node.node_id for node in followers])
        successor = await cluster.wait_leader(but_not=leader.node_id)
        first = json.loads(successor.recorder.values[-1])
        epoch = successor.driver.leader_and_epoch[1]
        assert (first["type"], first["leader_id"], first["leader_epoch"]) == ("LeaderChange", successor.node_id, epoch)
        assert (successor.node_id, epoch) in successor.recorder.leaders
        await wait_until(lambda: leader.recorder.leaders[-1][0] == -1)  # check-quorum
        with pytest.raises(NotControllerError):
            leader.driver.propose([b"late"])

    with_cluster(scenario)


def test_proposal_of_a_leader_that_loses_its_quorum_fails_with_unknown_outcome() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        others = [node.node_id for node in cluster.nodes.values() if node is not leader]
        cluster.network.isolate(leader.node_id, others)
        future = leader.driver.propose([b"lost?"])
        with pytest.raises(NotControllerError, match="outcome is unknown"):
            await future
        successor = await cluster.wait_leader(but_not=leader.node_id)
        await successor.driver.propose([b"kept"])
        cluster.network.heal()
        await wait_until(lambda: leader.recorder.own_values == [b"kept"])
        assert leader.driver.statistics().core.truncations >= 1

    with_cluster(scenario)


def test_graceful_stop_hands_over_within_an_election_timeout() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        started_ms = virtual_clock().now_ms()
        await leader.stop()
        successor = await cluster.wait_leader(but_not=leader.node_id)
        assert virtual_clock().now_ms() - started_ms < 200
        await successor.driver.propose([b"on"])

    with_cluster(scenario)


def test_successor_of_a_dead_leader_is_active_soon_after_the_fetch_timeout() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        others = [node.node_id for node in cluster.nodes.values() if node is not leader]
        cluster.network.isolate(leader.node_id, others)
        started_ms = virtual_clock().now_ms()
        await cluster.wait_leader(but_not=leader.node_id)
        assert virtual_clock().now_ms() - started_ms < 600 + 300

    with_cluster(scenario)


def test_restarted_node_replays_the_log_from_its_start() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        for index in range(20):
            await leader.driver.propose([b"%d" % index])
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        await follower.restart()
        started_ms = virtual_clock().now_ms()
        await wait_until(lambda: len(follower.recorder.own_values) == 20)
        assert virtual_clock().now_ms() - started_ms < 50

    with_cluster(scenario)


def test_observer_finds_the_leader_follows_and_never_votes() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        observer = cluster.nodes[4]
        await leader.driver.propose([b"seen"])
        await wait_until(lambda: observer.recorder.own_values == [b"seen"])
        assert observer.driver.leader_and_epoch == leader.driver.leader_and_epoch
        assert [replica.replica_id for replica in leader.driver.describe().observers] == [4]
        await leader.stop()
        successor = await cluster.wait_leader(but_not=leader.node_id)
        await successor.driver.propose([b"again"])
        await wait_until(lambda: observer.recorder.own_values == [b"seen", b"again"])
        assert observer.store.state is not None and observer.store.state.voted_id == -1

    with_cluster(scenario, observers=1)


def test_a_request_that_a_stop_overtakes_fails_with_the_reason_said_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        request = BeginQuorumEpochRequest("c", leader.node_id, follower.driver.leader_and_epoch[1], follower.node_id)
        answer = asyncio.create_task(follower.driver.handle(request))
        await asyncio.sleep(0)
        await follower.stop()
        with pytest.raises(NetworkError, match=f"^node {follower.node_id} left the quorum: it was stopped$"):
            await answer

    with_cluster(scenario)


def test_failed_fsync_ends_the_driver_and_is_never_retried() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        flushes = leader.log.flushes
        leader.log.fail_next_flush = OSError(5, "input/output error")
        future = leader.driver.propose([b"x"])
        with pytest.raises(NotControllerError):
            await future
        assert [str(error) for error in leader.fatal] == ["[Errno 5] input/output error"]
        assert leader.log.flushes == flushes
        assert leader.recorder.leaders[-1][0] == -1
        with pytest.raises(NetworkError):
            await leader.driver.handle(BeginQuorumEpochRequest("c", 2, 99, leader.node_id))
        await cluster.wait_leader(but_not=leader.node_id)

    with_cluster(scenario)


def test_failed_save_of_the_election_state_ends_the_driver_before_a_vote_is_told() -> None:
    async def run() -> None:
        cluster = Cluster()
        node = cluster.nodes[1]
        node.store.fail_next_save = OSError(28, "no space left on device")
        await node.start()
        for other in (2, 3):
            await cluster.nodes[other].start()
        await cluster.wait_leader()
        await wait_until(lambda: bool(node.fatal))
        for each in cluster.nodes.values():
            await each.stop()
        assert node.store.state is None

    run_virtual(run())


def test_late_subscriber_sees_the_log_from_its_start_and_the_leader_stays_active() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"one"])
        late = Recorder()
        leader.driver.subscribe(late)
        assert leader.driver.is_leader
        await wait_until(lambda: late.own_values == [b"one"])
        assert late.leaders[-1] == leader.driver.leader_and_epoch

    with_cluster(scenario)


def test_idle_quorum_sends_few_messages() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.wait_leader()
        await asyncio.sleep(2)
        before = len(cluster.network.sent)
        await asyncio.sleep(10)
        fetches = [sent for sent in cluster.network.sent[before:] if isinstance(sent[2], FetchMetadataRequest)]
        assert len(cluster.network.sent) - before == len(fetches)
        assert len(fetches) <= 2 * (10_000 // 200 + 1)  # each follower, one in every fetch_timeout / 3

    with_cluster(scenario)


def test_listener_that_raises_ends_the_driver() -> None:
    class Broken(Recorder):
        def on_committed(self, base_offset: int, records: bytes) -> None:
            raise ValueError("cannot decode")

    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        leader.driver.subscribe(Broken())
        await wait_until(lambda: bool(leader.fatal))
        assert isinstance(leader.driver.failure, ValueError)

    with_cluster(scenario)


def test_pending_request_is_answered_with_an_error_when_the_driver_stops() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        driver = leader.driver
        _, epoch = driver.leader_and_epoch
        end, last = leader.log.log_end_offset, leader.log.epoch_entries[-1].epoch
        await driver.handle(FetchMetadataRequest("c", 9, epoch, end, last, 0, 1000))
        parked = asyncio.ensure_future(driver.handle(FetchMetadataRequest("c", 9, epoch, end, last, 500, 1000)))
        await asyncio.sleep(0.01)
        assert not parked.done()
        await leader.stop()
        response = await parked
        assert response.error_code == 6

    with_cluster(scenario)


def test_abandoned_fetch_is_forgotten() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        _, epoch = leader.driver.leader_and_epoch
        end, last = leader.log.log_end_offset, leader.log.epoch_entries[-1].epoch
        await leader.driver.handle(FetchMetadataRequest("c", 9, epoch, end, last, 0, 1000))
        parked = asyncio.ensure_future(leader.driver.handle(FetchMetadataRequest("c", 9, epoch, end, last, 500, 1000)))
        await asyncio.sleep(0.01)
        waiting = leader.driver.statistics().requests_waiting
        parked.cancel()
        await asyncio.sleep(0.01)
        assert leader.driver.statistics().requests_waiting == waiting - 1

    with_cluster(scenario)


def test_leader_that_comes_back_resigns_its_old_epoch() -> None:
    async def run() -> None:
        cluster = Cluster()
        node = cluster.nodes[1]
        node.store.state = ElectionState(7, leader_id=1, voted_id=1)
        await node.start()
        assert node.driver.statistics().core.state is State.RESIGNED
        for other in (2, 3):
            await cluster.nodes[other].start()
        leader = await cluster.wait_leader()
        assert leader.driver.leader_and_epoch[1] > 7
        for each in cluster.nodes.values():
            await each.stop()

    run_virtual(run())
