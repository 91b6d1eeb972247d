"""The driver performs a Ready in the order that ready.py states: checked on what the disk and the network see."""

from __future__ import annotations

import asyncio
from random import Random

from raft.config import RaftConfig
from raft.driver.driver import RaftDriver
from raft.messages import (
    BeginQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState
from raft.voter_records import voters_value
from raft.voters import Voter, VoterSet
from tests.support.raft_bench import batch
from tests.support.raft_fakes import InlineExecutor, MemoryLog, MemoryStore
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.support.voters import voters_of


class Witness:
    """Writes down what happens to disk and network, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []


class WitnessedLog(MemoryLog):
    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.witness = witness

    def note_voters(self) -> None:
        self.witness.seen.append("note voters")

    def append_as_leader(self, batch: bytes, epoch: int) -> None:
        self.witness.seen.append(f"append epoch {epoch}")
        super().append_as_leader(batch, epoch)

    def append_as_follower(self, records: bytes) -> None:
        self.witness.seen.append("append as follower")
        super().append_as_follower(records)

    def flush(self) -> None:
        self.witness.seen.append(f"flush to {self.log_end_offset}")
        super().flush()


class WitnessedStore(MemoryStore):
    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.witness = witness

    def save(self, state: ElectionState) -> None:
        self.witness.seen.append(f"save epoch {state.epoch} leader {state.leader_id} vote {state.voted_id}")
        super().save(state)


class WitnessedTransport:
    """Grants every vote; answers the first fetch with one record and holds every other question for ever."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.records = batch(b"a", 0, 3)

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        if isinstance(request, VoteRequest):
            self.witness.seen.append(f"{'pre-vote' if request.pre_vote else 'vote'} in {request.candidate_epoch}")
            return VoteResponse(-1, request.candidate_epoch, True)
        if isinstance(request, FetchMetadataRequest):
            self.witness.seen.append(f"fetch at {request.fetch_offset}")
            if request.fetch_offset == 0:
                return FetchMetadataResponse(node_id, request.current_leader_epoch, 0, 0, self.records)
        else:
            self.witness.seen.append(type(request).__name__)
        await asyncio.sleep(timeout_ms / 1000)
        raise TimeoutError


def run_with_driver(scenario: str, records: bytes = b"") -> list[str]:
    witness = Witness()
    transport = WitnessedTransport(witness)
    transport.records = records or transport.records

    async def run() -> None:
        driver = RaftDriver(
            RaftConfig("c", 1, voters_of(1, 2, 3)),
            WitnessedLog(witness),
            WitnessedStore(witness),
            transport,
            virtual_clock(),
            Random(1),
            InlineExecutor(),
        )
        await driver.start()
        if scenario == "follower":
            await driver.handle(BeginQuorumEpochRequest("c", 2, 3, 1))
            witness.seen.append("begin answered")
            await asyncio.sleep(0.5)
        elif scenario == "vote":
            await driver.handle(VoteRequest("c", 4, 2, 1, -1, 0, False))
            witness.seen.append("vote answered")
        else:
            await asyncio.sleep(2.5)
        await driver.stop()

    run_virtual(run())
    return witness.seen


def test_vote_is_answered_after_it_is_saved() -> None:
    assert run_with_driver("vote") == ["save epoch 4 leader -1 vote 2", "vote answered"]


def test_fetch_that_acks_records_follows_their_fsync() -> None:
    seen = run_with_driver("follower")
    assert seen.index("save epoch 3 leader 2 vote -1") < seen.index("begin answered")
    fetches = [entry for entry in seen if entry.startswith(("append", "flush", "fetch"))]
    assert fetches == ["fetch at 0", "append as follower", "flush to 1", "fetch at 1"]


def test_a_log_is_noted_as_one_with_voters_before_it_gets_a_record_that_names_some() -> None:
    named = voters_value(VoterSet((Voter(1, "a"), Voter(2, "b"))))
    seen = run_with_driver("follower", batch(named, 0, 3))
    changes = [entry for entry in seen if entry.startswith(("append", "flush", "note"))]
    assert changes == ["note voters", "append as follower", "flush to 1"]


def test_own_vote_and_own_leadership_are_saved_before_anybody_hears_of_them() -> None:
    seen = run_with_driver("leader")
    assert seen[:2] == ["pre-vote in 0", "pre-vote in 0"]
    assert seen[2] == "save epoch 1 leader -1 vote 1"
    assert seen[3:5] == ["vote in 1", "vote in 1"]
    assert seen[5:8] == ["save epoch 1 leader 1 vote 1", "append epoch 1", "flush to 1"]
    assert seen[8:10] == ["BeginQuorumEpochRequest", "BeginQuorumEpochRequest"]


def test_log_with_an_unsynced_end_is_flushed_before_the_driver_takes_part() -> None:
    witness = Witness()

    async def run() -> None:
        log = WitnessedLog(witness)
        MemoryLog.append_as_follower(log, batch(b"a", 0, 1))
        clock, store = virtual_clock(), WitnessedStore(witness)
        config, transport = RaftConfig("c", 1, voters_of(1)), WitnessedTransport(witness)
        driver = RaftDriver(config, log, store, transport, clock, Random(1), InlineExecutor())
        await driver.start()
        assert log.flushed_offset >= 1
        assert witness.seen[0] == "flush to 1"
        await driver.stop()

    run_virtual(run())


def test_driver_tells_what_it_is_before_and_after_its_life() -> None:
    async def run() -> None:
        witness = Witness()
        driver = RaftDriver(
            RaftConfig("c", 1, voters_of(1)),
            WitnessedLog(witness),
            WitnessedStore(witness),
            WitnessedTransport(witness),
            virtual_clock(),
            Random(1),
            InlineExecutor(),
        )
        assert (driver.is_leader, driver.leader_and_epoch, driver.next_offset) == (False, (-1, 0), 0)
        assert "new" in repr(driver) and driver.describe().leader_id == -1
        await driver.start()
        await asyncio.sleep(0.01)
        assert driver.is_leader and "running" in repr(driver)
        assert driver.describe().voters[0].log_end_offset == 1
        assert driver.statistics().flushes == 1
        assert await driver.propose([b"x"]) == 1  # also when nobody listens
        await driver.stop()
        await driver.stop()
        assert not driver.is_leader and "stopping" in repr(driver)

    run_virtual(run())
