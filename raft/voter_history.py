"""The sets of voters by the offset of the record that made each: what a node's log says of its voters, at each place.

A node uses the newest set in its log, committed or not, from the moment at which the record is appended (Ongaro,
"Consensus: Bridging Theory and Practice", Stanford 2014, §4.1). A truncation that takes the record away brings back the
set before it. A snapshot brings the set that was in force at its end, in place of all records below. What is below the
high watermark is never truncated, so what a snapshot keeps is one set.

Pure. Not here: how a record says it (voter_records.py), and which set may follow (voter_changes.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import InvariantViolation
from penstock.types import NO_OFFSET
from raft.voters import VoterSet


class VoterHistory:
    """The set at the log's start, and each that a record of the log has made since."""

    def __init__(self, first: VoterSet, changes: Iterable[tuple[int, VoterSet]] = ()) -> None:
        """`changes`: the offset of each record in the log that names voters, and its set, in order."""
        self._sets: list[tuple[int, VoterSet]] = [(NO_OFFSET, first)]
        self._committed_offset = 0
        self.newest = first
        """The set that counts. Kept beside the list: a leader asks for it several times at each fetch."""
        for offset, voters in changes:
            self.append(offset, voters)

    def __repr__(self) -> str:
        return f"VoterHistory({', '.join(f'{list(voters.ids)} from {offset}' for offset, voters in self._sets)})"

    @property
    def first(self) -> VoterSet:
        """The set at the log's start."""
        return self._sets[0][1]

    @property
    def newest_offset(self) -> int:
        """The offset of the record that made the newest set; -1 if no record of the log did."""
        return self._sets[-1][0]

    @property
    def is_committed(self) -> bool:
        """True if the newest set is known to be committed, so that nothing brings back the one before it."""
        return self._sets[-1][0] < self._committed_offset

    def may_be_needed(self, node_id: int, directory_id: str) -> bool:
        """True if the quorum may not go on without this node: it is a voter, or it was one until a change that is not
        known to be committed. Its log may be the longest, and nobody else might win (Ongaro, 2014, §4.2.2)."""
        counted = self._sets[-1:] if self.is_committed else self._sets[-2:]
        return any(voters.names(node_id, directory_id) for _, voters in counted)

    def removed_at(self, node_id: int, directory_id: str) -> int | None:
        """The offset of the newest set's record, if that removes this voter and is not known to be committed."""
        if self.is_committed:
            return None
        (_, before), (offset, newest) = self._sets[-2:]
        removes = before.names(node_id, directory_id) and not newest.names(node_id, directory_id)
        return offset if removes else None

    def note_committed(self, offset: int) -> None:
        """Everything below `offset` is committed."""
        self._committed_offset = max(self._committed_offset, offset)

    def at(self, end_offset: int) -> VoterSet:
        """The set in force where the log ends at `end_offset`: what a snapshot with this end must say."""
        return next(voters for offset, voters in reversed(self._sets) if offset < end_offset)

    def append(self, offset: int, voters: VoterSet) -> None:
        """A record at the log's end names these voters."""
        if offset <= self.newest_offset:
            raise InvariantViolation(f"voters at {offset} do not come after {self!r}")
        self._sets.append((offset, voters))
        self.newest = voters

    def truncate_to(self, offset: int) -> None:
        """The records at `offset` and above are gone."""
        while self._sets[-1][0] >= offset:
            self._sets.pop()
        self.newest = self._sets[-1][1]

    def install(self, voters: VoterSet) -> None:
        """A snapshot, in which these voters stand, has replaced the log."""
        self._sets = [(NO_OFFSET, voters)]
        self.newest = voters

    def cut_prefix_to(self, offset: int) -> None:
        """The records below `offset` are gone: a snapshot has what they said."""
        at_start = self.at(offset)
        self._sets = [(NO_OFFSET, at_start), *(each for each in self._sets if each[0] >= offset)]
