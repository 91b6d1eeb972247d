"""The errors of clients that push their metrics (KIP-714)."""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class UnknownSubscriptionIdError(ApiError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The subscription of a push is not the client's now: it changed, or the client never asked for it."""


class TelemetryTooLargeError(ApiError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The metrics of a push are more than a broker takes at once."""
