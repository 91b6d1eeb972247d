"""The errors of changes of topics and configurations.

Users import the names from penstock.errors.
"""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class InvalidTopicError(ApiError, code=17, name="INVALID_TOPIC_EXCEPTION", nothing_written=True):
    """The topic name is not allowed."""


class TopicExistsError(ApiError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """A topic with this name exists already."""

    def of_repetition(self) -> TopicExistsError:
        """The answer to a later attempt: the topic may be that of an earlier one, whose answer was lost."""
        remedy = "; or use it: an earlier attempt, whose answer was lost, may have created it"
        return self if str(self).endswith(remedy) else TopicExistsError(f"{self}{remedy}")


class InvalidPartitionsError(ApiError, code=37, name="INVALID_PARTITIONS"):
    """The number of partitions is not acceptable."""


class InvalidReplicationFactorError(ApiError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """The replication factor is below 1, or above the number of registered brokers."""


class InvalidReplicaAssignmentError(ApiError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """The given replica assignment is not acceptable."""


class InvalidConfigError(ApiError, code=40, name="INVALID_CONFIG"):
    """A configuration key is unknown or its value is not acceptable."""


class PolicyViolationError(ApiError, code=44, name="POLICY_VIOLATION", nothing_written=True):
    """The request breaks a policy of the cluster."""
