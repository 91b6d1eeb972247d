"""Registration, heartbeats and the end of brokers, and where their replicas are: what the controller is told."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NO_OFFSET, ListenerEndpoint


class HostedReplicas(NamedTuple):
    """The partitions of one topic whose logs a broker has in one log dir."""

    topic_id: str
    partitions: tuple[int, ...]
    log_dir: str = ""  # its id; "" from a node of an older release, which does not tell


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest:
    cluster_id: str
    broker_id: int
    incarnation_id: str  # new for every start of the process
    host: str
    port: int
    rack: str = ""
    previous_broker_epoch: int = NO_EPOCH  # from the clean-shutdown marker; -1 after an unclean stop (KIP-966)
    log_dirs: tuple[str, ...] = ()  # directory ids
    inter_broker_host: str = ""  # where the other brokers fetch from it; "" and 0: where clients do
    inter_broker_port: int = 0
    failed_log_dirs: int = 0  # how many more there are whose disk does not answer; their ids cannot be read
    lost_log_dirs: tuple[str, ...] = ()  # directory ids that the operator has given up
    replicas: tuple[HostedReplicas, ...] = ()  # whose logs its dirs hold
    flush_policy: str = ""  # its default of that configuration; "": an older broker, which does not say
    listeners: tuple[ListenerEndpoint, ...] = ()  # for clients, besides BROKER, which is at host and port (KIP-103)
    inter_broker_listener: str = ""  # the name of the one for brokers; "": an older broker, which does not say
    features: str = ""  # the feature levels that it supports, "NAME=FIRST-LAST,…"; "": an older broker, likewise


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    broker_epoch: int
    unknown_lost_log_dirs: tuple[str, ...] = ()  # of the request's: the broker was not registered with them


class CalendarVerdict(StrEnum):
    """The controller's verdict over a broker's calendar, by those of the other brokers."""

    UNSPECIFIED = "unspecified"
    """An older controller gives none."""
    ALONE = "alone"
    """No other broker tells its calendar."""
    AGREES = "agrees"
    """The calendar is near those of more than half of the brokers."""
    APART = "apart"
    UNSETTLED = "unsettled"
    """The last verdict holds, because too few brokers have told their calendar yet."""


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatRequest:
    cluster_id: str
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int = NO_OFFSET  # of the image that the broker has published
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[str, ...] = ()  # directory ids of those that failed since the process started (KIP-858)
    calendar_ms: int = 0  # the wall time of its machine; 0: an older broker, which does not say
    cordoned_log_dirs: tuple[str, ...] = ()  # directory ids of those that take no new replicas (KIP-1066)


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatResponse:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    offline_log_dirs: tuple[str, ...] = ()  # as the metadata has them now; an older controller names none
    silent_ms: int = 0  # the controller had not heard from a majority of the quorum for so long
    must_have_read: int = 0  # the metadata offset at which the broker lost a leadership last, or an upper bound
    session_timeout_ms: int = 0  # the controller's; an older controller says none of the three
    calendar: CalendarVerdict = CalendarVerdict.UNSPECIFIED
    calendar_off_ms: int = 0  # by so much the broker's calendar is ahead of the middle one; negative: behind


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsRequest:
    """The log dirs in which a broker has put its replicas (KIP-858)."""

    broker_id: int
    broker_epoch: int
    replicas: tuple[HostedReplicas, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignedReplica:
    topic_id: str
    partition: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsResponse:
    """The results, in the order of the request."""

    replicas: tuple[AssignedReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest:
    """A broker that is gone for good is to be forgotten (KIP-631); forwarded by any broker."""

    broker_id: int
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResponse:
    error: ApiError | None = None
    metadata_offset: int = NO_OFFSET
