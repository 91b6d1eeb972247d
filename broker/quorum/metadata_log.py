"""Gives raft a segmented log for its records, and a file for its votes: the only place where the two meet.

The metadata log is an ordinary log, `__cluster_metadata-0` in the metadata log dir; its quorum-state file stands in the
same directory. raft knows neither; it asks for the protocols in `raft/driver/protocols.py`. Not here: what a voter does
that misses one of them (`voter_memory.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from broker.quorum.metadata_snapshots import LogBeginning, MetadataSnapshots, loaded_snapshot
from penstock.clock import Clock
from penstock.errors import CorruptFileError, InvariantViolation, KafkaStorageError
from penstock.types import METADATA_TOPIC, EpochEndOffset, EpochEntry, TopicPartition
from raft.driver.protocols import LoadedSnapshot, NoRoomError
from raft.quorum_state import EPOCH_JUMP_MAX, EPOCH_MAX, ElectionState, Forgotten
from raft.voters import VoterSet
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.disk_errors import is_shortage
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.log_config import LogConfig

_log = logging.getLogger(__name__)

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Kafka's well-known id of the metadata topic (KIP-516)."""
METADATA_BATCH_BYTES_MAX = 16 << 20
"""One decision is one batch: fencing a broker that leads every one of 100,000 partitions must fit."""
METADATA_LOG_CONFIG = LogConfig(
    max_message_bytes=2 * METADATA_BATCH_BYTES_MAX, retention_ms=-1, file_delete_delay_ms=0, keeps_producers=False
)
REPAIRS = "docs/data-directory.md"
"""The page that says how a person repairs a quorum that cannot recover by itself."""
QUORUM_STATE_FILE = "quorum-state"
DATA_VERSION = 1
DATA_VERSION_FORGOTTEN = 2
"""The version for a voter that has forgotten something; a release without `forgotten` must not let it vote."""
_FORGOTTEN = tuple(forgotten.value for forgotten in Forgotten if forgotten is not Forgotten.NOTHING)
_VOTED_DIRECTORY_ID = "votedDirectoryId"
"""The disk of the candidate that got the vote (KIP-853); left out among static voters."""
_FIELDS = ("leaderEpoch", "leaderId", "votedId", "data_version")


def nothing_to_note() -> None:
    """Does nothing, for a node that is no voter."""


class MetadataLog:
    """`raft.driver.protocols.RaftLog` over a `storage.Log` and the snapshots beside it. Disk errors pass through and
    end the raft driver; a shortage does not, as long as the log can be used afterwards."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        on_flushed: Callable[[], None] = nothing_to_note,
        snapshots: MetadataSnapshots | None = None,
        start: LogBeginning | None = None,
        before_cut: Callable[[], None] = nothing_to_note,
        before_voters: Callable[[], None] = nothing_to_note,
    ) -> None:
        """`on_flushed` runs after each flush of records and BEFORE it counts; `before_cut` once, BEFORE the log goes
        without its beginning; `before_voters` BEFORE a record or a snapshot that names voters is taken, once."""
        self._log, self._clock = log, clock
        self._on_flushed, self._before_cut, self._before_voters = on_flushed, before_cut, before_voters
        self._noted_cut = self._noted_voters = False
        self._snapshots = snapshots
        self._start = start or LogBeginning()

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._log.flushed_offset

    @property
    def epoch_entries(self) -> Sequence[EpochEntry]:
        return self._log.epoch_entries

    @property
    def voter_sets(self) -> Sequence[tuple[int, VoterSet]]:
        """The voters as the log said them at the start; what comes later is known to the core alone."""
        return self._start.voter_sets

    @property
    def snapshot_ids(self) -> Sequence[EpochEndOffset]:
        """The snapshots that were kept at the start; what is kept since then is known to the core alone."""
        return tuple(one.snapshot_id for one in self._start.kept)

    @property
    def beginning(self) -> LogBeginning:
        """The beginning of the log at the start, or that of the snapshot that was installed last."""
        return self._start

    @property
    def loaded(self) -> LoadedSnapshot | None:
        return self._start.loaded

    def append_as_leader(self, batch: bytes, epoch: int) -> None:
        with self._waiting_for_room():
            self._log.append.as_leader(batch, epoch, self._clock.wall_ms())

    def append_as_follower(self, records: bytes) -> None:
        with self._waiting_for_room():
            self._log.append.as_follower(records)

    def read(self, start_offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        return bytes(self._log.reader.read(start_offset, max_bytes, max_offset=max_offset).records)

    def read_nowait(self, start_offset: int, max_bytes: int, max_offset: int) -> bytes | None:
        found = self._log.reader.read_nowait(start_offset, max_bytes, max_offset)
        if isinstance(found, Records):
            return bytes(found.records)
        found.discard()
        return None

    def ask_disk(self) -> None:
        with self._waiting_for_room():
            self._log.full.run_file_changes(sync=True)

    def truncate_to(self, offset: int) -> None:
        with self._waiting_for_room():
            self._log.truncate_to(offset)

    def flush(self) -> None:
        with self._waiting_for_room():
            self._log.flush()
            if self._log.awaits_roll:
                self._log.roll()
            if self._log.log_end_offset > 0:
                self._on_flushed()

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def read_snapshot(self, snapshot_id: EpochEndOffset, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        return None if self._snapshots is None else self._snapshots.read(snapshot_id, position, max_bytes)

    def write_snapshot(self, snapshot_id: EpochEndOffset, position: int, data: bytes) -> None:
        with self._waiting_for_room():
            self._own_snapshots().write_part(snapshot_id, position, data)

    def complete_snapshot(self, snapshot_id: EpochEndOffset) -> LoadedSnapshot | None:
        """A crash before `begin_after` leaves the snapshot and a log that may not fit it: the next start puts that
        right."""
        with self._waiting_for_room():
            self._note_cut()
            image = self._own_snapshots().complete_part(snapshot_id)
            if image is not None and image.voters:
                self.note_voters()
        return None if image is None else loaded_snapshot(snapshot_id, image)

    def begin_after(self, snapshot: LoadedSnapshot) -> None:
        with self._waiting_for_room():
            kept = self._own_snapshots().kept(snapshot.snapshot_id)
            self._log.truncate_fully_and_start_at(snapshot.snapshot_id.end_offset)
        self._start = LogBeginning((kept,), snapshot)

    def _note_cut(self) -> None:
        if not self._noted_cut:
            self._before_cut()
            self._noted_cut = True

    def note_voters(self) -> None:
        with self._waiting_for_room():
            if not self._noted_voters:
                self._before_voters()
                self._noted_voters = True

    def cut_prefix(self, offset: int) -> None:
        """The segment that holds `offset` stays. The active one is closed at each snapshot, so that it can go when that
        is the oldest. Cuts nothing if the log has begun anew behind `offset` meanwhile.

        A cut makes room, so it does not wait for room: what a full disk refuses is put off until the next one."""
        with self._put_off_without_room("cut"):
            if offset > self._log.log_start_offset:
                self._note_cut()
                self._log.advance_log_start(offset)
            self._log.full.remove_oldest(sum(segment.next_offset <= offset for segment in self._log.segments[:-1]))
            self._log.roll()

    def remove_files(self) -> None:
        with self._put_off_without_room("removed from the disk"):
            self._log.full.run_file_changes(sync=True)
            self._log.full.delete_expired_files(self._clock.now_ms())

    @contextmanager
    def _put_off_without_room(self, what: str) -> Iterator[None]:
        try:
            with self._waiting_for_room():
                yield
        except NoRoomError as error:
            _log.warning("the beginning of the metadata log is %s later: %s", what, error)

    def bytes_from(self, offset: int) -> int:
        """Bytes of the segments that have records at or above it; any thread."""
        return sum(segment.size_bytes for segment in self._log.segments if segment.next_offset > offset)

    def _own_snapshots(self) -> MetadataSnapshots:
        if self._snapshots is None:
            raise InvariantViolation(f"{self!r} keeps no snapshots")
        return self._snapshots

    @contextmanager
    def _waiting_for_room(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaStorageError) as error:
            if is_shortage(error) and not self._log.statistics().failed:
                raise NoRoomError(str(error)) from error
            raise

    def __repr__(self) -> str:
        return f"MetadataLog({self._log!r})"


class QuorumStateFile:
    """`raft.driver.protocols.QuorumStateStore`: Kafka's quorum-state, one sealed JSON object, replaced atomically and
    fsynced.

    A flipped bit could change the vote, and the voter would vote twice; so a damaged file is refused. A file without a
    checksum is of an older release.
    """

    def __init__(self, directory: str, fs: FileSystem, on_saved: Callable[[], None] = nothing_to_note) -> None:
        """`on_saved` runs after each save and BEFORE it counts."""
        self.path = f"{directory}/{QUORUM_STATE_FILE}"
        self._fs = fs
        self._on_saved = on_saved

    def load(self) -> ElectionState | None:
        try:
            text = read_text(self._fs, self.path)
            if text is None:
                return None
            found, sealed = unseal_json(self.path, text)
        except CorruptFileError as damage:
            raise self._damaged(damage.why) from damage
        numbers = [found.get(name) for name in _FIELDS]
        if not all(type(number) is int for number in numbers) or (not sealed and set(found) != set(_FIELDS)):
            raise self._damaged("it is no quorum state")
        epoch, leader_id, voted_id, version = (int(str(number)) for number in numbers)
        if version not in (DATA_VERSION, DATA_VERSION_FORGOTTEN):
            raise self._damaged(f"data_version {version} is not {DATA_VERSION} or {DATA_VERSION_FORGOTTEN}")
        if epoch > EPOCH_MAX - EPOCH_JUMP_MAX:
            why = f"leaderEpoch {epoch} leaves no room for elections; see `Epochs that are used up` in {REPAIRS}"
            raise CorruptFileError(self.path, 0, why)
        directory_id = found.get(_VOTED_DIRECTORY_ID, "")
        if not isinstance(directory_id, str):
            raise self._damaged(f"{_VOTED_DIRECTORY_ID} is {directory_id!r}")
        forgotten = found.get("forgotten", "")
        if (version == DATA_VERSION_FORGOTTEN) != (forgotten in _FORGOTTEN):
            raise self._damaged(f"forgotten is {forgotten!r}, with data_version {version}")
        return ElectionState(epoch, leader_id, voted_id, Forgotten(forgotten), directory_id)

    def _damaged(self, why: str) -> CorruptFileError:
        remedy = (
            "it says whom this voter voted for, and no older copy does: where other voters are a majority, move it "
            "away and the voter learns from them what it may have promised; else see `A quorum that cannot elect` in "
            f"{REPAIRS}"
        )
        return CorruptFileError(self.path, 0, f"{why}; {remedy}")

    def save(self, state: ElectionState) -> None:
        version = DATA_VERSION_FORGOTTEN if state.forgotten.value else DATA_VERSION
        numbers = (state.epoch, state.leader_id, state.voted_id, version)
        fields: dict[str, object] = dict(zip(_FIELDS, numbers, strict=True))
        if state.forgotten.value:
            fields["forgotten"] = state.forgotten.value
        if state.voted_directory_id:
            fields[_VOTED_DIRECTORY_ID] = state.voted_directory_id
        try:
            write_atomically(self._fs, self.path, seal_json(fields))
            self._on_saved()
        except OSError as error:
            if is_shortage(error):
                raise NoRoomError(f"{self.path}: {error}") from error
            raise
