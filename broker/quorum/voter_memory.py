"""Finds out at a start which promises a voter of the quorum has lost; docs/adr/0009 says why it must.

    quorum-voter    in the metadata log dir, beside the metadata log's directory, so that it outlives that:
                    {"hasVoted": true, "hasRecords": true, "voters": [0, 1, 2], "dynamic": true, "data_version": 1, …}

`hasVoted`: a quorum-state file was written. `hasRecords`: records were flushed to the metadata log. Each is written
once, AFTER that happened and BEFORE it counts, so a crash in between loses no promise. A directory of an older release
has no such file; it is written from the files that are there. The quorum-state file keeps what was forgotten until raft
has learned it again (`raft/rejoining.py`).

`voters`: the ids of those among whom this voter has promised, which are the configuration's first voters. A node whose
configuration has others does not start: two majorities of different lists need no voter in common, so each could elect
a leader and commit. An older release neither writes nor reads them.

`dynamic`: the log names the voters, which are disks (docs/adr/0036). Such a voter never heals itself: what it has lost
still counts under its directory id. Its start is refused, and the disk joins as another voter. So is that of a node
that only joins: the leader may count what it has acked already when it becomes a voter. An older release would drop the
field; it does not start on such a directory (DYNAMIC_VOTERS).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from broker.quorum.first_voters import read_first_voters
from broker.quorum.metadata_log import METADATA_PARTITION, REPAIRS, QuorumStateFile
from penstock.errors import ConfigError, CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from raft.quorum_state import ElectionState, Forgotten
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.disk_errors import is_shortage
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json
from storage.log.log import Log
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, raise_version

_log = logging.getLogger(__name__)

VOTER_FILE = "quorum-voter"
VOTER_VERSION = 1
NEW_DISK: Final = (
    "format its metadata log dir anew with --join (empty it first; it gets a new directory id), and start it; then"
    " `penstock quorum remove-voter` takes the old directory id out of the voters, and `penstock quorum add-voter` the"
    " new one in"
)
"""The remedy for a voter of a dynamic quorum whose disk has lost something, where other voters are a majority."""
_REMEDY = f"see `A quorum that cannot elect` in {REPAIRS}"


@dataclass(frozen=True, slots=True)
class Promised:
    """The deeds of the voter, before this start too."""

    has_voted: bool = False
    has_records: bool = False
    voters: tuple[int, ...] | None = None
    """Sorted; None: not known, or the quorum was never static."""
    is_dynamic: bool = False


def forgotten_of(promised: Promised, state: ElectionState | None, log_end_offset: int) -> Forgotten:
    """The promises that are missing now. A log without a quorum state beside it is a voter's, too."""
    if state is None:
        return Forgotten.VOTES if promised.has_voted or log_end_offset > 0 else Forgotten.NOTHING
    if state.forgotten is Forgotten.NOTHING and promised.has_records and log_end_offset == 0:
        return Forgotten.RECORDS
    return state.forgotten


def loss_of(promised: Promised, state: ElectionState | None, log_end_offset: int) -> Forgotten:
    """The promises that are missing now on a disk of a dynamic quorum, whose note tells what it has promised. An acked
    record promises the epoch in the quorum state, too."""
    if state is None:
        return Forgotten.VOTES if promised.has_voted or promised.has_records else Forgotten.NOTHING
    if state.forgotten is Forgotten.NOTHING and promised.has_records and log_end_offset == 0:
        return Forgotten.RECORDS
    return state.forgotten


def may_be_dynamic(version: int, configured_voters: int) -> bool:
    """False for a dir of a static quorum, of which that is known without a look at its other files."""
    return version >= DYNAMIC_VOTERS or configured_voters == 0


class VoterMemory:
    """The quorum-voter file of one node."""

    def __init__(self, log_dir: str, fs: FileSystem, version: int = DYNAMIC_VOTERS) -> None:
        """`version`: that of the dir. CorruptFileError for a damaged first-voters file."""
        self.path = f"{log_dir}/{VOTER_FILE}"
        self._log_dir = log_dir
        self._fs = fs
        self._is_of_dynamic_quorum = version >= DYNAMIC_VOTERS and read_first_voters(fs, log_dir) is not None
        self._is_whole = False
        self._promised = self._load()
        self._first_voters = self._promised.voters

    def is_dynamic(self, configured_voters: int) -> bool:
        """True if the log names the voters, or will: by the note, by how the dir was formatted, or because the
        configuration names none."""
        return self._promised.is_dynamic or self._is_of_dynamic_quorum or configured_voters == 0

    @property
    def was_formatted_for_disks(self) -> bool:
        """True if the dir was formatted for a dynamic quorum, to begin it or to join it."""
        return self._is_of_dynamic_quorum

    @property
    def has_promised(self) -> bool:
        """True if the quorum may count on something that this disk has acked or voted."""
        return self._promised.has_voted or self._promised.has_records

    def note_voted(self) -> None:
        """The quorum-state file was written."""
        self._note(replace(self._promised, has_voted=True, voters=self._first_voters))

    def note_records(self) -> None:
        """The metadata log has durable records."""
        self._note(replace(self._promised, has_records=True, voters=self._first_voters))

    def note_dynamic(self) -> None:
        """Called BEFORE a record that names voters is appended to the log, or a snapshot with some is installed. From
        then on no older release starts on this dir. OSError or MetaPropertiesError, and then it may be called again."""
        if not self._promised.is_dynamic:
            raise_version(self._fs, self._log_dir, DYNAMIC_VOTERS)
            self._note(replace(self._promised, is_dynamic=True))

    def recall(
        self, quorum_state: QuorumStateFile, log: Log, first_voters: Collection[int], *, gave_up_dirs: bool = False
    ) -> None:
        """Compare with the files; a loss is written to the quorum-state file BEFORE this node sends any message.

        `gave_up_dirs`: the operator says that log dirs are lost. ConfigError for a voter of which nothing is known
        then: it is new, or what it promised went with such a dir, and only the operator can tell.

        CorruptFileError for the only voter of a quorum: there is no other voter from which it could learn. The same for
        a voter of a dynamic quorum. ConfigError for other voters than those among whom this one has promised.
        """
        self.check_voters(first_voters)
        state = quorum_state.load()
        if self.is_dynamic(len(first_voters)):
            self._recall_as_disk(state, quorum_state.path, log)
            return
        self._first_voters = tuple(sorted(first_voters))
        if gave_up_dirs and state is None and log.log_end_offset == 0 and not self._promised.has_voted:
            raise ConfigError(
                f"--lost-log-dirs: {quorum_state.path} is not there, so this voter is new, or was lost with such a log"
                " dir. If it is new, start it without the option. If it was lost, remove"
                f" {log.directory}, run `penstock node format --rejoin`, and start it with the option again"
            )
        forgotten = forgotten_of(self._promised, state, log.log_end_offset)
        if forgotten is not Forgotten.NOTHING:
            lost = quorum_state.path if state is None else log.directory
            if len(first_voters) == 1:
                why = "the only voter of this quorum had written it, and it is gone or empty; no other node has a copy"
                raise CorruptFileError(lost, 0, f"{why}; {_REMEDY}")
            _log.error("%s is gone or incomplete: this voter has lost what it promised (%s)", lost, forgotten.value)
        if forgotten is not (Forgotten.NOTHING if state is None else state.forgotten):
            self._fs.fsync_dir(os.path.dirname(log.directory))  # a new log's directory, in which the file stands
            quorum_state.save(replace(state or ElectionState(), forgotten=forgotten))
        if state is not None:
            self.note_voted()
        if log.log_end_offset > 0:
            self.note_records()

    def _recall_as_disk(self, state: ElectionState | None, state_path: str, log: Log) -> None:
        self.refuse_loss(state, state_path, log.directory, log.log_end_offset)
        if self._is_whole and self._promised.is_dynamic:
            return
        # What an unknown node has written counts as promised; the note of a new one is there before it writes.
        found = replace(
            self._promised,
            has_voted=self._promised.has_voted or state is not None,
            has_records=self._promised.has_records or log.log_end_offset > 0,
        )
        try:
            raise_version(self._fs, self._log_dir, DYNAMIC_VOTERS)
            self._note(replace(found, is_dynamic=True))
        except OSError as error:
            if not is_shortage(error):
                raise
            self._promised, self._is_whole = found, False  # so that the next note is written
            _log.warning("%s: it is noted at a later start that the quorum is dynamic: %s", self.path, error)

    def refuse_loss(
        self, state: ElectionState | None, state_path: str, log_directory: str, log_end_offset: int
    ) -> None:
        """CorruptFileError for a disk of a dynamic quorum that has lost what it promised."""
        lost = loss_of(self._promised, state, log_end_offset)
        if state is None and log_end_offset > 0 and not self._is_whole:
            lost = Forgotten.VOTES
        if lost is not Forgotten.NOTHING:
            what = "votes" if lost is Forgotten.VOTES else "acked records"
            path = state_path if state is None else log_directory
            raise CorruptFileError(
                path,
                0,
                f"it held {what} of this voter, and is gone or incomplete, so this disk must not vote as the voter that"
                f" it was; where other voters are a majority, {NEW_DISK}; where they are not, {_REMEDY}",
            )

    def check_voters(self, first_voters: Collection[int]) -> None:
        """ConfigError for other voters than those among whom this one has promised."""
        known, ids = self._promised.voters, tuple(sorted(first_voters))
        if known is None or known == ids:
            return
        if self._promised.is_dynamic:
            if ids:
                raise ConfigError(
                    f"controller.quorum.voters has the ids {list(ids)}, but the metadata log names the voters of this"
                    " quorum: remove the key, and give controller.quorum.bootstrap.servers"
                )
        elif not ids:
            raise ConfigError(
                f"controller.quorum.voters is not set, but this controller has voted among {list(known)}, and its"
                " metadata log names no voters yet: put the old ids back, and start the node. The key may go once the"
                " quorum is dynamic, and this node has heard of that"
            )
        else:
            raise ConfigError(
                f"controller.quorum.voters has the ids {list(ids)}, but this controller has voted among {list(known)}:"
                " the voters of a cluster cannot change, because two lists could elect two leaders; put the old ids"
                f" back (hosts and ports may differ), or see `Other voters` in {REPAIRS}"
            )

    def _note(self, promised: Promised) -> None:
        if promised == self._promised and self._is_whole:
            return
        fields = {
            "hasVoted": promised.has_voted,
            "hasRecords": promised.has_records,
            "voters": list(promised.voters or ()),
            **({"dynamic": True} if promised.is_dynamic else {}),
            "data_version": VOTER_VERSION,
        }
        try:
            write_atomically(self._fs, self.path, seal_json(fields))
        except OSError as error:
            if replace(promised, voters=self._promised.voters) != self._promised or not is_shortage(error):
                raise
            _log.warning("%s: the voters are noted at a later start: %s", self.path, error)
            return
        self._promised, self._is_whole = promised, True

    def _load(self) -> Promised:
        try:
            text = read_text(self._fs, self.path)
            if text is None:
                return Promised()
            found, _ = unseal_json(self.path, text)
        except CorruptFileError as damage:
            _log.warning("%s; the voter counts as one that has voted and has records", damage)
            return Promised(True, True)
        if found.get("data_version") != VOTER_VERSION:
            raise CorruptFileError(self.path, 0, f"data_version {found.get('data_version')} is not {VOTER_VERSION}")
        has_voted, has_records = (found.get(key) is not False for key in ("hasVoted", "hasRecords"))
        self._is_whole = True
        return Promised(has_voted, has_records, _ids(found.get("voters")), found.get("dynamic", False) is not False)

    def __repr__(self) -> str:
        return f"VoterMemory({self.path}, {self._promised})"


def _ids(found: object) -> tuple[int, ...] | None:
    """The voters' ids; None if the file of an older release has none, or they have a form that no release writes."""
    ids = found if isinstance(found, list) else []
    return tuple(sorted(ids)) if ids and all(type(each) is int for each in ids) else None


def remedy_of_disk(directory: str) -> str:
    """The remedy for a damaged metadata log of a voter that must not cut it: the quorum is dynamic."""
    return (
        f"what follows may have been acked; where other voters are a majority, {NEW_DISK}; where they are not, restore"
        f" {directory} from a backup, or give up what follows with: penstock log recover {directory}"
    )


class DoubtfulCuts:
    """Notified BEFORE the end of a log is cut that may have been flushed: a voter must not forget that it was."""

    def __init__(self, is_voter: bool, voters: int, fs: FileSystem, version: int = DYNAMIC_VOTERS) -> None:
        """`voters`: how many first voters the configuration has; there is no quorum yet that knows better. In a dynamic
        quorum the log that is to be cut would know them. `version`: that of the metadata log dir."""
        self._is_voter = is_voter
        self._voters = voters
        self._fs = fs
        self._may_be_dynamic = may_be_dynamic(version, voters)

    def __call__(self, topic_partition: TopicPartition, directory: str, damage: CorruptFileError) -> None:
        if topic_partition != METADATA_PARTITION or not self._is_voter:
            return
        if self._may_be_dynamic:
            memory = VoterMemory(os.path.dirname(directory), self._fs)
            if memory.is_dynamic(self._voters) and not memory.has_promised:
                return
            if memory.is_dynamic(self._voters):
                raise CorruptFileError(damage.path, damage.position, f"{damage.why}; {remedy_of_disk(directory)}")
        if self._voters == 1:
            remedy = (
                "what follows may have been acked, and this is the only voter: restore it from a backup, or give it up "
                f"with: penstock log recover {directory}"
            )
            raise CorruptFileError(damage.path, damage.position, f"{damage.why}; {remedy}")
        quorum_state = QuorumStateFile(directory, self._fs)
        state = quorum_state.load()
        if state is not None and state.forgotten is Forgotten.NOTHING:
            quorum_state.save(replace(state, forgotten=Forgotten.RECORDS))
