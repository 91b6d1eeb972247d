"""The errors of changes of a partition: elections, reassignments, and the ISR.

Users import the names from penstock.errors.
"""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class PreferredLeaderNotAvailableError(ApiError, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE"):
    """The first replica of the partition is not in sync or not in service, so it cannot be made the leader."""


class EligibleLeadersNotAvailableError(ApiError, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE"):
    """No replica of the partition is in service, so that none can be made the leader."""


class ElectionNotNeededError(ApiError, code=84, name="ELECTION_NOT_NEEDED"):
    """The partition has the leader already that was asked for; with an unclean election, any leader."""


class NoReassignmentInProgressError(ApiError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """The partition is not being reassigned, so there is nothing to cancel."""


class IneligibleReplicaError(ApiError, code=107, name="INELIGIBLE_REPLICA"):
    """A proposed ISR has a replica that is fenced, shutting down, or of another broker epoch (KIP-903)."""


class NewLeaderElectedError(ApiError, code=108, name="NEW_LEADER_ELECTED"):
    """The AlterPartition was accepted and has elected another leader."""


class InvalidUpdateVersionError(ApiError, code=95, name="INVALID_UPDATE_VERSION"):
    """The version of the change cannot come now: the partition epoch of an AlterPartition is not the current one, or a
    version of an atomic batch is below the last one."""
