"""Refuses clients where gevent or eventlet has replaced the threads of the system by its own.

A client works in a thread of the system, beside its callers; as a green thread it would stand still as soon as a caller
waits for it. Both libraries can leave threads as they are and replace everything else. Not here: gevent's own way to
wait without stopping its other green threads (docs/forking.md).
"""

from __future__ import annotations

import sys

from penstock.errors import GreenThreadsError


def refuse_green_threads() -> None:
    """GreenThreadsError if threads are patched, with the call that leaves them."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        raise _refusal("gevent", "monkey.patch_all(thread=False)")
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise _refusal("eventlet", "eventlet.monkey_patch(thread=False)")


def _refusal(library: str, call: str) -> GreenThreadsError:
    return GreenThreadsError(
        f"{library} has replaced this process's threads, and a client needs one of the system's: leave them as they"
        f" are, with {call}, before anything else is imported"
    )
