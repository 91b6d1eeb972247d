"""Replicas that this broker should serve and cannot: why, and when each of them may be made anew. Pure.

    damaged       its log has rotted. It is set aside and fetched whole from the leader, once that can lose nothing
    out of use    its log dir failed, or a person must look at it. It stays so until the node is started again
    without log   no log could be created, for lack of room or descriptors: the broker tries again. Or the log is gone,
                  and an empty one must not take its place

An empty replica must not count as the one that held every acked record (KIP-903). So a damaged replica is made anew
only when all of this holds:

- This broker has registered since the damage was found. That took it out of every ISR that has another member. Leaders
  remember its earlier fetches under an older broker epoch, so these let it into no ISR.
- The metadata used below is not older than that registration.
- This broker is not in the ISR. The last member stays in it: no other replica is known to hold every acked record.
- It is not in the ELR either. It is, if that registration named the replica, because the damage was found a moment
  later; or if it was the last ISR member and an unclean leader has followed. It registers once more and leaves the ELR.
- Another broker leads, so there is a log to fetch.
- The replica was made anew fewer than REBUILDS_MAX times: if it is damaged again and again, a person must look at the
  machine.

After that it joins the ISR like any follower: when it has fetched up to the high watermark. replica_revival.py makes
the replica anew; `broker/node/registration/broker_lifecycle.py` registers.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import Enum

from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.replica_states import HostingState, LostReplica, Replica
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.errors import ApiError
from penstock.metric_fields import counter, gauge, measured
from penstock.types import NO_EPOCH, NO_LEADER, TopicPartition

_log = logging.getLogger(__name__)

REBUILDS_MAX = 3
"""The limit for one replica until the node is started again. Each rebuild sets aside a directory with the old log."""
_WITH_LOG = (HostingState.BROKEN, HostingState.DAMAGED, HostingState.GIVEN_UP, HostingState.OUT_OF_USE)
_LOST = ("penstock_lost_replicas", "Replicas that this broker should serve and cannot, by the reason.")
_MUST_REGISTER = "this broker has to register anew first, and does so by itself"


class Verdict(Enum):
    """The next step for a lost replica."""

    WAIT = "wait"
    REBUILD = "set the log aside, and begin with an empty one"
    HOST = "try again to create the log"


@measured
class LostReplicasStatistics:
    """The numbers of lost replicas now; `rebuilt` counts the logs that were set aside for a new one since the start."""

    damaged: int = gauge(*_LOST, why="damaged")
    out_of_use: int = gauge(*_LOST, why="out_of_use")
    without_log: int = gauge(*_LOST, why="without_log")
    rebuilt: int = counter(
        "penstock_replicas_rebuilt", "Damaged logs that were set aside since the start, and fetched anew."
    )


class LostReplicas:
    """The lost replicas of one broker. The broker sets the two epochs: `broker_epoch` is the controller's last answer,
    `registered_epoch` is the one in the metadata."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self.broker_id = hosted.broker_id
        self.broker_epoch = NO_EPOCH
        self.registered_epoch = NO_EPOCH
        self.hosted = hosted
        self._rebuilt = 0

    def __len__(self) -> int:
        return len(self.partitions)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that are lost here, also those whose log is being created again."""
        return tuple(replica.key for replica in self.hosted.replicas() if replica.lost is not None)

    def registered(self, broker_epoch: int) -> None:
        """The controller has answered a registration of this broker."""
        self.broker_epoch = broker_epoch

    def shown_in_metadata(self, broker_epoch: int) -> None:
        """The metadata shows this broker's registration with this epoch; NO_EPOCH when it shows none."""
        self.registered_epoch = broker_epoch

    def found(self, key: TopicPartition, why: Exception) -> None:
        """The start found the replica's log damaged or unusable."""
        self.hosted.known(key).lose(LostReplica(why, self.broker_epoch))

    def failed(self, replica: Replica, why: Exception, answer: ApiError) -> None:
        """The replica's log was found damaged or unusable just now: requests get `answer`."""
        replica.lose(LostReplica(why, self.broker_epoch), answer)

    def not_created(self, replica: Replica, why: Exception, *, starts_empty: bool) -> None:
        """The replica has no log; `starts_empty`: an empty one would lose nothing."""
        replica.lack_log(LostReplica(why, self.broker_epoch), starts_empty=starts_empty)

    def set_aside(self, replica: Replica) -> Partition | None:
        """The replica's damaged log was set aside; returns what was served over it."""
        self._rebuilt += 1
        return replica.set_aside()

    def say(self, replica: Replica, what: str) -> None:
        """A log line about a lost replica: once, until it is something else."""
        lost = replica.lost
        if lost is not None and lost.said != what:
            lost.said = what
            _log.error("%s is offline here, %s", replica.key, what)

    def verdict(self, replica: Replica, state: PartitionRegistration) -> Verdict:
        """The step that may be done now for a lost replica; `state` is the partition in the newest metadata."""
        if replica.state is HostingState.WITHOUT_LOG:
            return Verdict.HOST
        return Verdict.WAIT if self.obstacle(replica, state) else Verdict.REBUILD

    def obstacle(self, replica: Replica, state: PartitionRegistration) -> str:
        """The reason why the log may not be made anew yet, with the remedy if a person must act; "" when it may."""
        if replica.state not in (HostingState.DAMAGED, HostingState.GIVEN_UP):
            return "it stays offline: repair the disk, or free space on it, then start this node again"
        if replica.rebuilds >= REBUILDS_MAX:
            return (
                f"it was made anew {REBUILDS_MAX} times since the start: check this machine's disks and memory for "
                "faults before you start this node again"
            )
        # A single replica needs no registration.
        if not self._is_registered_anew(replica) and state.replicas != (self.broker_id,):
            return _MUST_REGISTER
        if self.broker_id in state.isr:
            return (
                "this is the only replica in sync, and no other is known to have every acked record: restore the file, "
                "or keep what `penstock log recover` can save of it, or delete the topic"
            )
        if self.broker_id in state.elr:
            return _MUST_REGISTER
        if state.leader_id in (NO_LEADER, self.broker_id):
            return "there is no other leader to fetch it from"
        return ""

    def is_mistaken_for_eligible(self, replica: Replica, state: PartitionRegistration) -> bool:
        """True if the controller may elect a damaged replica from the ELR until this broker registers once more."""
        is_damaged = replica.state is HostingState.DAMAGED
        return is_damaged and self.broker_id in state.elr and self._is_registered_anew(replica)

    def _is_registered_anew(self, replica: Replica) -> bool:
        found_at = replica.lost.broker_epoch if replica.lost is not None else self.broker_epoch
        return self.registered_epoch == self.broker_epoch > found_at

    def why_offline(self, key: TopicPartition, state: PartitionRegistration) -> str:
        """The reason why a partition that this broker should lead is offline, with the remedy; "" when it is not
        offline. The controller does not know it, and could do nothing: no other replica may lead."""
        replica = self.hosted.replica(key)
        if replica is None or replica.lost is None or state.leader_id != self.broker_id:
            return ""
        obstacle = self.obstacle(replica, state) if replica.state in _WITH_LOG else ""
        return replica.lost.said or "; ".join(filter(None, (str(replica.lost.why), obstacle)))

    def statistics(self) -> LostReplicasStatistics:
        lost = [(replica.state, found) for replica in self.hosted.replicas() if (found := replica.lost) is not None]
        with_log = Counter(found.is_rot for state, found in lost if state in _WITH_LOG)
        return LostReplicasStatistics(with_log[True], with_log[False], len(lost) - with_log.total(), self._rebuilt)

    def __repr__(self) -> str:
        return f"LostReplicas({', '.join(map(str, self.partitions)) or 'none'})"


def why_no_empty_log(broker_id: int, state: PartitionRegistration, vanished_path: str | None) -> str:
    """The reason why a replica without a log may not begin with an empty one; "" when it may. `vanished_path` is the
    directory that is gone, if that log held flushed records. As the last ISR member, or in the ELR, the replica would
    lead with the empty log, or count as holding every acked record."""
    if vanished_path is not None and broker_id in state.elr:
        return (
            f"{vanished_path} is gone. It held flushed records, and this replica counts as one that has every acked"
            " record: bring the directory back, or start this node again without it"
        )
    if broker_id not in state.isr:
        return ""
    if state.log_lost:
        return (
            "its log was in a log dir that was given up (--lost-log-dirs), and this is the only in-sync replica: start"
            " this node with that dir, or order an election (`penstock elect-leaders TOPIC --unclean`), or delete the"
            " topic"
        )
    if vanished_path is not None:
        return (
            f"{vanished_path} is gone. It held flushed records, and this is the only in-sync replica: bring the"
            " directory back and start this node again, or delete the topic"
        )
    return ""
