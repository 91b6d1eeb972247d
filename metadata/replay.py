"""Applies each metadata record: the one copy of the rules, for every node's image and for the controller's state.

`replay` reads and writes through `Tables`. The delta (copy on write) and the controller's state (in place, with
indexes) both implement it. So equal records give equal states, which is half of I8; the other half is that all nodes
get equal records. A record about something that does not exist is a bug or damage, and raises.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from metadata.acls import AclTable, acl_of
from metadata.features import LEVELS_ARE_RECORDS, METADATA_VERSION, Finalized, FinalizedLevel
from metadata.quotas import QuotaTable, entity_of
from metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    VotersRecord,
)
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from metadata.scram import ScramTable, credential_of, key_of
from penstock.errors import InvariantViolation
from penstock.messages.configs import ConfigResource
from raft.voters import VoterSet


class Tables(Protocol):
    """The tables that hold the facts, and that records change."""

    next_producer_id: int
    """The lowest that no broker was given."""
    voters: VoterSet
    """The voters that a record has named; none while the quorum is static."""
    levels: Finalized
    """The feature levels that records have finalized."""
    scram: ScramTable
    acls: AclTable
    quotas: QuotaTable

    def broker_ids(self) -> Collection[int]: ...
    def find_broker(self, broker_id: int) -> BrokerRegistration | None: ...
    def put_broker(self, broker: BrokerRegistration) -> None: ...
    def drop_broker(self, broker_id: int) -> None: ...
    def has_topic(self, topic_id: str) -> bool: ...
    def topic_id_of(self, name: str) -> str | None: ...
    def put_topic(self, name: str, topic_id: str) -> None: ...
    def drop_topic(self, topic_id: str) -> None:
        """Forgets the topic, its partitions and its configuration."""

    def find_partition(self, key: PartitionKey) -> PartitionRegistration | None: ...
    def put_partition(self, partition: PartitionRegistration) -> None: ...
    def put_config(self, resource: ConfigResource, key: str, value: str | None) -> None: ...


def replay(tables: Tables, record: Record) -> None:
    """Makes the record's change in `tables`."""
    match record:
        case PartitionChangeRecord():
            _change_partition(tables, record)
        case PartitionRecord():
            _require(tables.has_topic(record.topic_id), record, "topic id is not known")
            key = PartitionKey(record.topic_id, record.partition)
            _require(tables.find_partition(key) is None, record, "the partition is there already")
            tables.put_partition(PartitionRegistration.from_record(record))
        case TopicRecord():
            _require(tables.topic_id_of(record.name) is None, record, "the name is taken")
            _require(not tables.has_topic(record.topic_id), record, "the topic id is taken")
            tables.put_topic(record.name, record.topic_id)
        case RemoveTopicRecord():
            _require(tables.has_topic(record.topic_id), record, "topic id is not known")
            tables.drop_topic(record.topic_id)
        case ConfigRecord():
            tables.put_config(ConfigResource(record.resource_type, record.resource_name), record.key, record.value)
        case RegisterBrokerRecord():
            tables.put_broker(BrokerRegistration.from_record(record))
        case BrokerRegistrationChangeRecord():
            _change_broker(tables, record)
        case UnregisterBrokerRecord():
            broker = tables.find_broker(record.broker_id)
            is_this_one = broker is not None and broker.broker_epoch == record.broker_epoch
            _require(is_this_one, record, "this registration of the broker is not known")
            tables.drop_broker(record.broker_id)
        case ProducerIdsRecord():
            _require(record.next_producer_id > tables.next_producer_id, record, "these producer ids were given before")
            tables.next_producer_id = record.next_producer_id
        case UserScramCredentialRecord():
            tables.scram.put(key_of(record), credential_of(record))
        case RemoveUserScramCredentialRecord():
            _require(key_of(record) in tables.scram.credentials, record, "the user has no such credential")
            tables.scram.drop(key_of(record))
        case ScramSecretRecord():
            _require(not tables.scram.secret, record, "the cluster has such a secret already")
            tables.scram.secret = record.secret
        case AccessControlEntryRecord():
            _require(record.id not in tables.acls.by_id, record, "the id is taken")
            tables.acls.put(record.id, acl_of(record))
        case RemoveAccessControlEntryRecord():
            _require(record.id in tables.acls.by_id, record, "this ACL is not known")
            tables.acls.drop(record.id)
        case ClientQuotaRecord():
            entity = entity_of(record)
            known = record.value is not None or record.key in tables.quotas.by_entity.get(entity, ())
            _require(known, record, "there is no such quota")
            tables.quotas.put(entity, record.key, record.value)
        case VotersRecord():
            tables.voters = record.voters
        case FeatureLevelRecord():
            _set_level(tables, record)
        case NoOpRecord():
            pass


def _change_partition(tables: Tables, record: PartitionChangeRecord) -> None:
    partition = tables.find_partition(PartitionKey(record.topic_id, record.partition))
    if partition is None:
        raise InvariantViolation(f"{record}: partition is not known")
    tables.put_partition(partition.merge(record))


def _change_broker(tables: Tables, record: BrokerRegistrationChangeRecord) -> None:
    broker = tables.find_broker(record.broker_id)
    if broker is None:
        raise InvariantViolation(f"{record}: broker is not registered")
    tables.put_broker(broker.merge(record))


def _set_level(tables: Tables, record: FeatureLevelRecord) -> None:
    """Sets a level. A metadata.version below 2 leaves nothing that an older release cannot read: no record of a level,
    and no registration that says what its broker supports."""
    if record.name != METADATA_VERSION or record.level >= LEVELS_ARE_RECORDS:
        tables.levels = {**tables.levels, record.name: FinalizedLevel(record.level, record.since)}
        return
    tables.levels = {}
    for broker_id in sorted(tables.broker_ids()):
        broker = tables.find_broker(broker_id)
        if broker is not None and broker.features:
            tables.put_broker(replace(broker, features=""))


def _require(holds: bool, record: Record, why: str) -> None:
    if not holds:
        raise InvariantViolation(f"{record}: {why}")
