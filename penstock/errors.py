"""Every error that Penstock raises, by blame: the wire error table, and the local errors that never cross a wire.

The wire table is the set of `ApiError` subclasses below. Numbers and names are Kafka's (Kafka protocol guide, "Error
codes") and never change, so that a listener for Kafka's protocol can send them as they are; AUTHENTICATION_REQUIRED
alone is our own. An error that crosses a wire is a code, a sentence, and at most a leader hint or a pair of offset
bounds. Foreign exceptions (gRPC, OSError) are mapped to these once, at the edge. An invariant that does not hold raises
`InvariantViolation`, never `assert`. The base of errors with a wire code is in wire_errors/api_error.py. Names of
base_error.py, local_errors/ and wire_errors/ stand here too.
"""

from __future__ import annotations

from penstock.base_error import InvariantViolation as InvariantViolation
from penstock.base_error import PenstockError as PenstockError
from penstock.local_errors.client_errors import AtomicBatchVersionError as AtomicBatchVersionError
from penstock.local_errors.client_errors import BootstrapError as BootstrapError
from penstock.local_errors.client_errors import BufferExhaustedError as BufferExhaustedError
from penstock.local_errors.client_errors import CalledInCallbackError as CalledInCallbackError
from penstock.local_errors.client_errors import ClientClosedError as ClientClosedError
from penstock.local_errors.client_errors import CommitFailedError as CommitFailedError
from penstock.local_errors.client_errors import FatalProducerError as FatalProducerError
from penstock.local_errors.client_errors import ForkedClientError as ForkedClientError
from penstock.local_errors.client_errors import GreenThreadsError as GreenThreadsError
from penstock.local_errors.client_errors import HandlerError as HandlerError
from penstock.local_errors.client_errors import MissingDependencyError as MissingDependencyError
from penstock.local_errors.client_errors import PositionsTakenError as PositionsTakenError
from penstock.local_errors.client_errors import ProcessingError as ProcessingError
from penstock.local_errors.client_errors import RetryLater as RetryLater
from penstock.local_errors.client_errors import SubscriptionError as SubscriptionError
from penstock.local_errors.client_errors import TimedOutError as TimedOutError
from penstock.local_errors.client_errors import TransactionAbortedError as TransactionAbortedError
from penstock.local_errors.client_errors import TransactionStateError as TransactionStateError
from penstock.local_errors.position_errors import LogTruncationError as LogTruncationError
from penstock.local_errors.position_errors import TopicRecreatedError as TopicRecreatedError
from penstock.local_errors.position_errors import UndecodableBatchError as UndecodableBatchError
from penstock.wire_errors.api_error import ERRORS as ERRORS
from penstock.wire_errors.api_error import RECORD_ERRORS_MAX as RECORD_ERRORS_MAX
from penstock.wire_errors.api_error import ApiError as ApiError
from penstock.wire_errors.api_error import RecordError as RecordError
from penstock.wire_errors.api_error import error_for as error_for
from penstock.wire_errors.elections import ElectionNotNeededError as ElectionNotNeededError
from penstock.wire_errors.elections import EligibleLeadersNotAvailableError as EligibleLeadersNotAvailableError
from penstock.wire_errors.elections import IneligibleReplicaError as IneligibleReplicaError
from penstock.wire_errors.elections import InvalidUpdateVersionError as InvalidUpdateVersionError
from penstock.wire_errors.elections import NewLeaderElectedError as NewLeaderElectedError
from penstock.wire_errors.elections import NoReassignmentInProgressError as NoReassignmentInProgressError
from penstock.wire_errors.elections import PreferredLeaderNotAvailableError as PreferredLeaderNotAvailableError
from penstock.wire_errors.groups import CoordinatorLoadInProgressError as CoordinatorLoadInProgressError
from penstock.wire_errors.groups import CoordinatorNotAvailableError as CoordinatorNotAvailableError
from penstock.wire_errors.groups import FencedInstanceIdError as FencedInstanceIdError
from penstock.wire_errors.groups import FencedMemberEpochError as FencedMemberEpochError
from penstock.wire_errors.groups import GroupIdNotFoundError as GroupIdNotFoundError
from penstock.wire_errors.groups import GroupMaxSizeReachedError as GroupMaxSizeReachedError
from penstock.wire_errors.groups import GroupSubscribedToTopicError as GroupSubscribedToTopicError
from penstock.wire_errors.groups import IllegalGenerationError as IllegalGenerationError
from penstock.wire_errors.groups import InconsistentGroupProtocolError as InconsistentGroupProtocolError
from penstock.wire_errors.groups import InvalidCommitOffsetSizeError as InvalidCommitOffsetSizeError
from penstock.wire_errors.groups import InvalidGroupIdError as InvalidGroupIdError
from penstock.wire_errors.groups import InvalidRegularExpressionError as InvalidRegularExpressionError
from penstock.wire_errors.groups import InvalidSessionTimeoutError as InvalidSessionTimeoutError
from penstock.wire_errors.groups import MemberIdRequiredError as MemberIdRequiredError
from penstock.wire_errors.groups import NonEmptyGroupError as NonEmptyGroupError
from penstock.wire_errors.groups import NotCoordinatorError as NotCoordinatorError
from penstock.wire_errors.groups import OffsetMetadataTooLargeError as OffsetMetadataTooLargeError
from penstock.wire_errors.groups import RebalanceInProgressError as RebalanceInProgressError
from penstock.wire_errors.groups import StaleMemberEpochError as StaleMemberEpochError
from penstock.wire_errors.groups import UnknownMemberIdError as UnknownMemberIdError
from penstock.wire_errors.groups import UnreleasedInstanceIdError as UnreleasedInstanceIdError
from penstock.wire_errors.groups import UnstableOffsetCommitError as UnstableOffsetCommitError
from penstock.wire_errors.groups import UnsupportedAssignorError as UnsupportedAssignorError
from penstock.wire_errors.producers import InvalidProducerEpochError as InvalidProducerEpochError
from penstock.wire_errors.producers import OutOfOrderSequenceError as OutOfOrderSequenceError
from penstock.wire_errors.producers import UnknownProducerIdError as UnknownProducerIdError
from penstock.wire_errors.registration import BrokerIdNotRegisteredError as BrokerIdNotRegisteredError
from penstock.wire_errors.registration import ControllerIdNotRegisteredError as ControllerIdNotRegisteredError
from penstock.wire_errors.registration import DuplicateBrokerRegistrationError as DuplicateBrokerRegistrationError
from penstock.wire_errors.registration import InvalidRegistrationError as InvalidRegistrationError
from penstock.wire_errors.registration import StaleBrokerEpochError as StaleBrokerEpochError
from penstock.wire_errors.security import AuthenticationFailedError as AuthenticationFailedError
from penstock.wire_errors.security import AuthenticationRequiredError as AuthenticationRequiredError
from penstock.wire_errors.security import AuthorizationFailedError as AuthorizationFailedError
from penstock.wire_errors.security import ClusterAuthorizationFailedError as ClusterAuthorizationFailedError
from penstock.wire_errors.security import DuplicateResourceError as DuplicateResourceError
from penstock.wire_errors.security import GroupAuthorizationFailedError as GroupAuthorizationFailedError
from penstock.wire_errors.security import IllegalSaslStateError as IllegalSaslStateError
from penstock.wire_errors.security import ResourceNotFoundError as ResourceNotFoundError
from penstock.wire_errors.security import SaslAuthenticationFailedError as SaslAuthenticationFailedError
from penstock.wire_errors.security import SecurityDisabledError as SecurityDisabledError
from penstock.wire_errors.security import TopicAuthorizationFailedError as TopicAuthorizationFailedError
from penstock.wire_errors.security import (
    TransactionalIdAuthorizationFailedError as TransactionalIdAuthorizationFailedError,
)
from penstock.wire_errors.security import UnacceptableCredentialError as UnacceptableCredentialError
from penstock.wire_errors.security import UnsupportedSaslMechanismError as UnsupportedSaslMechanismError
from penstock.wire_errors.telemetry import TelemetryTooLargeError as TelemetryTooLargeError
from penstock.wire_errors.telemetry import UnknownSubscriptionIdError as UnknownSubscriptionIdError
from penstock.wire_errors.topics import InvalidConfigError as InvalidConfigError
from penstock.wire_errors.topics import InvalidPartitionsError as InvalidPartitionsError
from penstock.wire_errors.topics import InvalidReplicaAssignmentError as InvalidReplicaAssignmentError
from penstock.wire_errors.topics import InvalidReplicationFactorError as InvalidReplicationFactorError
from penstock.wire_errors.topics import InvalidTopicError as InvalidTopicError
from penstock.wire_errors.topics import PolicyViolationError as PolicyViolationError
from penstock.wire_errors.topics import TopicExistsError as TopicExistsError
from penstock.wire_errors.transactions import ConcurrentTransactionsError as ConcurrentTransactionsError
from penstock.wire_errors.transactions import InvalidProducerIdMappingError as InvalidProducerIdMappingError
from penstock.wire_errors.transactions import InvalidTransactionTimeoutError as InvalidTransactionTimeoutError
from penstock.wire_errors.transactions import InvalidTxnStateError as InvalidTxnStateError
from penstock.wire_errors.transactions import OperationNotAttemptedError as OperationNotAttemptedError
from penstock.wire_errors.transactions import ProducerFencedError as ProducerFencedError
from penstock.wire_errors.transactions import TransactionAbortableError as TransactionAbortableError
from penstock.wire_errors.transactions import TransactionalIdNotFoundError as TransactionalIdNotFoundError
from penstock.wire_errors.transactions import TransactionCoordinatorFencedError as TransactionCoordinatorFencedError
from penstock.wire_errors.voters import DuplicateVoterError as DuplicateVoterError
from penstock.wire_errors.voters import VoterNotFoundError as VoterNotFoundError


class CleaningAbortedError(PenstockError):
    """A cleaning was given up: its segments have left the log or changed, or the cleaner was told to stop."""


class ConfigError(PenstockError):
    """A configuration key or value is not acceptable; names the key, the value and the remedy."""


class MetaPropertiesError(PenstockError):
    """This node may not use a log dir: it is unformatted, another cluster's, another node's, damaged or locked."""


class CorruptFileError(PenstockError):
    """A file on disk is damaged; names the file and the position."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path}: damaged at byte {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


class UnknownServerError(ApiError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The server met an unexpected error; the node's log has the details."""


class OffsetOutOfRangeError(ApiError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The requested offset is below the log start or above the readable end."""


class CorruptMessageError(ApiError, code=2, name="CORRUPT_MESSAGE", retriable=True, nothing_written=True):
    """A record batch failed its checksum, size or count check."""


class UnknownTopicOrPartitionError(
    ApiError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION", retriable=True, nothing_written=True
):
    """This node does not know the topic or partition."""


class InvalidFetchSizeError(ApiError, code=4, name="INVALID_FETCH_SIZE"):
    """The requested fetch size is not acceptable."""


class LeaderNotAvailableError(ApiError, code=5, name="LEADER_NOT_AVAILABLE", retriable=True, nothing_written=True):
    """The partition has no leader now."""


class NotLeaderOrFollowerError(ApiError, code=6, name="NOT_LEADER_OR_FOLLOWER", retriable=True, nothing_written=True):
    """This node does not lead (or, for a fetch, follow) the partition."""


class RequestTimedOutError(ApiError, code=7, name="REQUEST_TIMED_OUT", retriable=True):
    """The request was not complete within its time limit; a write may or may not take effect."""


class ReplicaNotAvailableError(ApiError, code=9, name="REPLICA_NOT_AVAILABLE", retriable=True):
    """The replica is not available on this node."""


class MessageTooLargeError(ApiError, code=10, name="MESSAGE_TOO_LARGE", nothing_written=True):
    """A record or batch is larger than max.message.bytes."""


class NetworkError(ApiError, code=13, name="NETWORK_EXCEPTION", retriable=True):
    """The connection broke before an answer came."""


class RecordListTooLargeError(ApiError, code=18, name="RECORD_LIST_TOO_LARGE", nothing_written=True):
    """The batch is larger than the segment it would go into."""


class NotEnoughReplicasError(ApiError, code=19, name="NOT_ENOUGH_REPLICAS", retriable=True, nothing_written=True):
    """Fewer replicas are in sync than min.insync.replicas; nothing was written."""


class NotEnoughReplicasAfterAppendError(ApiError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable=True):
    """The records were written but not acked: too few replicas are in sync, or the leader has changed."""


class InvalidRequiredAcksError(ApiError, code=21, name="INVALID_REQUIRED_ACKS", nothing_written=True):
    """acks must be 0, 1 or -1 (all)."""


class InvalidTimestampError(ApiError, code=32, name="INVALID_TIMESTAMP", nothing_written=True):
    """The timestamp of a record is out of the accepted range."""


class UnsupportedVersionError(ApiError, code=35, name="UNSUPPORTED_VERSION", nothing_written=True):
    """The version of the request or record format is not supported."""


class NotControllerError(ApiError, code=41, name="NOT_CONTROLLER", retriable=True):
    """This node is not the active controller."""


class InvalidRequestError(ApiError, code=42, name="INVALID_REQUEST", nothing_written=True):
    """The request contradicts itself or lacks a field."""


class KafkaStorageError(ApiError, code=56, name="KAFKA_STORAGE_ERROR", retriable=True):
    """The disk under the partition failed on this node."""


class LogDirNotFoundError(ApiError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The broker is not registered with the log dir."""


class ListenerNotFoundError(ApiError, code=72, name="LISTENER_NOT_FOUND", retriable=True):
    """The leader has no listener of the name of the one that the client uses (KIP-103)."""


class FencedLeaderEpochError(ApiError, code=74, name="FENCED_LEADER_EPOCH", retriable=True, nothing_written=True):
    """The leader epoch of the request is older than this node's."""


class UnknownLeaderEpochError(ApiError, code=75, name="UNKNOWN_LEADER_EPOCH", retriable=True, nothing_written=True):
    """The leader epoch of the request is newer than this node's."""


class UnsupportedCompressionTypeError(ApiError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE", nothing_written=True):
    """The compression codec is not known."""


class OffsetNotAvailableError(ApiError, code=78, name="OFFSET_NOT_AVAILABLE", retriable=True):
    """A new leader does not know its high watermark yet."""


class InvalidRecordError(ApiError, code=87, name="INVALID_RECORD", nothing_written=True):
    """A record breaks a rule of the topic or of the format."""


class ResourceExhaustedError(ApiError, code=89, name="THROTTLING_QUOTA_EXCEEDED", retriable=True, nothing_written=True):
    """The node is at one of its limits; try again later."""


class UnknownTopicIdError(ApiError, code=100, name="UNKNOWN_TOPIC_ID", retriable=True, nothing_written=True):
    """This node does not know the topic id."""


class InconsistentTopicIdError(ApiError, code=103, name="INCONSISTENT_TOPIC_ID", retriable=True):
    """The topic id of the request is not the one that this node has for the name."""


class SnapshotNotFoundError(ApiError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """This node does not keep that snapshot of the metadata."""


class PositionOutOfRangeError(ApiError, code=99, name="POSITION_OUT_OF_RANGE"):
    """The snapshot of the metadata is shorter."""


class InconsistentClusterIdError(ApiError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The request belongs to another cluster."""


class FetchSessionTopicIdError(ApiError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", retriable=True):
    """A topic of the fetch stream was deleted and created again."""
