"""gRPC's log, as tests may keep it.

gRPC tells of a server that was never started, at debug level and while it is being deallocated, with the server itself
as an argument (grpcio 1.85, `AioServer.__dealloc__`). pytest keeps each record until its test ends, and would then free
that server once more: SIGSEGV, in whichever test was running.
"""

from __future__ import annotations

import logging

GRPC_LOGGER = "grpc._cython.cygrpc"


class TextAlone(logging.Filter):
    """A record keeps its text, and nothing that it was made of."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage(), None
        return True


_FILTER = TextAlone()


def keep_text_alone() -> None:
    """For the whole process; again changes nothing."""
    logging.getLogger(GRPC_LOGGER).addFilter(_FILTER)
