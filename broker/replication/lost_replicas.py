"""Replicas that this broker should serve and cannot: why, and when each of them may be made anew.

    damaged       its log has rotted. Set aside and fetched whole from the leader, once that can lose nothing
    out of use    its log dir failed, or somebody must look at it. Stays until the node is started again
    without log   none could be created, for lack of room or descriptors, and it is tried again; or the log is gone, and
                  an empty one must not take its place

Pure. A replica that begins with nothing must not be taken for the one that had everything (KIP-903), so a damaged one
is made anew only when all of this holds:

- this broker has registered since the damage was found, so that what leaders know of its earlier fetches, which were of
  another broker epoch, lets it into no ISR. That registration also took it out of every ISR that has another member;
- the metadata that says the rest is not older than that registration;
- this broker is not in the ISR: the last member stays in it, for nobody else is known to hold every acked record;
- another broker leads: there is somebody to fetch from;
- it was not made anew a few times already: a machine that damages whatever it is given needs a person.

From then on it counts as in sync only after it has fetched up to the high watermark, as any follower. Not here: doing
it (replica_manager.py), registering (`broker/node/lifecycle.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from metadata.registrations import PartitionRegistration
from penstock.errors import CorruptFileError
from penstock.types import NO_EPOCH, NO_LEADER, TopicPartition

REBUILDS_MAX = 3
"""Of one replica, until the node is started again; each leaves a directory with everything that was in it."""


class Loss(Enum):
    """What ails a replica."""

    DAMAGED = "damaged"
    OUT_OF_USE = "out of use"
    WITHOUT_LOG = "without log"


class Verdict(Enum):
    """What to do about it now."""

    WAIT = "wait"
    REBUILD = "set the log aside, and begin with an empty one"
    HOST = "try again to create the log"


@dataclass(slots=True)
class LostReplica:
    """One of them."""

    loss: Loss
    why: Exception
    broker_epoch: int  # of this broker when the loss was found
    starts_empty: bool = False  # nothing that was acked is missing: new in the cluster, or set aside before
    said: str = ""


@dataclass(frozen=True, slots=True)
class LostReplicasStatistics:
    """How many there are now, and how many logs were set aside for a new one since the start."""

    damaged: int
    out_of_use: int
    without_log: int
    rebuilt: int


class LostReplicas:
    """The lost replicas of one broker, which keeps the two epochs: what the controller answered last, and what the
    metadata shows."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = NO_EPOCH
        self.registered_epoch = NO_EPOCH
        self._lost: dict[TopicPartition, LostReplica] = {}
        self._rebuilds: Counter[TopicPartition] = Counter()

    def __contains__(self, key: object) -> bool:
        return key in self._lost

    def __len__(self) -> int:
        return len(self._lost)

    def get(self, key: TopicPartition) -> LostReplica | None:
        return self._lost.get(key)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._lost)

    def found(self, key: TopicPartition, why: Exception) -> None:
        """Its log is damaged, or cannot be used, as was found now."""
        self._lost[key] = LostReplica(_loss_of(why), why, self.broker_epoch)

    def not_created(self, key: TopicPartition, why: Exception, *, is_new: bool) -> None:
        """It has no log; `is_new`: nor had one before, in the whole cluster."""
        self._lost[key] = LostReplica(Loss.WITHOUT_LOG, why, self.broker_epoch, is_new)

    def set_aside(self, key: TopicPartition) -> None:
        """Its damaged log is out of the way."""
        lost = self._lost[key]
        lost.loss, lost.starts_empty = Loss.WITHOUT_LOG, True
        self._rebuilds[key] += 1

    def forget(self, key: TopicPartition) -> None:
        """The replica is online again, or its topic was deleted."""
        self._lost.pop(key, None)

    def verdict(self, key: TopicPartition, state: PartitionRegistration) -> Verdict:
        """What may be done now; `state` is the newest word of the metadata on the partition."""
        if self._lost[key].loss is Loss.WITHOUT_LOG:
            return Verdict.HOST
        return Verdict.WAIT if self.obstacle(key, state) else Verdict.REBUILD

    def obstacle(self, key: TopicPartition, state: PartitionRegistration) -> str:
        """What is in the way of a new log, with the remedy where a person must do something; "" when nothing is."""
        lost = self._lost[key]
        if lost.loss is Loss.OUT_OF_USE:
            return "it stays so until the disk is in order and this node was started again"
        if self._rebuilds[key] >= REBUILDS_MAX:
            return (
                f"it was made anew {REBUILDS_MAX} times since the start: look for faults of this machine's disks and "
                "memory before you start this node again"
            )
        is_registered_anew = self.registered_epoch == self.broker_epoch > lost.broker_epoch
        if not is_registered_anew and state.replicas != (self.broker_id,):  # alone, it never does: nobody else may lead
            return "this broker registers anew first"
        if self.broker_id in state.isr:
            return (
                "this is the only replica in sync, and no other is known to have every acked record: restore the file, "
                "or keep what `penstock log recover` can save of it, or delete the topic"
            )
        if state.leader_id in (NO_LEADER, self.broker_id):
            return "there is no other leader to fetch it from"
        return ""

    def why_offline(self, key: TopicPartition, state: PartitionRegistration) -> str:
        """Why a partition that this broker should lead is offline, with the remedy; "" when it is not so.

        The controller does not know: there is nobody to whom the partition could go.
        """
        lost = self._lost.get(key)
        if lost is None or state.leader_id != self.broker_id:
            return ""
        obstacle = "" if lost.loss is Loss.WITHOUT_LOG else self.obstacle(key, state)
        return lost.said or "; ".join(filter(None, (str(lost.why), obstacle)))

    def statistics(self) -> LostReplicasStatistics:
        losses = [lost.loss for lost in tuple(self._lost.values())]
        return LostReplicasStatistics(
            damaged=losses.count(Loss.DAMAGED),
            out_of_use=losses.count(Loss.OUT_OF_USE),
            without_log=losses.count(Loss.WITHOUT_LOG),
            rebuilt=self._rebuilds.total(),
        )

    def __repr__(self) -> str:
        return f"LostReplicas({', '.join(f'{key}: {lost.loss.value}' for key, lost in self._lost.items()) or 'none'})"


def why_no_empty_log(broker_id: int, state: PartitionRegistration, vanished_path: str | None) -> str:
    """Why a replica without a log may not begin with an empty one; "" when it may. `vanished_path` is where a log of
    its was, that held flushed records.

    As the last ISR member it would lead with the empty log, or be counted as having everything.
    """
    if broker_id not in state.isr:
        return ""
    if state.log_lost:
        return (
            "its log went with a log dir that was given up (--lost-log-dirs), and this is its only in-sync replica:"
            " start this node with that dir, or allow an unclean election, or delete the topic"
        )
    if vanished_path is not None:
        return (
            f"{vanished_path} is gone, but held flushed records, and this is its only in-sync replica: bring that"
            " directory back and start this node again, or delete the topic"
        )
    return ""


def _loss_of(why: BaseException | None) -> Loss:
    """By the error, or what caused it."""
    while why is not None:
        if isinstance(why, CorruptFileError):
            return Loss.DAMAGED
        why = why.__cause__
    return Loss.OUT_OF_USE
