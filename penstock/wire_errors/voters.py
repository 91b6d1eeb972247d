"""The errors of changes of the quorum's voters (KIP-853).

Users import the names from penstock.errors.
"""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class DuplicateVoterError(ApiError, code=126, name="DUPLICATE_VOTER", nothing_written=True):
    """A node of this id is a voter already."""


class VoterNotFoundError(ApiError, code=127, name="VOTER_NOT_FOUND", nothing_written=True):
    """No voter has this id and this directory id."""
