"""Knows the other nodes of a quorum during one epoch of its leader: progress, contact, records sent, notices due.

The quorum's state says which of the nodes are voters, and is asked each time: what is known of a node does not depend
on it. In a dynamic quorum a node is known by its id and its disk: what one disk acked says nothing of another. An
observer is known from its first fetch on, and there is a limit: where one too many comes, the observer that fetched
longest ago is forgotten, but never the highest offset that it may have been sent.
From the voters' fetches follows how long the leader may lead (check-quorum, KIP-595). A voter that has not fetched for
a while is told again who leads. Whose fetch is answered, and what is committed, is decided in leadership.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.lazy_dataclass import dataclass
from raft import progress
from raft.config import RaftConfig
from raft.progress import ReplicaProgress
from raft.quorum_state import QuorumState
from raft.shared import NEVER_MS

OBSERVERS_MAX = 1_000
"""The most observers that are known. Above it the observer that fetched longest ago is forgotten: `describe` lacks it,
`sent_end_besides` is high."""


@dataclass(frozen=True, slots=True)
class LostAcks:
    """A voter fetched from an offset below the one that it had acked to the same leader."""

    voter_id: int
    directory_id: str
    fetched_offset: int
    acked_offset: int


class QuorumReplicas:
    """The nodes that fetch from a leader."""

    def __init__(self, config: RaftConfig, quorum: QuorumState, backoff_ms: Callable[[int], int], now_ms: int) -> None:
        """`backoff_ms`: the wait after this number of failures in a row."""
        self._config = config
        self._quorum = quorum
        self._backoff_ms = backoff_ms
        self._begun_ms = now_ms
        self._known: dict[tuple[int, str], ReplicaProgress] = {}
        """The nodes by id and directory id, which is "" for all in a static quorum. A node that becomes a voter, or
        ceases to be one, keeps its progress."""
        self._voter_keys: Sequence[tuple[int, str]] = ()
        self._voters: tuple[ReplicaProgress, ...] = ()
        self._others_needed = 0
        """The other voters, and how many of them make a majority with this leader (more where it is no voter itself any
        more), while the present set has these keys: each fetch needs them, and the set changes rarely."""
        self._sent_end_of_forgotten = 0
        self.lost_acks: LostAcks | None = None
        """The newest ones of this epoch."""

    def __repr__(self) -> str:
        return f"QuorumReplicas({len(self.voters())} voters, {len(self.observers())} observers)"

    def voters(self) -> Sequence[ReplicaProgress]:
        """All voters but the leader itself."""
        keys = self._quorum.voters.keys
        if keys is not self._voter_keys:
            own = self._config.node_id, self._quorum.own_directory_id
            self._voters = tuple(self._voter(key) for key in keys if key != own)
            self._others_needed = self._quorum.voters.majority - self._quorum.is_voter
            self._voter_keys = keys
        return self._voters

    def observers(self) -> Sequence[ReplicaProgress]:
        voters = self.voters()
        return tuple(replica for replica in self._known.values() if replica not in voters)

    def observers_of_older_releases(self, since_ms: int) -> Sequence[int]:
        """The observers that have fetched since then, and name no disk."""
        seen = (one for one in self.observers() if not one.directory_id and (one.last_fetch_ms or 0) >= since_ms)
        return tuple(one.replica_id for one in seen)

    def find(self, replica_id: int, directory_id: str) -> ReplicaProgress | None:
        """The node's progress; None of an observer that has not fetched."""
        self.voters()  # each of them is known
        return self._known.get(self._key(replica_id, directory_id))

    def name_directories(self) -> None:
        """The quorum is dynamic from now on: the nodes are known by their disks, too."""
        known = list(self._known.values())
        self._known = {(each.replica_id, each.directory_id): each for each in known}

    def _key(self, replica_id: int, directory_id: str) -> tuple[int, str]:
        return replica_id, directory_id if self._quorum.voters.is_dynamic else ""

    def _voter(self, key: tuple[int, str]) -> ReplicaProgress:
        """The progress of a voter. A voter that has not fetched yet counts as seen when the epoch began, and must be
        told at once who leads."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = ReplicaProgress(
                *key,
                last_fetch_ms=self._begun_ms,
                begin_at_ms=self._begun_ms,
                sent_end_of_others=self._sent_end_of_forgotten,
            )
        return known

    def has_lost_acks(self, replica: ReplicaProgress, process: tuple[str, str], offset: int) -> bool:
        """True if a voter's new process, named with its disk, lacks what that disk had acked to this leader."""
        if not replica.has_lost_acks(process, offset) or replica not in self.voters():
            return False
        self.lost_acks = LostAcks(replica.replica_id, process[1], offset, replica.acked_offset)
        return True

    def forget(self, replica_id: int, since_ms: int) -> Sequence[ReplicaProgress]:
        """Forgets the observers of that id, one for each disk, that have not fetched since then, and returns them."""
        away = [one for one in self.observers() if one.replica_id == replica_id and (one.last_fetch_ms or 0) < since_ms]
        for one in away:
            self._forget(one)
        return away

    def make_room(self) -> ReplicaProgress | None:
        """Forgets the observer that fetched longest ago, where there are as many as may be, and returns it."""
        observers = self.observers()
        if len(observers) < OBSERVERS_MAX:
            return None
        oldest = min(observers, key=lambda seen: seen.last_fetch_ms or 0)
        self._forget(oldest)
        return oldest

    def _forget(self, observer: ReplicaProgress) -> None:
        del self._known[self._key(observer.replica_id, observer.directory_id)]
        self._sent_end_of_forgotten = max(self._sent_end_of_forgotten, observer.sent_end_besides(""))

    def add_observer(self, replica_id: int, directory_id: str) -> ReplicaProgress:
        """An observer that is not known. It may be one that was forgotten."""
        key = self._key(replica_id, directory_id)
        known = ReplicaProgress(replica_id, directory_id, sent_end_of_others=self._sent_end_of_forgotten)
        return self._known.setdefault(key, known)

    def sent_end_besides(self, replica_id: int, incarnation_id: str) -> int:
        """The end of the records that another process of that node than this one may have been sent."""
        replicas = [replica for replica in self._known.values() if replica.replica_id == replica_id]
        sent_ends = [replica.sent_end_besides(incarnation_id) for replica in replicas]
        if not sent_ends or self._quorum.voters.is_dynamic:  # another disk of the node may be among the forgotten
            sent_ends.append(self._sent_end_of_forgotten)
        return max(sent_ends)

    def preferred_successors(self) -> tuple[int, ...]:
        """The other voters, most log first."""
        ranked = sorted(self.voters(), key=lambda replica: (-replica.acked_offset, replica.replica_id))
        return tuple(replica.replica_id for replica in ranked)

    def quorum_contact_ms(self) -> int:
        """When a majority had last fetched; always long ago for a leader that needs nobody."""
        contacts = [replica.last_fetch_ms or 0 for replica in self.voters()]
        return progress.quorum_contact_ms(contacts, self._others_needed) if self._others_needed else 0

    def quorum_heard_ms(self, now_ms: int) -> int:
        """No other leader was elected before this time: until then, or longer, a majority followed this leader.

        A fetch that comes does not say so: it may have been on its way for long, and its voter may have voted for
        another leader since. But the voter followed this leader when it took the newest answer that its fetch names.
        """
        heard = [replica.heard_ms for replica in self.voters()]
        return progress.quorum_contact_ms(heard, self._others_needed) if self._others_needed else now_ms

    def quorum_deadline_ms(self) -> int:
        """When the leader must resign unless more voters fetch (check-quorum)."""
        contact_ms = self.quorum_contact_ms()
        return contact_ms + self._config.check_quorum_timeout_ms if self._others_needed else NEVER_MS

    # -- notices of the epoch's beginning ------------------------------------------------------------------------------

    def take_due_notices(self, now_ms: int) -> list[int]:
        """The voters to be told now who leads; the notices count as under way."""
        due = [voter for voter in self.voters() if voter.begin_at_ms is not None and now_ms >= voter.begin_at_ms]
        for voter in due:
            voter.begin_at_ms = None
        return [voter.replica_id for voter in due]

    def next_notice_ms(self) -> int:
        return min((at for voter in self.voters() if (at := voter.begin_at_ms) is not None), default=NEVER_MS)

    def on_notice_answered(self, voter: int, now_ms: int) -> None:
        replica = self._find_voter(voter)
        if replica is None:
            return
        replica.begin_failures = 0
        replica.begin_at_ms = now_ms + self._config.begin_quorum_epoch_interval_ms

    def on_notice_failed(self, voter: int, now_ms: int) -> None:
        replica = self._find_voter(voter)
        if replica is None:
            return
        replica.begin_failures += 1
        replica.begin_at_ms = now_ms + self._backoff_ms(replica.begin_failures)

    def put_off_notice(self, replica: ReplicaProgress, now_ms: int) -> None:
        """The replica has fetched: it knows who leads."""
        replica.begin_failures = 0
        if replica.begin_at_ms is not None:
            replica.begin_at_ms = now_ms + self._config.begin_quorum_epoch_interval_ms

    def _find_voter(self, voter_id: int) -> ReplicaProgress | None:
        """The voter of this id; None if it is one no longer."""
        return next((voter for voter in self.voters() if voter.replica_id == voter_id), None)
