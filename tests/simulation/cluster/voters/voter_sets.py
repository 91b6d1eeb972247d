"""I92: the committed sets of voters, one after the other, and what nodes, snapshots and operators make of them.

A voter is a disk: the id of a node, and the directory id of its metadata log dir. While a quorum is static its voters
are known by id alone. The oracle reads the sets from the committed records, and from the records on each disk:

    committed   each differs by one voter from the one before, and somebody has asked for that change
    decided     by a leader that has committed in its epoch and knows no open change, for a newcomer that had caught up
    in a log    at most one record of voters is not committed; a node goes by the newest, from its start on
    snapshots   name the set at their end
    leading     a leader that knows its removal to be committed leads no longer
    confirmed   what an operator was told is so in the set at the offset that he was told

It reads the nodes' own state and the simulated disks, draws nothing and changes nothing. Not here: what a majority of
the set must have (quorum_invariants.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from metadata.image import MetadataImage
from metadata.listeners import CONTROLLER_LISTENER
from penstock.types import NO_OFFSET, ListenerEndpoint
from raft.core import RaftCore
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter
from raft.voter_records import has_voters, voters_in
from raft.voters import NO_VOTERS, Voter, VoterSet
from storage.log_dirs.meta_properties import read_meta_properties
from tests.simulation.cluster.durable_log import Batch, Violated
from tests.simulation.cluster.durable_metadata import DurableMetadata
from tests.simulation.cluster.machine import Machine

Change = AddVoter | RemoveVoter | NameDirectories
GRACE_SECONDS: Final = 40.0
"""So long after the end of a call an attempt of it may be carried out: messages are late by some seconds, twice, and a
controller waits with it for as long as the call may take."""
OF_LATE_SECONDS: Final = 8.0
"""A call that ended longer ago is hardly carried out any more."""
LEADS_ON_SECONDS: Final = 1.0
"""A leader that was removed may need so long to step down."""
CAUGHT_UP_SECONDS: Final = 0.1
"""The clocks of nodes run apart by so much in the time in which a newcomer must have caught up."""


@dataclass(slots=True)
class Asked:
    """One call of an operator."""

    change: Change
    until_s: float = float("inf")
    """Nothing comes of it later."""
    is_confirmed: bool = False

    @property
    def name(self) -> str:
        return {AddVoter: "added", RemoveVoter: "removed", NameDirectories: "made dynamic"}[type(self.change)]


class VoterSets:
    """See the module. A static quorum has one set, and nothing is looked at."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._disks = {machine.name: _directory_id(machine) for machine in machines}
        self.offsets: list[int] = [NO_OFFSET]
        self.sets: list[VoterSet] = [_static(machines)]
        self._asked: list[Asked] = []
        self._ends: deque[tuple[float, int]] = deque()
        """When the metadata were committed so far, within the last seconds."""
        self._leads_on_s: dict[str, float] = {}
        self.wrong: list[str] = []
        """An operator was told what is not so."""
        self.is_watched = False
        """The voters may change in this story."""

    def begin(self, first: VoterSet | None) -> None:
        """The story's voters change; None: they are static at first."""
        self.is_watched = True
        if first is not None:
            self.sets[0] = first

    @property
    def newest(self) -> VoterSet:
        """The newest committed set."""
        return self.sets[-1]

    @property
    def now_s(self) -> float:
        return self._machines[0].network.scheduler.now_s

    def at(self, offset: int) -> VoterSet:
        """The committed set in force behind the record at this offset."""
        return self.sets[bisect_right(self.offsets, offset) - 1]

    # -- disks ---------------------------------------------------------------------------------------------------------

    def disk_of(self, machine: Machine) -> str:
        """The directory id of its metadata log dir; "" while there is none."""
        return self._disks[machine.name]

    def disk_changed(self, machine: Machine) -> None:
        """Its metadata log dir is gone, or another one."""
        self._disks[machine.name] = _directory_id(machine)

    def is_of(self, voters: VoterSet, machine: Machine) -> bool:
        """True if the machine, with the disk that it has, is one of the voters."""
        return machine.config.is_controller and _names(voters, machine.config.node_id, self._disks[machine.name])

    def machines_of(self, voters: VoterSet) -> list[Machine]:
        """The voters whose disk is there."""
        return [machine for machine in self._machines if self.is_of(voters, machine)]

    def voter_at(self, index: int) -> Voter | None:
        """The node as a voter with the disk that it has now; None while it has none."""
        machine = self._machines[index]
        if not self._disks[machine.name]:
            return None
        at = ListenerEndpoint(CONTROLLER_LISTENER, machine.config.listener(CONTROLLER_LISTENER))
        return Voter(index, self._disks[machine.name], (at,))

    def has_disk(self, voter: Voter) -> bool:
        return voter.directory_id in (None, self._disks[self._machines[voter.voter_id].name])

    def runs(self, voter: Voter) -> bool:
        return self._machines[voter.voter_id].node is not None

    def leads(self, voter: Voter) -> bool:
        node = self._machines[voter.voter_id].node
        return node is not None and node.raft.is_leader

    # -- what operators ask for, and are told --------------------------------------------------------------------------

    def asked(self, change: Change) -> Asked:
        self._asked = [each for each in self._asked if each.until_s >= self.now_s]
        self._asked.append(Asked(change))
        return self._asked[-1]

    @property
    def is_asked(self) -> bool:
        """A call is under way, or had no good answer of late: what it removes might be needed."""
        return any(
            each.until_s >= self.now_s + GRACE_SECONDS - OF_LATE_SECONDS
            for each in self._asked
            if not each.is_confirmed
        )

    def may_be_added(self, machine: Machine) -> bool:
        """Somebody has asked of late that the machine's disk becomes a voter, and might be heard yet."""
        own = machine.config.node_id, self._disks[machine.name]
        return any(
            isinstance(each.change, AddVoter) and (each.change.voter.voter_id, each.change.voter.directory_id) == own
            for each in self._asked
            if each.until_s >= self.now_s + GRACE_SECONDS - OF_LATE_SECONDS
        )

    def over(self, asked: Asked) -> None:
        """The call has an answer, or none in its time; an attempt of it may be under way."""
        asked.until_s = self.now_s + GRACE_SECONDS

    def confirm(self, asked: Asked, offset: int) -> None:
        """The operator was told that it is done, by the record at this offset; NO_OFFSET: it is on its way."""
        asked.is_confirmed = offset != NO_OFFSET
        if offset == NO_OFFSET:
            return
        voters = self.at(offset)
        is_known = offset <= self._committed_offset()
        match asked.change:
            case AddVoter(voter):
                is_so = _names(voters, voter.voter_id, voter.directory_id)
            case RemoveVoter(voter_id, directory_id):
                is_so = not _names(voters, voter_id, directory_id)
            case NameDirectories():
                is_so = voters.is_dynamic
        if not is_known or not is_so:
            self.wrong.append(f"I92: told {asked.name} at {offset}: {asked.change}; committed there is {voters.keys}")

    def _committed_offset(self) -> int:
        return self._ends[-1][1] - 1 if self._ends else NO_OFFSET

    # -- what is committed ---------------------------------------------------------------------------------------------

    def extend(self, batches: Iterable[Batch], end: int) -> None:
        """These batches are committed now, and the history ends here."""
        for batch in batches:
            for offset, voters in voters_in(batch.raw) if has_voters(batch.raw) else ():
                self.take_set(offset, voters)
        while self._ends and self._ends[0][0] < self.now_s - GRACE_SECONDS:
            self._ends.popleft()
        self._ends.append((self.now_s, end))

    def take_set(self, offset: int, voters: VoterSet) -> None:
        before = self.newest
        self.offsets.append(offset)
        self.sets.append(voters)
        if voters.keys == before.keys:
            return
        if _difference(before, voters) > 1:
            raise Violated(f"I92: the voters {before.keys} are followed by {voters.keys} at {offset}: more than one")
        if not any(self._makes(each.change, before, voters) for each in self._asked if each.until_s >= self.now_s):
            raise Violated(f"I92: the voters {before.keys} are followed by {voters.keys}, and nobody asked for that")

    def _makes(self, change: Change, before: VoterSet, after: VoterSet) -> bool:
        match change:
            case AddVoter(voter):
                return before.with_voter(voter).keys == after.keys if not before.is_voter(voter.voter_id) else False
            case RemoveVoter(voter_id, directory_id):
                return _names(before, voter_id, directory_id) and before.without(voter_id).keys == after.keys
            case NameDirectories():
                return not before.is_dynamic and before.ids == after.ids

    def snapshot(self, name: str, image: MetadataImage) -> None:
        """A snapshot is on the disk of this machine."""
        voters = self.at(image.offset)
        wanted = voters if len(self.sets) > 1 and self.offsets[1] <= image.offset and voters.is_dynamic else NO_VOTERS
        if image.voters != wanted:
            raise Violated(
                f"I92: the snapshot of {name} at metadata offset {image.offset} names the voters {image.voters.keys},"
                f" and {wanted.keys} were in force"
            )

    # -- what a node goes by -------------------------------------------------------------------------------------------

    def changed(
        self, machine: Machine, core: RaftCore, before: VoterSet | None, has_committed: bool
    ) -> VoterSet | None:
        """The node goes by other voters than before its last step; the newcomer that a leader has added just now."""
        after = core.voters
        if before is None or core.leadership is None or before.keys == after.keys:
            return None
        if self.newest.keys != before.keys:
            raise Violated(
                f"I92: {machine.name} changes the voters {before.keys} to {after.keys}, and committed are"
                f" {self.newest.keys}: two changes at once"
            )
        if not has_committed:
            raise Violated(
                f"I92: {machine.name} changes the voters {before.keys} to {after.keys} before it has committed a record"
                f" of epoch {core.epoch}"
            )
        added = set(after.keys) - set(before.keys) if before.is_dynamic else set()
        return VoterSet(tuple(each for each in after.voters if (each.voter_id, each.directory_id) in added))

    def require_caught_up(self, machine: Machine, added: Voter, has: int) -> None:
        """A leader counts a newcomer whose log is equal to what is committed up to `has`."""
        since_s = self.now_s - machine.config.controller_quorum_fetch_timeout_ms / 1000 - CAUGHT_UP_SECONDS
        wanted = max((end for at_s, end in self._ends if at_s <= since_s), default=0)
        if has < wanted:
            raise Violated(
                f"I92: {machine.name} adds voter {added.voter_id}, whose log has {has}; {wanted} were committed when it"
                " must have caught up"
            )

    def deep_of(self, machine: Machine, log: DurableMetadata, common: int) -> None:
        """`common`: the log is equal to the committed history for so many of its batches."""
        open_sets = [
            (offset, voters)
            for batch in log.batches[common:]
            if has_voters(batch.raw)
            for offset, voters in voters_in(batch.raw)
        ]
        if len(open_sets) > 1 and not log.is_superseded:
            raise Violated(f"I92: {machine.name} has {len(open_sets)} sets of voters in its log that are not committed")
        core = machine.node.raft.core if machine.node is not None else None
        if core is None or core.log_end_offset != log.end or log.is_superseded:
            return
        newest = open_sets[-1][1] if open_sets else self.at(log.end - 1)
        if log.end and core.voters.keys != newest.keys and (open_sets or common == len(log.batches)):
            raise Violated(f"I92: {machine.name} goes by {core.voters.keys}; the newest in its log are {newest.keys}")
        self._deep_leads(machine, core)

    def _deep_leads(self, machine: Machine, core: RaftCore) -> None:
        """Whoever leads is a voter, or does not know yet that it is none."""
        faults, process = machine.faults, machine.process
        knows = core.leadership is not None and core.high_watermark > self.offsets[-1]
        may_wait = faults.full or faults.slow_seconds or faults.hung or process is None or process.is_paused
        if not knows or may_wait or self.is_of(self.newest, machine):
            self._leads_on_s.pop(machine.name, None)
            return
        since_s = self._leads_on_s.setdefault(machine.name, self.now_s)
        if self.now_s - since_s > LEADS_ON_SECONDS:
            raise Violated(
                f"I92: {machine.name} has led for {self.now_s - since_s:.1f} s and knows that the voters are"
                f" {self.newest.keys}"
            )

    def unknown(self) -> list[str]:
        """The nodes that go by other voters than those that are committed; and a leader that is none of them."""
        found = []
        for machine in self._machines:
            core = machine.node.raft.core if machine.node is not None else None
            if core is None or core.voters.keys != self.newest.keys:
                found.append(f"{machine.name} goes by {core.voters.keys if core is not None else 'nothing'}")
            elif core.leadership is not None and not self.is_of(self.newest, machine):
                found.append(f"{machine.name} leads and is no voter")
        return found

    def __repr__(self) -> str:
        return f"VoterSets({self.newest.keys} from {self.offsets[-1]}, {len(self._asked)} asked)"


def _static(machines: Sequence[Machine]) -> VoterSet:
    """As the files name them, or all controllers."""
    named = next((machine.config.first_voters for machine in machines), NO_VOTERS)
    return named or VoterSet(tuple(Voter(m.config.node_id) for m in machines if m.config.is_controller))


def _directory_id(machine: Machine) -> str:
    found = read_meta_properties(machine.disk, machine.config.metadata_log_dir)
    return found.directory_id if found is not None else ""


def _names(voters: VoterSet, node_id: int, directory_id: str | None) -> bool:
    """By both ids, and in a static set by the node's alone: said anew here, because the product may be wrong in it."""
    return any(key in ((node_id, directory_id), (node_id, "")) for key in voters.keys)


def _difference(before: VoterSet, after: VoterSet) -> int:
    """By how many voters they differ; a voter of another disk is another voter."""
    if not before.is_dynamic:
        return len(set(before.ids) ^ set(after.ids))
    return len(set(before.keys) ^ set(after.keys))
