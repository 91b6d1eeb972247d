"""A metadata log with an epoch that never began is cut there before raft sees it; a damaged one names the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.quorum.metadata_log import METADATA_PARTITION, QuorumStateFile
from broker.quorum.metadata_log_opening import open_metadata_log
from broker.quorum.voter_memory import DoubtfulCuts, VoterMemory
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.record.batch import LEADER_EPOCH_AT
from penstock.record.builder import build_batch
from penstock.types import EpochEntry
from raft.messages import leader_change_value
from raft.quorum_state import ElectionState, Forgotten
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.machine import machine

STATE = ElectionState(7, 2, 3)
EPOCHS = (EpochEntry(1, 0), EpochEntry(4, 3))


class Voter:
    """A log dir with a metadata log of the epochs 1 (from offset 0) and 4 (from 3), as a killed node leaves it."""

    def __init__(self, path: Path, voters: int = 3) -> None:
        self.path, self.voters, self.fs = str(path / "data"), voters, OsFileSystem()
        self.directory = f"{self.path}/{METADATA_PARTITION}"
        format_directory(self.fs, self.path, "c" * 22, 1, "d" * 22)
        log = self.start()
        for epoch in (1, 4):
            for value in (leader_change_value(2, epoch, (1, 2, 3)), b'{"type":"NoOp"}', b"{}"):
                log.append.as_leader(build_batch((value,), timestamps_ms=0), epoch, 0)
        log.flush()
        self.places = [log.segments[0].place_of(offset).position for offset in range(6)]
        QuorumStateFile(self.directory, self.fs).save(STATE)
        self.manager.close(clean=False)

    def start(self) -> Log:
        config = LogManagerConfig(1, before_doubtful_cut=DoubtfulCuts(True, self.voters, self.fs))
        self.manager = LogManager.open([self.path], config, machine())
        return open_metadata_log(self.manager, self.fs, self.path, is_voter=True, voters=self.voters)[0]

    def set_epoch(self, offset: int, epoch: int) -> None:
        """The epoch of the batch there; no checksum covers it."""
        self.write(offset, LEADER_EPOCH_AT, epoch.to_bytes(4, "big"))

    def write(self, offset: int, at: int, value: bytes) -> None:
        with Path(f"{self.directory}/{0:020d}.log").open("r+b") as file:
            file.seek(self.places[offset] + at)
            file.write(value)

    def claim(self, recovery_point: int) -> None:
        """A checkpoint says that the log is flushed up to there."""
        Path(f"{self.path}/recovery-point-offset-checkpoint").write_text(
            f"0\n1\n__cluster_metadata 0 {recovery_point}\n"
        )

    def state(self) -> ElectionState | None:
        return QuorumStateFile(self.directory, self.fs).load()


@pytest.fixture
def voter(tmp_path: Path) -> Voter:
    return Voter(tmp_path)


@pytest.fixture
def disk(voter: Voter) -> Voter:
    """A voter of a dynamic quorum."""
    memory = VoterMemory(voter.path, voter.fs)
    memory.note_dynamic()
    memory.note_voted()
    return voter


def test_a_voter_of_a_dynamic_quorum_is_not_told_to_move_its_log_away(disk: Voter) -> None:
    disk.claim(6)
    disk.write(5, 40, b"\xff\xff")
    with pytest.raises(KafkaStorageError, match=r"other voters are a majority, format its metadata log dir anew") as it:
        disk.start()
    assert "backup" in str(it.value) and " away" not in str(it.value)


def test_rot_after_a_clean_stop_has_the_remedy_of_a_dynamic_quorum(disk: Voter) -> None:
    disk.start()
    disk.manager.close(clean=True)
    disk.write(5, 40, b"\xee")
    with pytest.raises(
        CorruptFileError, match=r"format its metadata log dir anew with --join.*restore .* from a backup"
    ):
        disk.start()


def test_an_epoch_that_never_began_is_not_cut_by_a_voter_of_a_dynamic_quorum(disk: Voter) -> None:
    disk.set_epoch(5, 260)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"260, which it did not begin.*format its metadata log dir anew"):
            disk.start()
        disk.manager.close(clean=False)
    assert disk.state() == STATE


def test_log_whose_epochs_began_stays_as_it_is(voter: Voter) -> None:
    log = voter.start()
    assert (log.log_end_offset, tuple(log.epoch_entries), voter.state()) == (6, EPOCHS, STATE)


@pytest.mark.parametrize("epoch", [5, 260, 65540])
def test_batch_whose_epoch_has_changed_is_cut_and_the_voter_says_that_it_forgot_records(
    voter: Voter, epoch: int
) -> None:
    voter.set_epoch(5, epoch)
    log = voter.start()
    assert (log.log_end_offset, tuple(log.epoch_entries)) == (5, EPOCHS)
    assert voter.state() == ElectionState(7, 2, 3, Forgotten.RECORDS)


def test_first_batch_of_an_epoch_whose_epoch_has_changed_is_cut(voter: Voter) -> None:
    voter.set_epoch(3, 5)
    assert tuple(voter.start().epoch_entries) == EPOCHS[:1]


def test_cut_of_a_false_epoch_survives_the_next_start(voter: Voter) -> None:
    voter.set_epoch(5, 260)
    voter.start()
    voter.manager.close(clean=False)
    log = voter.start()
    assert (log.log_end_offset, tuple(log.epoch_entries)) == (5, EPOCHS)


def test_only_voter_refuses_an_epoch_that_never_began(tmp_path: Path) -> None:
    voter = Voter(tmp_path, voters=1)
    voter.set_epoch(5, 260)
    with pytest.raises(CorruptFileError, match=r"epoch 260, which it did not begin; no other voter"):
        voter.start()


def test_damaged_log_below_its_recovery_point_is_refused_with_the_remedy(voter: Voter) -> None:
    voter.claim(6)
    voter.write(5, 40, b"\xff\xff")
    with pytest.raises(KafkaStorageError, match=r"wrong checksum; where other voters are a majority, move .* away"):
        voter.start()
    assert voter.state() == STATE


@pytest.mark.parametrize("at", [20, 40, 61])
def test_a_batch_that_rotted_after_a_clean_stop_is_refused_before_the_voter_votes_for_it(voter: Voter, at: int) -> None:
    voter.start()
    voter.manager.close(clean=True)
    voter.write(5, at, b"\xee")
    with pytest.raises(CorruptFileError, match=r"\.log: damaged at .*other voters are a majority"):
        voter.start()
    assert voter.state() == STATE
