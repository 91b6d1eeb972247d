"""The errors of nodes that register with the controller.

Users import the names from penstock.errors.
"""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class DuplicateBrokerRegistrationError(ApiError, code=101, name="DUPLICATE_BROKER_REGISTRATION", retriable=True):
    """Another live process is registered with this node id."""


class BrokerIdNotRegisteredError(ApiError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """The broker is not registered."""


class ControllerIdNotRegisteredError(ApiError, code=136, name="CONTROLLER_ID_NOT_REGISTERED", nothing_written=True):
    """The quorum's leader knows no controller of this id that could be forgotten."""


class StaleBrokerEpochError(ApiError, code=77, name="STALE_BROKER_EPOCH"):
    """The broker epoch of the request is not the current one: the broker was registered anew."""


class InvalidRegistrationError(ApiError, code=119, name="INVALID_REGISTRATION"):
    """The broker may not register like this; the text gives the reason and the remedy."""
