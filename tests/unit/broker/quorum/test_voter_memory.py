"""A voter notices at its start which of its promises it has lost; a directory of an older release is taken over."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.quorum.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION, MetadataLog, QuorumStateFile
from broker.quorum.voter_memory import DoubtfulCuts, VoterMemory
from penstock.clock import SystemClock
from penstock.errors import ConfigError, CorruptFileError
from raft.driver.protocols import NoRoomError
from raft.quorum_state import ElectionState, Forgotten
from storage.disk.file_system import OsFileSystem
from storage.disk.sealed_text import seal_json
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.recovery.recovery import LastKnown
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import batch

STATE = ElectionState(7, 2, 3)


class Voter:
    """A metadata log dir and what a start makes of it."""

    def __init__(self, path: Path, voters: int = 3) -> None:
        self.path = path
        self.voters = voters
        self.fs = FaultyFileSystem()
        self.directory = f"{path}/{METADATA_PARTITION}"

    def start(self, *, gave_up_dirs: bool = False) -> ElectionState | None:
        """Opens everything as a node does; the election state that raft will load."""
        known = LastKnown(recovery_point=0)
        options = LogOptions(THREADS, last_known=known, before_doubtful_cut=self._before_cut)
        exists = Path(self.directory).exists()
        make = Log if exists else Log.create
        self.log = make(self.fs, self.directory, METADATA_PARTITION, METADATA_LOG_CONFIG, options)
        self.memory = VoterMemory(str(self.path), self.fs)
        self.quorum_state = QuorumStateFile(self.directory, self.fs, self.memory.note_voted)
        self.memory.recall(self.quorum_state, self.log, range(self.voters), gave_up_dirs=gave_up_dirs)
        self.raft_log = MetadataLog(self.log, SystemClock(), self.memory.note_records)
        return self.quorum_state.load()

    def live(self, records: int = 3) -> None:
        """Votes, and acks records."""
        assert self.start() is None
        self.quorum_state.save(STATE)
        for _ in range(records):
            self.raft_log.append_as_leader(batch(b"x" * 50), 5)
        self.raft_log.flush()

    def damage(self, at: int, value: bytes) -> None:
        with Path(self.log.segments[-1].log_path).open("r+b") as file:
            file.seek(at)
            file.write(value)

    def _before_cut(self, damage: CorruptFileError) -> None:
        DoubtfulCuts(True, self.voters, self.fs)(METADATA_PARTITION, self.directory, damage)


@pytest.fixture
def voter(tmp_path: Path) -> Voter:
    return Voter(tmp_path)


def remove(directory: str, *names: str) -> None:
    for path in Path(directory).iterdir():
        if not names or path.name in names:
            path.unlink()
    if not names:
        Path(directory).rmdir()


def test_first_start_has_forgotten_nothing(voter: Voter) -> None:
    assert voter.start() is None
    assert voter.start() is None


def test_nothing_is_forgotten_where_nothing_was_lost(voter: Voter) -> None:
    voter.live()
    assert voter.start() == STATE


def test_vanished_metadata_log_directory_is_noticed(voter: Voter) -> None:
    voter.live()
    remove(voter.directory)
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


def test_vanished_directory_of_a_voter_without_records_is_noticed(voter: Voter) -> None:
    voter.live(records=0)
    remove(voter.directory)
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


@pytest.mark.parametrize("voters", [1, 3])
def test_voter_of_which_nothing_is_known_is_asked_about_when_log_dirs_are_given_up(tmp_path: Path, voters: int) -> None:
    voter = Voter(tmp_path, voters)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"new, start it without the option.*`penstock node format --rejoin`"):
            voter.start(gave_up_dirs=True)
    assert voter.start() is None, "a new voter has forgotten nothing, whatever was said before"


def test_voter_that_was_formatted_to_rejoin_has_forgotten_what_went_with_the_given_up_dir(voter: Voter) -> None:
    memory = VoterMemory(str(voter.path), voter.fs)
    memory.note_voted()
    memory.note_records()
    assert voter.start(gave_up_dirs=True) == ElectionState(forgotten=Forgotten.VOTES)


def test_voter_with_its_state_may_give_up_log_dirs(voter: Voter) -> None:
    voter.live()
    assert voter.start(gave_up_dirs=True) == STATE


def test_vanished_quorum_state_is_noticed(voter: Voter) -> None:
    voter.live()
    remove(voter.directory, "quorum-state")
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


def test_vanished_records_are_noticed(voter: Voter) -> None:
    voter.live()
    remove(voter.directory, "00000000000000000000.log")
    assert voter.start() == ElectionState(7, 2, 3, Forgotten.RECORDS)


def test_what_was_forgotten_is_remembered_over_restarts(voter: Voter) -> None:
    voter.live()
    remove(voter.directory)
    voter.start()
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


def test_directory_of_an_older_release_is_taken_over(voter: Voter) -> None:
    voter.live()
    Path(voter.memory.path).unlink()
    assert voter.start() == STATE
    remove(voter.directory)
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


@pytest.mark.parametrize("lost", [(), ("quorum-state",), ("00000000000000000000.log",)], ids=str)
def test_only_voter_refuses_to_start_and_names_the_file(tmp_path: Path, lost: tuple[str, ...]) -> None:
    voter = Voter(tmp_path, voters=1)
    voter.live()
    remove(voter.directory, *lost)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=rf"{METADATA_PARTITION}.*only voter.*data-directory.md"):
            voter.start()


def test_rot_in_an_acked_batch_is_noticed_before_the_cut(voter: Voter) -> None:
    voter.live()
    voter.damage(voter.log.size_bytes - 3, b"?")
    with voter.fs.failing("truncate", ".log", errno.EIO), pytest.raises(OSError, match="Input/output"):
        voter.start()
    assert voter.start() == ElectionState(7, 2, 3, Forgotten.RECORDS)
    assert voter.log.log_end_offset == 2


def test_append_that_a_crash_tore_off_is_nothing_lost(voter: Voter) -> None:
    voter.live()
    voter.raft_log.append_as_leader(batch(b"y" * 500), 5)
    with Path(voter.log.segments[-1].log_path).open("r+b") as file:
        file.truncate(voter.log.size_bytes - 100)
    assert voter.start() == STATE
    assert voter.log.log_end_offset == 3


def test_only_voter_does_not_cut_what_may_have_been_acked(tmp_path: Path) -> None:
    voter = Voter(tmp_path, voters=1)
    voter.live()
    size = voter.log.size_bytes
    voter.damage(size - 3, b"?")
    with pytest.raises(CorruptFileError, match=r"only voter.*penstock log recover"):
        voter.start()
    assert Path(voter.log.segments[-1].log_path).stat().st_size == size


def test_damaged_voter_file_is_that_of_a_voter_that_promised_everything(voter: Voter) -> None:
    voter.live()
    Path(voter.memory.path).write_text('{"hasVoted": false, "crc32c": "00000000"}\n')
    assert voter.start() == STATE
    remove(voter.directory)
    Path(voter.memory.path).write_text("{")
    assert voter.start() == ElectionState(forgotten=Forgotten.VOTES)


def test_voter_file_that_is_no_text_is_a_damaged_one(voter: Voter) -> None:
    voter.live()
    path = Path(voter.memory.path)
    path.write_bytes(path.read_bytes().replace(b"hasVoted", b"has\xd6oted"))  # one bit is another
    assert voter.start() == STATE
    assert b"\xd6" not in path.read_bytes(), "it is written anew"


def test_first_records_do_not_count_before_they_are_noted(voter: Voter) -> None:
    voter.start()
    voter.raft_log.append_as_leader(batch(b"x"), 5)
    with voter.fs.failing("create", "quorum-voter", errno.ENOSPC), pytest.raises(NoRoomError):
        voter.raft_log.flush()
    voter.raft_log.flush()
    remove(voter.directory, "00000000000000000000.log")
    assert VoterMemory(str(voter.path), OsFileSystem())._promised.has_records


@pytest.mark.parametrize("forgotten", Forgotten)
def test_quorum_state_keeps_what_was_forgotten(voter: Voter, forgotten: Forgotten) -> None:
    voter.start()
    state = ElectionState(7, 1, 2, forgotten)
    voter.quorum_state.save(state)
    assert voter.quorum_state.load() == state


def test_what_a_voter_forgot_is_durable_before_it_speaks_although_its_directory_is_new() -> None:
    fs = LosingFileSystem()
    fs.mkdir("/d")
    fs.fsync_dir("/")
    memory = VoterMemory("/d", fs)
    memory.note_voted()
    memory.note_records()
    log = Log.create(fs, f"/d/{METADATA_PARTITION}", METADATA_PARTITION, METADATA_LOG_CONFIG, LogOptions(THREADS))
    VoterMemory("/d", fs).recall(QuorumStateFile(log.directory, fs), log, range(3))

    found = QuorumStateFile(log.directory, fs.after_crash()).load()

    assert found is not None and found.forgotten is Forgotten.VOTES


@pytest.mark.parametrize("voters", [1, 2, 4])
def test_a_voter_does_not_start_with_other_voters_than_it_has_voted_among(tmp_path: Path, voters: int) -> None:
    """Alone it would elect itself, while the two others go on."""
    voter = Voter(tmp_path)
    voter.live()
    before = Path(voter.memory.path).read_bytes()
    voter.voters = voters
    with pytest.raises(ConfigError, match=r"has voted among \[0, 1, 2\]: .* put the old ids back"):
        voter.start()
    assert Path(voter.memory.path).read_bytes() == before
    voter.voters = 3
    assert voter.start() == STATE


def test_voters_may_be_corrected_until_the_first_vote(tmp_path: Path) -> None:
    assert Voter(tmp_path, voters=1).start() is None
    Voter(tmp_path, voters=3).live()


def test_a_full_disk_does_not_keep_a_voter_of_an_older_release_from_its_start(tmp_path: Path) -> None:
    voter = Voter(tmp_path)
    voter.live()
    Path(voter.memory.path).write_bytes(seal_json({"hasVoted": True, "hasRecords": True, "data_version": 1}))
    with voter.fs.failing("create", "quorum-voter", errno.ENOSPC):
        assert voter.start() == STATE
    assert voter.start() == STATE and voter.memory._promised.voters == (0, 1, 2)


@pytest.mark.parametrize("voters", [None, [], "0,1", [0, "1"], [True]])
def test_a_voter_of_an_older_release_notes_its_voters_at_the_next_start(tmp_path: Path, voters: object) -> None:
    voter = Voter(tmp_path)
    voter.live()
    fields = {"hasVoted": True, "hasRecords": True, "data_version": 1}
    Path(voter.memory.path).write_bytes(seal_json(fields if voters is None else {**fields, "voters": voters}))
    assert voter.start() == STATE
    voter.voters = 1
    with pytest.raises(ConfigError, match="has voted among"):
        voter.start()
