"""One line at debug level for each call whose caller left before its answer, in place of gRPC's traceback.

Callers that give up are everyday: their time is over, or their process is. gRPC reports the answer that it could not
send as an error of the server, with a traceback, and without the word that would tell it from a defect but the
exception's class. An edge.
"""

from __future__ import annotations

import logging
from typing import Final

GRPC_LOGGER: Final = "grpc._cython.cygrpc"
UNSENDABLE: Final = "ExecuteBatchError"
"""An operation on a call that has ended; gRPC does not export the class."""


class CallersThatLeft(logging.Filter):
    """Lets everything else through."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if type(error).__name__ != UNSENDABLE:
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        record.msg, record.args = f"{record.getMessage()}: its caller has left", None
        record.exc_info = record.exc_text = None
        return logging.getLogger(GRPC_LOGGER).isEnabledFor(logging.DEBUG)


_FILTER: Final = CallersThatLeft()


def quieten() -> None:
    """Adds the filter for the whole process. A second call changes nothing."""
    logging.getLogger(GRPC_LOGGER).addFilter(_FILTER)
