"""What can be wrong with a batch where it stands, in words: said in one place, for all who walk over batches. Pure.

Recovery, readers, the cleaner, followers and `penstock log verify` each look at batches in their own way and for their
own reasons; what they find is named alike. Not here: looking (`batch_scan.py`, `batch_check.py`, `verified_chunks.py`),
what a batch announces (`batch_claims.py`), what follows from a fault.
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
