"""The errors of groups: of their coordinators, their members and their committed offsets.

Users import the names from penstock.errors.
"""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class OffsetMetadataTooLargeError(ApiError, code=12, name="OFFSET_METADATA_TOO_LARGE", nothing_written=True):
    """The text that a consumer commits with an offset is longer than offset.metadata.max.bytes."""


class CoordinatorLoadInProgressError(
    ApiError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS", retriable=True, nothing_written=True
):
    """The coordinator of the group is reading the group's state; ask again soon."""


class CoordinatorNotAvailableError(ApiError, code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True):
    """The group has no coordinator at the moment, or its coordinator cannot write."""


class NotCoordinatorError(ApiError, code=16, name="NOT_COORDINATOR", retriable=True, nothing_written=True):
    """Another broker coordinates the group."""


class IllegalGenerationError(ApiError, code=22, name="ILLEGAL_GENERATION", nothing_written=True):
    """The group has gone on to another generation."""


class InconsistentGroupProtocolError(ApiError, code=23, name="INCONSISTENT_GROUP_PROTOCOL", nothing_written=True):
    """The member supports none of the protocols that the others of its group have in common."""


class InvalidGroupIdError(ApiError, code=24, name="INVALID_GROUP_ID", nothing_written=True):
    """No group can have this id."""


class UnknownMemberIdError(ApiError, code=25, name="UNKNOWN_MEMBER_ID", nothing_written=True):
    """The group has no such member (any more)."""


class InvalidSessionTimeoutError(ApiError, code=26, name="INVALID_SESSION_TIMEOUT", nothing_written=True):
    """The session time-out is not between group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgressError(ApiError, code=27, name="REBALANCE_IN_PROGRESS", nothing_written=True):
    """The group is rebalancing: the member must join again."""


class InvalidCommitOffsetSizeError(ApiError, code=28, name="INVALID_COMMIT_OFFSET_SIZE", nothing_written=True):
    """The commit is too large to be written."""


class NonEmptyGroupError(ApiError, code=68, name="NON_EMPTY_GROUP", nothing_written=True):
    """The group has members."""


class GroupIdNotFoundError(ApiError, code=69, name="GROUP_ID_NOT_FOUND", nothing_written=True):
    """There is no such group."""


class MemberIdRequiredError(ApiError, code=79, name="MEMBER_ID_REQUIRED", nothing_written=True):
    """The member must join again with the id that it was given (KIP-394)."""


class GroupMaxSizeReachedError(ApiError, code=81, name="GROUP_MAX_SIZE_REACHED", nothing_written=True):
    """The group has as many members as it may have."""


class FencedInstanceIdError(ApiError, code=82, name="FENCED_INSTANCE_ID", nothing_written=True):
    """Another member has taken over the group.instance.id (KIP-345)."""


class GroupSubscribedToTopicError(ApiError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC", nothing_written=True):
    """A live member of the group reads the topic."""


class UnstableOffsetCommitError(ApiError, code=88, name="UNSTABLE_OFFSET_COMMIT", retriable=True):
    """The offset belongs to a transaction that is not decided yet."""


class FencedMemberEpochError(ApiError, code=110, name="FENCED_MEMBER_EPOCH", nothing_written=True):
    """The member's epoch is not the coordinator's: it gives up its partitions and joins anew (KIP-848)."""


class UnreleasedInstanceIdError(ApiError, code=111, name="UNRELEASED_INSTANCE_ID", nothing_written=True):
    """A member with this group.instance.id is still in the group (KIP-848)."""


class UnsupportedAssignorError(ApiError, code=112, name="UNSUPPORTED_ASSIGNOR", nothing_written=True):
    """The coordinator has no such assignor, or the classic members have none in common."""


class StaleMemberEpochError(ApiError, code=113, name="STALE_MEMBER_EPOCH", nothing_written=True):
    """The member's epoch is older than the coordinator's: it learns the new one by its next heartbeat (KIP-848)."""


class InvalidRegularExpressionError(ApiError, code=128, name="INVALID_REGULAR_EXPRESSION", nothing_written=True):
    """The subscription's pattern is not a regular expression in RE2's syntax."""
