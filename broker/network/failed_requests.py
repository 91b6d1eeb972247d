"""The one rule by which an exception becomes the answer of a request, wherever the request was handled.

An API error is the answer. Any other exception is a bug: it is logged, and answered as UNKNOWN_SERVER_ERROR. A violated
invariant also ends the node, because the next request could make it worse. Not here: how an answer leaves
(processor.py), how an error is written (penstock/wire/error_message.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.network.request_channel import Request
from penstock.errors import ApiError, InvariantViolation, UnknownServerError

_log = logging.getLogger(__name__)

FailRequest = Callable[[Request, Exception], None]


class FailedRequests:
    """Called in the handler of the exception."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._on_fatal = on_fatal

    def fail(self, request: Request, error: Exception) -> None:
        """Answer the request, unless it is answered already."""
        if isinstance(error, ApiError):
            request.fail(error)
        elif isinstance(error, InvariantViolation):
            request.fail(UnknownServerError(f"{request.api}: {error}"))
            self._on_fatal(error)
        else:
            _log.error("%s failed", request, exc_info=error)
            request.fail(UnknownServerError(f"{request.api}: {type(error).__name__}: {error}"))
