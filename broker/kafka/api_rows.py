"""The table of the APIs that this node serves in Kafka's protocol: one row each.

A row is advertised as it stands in its file (ApiVersions, and the page for users), so it stands there when it works. A
range may be advertised from a lower version than is served: some clients turn features on only by an old version in the
range (KAFKA-18659). Not here: what a row has (api_row.py), the plans (apis/), the messages (schemas/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.kafka.api_row import ApiRow, ServedRow
from broker.kafka.apis import (
    acls,
    delete_records,
    describe_producers,
    describe_topic_partitions,
    init_producer_id,
    metadata,
    produce,
    quotas,
    telemetry,
)
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
from broker.kafka.apis.api_versions import api_versions
from broker.kafka.apis.authentication import delegation_tokens, sasl, users
from broker.kafka.apis.groups import (
    classic_members,
    consumer_members,
    find_coordinator,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from broker.kafka.apis.groups import listing as groups
from broker.kafka.apis.reading import fetch, list_offsets, offset_for_leader_epoch
from broker.kafka.apis.transactions import add_partitions, end_txn
from broker.kafka.apis.transactions import listing as transactions
from broker.kafka.apis.transactions import offset_commit as transactional_commit
from broker.kafka.parts import PlanParts

_OTHERS: Final[tuple[ServedRow, ...]] = (
    *produce.SERVED,
    *fetch.SERVED,
    *list_offsets.SERVED,
    *offset_for_leader_epoch.SERVED,
    *metadata.SERVED,
    *describe_topic_partitions.SERVED,
    *delete_records.SERVED,
    *init_producer_id.SERVED,
    *describe_producers.SERVED,
    *acls.SERVED,
    *quotas.SERVED,
    *telemetry.SERVED,
    *offset_commit.SERVED,
    *offset_fetch.SERVED,
    *offset_delete.SERVED,
    *find_coordinator.SERVED,
    *classic_members.SERVED,
    *consumer_members.SERVED,
    *groups.SERVED,
    *add_partitions.SERVED,
    *end_txn.SERVED,
    *transactional_commit.SERVED,
    *transactions.SERVED,
    *create_topics.SERVED,
    *delete_topics.SERVED,
    *create_partitions.SERVED,
    *describe_configs.SERVED,
    *alter_configs.SERVED,
    *describe_cluster.SERVED,
    *describe_quorum.SERVED,
    *raft_voters.SERVED,
    *features.SERVED,
    *elect_leaders.SERVED,
    *reassignments.SERVED,
    *replica_log_dirs.SERVED,
    *sasl.SERVED,
    *users.SERVED,
    *delegation_tokens.SERVED,
)
SERVED: Final[tuple[ServedRow, ...]] = (*_OTHERS, api_versions([one.row for one in _OTHERS]))
"""A new API adds its file here."""


def api_rows(parts: PlanParts) -> Mapping[int, ApiRow]:
    """The rows by key, for one node."""
    return {one.row.key: one.over(parts) for one in SERVED}
