"""A task whose rows were cut off, told from one whose rows have ended.

Where a task fails in front of a sink, Spark closes the stream of rows to the sink's Python process, often between two
Arrow batches. For pyarrow that is an end like any other. But behind the rows of a task that goes well Spark sends a
last word, and behind those of one that has failed there is nothing. PySpark's worker finds that out, too, after the
sink has returned.

The stream is PySpark's own, found by the name that its worker gives it. Where it is not found nothing is known, and the
rows count as ended, as for a sink that does not ask.
"""

from __future__ import annotations

import selectors
import sys
from io import BufferedReader
from types import FrameType
from typing import Final

_WORKER: Final = "pyspark.worker"
_MAIN: Final = "main"
_STREAM: Final = "infile"


def is_cut_off() -> bool:
    """True if the rows of the task that runs here ended because the task has failed. Call it after the last row."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == _MAIN and frame.f_globals.get("__name__") in (_WORKER, "__main__"):
            stream = frame.f_locals.get(_STREAM)
            return isinstance(stream, BufferedReader) and has_ended(stream)
        frame = frame.f_back
    return False


def has_ended(stream: BufferedReader) -> bool:
    """True if nothing more can come. Waits for nothing, and takes nothing away."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            return bool(selector.select(0)) and not stream.peek(1)
    except ConnectionError:
        return True
    except (OSError, ValueError):  # a stream that cannot be asked
        return False
