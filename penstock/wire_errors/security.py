"""The errors of authentication (which user a caller is), of authorisation (what it may do), and of the records of both.

Users import the names from penstock.errors. Only AUTHENTICATION_REQUIRED is not one of Kafka's errors: there a
connection that has not authenticated is closed. Over gRPC the connection outlives it, and the call can be made again.
Penstock's own codes begin at 1,000, far above Kafka's, and never leave by Kafka's listeners.
"""

from __future__ import annotations

from penstock.base_error import PenstockError
from penstock.local_errors.client_errors import FatalProducerError
from penstock.wire_errors.api_error import ApiError


class AuthenticationFailedError(PenstockError):
    """The caller did not prove who it is; to try again with the same credentials does not help."""

    __module__ = "penstock.errors"


class AuthorizationFailedError(PenstockError):
    """The caller's principal may not do this; the text names the operation and the resource."""

    __module__ = "penstock.errors"


class TopicAuthorizationFailedError(
    ApiError, AuthorizationFailedError, code=29, name="TOPIC_AUTHORIZATION_FAILED", nothing_written=True
):
    """The principal may not do this to the topic."""


class GroupAuthorizationFailedError(
    ApiError, AuthorizationFailedError, code=30, name="GROUP_AUTHORIZATION_FAILED", nothing_written=True
):
    """The principal may not do this to the group."""


class ClusterAuthorizationFailedError(
    ApiError, AuthorizationFailedError, code=31, name="CLUSTER_AUTHORIZATION_FAILED", nothing_written=True
):
    """The caller may not do this to the cluster, or is not the node that it says it is."""


class UnsupportedSaslMechanismError(
    ApiError, AuthenticationFailedError, code=33, name="UNSUPPORTED_SASL_MECHANISM", nothing_written=True
):
    """The listener does not offer the SASL mechanism."""


class IllegalSaslStateError(
    ApiError, AuthenticationFailedError, code=34, name="ILLEGAL_SASL_STATE", nothing_written=True
):
    """The request cannot come at this point of an authentication."""


class TransactionalIdAuthorizationFailedError(
    ApiError,
    FatalProducerError,
    AuthorizationFailedError,
    code=53,
    name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    nothing_written=True,
):
    """The principal may not use the transactional id."""


class SecurityDisabledError(ApiError, code=54, name="SECURITY_DISABLED"):
    """The cluster has no authorizer, so it keeps no access control lists."""


class SaslAuthenticationFailedError(
    ApiError, AuthenticationFailedError, code=58, name="SASL_AUTHENTICATION_FAILED", nothing_written=True
):
    """The credentials are not accepted."""


class ResourceNotFoundError(ApiError, code=91, name="RESOURCE_NOT_FOUND"):
    """There is no such user, credential or token."""


class DuplicateResourceError(ApiError, code=92, name="DUPLICATE_RESOURCE"):
    """The request names one thing twice."""


class UnacceptableCredentialError(ApiError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """A credential cannot be stored like this: its name, salt or iterations are not acceptable."""


class AuthenticationRequiredError(
    ApiError, AuthenticationFailedError, code=1000, name="AUTHENTICATION_REQUIRED", nothing_written=True
):
    """The listener wants its callers to authenticate, and this call was not; it was not handled."""
