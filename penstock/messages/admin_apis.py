"""The APIs of clients, at a broker's listeners, that look at the cluster and at what one broker has in its log dirs.

Not here: what a row has (api.py), and what limits are for (client_apis.py).
"""

from __future__ import annotations

from typing import Final

from penstock.messages import cluster, configs, log_dirs, produce, quorum
from penstock.messages.api import MIB, SMALL, Api, ApiKind, ApiLimits, Operation
from penstock.messages.client_apis import ENTRIES_MAX, NAMES_MAX

DESCRIBE_CONFIGS: Final = Api(
    "DescribeConfigs",
    configs.DescribeConfigsRequest,
    configs.DescribeConfigsResponse,
    ApiKind.LOCAL,
    ApiLimits(
        MIB,
        {"resources": NAMES_MAX, "resources.keys": ENTRIES_MAX},
        "a topic's description is about 5 KiB, so the largest answer has 5 MiB",
    ),
    Operation.DESCRIBE_CONFIGS,
    lambda answer: answer.resources,
)
DESCRIBE_CLUSTER: Final = Api(
    "DescribeCluster",
    cluster.DescribeClusterRequest,
    cluster.ClusterInfo,
    ApiKind.LOCAL,
    SMALL,
    Operation.DESCRIBE,
)
DESCRIBE_QUORUM: Final = Api(
    "DescribeQuorum",
    quorum.DescribeQuorumRequest,
    quorum.QuorumInfo,
    ApiKind.ASKED,
    SMALL,
    Operation.DESCRIBE,
)
DESCRIBE_METADATA: Final = Api(
    "DescribeMetadata",
    quorum.DescribeMetadataRequest,
    quorum.DescribeMetadataResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.DESCRIBE,
    may_wait=True,
)
DESCRIBE_LOG_DIRS: Final = Api(
    "DescribeLogDirs",
    log_dirs.DescribeLogDirsRequest,
    log_dirs.DescribeLogDirsResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"topics": NAMES_MAX}, "no topic means all of them"),
    Operation.DESCRIBE,
    may_wait=True,
)
ALTER_REPLICA_LOG_DIRS: Final = Api(
    "AlterReplicaLogDirs",
    log_dirs.AlterReplicaLogDirsRequest,
    log_dirs.AlterReplicaLogDirsResponse,
    ApiKind.LOCAL,
    ApiLimits(
        MIB,
        {"dirs": 128, "dirs.topics": NAMES_MAX, "dirs.topics.partitions": NAMES_MAX},
        "a client sends 100 at a time",
    ),
    Operation.ALTER,
    may_wait=True,
)
DESCRIBE_PRODUCERS: Final = Api(
    "DescribeProducers",
    produce.DescribeProducersRequest,
    produce.DescribeProducersResponse,
    ApiKind.LOCAL,
    ApiLimits(
        MIB, {"partitions": NAMES_MAX}, "an answer has about 20,000 producers: ask for the other partitions again"
    ),
    Operation.READ,
    lambda answer: answer.partitions,
)
