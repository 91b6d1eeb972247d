"""The states of one replica on this broker, and the only ways from one to another. Pure.

`TRANSITIONS` is the table; state_diagram.py draws docs/replica-states.md from it. A `Replica` is all that this broker
knows of the replica: what the metadata says, its partition, why it is lost, and what is done when it is held no longer.
Its methods are the events. It refuses one that the table does not have in its state, so no replica is served whose log
is set aside or out of use, and none is deleted while its log is between two dirs.

Not here: when an event comes (the other modules of this room), and the states of logs, which storage knows by itself
(`storage/log_dirs/log_table.py`): a log may be here for which there is no replica.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from broker.replication.hosting.assignment import Assignment
from broker.replication.partition import Partition
from penstock.errors import ApiError, CorruptFileError, InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.types import LeaderHint, TopicPartition
from storage.log.log import Log


class HostingState(Enum):
    ABSENT = "Absent"
    QUEUED = "Queued"
    BLOCKED = "Blocked"
    CREATING = "Creating"
    OPENED = "Opened"
    LED = "Led"
    FOLLOWED = "Followed"
    HELD = "Held"
    BROKEN = "Broken"
    DAMAGED = "Damaged"
    GIVEN_UP = "GivenUp"
    OUT_OF_USE = "OutOfUse"
    WITHOUT_LOG = "WithoutLog"


_A, _Q, _B, _C = HostingState.ABSENT, HostingState.QUEUED, HostingState.BLOCKED, HostingState.CREATING
_O, _L, _F = HostingState.OPENED, HostingState.LED, HostingState.FOLLOWED
_H, _X, _D = HostingState.HELD, HostingState.BROKEN, HostingState.DAMAGED
_G, _U, _W = HostingState.GIVEN_UP, HostingState.OUT_OF_USE, HostingState.WITHOUT_LOG

MEANING: Mapping[HostingState, str] = {
    _A: "no log of it is in use here, nor is one to be created",
    _Q: "its log is opened or created when its turn comes",
    _B: "its turn comes after a log of its name is deleted, or one of another topic created",
    _C: "a thread creates its log",
    _O: "its log is in use, and it takes its first role before anything else happens",
    _L: "it leads",
    _F: "it follows a leader, or there is none",
    _H: "its log is being put into another log dir: requests are to be tried again, and changes of the metadata wait",
    _X: "a disk failed while it was held, and a thread may still rename its directory",
    _D: "its log has rotted; it is set aside for a new one when that can lose nothing",
    _G: "a thread sets its rotten log aside",
    _U: "its log dir has failed, or a person must look at its log: it stays so until the node is started again",
    _W: "its log was set aside, or could not be created, or is gone: it is tried again",
}


class HostingEvent(Enum):
    QUEUE = "its log is to be opened or created"
    BLOCK = "a log of its name is in the way"
    CREATE = "a thread is to create its log"
    OPEN = "its log is here"
    LACK_LOG = "an empty log may not be created, or cannot be"
    LEAD = "it leads"
    FOLLOW = "another leads, or none"
    HOLD = "a copy is to take the place of its log"
    RELEASE = "the move has ended"
    RELEASE_ROTTEN = "the move has ended, and rot was found"
    FIND_ROT = "rot was found"
    FAIL = "its disk failed"
    GIVE_UP = "a new log can lose nothing"
    KEEP_LOG = "it could not be set aside"
    SET_ASIDE = "its log stands aside"
    LEAVE = "deleted, or moved away, or the log is another topic's"


_TO_LEAVE = {HostingEvent.LEAVE: _A}
_LOG_OR_NONE = {HostingEvent.OPEN: _O, HostingEvent.LACK_LOG: _W}
_ROLES = {HostingEvent.LEAD: _L, HostingEvent.FOLLOW: _F}
_LOSSES = {HostingEvent.FIND_ROT: _D, HostingEvent.FAIL: _U}

TRANSITIONS: Mapping[HostingState, Mapping[HostingEvent, HostingState]] = {
    _A: {HostingEvent.QUEUE: _Q, **_LOSSES},
    _Q: {
        HostingEvent.BLOCK: _B,
        HostingEvent.CREATE: _C,
        HostingEvent.OPEN: _O,
        HostingEvent.LACK_LOG: _W,
        **_TO_LEAVE,
    },
    _B: {HostingEvent.QUEUE: _Q, **_LOG_OR_NONE, **_TO_LEAVE},
    _C: {HostingEvent.QUEUE: _Q, **_LOG_OR_NONE, **_TO_LEAVE},
    _O: {**_ROLES, **_LOSSES},
    _L: {**_ROLES, HostingEvent.HOLD: _H, **_LOSSES, **_TO_LEAVE},
    _F: {**_ROLES, HostingEvent.HOLD: _H, **_LOSSES, **_TO_LEAVE},
    _H: {HostingEvent.RELEASE: _O, HostingEvent.FIND_ROT: _X, HostingEvent.FAIL: _X},
    _X: {HostingEvent.RELEASE: _U, HostingEvent.RELEASE_ROTTEN: _D, HostingEvent.FIND_ROT: _X, HostingEvent.FAIL: _X},
    _D: {HostingEvent.GIVE_UP: _G, **_LOSSES, **_TO_LEAVE},
    _G: {
        HostingEvent.SET_ASIDE: _W,
        HostingEvent.KEEP_LOG: _D,
        HostingEvent.FIND_ROT: _G,
        HostingEvent.FAIL: _U,
        **_TO_LEAVE,
    },
    _U: {HostingEvent.FAIL: _U, **_TO_LEAVE},
    _W: {HostingEvent.QUEUE: _Q, **_TO_LEAVE},
}
"""The events that may happen in each state, and the state that each leads to."""

SERVED = frozenset({_O, _L, _F})
LOST = frozenset({_D, _U, _W})
TO_CREATE = frozenset({_Q, _B, _C})


@dataclass(slots=True)
class LostReplica:
    """The reason why a replica is lost. Kept while its log is created again, until it is served."""

    why: Exception
    broker_epoch: int
    """This broker's epoch when the loss was found."""
    said: str = ""

    @property
    def is_rot(self) -> bool:
        """True if the error, or one of its causes, is a CorruptFileError."""
        why: BaseException | None = self.why
        while why is not None and not isinstance(why, CorruptFileError):
            why = why.__cause__
        return why is not None


class Replica:
    """One replica on this broker. Changed on the event loop; its properties may be read in any thread."""

    __slots__ = ("_changed", "_held", "_lost", "_partitions", "_postponed", "_state", "assignment", "key", "moved",
                 "rebuilds", "starts_empty")  # fmt: skip

    def __init__(
        self,
        key: TopicPartition,
        partitions: dict[TopicPartition, Partition] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`partitions` are those that are hosted here; the replica alone puts its own there, and takes it out.
        `changed` is called with each event."""
        self.key = key
        self.assignment: Assignment | None = None
        """The newest metadata; None if this broker should host no replica."""
        self.moved: LeaderHint | None = None
        """The leader of a partition that lives on elsewhere, when its replica went."""
        self.starts_empty = False
        """An empty log loses nothing: the partition is new, or its damaged log was set aside."""
        self.rebuilds = 0
        """How often its log was set aside for a new one, since the start."""
        self._state, self._changed = HostingState.ABSENT, changed
        self._partitions = partitions if partitions is not None else {}
        self._lost: LostReplica | None = None
        self._held: ApiError | None = None
        self._postponed: list[Callable[[], None]] = []

    @property
    def state(self) -> HostingState:
        return self._state

    @property
    def partition(self) -> Partition | None:
        """The partition of a replica that is served or held, or whose disk failed, so that it refuses every request.
        None otherwise."""
        return self._partitions.get(self.key)

    @property
    def lost(self) -> LostReplica | None:
        return self._lost

    @property
    def held(self) -> ApiError | None:
        """The reason why it is held, until it is released."""
        return self._held

    def _on(self, event: HostingEvent) -> None:
        after = TRANSITIONS[self._state].get(event)
        if after is None:
            raise InvariantViolation(f"{self.key} is {self._state.value}, and cannot {event.name.lower()}")
        self._state = after
        self._changed()

    # -- its log -------------------------------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """The metadata says so now."""
        self.assignment, self.moved = assignment, None

    def unassign(self, moved: LeaderHint | None) -> None:
        """The topic is deleted; or the partition lives on elsewhere, with this leader."""
        self.assignment, self.moved = None, moved

    def queue(self, *, starts_empty: bool) -> None:
        """The replica's log is to be created, or found."""
        self._on(HostingEvent.QUEUE)
        self.starts_empty = starts_empty

    def block(self) -> None:
        """Another log of its name is in the way; `queue` when it is not any more."""
        self._on(HostingEvent.BLOCK)

    def create(self) -> None:
        """A thread has its log now."""
        self._on(HostingEvent.CREATE)

    def lack_log(self, lost: LostReplica, *, starts_empty: bool) -> None:
        """The replica gets no log now; one that was lost before stays lost as it was."""
        self._on(HostingEvent.LACK_LOG)
        if self._lost is None:
            self._lost, self.starts_empty = lost, starts_empty

    def open(self, partition: Partition) -> None:
        """The replica has its log; a role is next."""
        self._on(HostingEvent.OPEN)
        self._partitions[self.key], self._lost = partition, None

    def leave(self, why: ApiError | None = None) -> Partition | None:
        """Nothing of it is here any more, or nothing that is its own; returns what was served. Requests that wait get
        `why`; None if it was stopped before."""
        self._on(HostingEvent.LEAVE)
        partition, self._lost = self.partition, None
        if partition is not None and why is not None:
            partition.stop(why)
        return self._partitions.pop(self.key, None)

    # -- roles ---------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        self._on(HostingEvent.LEAD)

    def follow(self) -> None:
        self._on(HostingEvent.FOLLOW)

    # -- while its log is put into another log dir ---------------------------------------------------------------------

    def hold(self, why: ApiError) -> None:
        """Requests get `why`, and what the metadata says waits for `release`."""
        self._on(HostingEvent.HOLD)
        self._held = why
        if (partition := self.partition) is not None:
            partition.hold(why)

    def postpones(self, change: Callable[[], None]) -> bool:
        """True if the replica is held; `change` is then called when it is released."""
        if self._held is not None:
            self._postponed.append(change)
        return self._held is not None

    def adopt(self, log: Log) -> None:
        """The held partition has this log from now on: the same, in another place."""
        partition = self.partition
        if self._held is None or partition is None:
            raise InvariantViolation(f"{self.key} gets another log, and is {self._state.value}")
        partition.log = log

    def release(self) -> list[Callable[[], None]]:
        """The replica takes its role next, or stays lost; returns what was postponed."""
        is_rotten = self._lost is not None and self._lost.is_rot
        self._on(HostingEvent.RELEASE_ROTTEN if is_rotten else HostingEvent.RELEASE)
        if (partition := self.partition) is not None and self._state is HostingState.OPENED:
            partition.release()
        postponed, self._held, self._postponed = self._postponed, None, []
        return postponed

    # -- losses --------------------------------------------------------------------------------------------------------

    def lose(self, lost: LostReplica, why: ApiError | None = None) -> None:
        """Notes that the replica's log cannot be used. Requests get `why`; None if it is not served. A log that is out
        of use stays so if rot is found besides: its disk is not trusted again."""
        if self._lost is not None and not self._lost.is_rot:
            lost = self._lost if lost.is_rot else lost
        self._on(HostingEvent.FIND_ROT if lost.is_rot else HostingEvent.FAIL)
        self._lost, self.starts_empty = lost, False
        if (partition := self.partition) is not None and why is not None:
            partition.stop(why)

    def give_up(self) -> None:
        """The replica's damaged log is to be set aside."""
        self._on(HostingEvent.GIVE_UP)

    def keep_log(self) -> None:
        """The replica's damaged log could not be set aside."""
        self._on(HostingEvent.KEEP_LOG)

    def set_aside(self) -> Partition | None:
        """The replica's damaged log was set aside. Returns the partition that was served over it."""
        self._on(HostingEvent.SET_ASIDE)
        self.starts_empty = True
        self.rebuilds += 1
        return self._partitions.pop(self.key, None)

    def __repr__(self) -> str:
        return f"Replica({self.key}, {self._state.value})"
