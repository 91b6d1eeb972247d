"""The APIs that change the cluster's metadata: the active controller decides, and this broker forwards.

Not here: the changes of ACLs, which are refused without an authorizer (security/acls.py), and the way of a request
(forwarding.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.apis.security.topic_owners import with_owner
from broker.apis.served import Served, forwarded
from broker.authorization.rules import administration as rules
from broker.authorization.rules.ruling import Rule, in_parts, of_cluster, topic
from broker.quotas.partition_changes import Count, added_partitions, created_partitions, deleted_partitions
from penstock.messages import client_apis as rows
from penstock.messages.api import Api
from penstock.messages.configs import AlterConfigsResponse, AlterConfigsResult
from penstock.messages.feature_apis import UPDATE_FEATURES
from penstock.messages.security.acls import Operation
from penstock.messages.security.quota_apis import ALTER_CLIENT_QUOTAS
from penstock.messages.security.user_apis import ALTER_USER_SCRAM_CREDENTIALS
from penstock.messages.topics import CreatePartitionsResponse, TopicResult
from penstock.messages.voter_apis import ADD_VOTER, MAKE_QUORUM_DYNAMIC, REMOVE_VOTER, UNREGISTER_CONTROLLER


def _making_partitions(api: Api[Any, Any], *, rule: Rule, counts: Count) -> Served:
    """An API whose new partitions count to the share of its caller."""
    return Served(
        api=api,
        rule=rule,
        make=lambda parts: with_owner(parts.forwarded.handler(api), parts.share_holder),
        counts=counts,
    )


SERVED: Final[tuple[Served, ...]] = (
    _making_partitions(rows.CREATE_TOPICS, rule=rules.create_topics_rule, counts=created_partitions),
    forwarded(rows.DELETE_TOPICS, rule=rules.delete_topics_rule, counts=deleted_partitions),
    _making_partitions(
        rows.CREATE_PARTITIONS,
        rule=in_parts(
            "topics",
            CreatePartitionsResponse(),
            lambda one: topic(Operation.ALTER, one.name),
            lambda one, error: TopicResult(one.name, error=error),
        ),
        counts=added_partitions,
    ),
    forwarded(
        rows.ALTER_CONFIGS,
        rule=in_parts(
            "resources",
            AlterConfigsResponse(),
            rules.of_resource(Operation.ALTER_CONFIGS),
            lambda one, error: AlterConfigsResult(one.resource_type, one.resource_name, error),
        ),
    ),
    forwarded(rows.ELECT_LEADERS, rule=of_cluster(Operation.ALTER)),
    forwarded(rows.ALTER_PARTITION_REASSIGNMENTS, rule=of_cluster(Operation.ALTER)),
    forwarded(rows.UNREGISTER_BROKER, rule=of_cluster(Operation.ALTER)),
    forwarded(ADD_VOTER, rule=of_cluster(Operation.ALTER)),
    forwarded(REMOVE_VOTER, rule=of_cluster(Operation.ALTER)),
    forwarded(UNREGISTER_CONTROLLER, rule=of_cluster(Operation.ALTER)),
    forwarded(MAKE_QUORUM_DYNAMIC, rule=of_cluster(Operation.ALTER)),
    forwarded(UPDATE_FEATURES, rule=of_cluster(Operation.ALTER)),
    forwarded(ALTER_USER_SCRAM_CREDENTIALS, rule=of_cluster(Operation.ALTER)),
    forwarded(ALTER_CLIENT_QUOTAS, rule=of_cluster(Operation.ALTER_CONFIGS)),
)
