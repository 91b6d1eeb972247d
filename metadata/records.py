"""The records of the metadata log: every fact that the cluster agrees on is one of these, and nothing else is.

A record is a frozen value without behaviour. replay.py alone says what a record does to the state; codec.py says how it
looks in the log. Names and meaning are KRaft's (KIP-631): one TopicRecord, and one PartitionRecord for each partition,
create a topic. PartitionChangeRecords change it; a field that is absent means 'no change'.

Each type has a version of its own: 0 at first, one more for each release that adds fields to it. A field that was added
later says so (`added_in`). Its default means what was true before the field existed, and a record of an older version
is read with it. A field is never removed, and never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH
from raft.voters import VoterSet

ADDED_IN: Final = "added_in"


def added_in(version: int) -> Mapping[str, Any]:
    """The `metadata` of a dataclass field that its record type has from this version on."""
    return MappingProxyType({ADDED_IN: version})


SECRET: Final[Mapping[str, Any]] = MappingProxyType({"secret": True})
"""The `metadata` of a dataclass field that is written to the log alone, and shown to nobody."""

TOPIC_RESOURCE = "topic"
"""The resource type of a topic's configuration."""
BROKER_RESOURCE = "broker"
CLIENT_METRICS_RESOURCE = "client-metrics"
"""The resource type of the configuration of one broker, whose name is its id, and of all brokers."""
ALL_BROKERS = ""
"""The resource name of the configuration of all brokers."""
TOPIC_OWNER_RESOURCE = "topic-owner"
"""The resource type of what the cluster notes of the owner of a topic, by the topic's id. No client can configure it. A
ConfigRecord, not a field of TopicRecord: a node of the release before reads it, and does not stop."""
OWNER_KEY = "principal"
"""The one key of such a resource: the principal whose share the topic's partitions count to."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker process has joined. It starts fenced: no partition may rely on it before it has caught up."""

    broker_id: int
    incarnation_id: str  # new for every start of the process
    broker_epoch: int  # Invariant: the offset of this very record in the metadata log
    host: str
    port: int
    rack: str = ""  # "" when not known
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[str, ...] = ()  # directory ids
    # Where other brokers fetch from it; "" and 0: at host and port, where it served both before.
    inter_broker_host: str = field(default="", metadata=added_in(1))
    inter_broker_port: int = field(default=0, metadata=added_in(1))
    offline_log_dirs: tuple[str, ...] = field(default=(), metadata=added_in(2))  # of `log_dirs`: their disk has failed
    # Its default of flush.policy, for topics that name none; "": not known.
    flush_policy: str = field(default="", metadata=added_in(3))
    # "NAME://host:port" of each listener for clients besides BROKER, which is at host and port (KIP-103).
    listeners: tuple[str, ...] = field(default=(), metadata=added_in(4))
    # The feature levels that the broker supports, as it says them (features.py); "": it says none, or the record is
    # older. Written only at metadata.version 2 or higher: a release that does not know the field stops at it.
    features: str = field(default="", metadata=added_in(5))


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """A broker is forgotten."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """A registered broker was fenced, unfenced, began its controlled shutdown, or one of its log dirs failed."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    offline_log_dirs: tuple[str, ...] | None = field(default=None, metadata=added_in(1))  # all that are now


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic was created; its partitions follow in the same batch."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition as a whole: at its creation, and in a snapshot."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    log_lost: bool = field(default=False, metadata=added_in(1))
    # The id of the log dir that holds each of `replicas`, in their order; "": not assigned yet. (): none is.
    directories: tuple[str, ...] = field(default=(), metadata=added_in(2))
    elr: tuple[int, ...] = field(default=(), metadata=added_in(3))
    # Of `replicas`, while the partition is being reassigned (KIP-455).
    adding_replicas: tuple[int, ...] = field(default=(), metadata=added_in(4))
    removing_replicas: tuple[int, ...] = field(default=(), metadata=added_in(4))
    # Those of before, in their order; (): they are in `replicas` in that order.
    replicas_before: tuple[int, ...] = field(default=(), metadata=added_in(5))


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """A partition's ISR, its ELR, its leader, its replicas or their log dirs changed.

    A given `leader_id` raises the leader epoch by one, be it -1 or the same leader again. Every such record raises the
    partition epoch by one, unless it changes only `directories`: a leader's proposal of an ISR is no older by that. The
    epochs themselves are not in the record, so that none can be skipped or fall. `log_lost` ends with any change of the
    ISR, unless the record says it anew.
    """

    topic_id: str
    partition: int
    isr: tuple[int, ...] | None = None
    leader_id: int | None = None
    log_lost: bool | None = field(default=None, metadata=added_in(1))
    directories: tuple[str, ...] | None = field(default=None, metadata=added_in(2))
    elr: tuple[int, ...] | None = field(default=None, metadata=added_in(3))
    # New ones have no log dir yet, those that stay keep theirs, unless `directories` says otherwise.
    replicas: tuple[int, ...] | None = field(default=None, metadata=added_in(4))
    adding_replicas: tuple[int, ...] | None = field(default=None, metadata=added_in(4))
    removing_replicas: tuple[int, ...] | None = field(default=None, metadata=added_in(4))
    # Of the new `replicas`: a record that names those without this one has ().
    replicas_before: tuple[int, ...] | None = field(default=None, metadata=added_in(5))


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic, its partitions and its configuration are deleted. Only this record ever deletes data."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One configuration key of one resource is set, or deleted when `value` is None."""

    resource_type: str
    resource_name: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """A block of producer ids was given to a broker: those below `next_producer_id` that nobody had yet (KIP-730)."""

    next_producer_id: int  # Invariant: rises with each such record; neither it nor a higher id was given yet
    broker_id: int = -1  # -1 in a snapshot, which does not say who has which block
    broker_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """A user's credential for one mechanism, in place of the one before (KIP-554). Bytes are in base64."""

    name: str
    mechanism: int  # Kafka's number (penstock/sasl/credentials.py)
    iterations: int
    salt: str = field(repr=False, metadata=SECRET)
    stored_key: str = field(repr=False, metadata=SECRET)
    server_key: str = field(repr=False, metadata=SECRET)


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    """A user has no credential for this mechanism any more."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramSecretRecord:
    """The secret from which brokers make the stand-in credentials of users that there are not; with the first user's
    credential, and never again."""

    secret: str = field(repr=False, metadata=SECRET)


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL was made. The words are those of penstock/messages/security/acls.py."""

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL is gone."""

    id: str


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """One quota of one entity is set, or is removed when `value` is None (KIP-546). A part of the entity that is None
    does not belong to it; an empty part stands for everybody (penstock/messages/security/quotas.py)."""

    key: str
    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class VotersRecord:
    """The quorum has these voters from now on (KIP-853). Only the quorum itself writes it (raft/voter_records.py)."""

    voters: VoterSet


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """A feature has this level from now on (KIP-584). Written only at metadata.version 2 or higher, and by the raise to
    it. Of metadata.version itself a level below 2 ends all such records, and what registrations say of levels: older
    releases read what comes after it."""

    name: str
    level: int
    since: str  # the first release that knows the level, for nodes that do not


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    """Nothing. The quorum's own bookkeeping (a new leader's first record) reads as this."""


Record = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ProducerIdsRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | ScramSecretRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ClientQuotaRecord
    | VotersRecord
    | FeatureLevelRecord
    | NoOpRecord
)
