"""Counts what malloc has given out, also to libraries that are not in Python: glibc's mallinfo2."""

from __future__ import annotations

import ctypes
import gc

import pytest

needs_mallinfo = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc has mallinfo2 since 2.33, and others have none"
)


class MallInfo(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


def used_bytes() -> int:
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
    return int(mallinfo().uordblks)
