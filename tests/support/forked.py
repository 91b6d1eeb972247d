"""Runs something in a forked child of the test's process, and tells what it returned or raised."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> str:
    """The value that `work` returned, as `repr` gives it, or the type and text of what it raised; "" if the child was
    killed."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside a thread
        pid = os.fork()
    if not pid:
        try:
            result = repr(work())
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        result = answer.read().decode()
    os.waitpid(pid, 0)
    return result
