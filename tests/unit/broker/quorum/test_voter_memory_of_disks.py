"""A voter of a dynamic quorum is its disk: one that has lost something does not start, and does not heal itself."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.quorum.first_voters import write_first_voters
from broker.quorum.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION, MetadataLog, QuorumStateFile
from broker.quorum.voter_memory import DoubtfulCuts, VoterMemory
from penstock.clock import SystemClock
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from penstock.types import Endpoint, ListenerEndpoint
from raft.quorum_state import ElectionState, Forgotten
from raft.voters import NO_VOTERS, Voter, VoterSet
from storage.disk.file_names import META_PROPERTIES
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, format_directory, read_meta_properties
from storage.recovery.recovery import LastKnown
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import batch

VOTED, FOLLOWS = ElectionState(7, 2, 3), ElectionState(7, 2)
JOINS_ANEW = r"format its metadata log dir anew with --join.*remove-voter.*add-voter"
STATIC = (0, 1, 2)
OWN = "one-one-one-one-one-oA"


class Disk:
    """A controller's metadata log dir and what a start makes of it."""

    def __init__(self, path: Path, first: VoterSet | None = NO_VOTERS, configured: tuple[int, ...] = ()) -> None:
        """`first`: the set with which it was formatted; None: it was formatted for a static quorum."""
        self.path, self.configured = path, configured
        self.fs = FaultyFileSystem()
        self.directory = f"{path}/{METADATA_PARTITION}"
        format_directory(self.fs, str(path), "c" * 22, 1, OWN)
        if first is not None:
            write_first_voters(self.fs, str(path), first)

    def start(self, *, gave_up_dirs: bool = False) -> ElectionState | None:
        """Opens everything as a node does; the election state that raft will load."""
        options = LogOptions(THREADS, last_known=LastKnown(recovery_point=0), before_doubtful_cut=self._before_cut)
        make = Log if Path(self.directory).exists() else Log.create
        self.log = make(self.fs, self.directory, METADATA_PARTITION, METADATA_LOG_CONFIG, options)
        self.memory = VoterMemory(str(self.path), self.fs)
        self.memory.recall(self.state_file(), self.log, self.configured, gave_up_dirs=gave_up_dirs)
        return self.state_file().load()

    def state_file(self) -> QuorumStateFile:
        return QuorumStateFile(self.directory, self.fs)

    def live(self, state: ElectionState = VOTED, records: int = 3) -> None:
        """Starts, and writes as raft does: the state, then records, each noted BEFORE it counts."""
        self.start()
        QuorumStateFile(self.directory, self.fs, self.memory.note_voted).save(state)
        raft_log = MetadataLog(self.log, SystemClock(), self.memory.note_records)
        for _ in range(records):
            raft_log.append_as_leader(batch(b"x" * 50), 5)
        raft_log.flush()

    def remove(self, *names: str) -> None:
        for path in Path(self.directory).iterdir():
            if not names or path.name in names:
                path.unlink()
        if not names:
            Path(self.directory).rmdir()

    def rot(self) -> None:
        with Path(self.log.segments[-1].log_path).open("r+b") as file:
            file.seek(self.log.size_bytes - 3)
            file.write(b"?")

    def version(self) -> int:
        found = read_meta_properties(self.fs, str(self.path))
        assert found is not None
        return found.version

    def _before_cut(self, damage: CorruptFileError) -> None:
        DoubtfulCuts(True, len(self.configured), self.fs)(METADATA_PARTITION, self.directory, damage)


@pytest.fixture(params=["alone", "among three", "added later"])
def voter(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    at = (ListenerEndpoint("CONTROLLER", Endpoint("h", 9193)),)
    listed = {"alone": (1,), "among three": STATIC, "added later": ()}[request.param]
    return Disk(tmp_path, VoterSet(tuple(Voter(one, OWN if one == 1 else f"{one}" * 22, at) for one in listed)))


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ((), "quorum-state: damaged at byte 0: it held votes"),
        (("quorum-state",), "quorum-state: damaged at byte 0: it held votes"),
        (("00000000000000000000.log",), "__cluster_metadata-0: damaged at byte 0: it held acked records"),
    ],
    ids=str,
)
def test_a_disk_that_lost_something_does_not_vote_as_the_voter_that_it_was(
    voter: Disk, lost: tuple[str, ...], says: str
) -> None:
    voter.live()
    assert voter.start() == VOTED
    voter.remove(*lost)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=rf"{says}.*must not vote as.*{JOINS_ANEW}") as caught:
            voter.start()
    assert "`A quorum that cannot elect` in docs/data-directory.md" in str(caught.value), "for the only voter"
    state = voter.state_file().load()
    assert state is None or state.forgotten is Forgotten.NOTHING, "it is not on its way to heal itself"


def test_a_disk_whose_epoch_was_noted_by_records_alone_may_not_lose_its_state(voter: Disk) -> None:
    voter.live(FOLLOWS, records=0)
    voter.live(FOLLOWS)
    voter.remove("quorum-state")
    voter.memory = VoterMemory(str(voter.path), voter.fs)
    assert voter.memory.has_promised
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        voter.start()


def test_rot_in_an_acked_batch_is_refused_before_the_cut(voter: Disk) -> None:
    voter.live()
    size = voter.log.size_bytes
    voter.rot()
    with pytest.raises(CorruptFileError, match=rf"may have been acked.*{JOINS_ANEW}.*penstock log recover"):
        voter.start()
    assert Path(voter.log.segments[-1].log_path).stat().st_size == size


def test_a_voter_that_lost_only_its_note_counts_as_one_that_has_promised(voter: Disk) -> None:
    voter.live()
    Path(voter.memory.path).unlink()
    assert voter.start() == VOTED
    voter.remove()
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        voter.start()


@pytest.mark.parametrize("note", ["gone", "damaged"])
def test_a_log_without_state_and_note_is_that_of_a_voter(voter: Disk, note: str) -> None:
    voter.live()
    voter.remove("quorum-state")
    Path(voter.memory.path).unlink() if note == "gone" else Path(voter.memory.path).write_text("{")
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        voter.start()


@pytest.mark.parametrize("lost", [(), ("quorum-state",), ("00000000000000000000.log",)], ids=str)
def test_what_a_node_that_joins_has_acked_counts_like_that_of_a_voter(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """The leader may count it at the moment at which it makes the node a voter."""
    joins = Disk(tmp_path)
    joins.live(FOLLOWS)
    assert joins.start() == FOLLOWS
    joins.remove(*lost)
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        joins.start()


def test_a_new_disk_may_start_while_log_dirs_are_given_up(tmp_path: Path) -> None:
    """Under its new directory id it has promised nothing, whatever went with the old one."""
    assert Disk(tmp_path).start(gave_up_dirs=True) is None


def test_no_older_release_starts_on_the_dir_once_the_log_may_name_voters(tmp_path: Path) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    assert static.version() == 1 and '"dynamic"' not in Path(static.memory.path).read_text()
    static.memory.note_dynamic()
    static.memory.note_dynamic()
    assert static.version() == DYNAMIC_VOTERS and '"dynamic": true' in Path(static.memory.path).read_text()


def test_the_version_rises_before_the_quorum_counts_as_dynamic(tmp_path: Path) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    with static.fs.failing("create", META_PROPERTIES, errno.ENOSPC), pytest.raises(OSError, match="No space"):
        static.memory.note_dynamic()
    assert static.start() == VOTED and not static.memory.is_dynamic(3)
    with static.fs.failing("create", "quorum-voter", errno.ENOSPC), pytest.raises(OSError, match="No space"):
        static.memory.note_dynamic()
    static.memory.note_dynamic()
    assert VoterMemory(str(tmp_path), static.fs).is_dynamic(3)


@pytest.mark.parametrize("configured", [STATIC, ()])
def test_a_quorum_that_was_made_dynamic_stays_so_whatever_the_configuration_has(
    tmp_path: Path, configured: tuple[int, ...]
) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    static.memory.note_dynamic()
    static.configured = configured
    assert static.start() == VOTED
    static.remove()
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        static.start()


def test_other_voters_in_the_configuration_of_a_dynamic_quorum_are_taken_out(tmp_path: Path) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    static.memory.note_dynamic()
    static.configured = (0, 1)
    with pytest.raises(ConfigError, match=r"metadata log names the voters.*: remove the key"):
        static.start()


def test_the_voters_may_not_go_from_the_configuration_before_the_quorum_is_dynamic(tmp_path: Path) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    static.configured = ()
    before = Path(static.memory.path).read_bytes()
    with pytest.raises(ConfigError, match=r"is not set, but this controller has voted among \[0, 1, 2\].*put the old"):
        static.start()
    assert Path(static.memory.path).read_bytes() == before and static.version() == 1
    static.configured = STATIC
    assert static.start() == VOTED


def test_a_static_voter_heals_itself_as_before(tmp_path: Path) -> None:
    static = Disk(tmp_path, None, STATIC)
    static.live()
    static.remove()
    assert static.start() == ElectionState(forgotten=Forgotten.VOTES)
    assert static.version() == 1


def test_a_dir_that_is_formatted_for_a_dynamic_quorum_is_never_one_of_a_static_one(tmp_path: Path) -> None:
    voter = Disk(tmp_path, configured=STATIC)
    voter.live()
    voter.remove()
    with pytest.raises(CorruptFileError, match=JOINS_ANEW):
        voter.start()


def test_a_full_disk_does_not_keep_a_controller_from_its_start(tmp_path: Path) -> None:
    voter = Disk(tmp_path)
    with voter.fs.failing("create", "quorum-voter", errno.ENOSPC):
        assert voter.start() is None
    assert voter.start() is None and VoterMemory(str(tmp_path), voter.fs).is_dynamic(1)


def test_a_controller_whose_dir_is_not_formatted_any_more_is_refused(tmp_path: Path) -> None:
    voter = Disk(tmp_path)
    (tmp_path / META_PROPERTIES).unlink()
    with pytest.raises(MetaPropertiesError, match="not formatted any more"):
        voter.start()
