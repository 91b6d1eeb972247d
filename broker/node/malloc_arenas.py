"""Keeps freed memory in two heaps, where every thread finds it again. glibc only; elsewhere it does nothing.

glibc makes up to eight arenas a core, one for each thread that meets another in malloc. Memory that a thread of gRPC
frees in its arena is neither usable by other threads nor given back: under a flood of large requests a node on two
cores kept 200 MiB more than its budgets count. Two arenas are enough for one event loop with helpers. If the operator
has set the number (MALLOC_ARENA_MAX, or glibc.malloc.arena_max in GLIBC_TUNABLES), it is not changed. Not here: the
budgets of memory (network/memory_budget.py). Source: mallopt(3), M_ARENA_MAX.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

M_ARENA_MAX = -8
ARENAS_MAX = 2


def limit_malloc_arenas(environment: Mapping[str, str] = os.environ) -> bool:
    """Call it before there are threads. Whether the C library took the number; not asked where the operator set one."""
    if "MALLOC_ARENA_MAX" in environment or "glibc.malloc.arena_max=" in environment.get("GLIBC_TUNABLES", ""):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS_MAX))
    except (OSError, AttributeError):
        return False
