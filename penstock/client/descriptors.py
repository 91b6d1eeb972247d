"""Looks whether this process may open files, before a library is asked that ends the process when it may not.

gRPC aborts where it finds no descriptor for its own threads, and for a connection it reports a broker that is
unavailable. So a client looks first, and says what is wrong here: the limit of open files of its own process. Not here:
raising the limit, which is the user's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource

NO_DESCRIPTORS = "this process may not open more files"
"""Stands in each such error, so that nobody looks for the fault at a broker."""
SYSTEM_WORDS = "Too many open files"
"""How the system's error begins, in the words of libraries too."""


def shortage(count: int) -> str:
    """The error's text if fewer than `count` descriptors are free; "" if there are enough."""
    with contextlib.ExitStack() as opened:
        try:
            for _ in range(count):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            return shortage_text(count) if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return ""


def shortage_text(count: int = 1) -> str:
    """The shortage in words, with the remedy."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"{NO_DESCRIPTORS}: a client needs {count} more, and the limit is {limit} (ulimit -n), or the system has no"
        " more; close what is not needed, such as clients that are used no more, or raise the limit"
    )
