"""I1 to I7 of the quorum of real nodes: what they tell each other, what they call committed, what is on their disks.

A voter is a disk, and a majority is one of the voters that count (voters/voter_sets.py): of those by which the leader
goes when it commits or is elected, of the committed ones later. The oracle keeps every epoch, vote and committed record
that it has ever heard of, so that a node which forgets them in a restart is found out by its own past. What counts as
durable is read from the simulated disks, never asked of a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from broker.quorum.metadata_log import METADATA_PARTITION, QUORUM_STATE_FILE
from metadata.image import MetadataImage
from penstock import epochs
from penstock.types import NO_EPOCH, NO_LEADER
from raft.core import RaftCore
from raft.driver.driver import RaftDriver
from raft.messages import Request, Response, VoteRequest, VoteResponse
from raft.quorum_state import NO_VOTE, ElectionState, Forgotten, State
from raft.voters import VoterSet
from storage.disk.sealed_text import unseal_json
from tests.simulation.cluster.durable_log import Committed, DurableLog, Violated, durable_entries
from tests.simulation.cluster.durable_metadata import DurableMetadata
from tests.simulation.cluster.levels.level_history import LevelHistory
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.voters.voter_sets import VoterSets
from tests.support.losing_fs import File

LEADER = State.LEADER
"""Python looks a member of an enumeration up anew each time, and this one is asked for after each step."""


@dataclass(slots=True)
class SeenQuorum:
    """How the quorum's part of one process looked after its last step."""

    machine: Machine
    raft: RaftDriver
    election: ElectionState | None = None
    high_watermark: int = -1
    voters: VoterSet | None = None
    led_epoch: int = NO_LEADER
    was_leading: bool = False
    """True if it led in `led_epoch`: a step in which it commits may be that in which it resigns."""
    snapshots_installed: int = 0


@dataclass(slots=True)
class _Voice:
    """The messages of a machine to others, in all its lives on one disk, and the file from which it would remember."""

    machine: Machine
    log: DurableMetadata
    parts: tuple[str, ...]
    epoch: int = 0
    votes: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By epoch: the candidate's id, and its disk among dynamic voters."""
    stored: tuple[bytes, ElectionState] = (b"", ElectionState())


class QuorumInvariants:
    """`broken` is told of what a node does in the middle of a step; other violations are raised."""

    def __init__(
        self,
        machines: Sequence[Machine],
        broken: Callable[[str], None],
        snapshot: Callable[[str, MetadataImage], None],
    ) -> None:
        """`snapshot` is told of each one on a disk, with the name of its machine."""
        self._broken = broken
        self._snapshot = snapshot
        self.snapshots: Counter[str] = Counter()
        """On disks, each once for each disk; and such as a leader sent and its follower took."""
        self._leaders: dict[int, int] = {}
        self.sets = VoterSets(machines)
        self.levels = LevelHistory(machines)
        self._controllers = [m for m in machines if m.config.is_controller]
        self._voices: dict[tuple[str, str], _Voice] = {}
        """By name and disk, whatever became of the disk."""
        self.voices = {machine.name: self._voice(machine) for machine in machines}
        self.excused: set[str] = set()
        """Voters whose disk was lost: they held what was committed, and count until they have learned it again."""
        self._owed: dict[str, int] = {}
        """By excused voter: it had everything committed up to here, and must have it again before it votes."""
        self.committed = Committed("metadata")
        self._committed_by_voters = self.sets.newest
        """The voters by which the newest record was committed: their own record may not be committed yet."""
        self.committed_by: dict[int, int] = {}
        """How far each epoch's leader has committed."""
        self._doubtful: dict[str, int] = {}
        """The life in which a log was damaged: the next start may say that it forgot, whatever a snapshot has."""
        self._batches: dict[tuple[int, int], tuple[bytes, tuple[int, int]]] = {}
        """Every batch that a disk ever had, with the one before it, by offset and epoch."""

    def _voice(self, machine: Machine) -> _Voice:
        """That of the disk that the machine has now."""
        key = machine.name, self.sets.disk_of(machine)
        if key not in self._voices:
            directory = f"{machine.config.metadata_log_dir}/{METADATA_PARTITION}"
            log = DurableMetadata(machine, directory, self._on_disk)
            self._voices[key] = _Voice(machine, log, tuple(directory.strip("/").split("/")))
        return self._voices[key]

    def disk_changed(self, machine: Machine) -> None:
        """The machine's metadata log dir is gone, or another one."""
        self.sets.disk_changed(machine)
        self.voices[machine.name] = self._voice(machine)

    def _on_disk(self, name: str, image: MetadataImage) -> None:
        try:
            self.sets.snapshot(name, image)
            self.levels.snapshot(name, image)
        except Violated as wrong:
            self._broken(str(wrong))
        self.snapshots["on_disk"] += 1
        self._snapshot(name, image)

    # -- what a node tells ---------------------------------------------------------------------------------------------

    def asking(self, machine: Machine, request: Request) -> None:
        """The node is about to send the request."""
        if isinstance(request, VoteRequest):
            self.reported(machine, request.candidate_epoch)
            if not request.pre_vote:
                self.voted(machine, request.candidate_epoch, _candidate(request))
        else:
            self.reported(machine, getattr(request, "leader_epoch", getattr(request, "current_leader_epoch", 0)))

    def answering(self, machine: Machine, request: Request, response: Response, log_end: tuple[int, int]) -> None:
        """The node is about to answer; meanwhile its log has never ended below `log_end`, the last epoch and offset."""
        self.reported(machine, response.leader_epoch)
        if not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse) or request.pre_vote:
            return
        if response.vote_granted:
            self.voted(machine, request.candidate_epoch, _candidate(request))
            self._check_is_up_to_date(machine, request, log_end)

    def stored(self, machine: Machine) -> ElectionState:
        """The state that the machine would remember after a power cut now."""
        voice = self.voices[machine.name]
        entries = durable_entries(machine.disk, voice.parts)
        file = (entries or {}).get(QUORUM_STATE_FILE)
        content = file.durable if isinstance(file, File) else b""
        if content is not voice.stored[0]:
            state = ElectionState()
            if content:
                found, _ = unseal_json(QUORUM_STATE_FILE, content.decode())
                state = ElectionState(
                    found["leaderEpoch"],
                    found["leaderId"],
                    found["votedId"],
                    Forgotten(found.get("forgotten", "")),
                    found.get("votedDirectoryId", ""),
                )
            voice.stored = (content, state)
        return voice.stored[1]

    def reported(self, machine: Machine, epoch: int) -> None:
        """I2: an epoch of which others hear is on the disk of the voter that speaks.

        Not so of an observer. It has no vote to remember: one that forgot its epoch is as good as a new one.
        """
        voice = self.voices[machine.name]
        if not machine.config.is_controller:
            return
        stored = self.stored(machine)
        if stored.epoch < epoch:
            self._broken(f"I2: {machine.name} speaks in epoch {epoch} of the quorum, its disk has {stored.epoch}")
        voice.epoch = max(voice.epoch, epoch)

    def voted(self, machine: Machine, epoch: int, candidate: tuple[int, str]) -> None:
        """I3: one vote an epoch, across restarts, and on the disk before it is told."""
        self._pays(machine.name)
        first = self.voices[machine.name].votes.setdefault(epoch, candidate)
        if first != candidate:
            self._broken(f"I3: {machine.name} votes for {first} and for {candidate} in epoch {epoch}")
        stored = self.stored(machine)
        has = stored.voted_id, stored.voted_directory_id
        if stored.epoch == epoch and has != candidate:
            self._broken(f"I3: {machine.name} votes for {candidate} in epoch {epoch}, its disk has {has}")

    def _check_is_up_to_date(self, machine: Machine, request: VoteRequest, own: tuple[int, int]) -> None:
        """I5: a vote is given to a log that has no less."""
        if (request.last_epoch, request.last_epoch_end_offset) < own:
            self._broken(
                f"I5: {machine.name}, whose log ends at {own}, votes for {request.candidate_id}, whose"
                f" log ends at {request.last_epoch} and {request.last_epoch_end_offset}"
            )

    # -- after a step --------------------------------------------------------------------------------------------------

    def after_step(self, seen: SeenQuorum) -> None:
        core = seen.raft.core
        if core is None:
            return
        election = core.election
        if election is not seen.election:
            self._changed(seen, election)
        if core.state is LEADER and seen.led_epoch != election.epoch:
            seen.led_epoch = election.epoch
            self._leads(seen, core)
        high_watermark = core.high_watermark
        if high_watermark != seen.high_watermark:
            self._moved(seen, core, high_watermark)
        if core.voters is not seen.voters:
            self._changed_voters(seen, core)
        seen.was_leading = core.leadership is not None

    def _changed(self, seen: SeenQuorum, election: ElectionState) -> None:
        machine, before = seen.machine, seen.election
        voice = self.voices[machine.name]
        if before is not None:
            if election.epoch < before.epoch:
                raise Violated(f"I2: the epoch of {machine.name} falls from {before.epoch} to {election.epoch}")
            if election.epoch == before.epoch and before.voted_id not in (NO_VOTE, election.voted_id):
                raise Violated(f"I3: {machine.name} changes its vote in epoch {election.epoch}")
        elif election.epoch < voice.epoch and election.forgotten is not Forgotten.VOTES:
            raise Violated(f"I2: {machine.name} has told epoch {voice.epoch}, and starts with {election.epoch}")
        if election.leader_id != NO_LEADER:
            leader = self._leaders.setdefault(election.epoch, election.leader_id)
            if leader != election.leader_id:
                raise Violated(
                    f"I1: epoch {election.epoch} is led by {leader}, and by {election.leader_id} for {machine.name}"
                )
        seen.election = election

    def _changed_voters(self, seen: SeenQuorum, core: RaftCore) -> None:
        has_committed = self.committed_by.get(core.epoch, 0) > 0
        added = self.sets.changed(seen.machine, core, seen.voters, has_committed)
        for voter in added.voters if added is not None else ():
            machine = next(m for m in self._controllers if m.config.node_id == voter.voter_id)
            if self.sets.is_of(added, machine):  # its disk may be gone since it was asked for
                log = self.voices[machine.name].log
                log.refresh()
                self.sets.require_caught_up(seen.machine, voter, self._common_end(log))
        seen.voters = core.voters

    def _leads(self, seen: SeenQuorum, core: RaftCore) -> None:
        """I1: a majority of its voters has given it this epoch, each on the disk that the leader knows. I5: of earlier
        epochs only. A candidate that was paused may learn late that it had won an epoch that is over."""
        own, is_voter = core.config.node_id, self.sets.is_of(core.voters, seen.machine)
        given = [each for each in core.voters.keys if self._has_voted(each, core) or (each[0] == own and is_voter)]
        if len(given) < core.voters.majority:
            raise Violated(
                f"I1: {seen.machine.name} leads epoch {core.epoch} of the quorum by the votes of {given}, and its"
                f" voters are {core.voters.keys}"
            )
        wanted = max((end for epoch, end in self.committed_by.items() if epoch < core.epoch), default=0)
        if not wanted:
            return
        batch = self.committed.at(wanted - 1)
        own = epochs.epoch_for_offset(core.epoch_entries, wanted - 1)
        if core.log_end_offset < wanted or (batch is not None and own != batch.epoch):
            raise Violated(
                f"I5: {seen.machine.name} leads epoch {core.epoch} of the quorum with a log to {core.log_end_offset},"
                f" where epoch {own} has offset {wanted - 1}; {batch and batch.epoch} had committed it"
            )

    def _moved(self, seen: SeenQuorum, core: RaftCore, high_watermark: int) -> None:
        name = seen.machine.name
        if high_watermark < seen.high_watermark:
            raise Violated(f"I7: the quorum's high watermark of {name} falls to {high_watermark}")
        seen.high_watermark = high_watermark
        installed = core.statistics().snapshots_installed
        if installed != seen.snapshots_installed:
            self.snapshots["installed"] += installed - seen.snapshots_installed
            seen.snapshots_installed = installed
        resigns = core.leadership is None and seen.was_leading and high_watermark > self.committed.end
        if core.leadership is None and not resigns:
            if high_watermark > self.committed.end:
                raise Violated(f"I6: {name} calls {high_watermark} committed; leaders came to {self.committed.end}")
            batch, own = self.committed.at(high_watermark - 1), core.epoch_entries
            if batch is not None and epochs.epoch_for_offset(own, high_watermark - 1) != batch.epoch:
                raise Violated(f"I6: {name} calls {high_watermark} committed, and has another record there")
            return
        self.committed_by[seen.led_epoch] = max(self.committed_by.get(seen.led_epoch, 0), high_watermark)
        if high_watermark > self.committed.end:
            self._commits(name, core, seen.led_epoch, high_watermark)

    def _commits(self, name: str, core: RaftCore, led_epoch: int, high_watermark: int) -> None:
        """I6: what a leader calls committed is durable on a majority of its voters, at this moment."""
        epoch = epochs.epoch_for_offset(core.epoch_entries, high_watermark - 1)
        if epoch != led_epoch:
            raise Violated(f"I6: {name} leads epoch {led_epoch}, and commits epoch {epoch} by counting alone")
        holders = []
        for voter in self.sets.machines_of(core.voters):
            log = self.voices[voter.name].log
            log.refresh()
            batch = log.at(high_watermark - 1)
            if batch is not None and batch.epoch == epoch:
                holders.append(voter.name)
        if len({*holders, *self.excused}) < core.voters.majority:
            raise Violated(
                f"I6: {name} commits metadata up to {high_watermark} in epoch {led_epoch}; it is durable only on"
                f" {', '.join(holders) or 'no voter'} of {core.voters.keys}"
            )
        self._committed_by_voters = core.voters
        known = len(self.committed.batches)
        reached = self.committed.extend(self.voices[holders[0]].log, high_watermark)
        self.levels.extend(self.committed.batches[known:])
        if self.sets.is_watched:
            self.sets.extend(self.committed.batches[known:], self.committed.end)
        if reached < high_watermark:
            raise Violated(
                f"I6: {name} commits metadata up to {high_watermark}, inside a batch that begins at {reached}"
            )
        for holder in holders:
            different = self.committed.difference(self.voices[holder].log, high_watermark)
            if different is not None:
                raise Violated(f"I4: {holder} has other metadata at offset {different} than what was committed")

    def _has_voted(self, voter: tuple[int, str], core: RaftCore) -> bool:
        """The disk has given this node its vote of the epoch. A static voter is a node, whichever disk it has."""
        return any(
            voice.votes.get(core.epoch, (NO_VOTE, ""))[0] == core.config.node_id
            for (_, disk), voice in self._voices.items()
            if voice.machine.config.node_id == voter[0] and voter[1] in ("", disk)
        )

    # -- disks that are lost -------------------------------------------------------------------------------------------

    def spares_another(self, machine: Machine) -> bool:
        """True if a majority of the voters has all that it promised, if this one has not. A disk of a dynamic quorum
        that has not does not vote again, so none is spared."""
        if self.sets.is_watched:
            return False
        voters = self.sets.machines_of(self.sets.newest)
        lacking = [voter for voter in voters if voter is machine or not self._has_all(voter)]
        return len(voters) - len(lacking) >= self.sets.newest.majority

    def spares_disk(self, machine: Machine) -> bool:
        """True if the quorum is dynamic, nobody changes it, and a majority of its voters has all that is committed on
        other disks."""
        voters = self.sets.newest
        others = [
            voter for voter in self.sets.machines_of(voters) if voter is not machine and self._has_committed(voter)
        ]
        if self.sets.may_be_added(machine) or self.sets.is_asked:
            return False
        return voters.is_dynamic and not self.sets.unknown() and len(others) >= voters.majority

    def _has_committed(self, voter: Machine) -> bool:
        log = self.voices[voter.name].log
        log.refresh()
        return self.committed.missing(log) is None

    def counts_on(self, machine: Machine) -> bool:
        """True if the disk is a voter by what is committed, or by which it was committed."""
        return any(self.sets.is_of(voters, machine) for voters in (self.sets.newest, self._committed_by_voters))

    def written_end(self) -> int:
        """Where the longest metadata log of a voter's disk ends: it may be committed yet."""
        logs = [self.voices[voter.name].log for voter in self._controllers]
        for log in logs:
            log.refresh()
        return max(log.end for log in logs)

    def _has_all(self, voter: Machine) -> bool:
        """True if the voter knows everything that it has promised, and says so."""
        if voter.name in self.excused or self._lacks(voter.name) or self._doubtful.get(voter.name) == voter.lives:
            return False
        log = self.voices[voter.name].log
        log.refresh()
        if log.doubtful_tail() is not None:
            return False  # its next start will say that it forgot, though it may have promised nothing there
        stored = self.stored(voter)
        return stored.epoch > 0 and stored.forgotten is Forgotten.NOTHING

    def excuse(self, machine: Machine) -> None:
        """BEFORE its log is damaged or replaced. A disk of a dynamic quorum is not: another one is another voter."""
        if self.sets.is_watched:
            return
        log = self.voices[machine.name].log
        log.refresh()
        self._doubtful[machine.name] = machine.lives
        if self.committed.missing(log) is None:
            self.excused.add(machine.name)
        self._owed[machine.name] = max(self._common_end(log), self._owed.get(machine.name, 0))

    def excuse_no_more(self, machine: Machine) -> None:
        """The disk is back."""
        self.excused.discard(machine.name)
        self._owed.pop(machine.name, None)

    def _common_end(self, log: DurableLog) -> int:
        """How far a log has what was committed."""
        different = self.committed.difference(log, self.committed.end)
        return different if different is not None else min(log.end, self.committed.end)

    def _lacks(self, name: str) -> str:
        """The metadata that a voter once had, and has not now; empty where it has everything."""
        owed = self._owed.get(name)
        if owed is None:
            return ""
        log = self.voices[name].log
        log.refresh()
        has = self._common_end(log)
        return f"metadata up to {has}; it had {owed} committed before its log was lost" if has < owed else ""

    def _pays(self, name: str) -> None:
        """I5: a voter that forgot records has them again before it helps to elect a leader."""
        if lacks := self._lacks(name):
            self._broken(f"I5: {name} votes with {lacks}")
        self._owed.pop(name, None)

    # -- now and then --------------------------------------------------------------------------------------------------

    def deep(self) -> None:
        """I4 of all logs, and I6 of what was committed long ago: crashes and truncations took it from no majority."""
        holders, voters = [], self._committed_by_voters
        for name, voice in self.voices.items():
            voice.log.refresh()
            if voice.machine.node is not None or name not in self._owed:
                self._match(name, voice.log)  # else it was damaged, and no node has looked at it yet
            if self.sets.is_watched:
                self.committed.difference(voice.log, self.committed.end)
                self.sets.deep_of(voice.machine, voice.log, voice.log.compared)
            if self.sets.is_of(voters, voice.machine) and self.committed.missing(voice.log) is None:
                holders.append(name)
                if voice.machine.node is not None and self.stored(voice.machine).forgotten is Forgotten.NOTHING:
                    self.excused.discard(name)
        if self.committed.end and len({*holders, *self.excused}) < voters.majority:
            raise Violated(
                f"I6: metadata committed up to {self.committed.end} is durable only on"
                f" {', '.join(holders) or 'no voter'} of {voters.keys} now"
            )

    def _match(self, name: str, log: DurableLog) -> None:
        while log.matched < len(log.batches):
            batch = log.batches[log.matched]
            before = log.batches[log.matched - 1] if log.matched else None
            found = (batch.raw, (before.base_offset, before.epoch) if before is not None else (-1, -1))
            key = (batch.base_offset, batch.epoch)
            known = self._batches.get(key)
            if before is None and batch.base_offset > 0:  # what was before it is in a snapshot
                differs = known is not None and known[0] != batch.raw
            else:
                differs = self._batches.setdefault(key, found) != found
            if differs:
                raise Violated(f"I4: {name} has other metadata at offset {key[0]} of epoch {key[1]} than another node")
            log.matched += 1


def _candidate(request: VoteRequest) -> tuple[int, str]:
    return request.candidate_id, request.candidate_directory_id


def end_of(raft: RaftDriver) -> tuple[int, int]:
    """The last epoch and the log end of a voter's log."""
    core = raft.core
    if core is None:
        return (NO_EPOCH, 0)
    entries = core.epoch_entries
    return (entries[-1].epoch if entries else NO_EPOCH, core.log_end_offset)
