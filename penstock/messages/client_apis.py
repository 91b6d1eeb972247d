"""The APIs of clients, at a broker's listeners, that read and write records and change the cluster's metadata.

An element of a repeated field costs a node far more than its bytes on the wire (an empty one is two bytes, and becomes
an object, an error and an answer), so elements are limited apart from bytes. Not here: what a row has (api.py), the
rows that look at the cluster (admin_apis.py), and Kafka's keys and versions (broker/kafka/).
"""

from __future__ import annotations

from typing import Final

from penstock.messages import configs, elections, fetch, metadata, offsets, produce, repetitions, topics
from penstock.messages.api import KIB, MIB, SMALL, Api, ApiKind, ApiLimits, Operation
from penstock.messages.nodes import brokers
from penstock.messages.security import authentication

PARTITIONS_MAX: Final = 2_000
"""Partitions of one data request. A handler works 10 to 20 µs for each before the next request has its turn. Clients
and followers ask for the others in the next one."""
NAMES_MAX: Final = 1_000
"""Topics or resources of one request; the answer for one may have 10,000 partitions."""
ASKED_MAX: Final = 10_000
"""Partitions about which the controller is asked at once. It decides about 1,000 in 0.1 s, and does nothing else
meanwhile, so our clients ask for no more; those of an older release ask for all at once, and often in an incident."""
PLACED_PARTITIONS_MAX: Final = 25_000
PLACED_REPLICAS_MAX: Final = 50_000
"""Partitions that one request places by hand, and their replicas: as many as one at KAFKA may have, which is forwarded.
They are twice what the controller commits at once, whose error tells the remedy; and a message is decoded in one
piece."""
FURTHER_BATCHES_MAX: Final = 2_000
"""Record batches of a produce request besides the first one of each partition."""
ENTRIES_MAX: Final = 10_000
"""Configuration entries of one request, over all of its topics or resources."""

PRODUCE: Final = Api(
    "Produce",
    produce.ProduceRequest,
    produce.ProduceResponse,
    ApiKind.STREAM,
    ApiLimits(
        None,
        {"partitions": PARTITIONS_MAX},
        f"the only request with records: a batch for each partition, and {FURTHER_BATCHES_MAX:,} more",
    ),
    Operation.WRITE,
    lambda answer: answer.partitions,
)
FETCH: Final = Api(
    "Fetch",
    fetch.FetchRequest,
    fetch.FetchResponse,
    ApiKind.STREAM,
    ApiLimits(
        4 * MIB,
        {"partitions": PARTITIONS_MAX, "forgotten": PARTITIONS_MAX},
        "a session of more partitions is built by several requests",
    ),
    Operation.READ,
    lambda answer: answer.partitions,
    replica_id=lambda request: request.replica_id,
)
LIST_OFFSETS: Final = Api(
    "ListOffsets",
    offsets.ListOffsetsRequest,
    offsets.ListOffsetsResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}),
    Operation.DESCRIBE,
    lambda answer: answer.partitions,
    replica_id=lambda request: request.replica_id,
    may_wait=True,
    is_for_brokers=True,
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    "OffsetForLeaderEpoch",
    offsets.OffsetForLeaderEpochRequest,
    offsets.OffsetForLeaderEpochResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}),
    Operation.DESCRIBE,
    lambda answer: answer.partitions,
    replica_id=lambda request: request.replica_id,
)
DELETE_RECORDS: Final = Api(
    "DeleteRecords",
    offsets.DeleteRecordsRequest,
    offsets.DeleteRecordsResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"partitions": 10_000}),
    Operation.DELETE,
    lambda answer: answer.partitions,
    may_wait=True,
)
METADATA: Final = Api(
    "Metadata",
    metadata.MetadataRequest,
    metadata.MetadataResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"topics": NAMES_MAX}, "ask for all topics to learn of more"),
    Operation.DESCRIBE,
)
CREATE_TOPICS: Final = Api(
    "CreateTopics",
    topics.CreateTopicsRequest,
    topics.CreateTopicsResponse,
    ApiKind.FORWARDED,
    ApiLimits(
        4 * MIB,
        {
            "topics": NAMES_MAX,
            "topics.config": ENTRIES_MAX,
            "topics.assignment": PLACED_PARTITIONS_MAX,
            "topics.assignment.replicas": PLACED_REPLICAS_MAX,
        },
        "the largest topic has 10,000 partitions",
    ),
    Operation.CREATE,
    lambda answer: answer.topics,
    repetitions.created_before,
    tells_offset=True,
    changes_partitions=True,
)
CREATE_PARTITIONS: Final = Api(
    "CreatePartitions",
    topics.CreatePartitionsRequest,
    topics.CreatePartitionsResponse,
    ApiKind.FORWARDED,
    ApiLimits(
        4 * MIB,
        {
            "topics": NAMES_MAX,
            "topics.assignment": PLACED_PARTITIONS_MAX,
            "topics.assignment.replicas": PLACED_REPLICAS_MAX,
        },
        "the largest topic has 10,000 partitions",
    ),
    Operation.ALTER,
    lambda answer: answer.topics,
    repetitions.added_before,
    tells_offset=True,
    changes_partitions=True,
)
DELETE_TOPICS: Final = Api(
    "DeleteTopics",
    topics.DeleteTopicsRequest,
    topics.DeleteTopicsResponse,
    ApiKind.FORWARDED,
    ApiLimits(MIB, {"topic_ids": NAMES_MAX}),
    Operation.DELETE,
    lambda answer: answer.topics,
    repetitions.deleted_before,
    tells_offset=True,
    changes_partitions=True,
)
INIT_PRODUCER_ID: Final = Api(
    "InitProducerId",
    produce.InitProducerIdRequest,
    produce.InitProducerIdResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.IDEMPOTENT_WRITE,
    may_wait=True,
)
SASL_AUTHENTICATE: Final = Api(
    "SaslAuthenticate",
    authentication.SaslAuthenticateRequest,
    authentication.SaslAuthenticateResponse,
    ApiKind.LOCAL,
    ApiLimits(24 * KIB, {}, "the longest token of OAUTHBEARER has 16 KiB"),
    Operation.DESCRIBE,
    may_wait=True,
    before_authentication=True,
)
ALTER_CONFIGS: Final = Api(
    "AlterConfigs",
    configs.AlterConfigsRequest,
    configs.AlterConfigsResponse,
    ApiKind.FORWARDED,
    ApiLimits(4 * MIB, {"resources": NAMES_MAX, "resources.changes": ENTRIES_MAX}),
    Operation.ALTER_CONFIGS,
    lambda answer: answer.resources,
    tells_offset=True,
)
ELECT_LEADERS: Final = Api(
    "ElectLeaders",
    elections.ElectLeadersRequest,
    elections.ElectLeadersResponse,
    ApiKind.FORWARDED,
    ApiLimits(MIB, {"topics": NAMES_MAX, "topics.partitions": ASKED_MAX}, "no topic means all of them"),
    Operation.ALTER,
    lambda answer: answer.partitions,
    repetitions.elected_before,
    tells_offset=True,
)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    "AlterPartitionReassignments",
    elections.AlterPartitionReassignmentsRequest,
    elections.AlterPartitionReassignmentsResponse,
    ApiKind.FORWARDED,
    ApiLimits(
        4 * MIB, {"partitions": ASKED_MAX, "partitions.replicas": ENTRIES_MAX}, "no replicas and `cancel` ends one"
    ),
    Operation.ALTER,
    lambda answer: answer.partitions,
    repetitions.cancelled_before,
    tells_offset=True,
)
UNREGISTER_BROKER: Final = Api(
    "UnregisterBroker",
    brokers.UnregisterBrokerRequest,
    brokers.UnregisterBrokerResponse,
    ApiKind.FORWARDED,
    SMALL,
    Operation.ALTER,
    lambda answer: (answer,),
    repetitions.unregistered_before,
    tells_offset=True,
)
