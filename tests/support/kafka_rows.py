"""Rows of Kafka's APIs over the parts of a node, of a few files of plans alone."""

from __future__ import annotations

from types import ModuleType

from broker.kafka.api_row import ApiRow
from broker.kafka.apis import acls, describe_topic_partitions, metadata
from broker.kafka.apis.admin import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
    features,
    raft_voters,
    reassignments,
    replica_log_dirs,
)
from broker.kafka.apis.authentication import delegation_tokens, sasl, users
from broker.kafka.apis.groups import (
    classic_members,
    consumer_members,
    find_coordinator,
    listing,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from broker.kafka.apis.reading import fetch, list_offsets, offset_for_leader_epoch
from broker.kafka.apis.transactions import add_partitions, end_txn
from broker.kafka.apis.transactions import listing as transactions
from broker.kafka.apis.transactions import offset_commit as transactional_commit
from broker.kafka.parts import PlanParts

ADMIN = (
    metadata,
    describe_topic_partitions,
    create_topics,
    delete_topics,
    create_partitions,
    describe_configs,
    alter_configs,
    describe_quorum,
    raft_voters,
    features,
    describe_cluster,
    replica_log_dirs,
    elect_leaders,
    reassignments,
)
GROUPS = (
    offset_commit,
    offset_fetch,
    find_coordinator,
    classic_members,
    consumer_members,
    listing,
    offset_delete,
)
READING = (fetch, list_offsets, offset_for_leader_epoch)
TRANSACTIONS = (add_partitions, end_txn, transactional_commit, transactions)
AUTHENTICATION = (sasl, users, delegation_tokens)
ACLS = (acls,)


def rows_over(parts: PlanParts, *files: ModuleType) -> list[ApiRow]:
    return [one.over(parts) for file in files for one in file.SERVED]
