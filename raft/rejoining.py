"""How a voter that has forgotten its promises learns them again; until then it neither votes nor leads.

A voter promises two things: its vote in an epoch, and that the records it acked are in its log. Both are forgotten if
the quorum-state file vanished; only the second if the metadata log vanished, or if its end had to be cut although it
may have been acked. The way back (docs/adr/0009-a-voter-that-forgot-does-not-vote.md):

    VOTES    Every other voter is asked for its epoch; when each has answered, this node enters the highest one. A
             candidate is in its epoch, durably, BEFORE it asks for a vote, so no earlier vote of this node is in a
             later epoch. Until then nothing is fetched: a fetch is an ack, and an ack in an older epoch than a vote
             breaks I5.
    RECORDS  Like an observer it fetches from the leader of an epoch that is not below its own. The log end in the
             leader's first answer is above every record that was acked to this leader. Records that were committed in
             earlier epochs are in the leader's log, because no voter votes after it forgot. When a fetch begins at
             that offset, all records below it are durable here.
    NOTHING  It takes part again, in epochs after the leader's.

If a majority has forgotten, no leader is elected and no voter comes back by itself: a person must decide what to give
up. Pure, like the rest of the core; the states are in quorum_state.py.
"""

from __future__ import annotations

from penstock.errors import FencedLeaderEpochError, UnknownLeaderEpochError
from penstock.types import NO_LEADER
from raft.messages import NO_ERROR, FetchMetadataRequest, FetchMetadataResponse, VoteResponse
from raft.quorum_state import Forgotten
from raft.shared import NEVER_MS, Shared

_TELLS_EPOCH = (NO_ERROR, FencedLeaderEpochError.code, UnknownLeaderEpochError.code)
"""The codes with which the intended voter answered and gave its epoch; any other error may be of another node or
cluster."""


class Rejoining:
    """The answers that were heard since the start of the process."""

    def __init__(self, shared: Shared, now_ms: int) -> None:
        self._shared = shared
        self._ask_at_ms = dict.fromkeys(shared.quorum.other_voters, now_ms)
        """When each voter is asked. The set cannot change meanwhile: nothing is fetched until all have answered, so the
        log does not change either. Where voters are known by their disks, one that lost its votes is another node: this
        way back is a static quorum's."""
        self._in_flight: set[int] = set()
        self._failures: dict[int, int] = {}
        self._target: tuple[int, int] | None = None  # (epoch, log end offset) of the leader's first answer

    def __repr__(self) -> str:
        return f"Rejoining(waits for the epochs of {sorted(self.unheard)}, to reach {self._target})"

    @property
    def unheard(self) -> frozenset[int]:
        """The voters whose epoch is not known yet."""
        return frozenset(self._ask_at_ms.keys() | self._in_flight)

    def maybe_ask(self, now_ms: int) -> None:
        """Ask the voters that are due for their epoch. The request is a pre-vote, which binds no voter; a grant is not
        used."""
        for voter, at_ms in list(self._ask_at_ms.items()):
            if now_ms >= at_ms:
                del self._ask_at_ms[voter]
                self._in_flight.add(voter)
                self._shared.ask_for_vote(voter, pre_vote=True)

    def ask_again(self, now_ms: int) -> None:
        """Open requests, if any, were dropped with the state that sent them: send them again."""
        for voter in self._in_flight:
            self._ask_at_ms[voter] = now_ms
        self._in_flight.clear()
        self.maybe_ask(now_ms)

    def on_response(self, voter: int, response: VoteResponse, now_ms: int) -> None:
        """A voter's answer; its epoch, if it is a newer one, has been taken over BEFORE."""
        is_empty = response.leader_epoch == 0 and response.leader_id != NO_LEADER  # epoch 0 has no leader, ever
        if response.error_code in _TELLS_EPOCH and not is_empty:
            self._in_flight.discard(voter)
            self._ask_at_ms.pop(voter, None)
        else:
            self.on_failure(voter, now_ms)

    def on_failure(self, voter: int, now_ms: int) -> None:
        self._in_flight.discard(voter)
        self._failures[voter] = self._failures.get(voter, 0) + 1
        self._ask_at_ms[voter] = now_ms + self._shared.backoff_ms(self._failures[voter])

    def on_fetched(self, request: FetchMetadataRequest, response: FetchMetadataResponse) -> None:
        """The leader has given a good answer."""
        if self._shared.quorum.forgotten is Forgotten.RECORDS and self.has_caught_up(request, response):
            self._shared.quorum.remembers(Forgotten.NOTHING)

    def has_caught_up(self, request: FetchMetadataRequest, response: FetchMetadataResponse) -> bool:
        """True if this good answer of the leader shows that every record that may have been acked is durable here."""
        differs = response.diverging_epoch is not None or response.snapshot_id is not None
        if response.log_end_offset <= 0 or differs:
            return False
        if self._target is None or self._target[0] != response.leader_epoch:
            self._target = (response.leader_epoch, response.log_end_offset)
        return request.fetch_offset >= self._target[1]

    def next_deadline_ms(self) -> int:
        return min(self._ask_at_ms.values(), default=NEVER_MS)
