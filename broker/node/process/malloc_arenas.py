"""Sets up malloc for a node: freed memory is found again by every thread, and is not given back at once. glibc only;
elsewhere nothing is changed.

glibc makes up to eight arenas a core, one for each thread that meets another in malloc. Memory that a thread of gRPC
frees in its arena is neither usable by other threads nor given back: under a flood of large requests a node on two
cores kept 200 MiB more than its budgets count. Two arenas are enough for one event loop with helpers.

glibc gives freed memory at the end of the heap back to the kernel as soon as it is more than 128 KiB. The buffers of
the next answer are then new pages, which the kernel must clear: with twelve partitions that was half of a consumer's
processor time on the node. So up to TRIM_BYTES stay. Buffers of MMAP_BYTES and more are given back one by one.

What the operator has set (MALLOC_…, GLIBC_TUNABLES) is not changed. Not here: the budgets of memory
(network/memory_budget.py). Source: mallopt(3).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import NamedTuple

ARENAS_MAX = 2
TRIM_BYTES = 32 * 1024 * 1024
"""Some rounds of answers: a node keeps this much more than it uses, once it was busy."""
MMAP_BYTES = 4 * 1024 * 1024


class MallocOption(NamedTuple):
    """A parameter of mallopt, and the names by which an operator sets it."""

    number: int
    variable: str
    tunable: str


ARENA_MAX = MallocOption(-8, "MALLOC_ARENA_MAX", "glibc.malloc.arena_max")
TRIM_THRESHOLD = MallocOption(-1, "MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold")
MMAP_THRESHOLD = MallocOption(-3, "MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold")


def limit_malloc_arenas(environment: Mapping[str, str] = os.environ) -> bool:
    """Call it before there are threads. Returns whether the C library took the number; False where it is set."""
    return not _is_set(ARENA_MAX, environment) and _set(ARENA_MAX, ARENAS_MAX)


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the C library took the numbers; False where one is set, because each switches off glibc's own
    choice of the other."""
    if _is_set(TRIM_THRESHOLD, environment) or _is_set(MMAP_THRESHOLD, environment):
        return False
    return _set(MMAP_THRESHOLD, MMAP_BYTES) and _set(TRIM_THRESHOLD, TRIM_BYTES)


def _is_set(option: MallocOption, environment: Mapping[str, str]) -> bool:
    return option.variable in environment or f"{option.tunable}=" in environment.get("GLIBC_TUNABLES", "")


def _set(option: MallocOption, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option.number, value))
    except (OSError, AttributeError):
        return False
