"""The wordings of what can be wrong with a batch in a log, in one place. Pure.

Recovery, readers, the cleaner, followers and `penstock log verify` check batches in different ways, but name a fault in
the same words. The checks are in `batch_scan.py`, `batch_check.py` and `verified_chunks.py`; `batch_claims.py` checks
what a batch announces.
"""

from __future__ import annotations


def no_batch(why: object = None) -> str:
    return "no record batch begins here" if why is None else f"no record batch begins here ({why})"


def cut_off(missing_bytes: int) -> str:
    return f"the last {missing_bytes} bytes of this record batch are missing"


def wrong_checksum(offset: int) -> str:
    return f"the checksum of the batch at offset {offset} is wrong"


def wrong_offset(offset: int, expected: int) -> str:
    return f"offset {offset} where {expected} should follow"


def wrong_epoch(epoch: int, offset: int, known: int) -> str:
    return f"leader epoch {epoch} at offset {offset}, which is of epoch {known}"
