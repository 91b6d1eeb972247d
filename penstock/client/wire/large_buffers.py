"""Lets the memory of large requests and answers be used again, where the C library is glibc; elsewhere it changes
nothing.

glibc maps a buffer above a threshold anew, page by page, and gives the end of its heap back when more than another one
is free there. Both thresholds follow the largest mapped buffer that was ever freed: its size, and twice that. With
answers of 2 MB they are so low that a consumer of large records gets its memory anew for every answer: twice the page
faults, a tenth of its processor time. One larger buffer, freed, moves both up. Nothing is set: thresholds that the user
has set stay. Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.

Not here: how large a request or an answer may be (the client's options).
"""

from __future__ import annotations

from functools import cache

LARGER_THAN_ANSWERS = 8 * 1024 * 1024


@cache
def reuse_large_buffers() -> None:
    """Makes large buffers reusable, once for all clients of a process, in microseconds: the buffer's pages are never
    touched. A second buffer would come from the heap, where 8 MB have to be cleared."""
    bytes(LARGER_THAN_ANSWERS)
