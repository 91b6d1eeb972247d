"""What it means when the records of a batch cannot be decoded although its checksum is right. Only names.

A log takes batches without looking at their records, so a producer can store bytes that are no records, or that unpack
to more than anybody reads. That is no damage: every replica holds the same bytes, and no other copy is better. Whoever
in a broker decodes records names such a batch in the node's log and goes on behind it; it is never a reason to take a
log out of use. Damaged bytes are another matter, and are found by the checksum BEFORE (`batch_scan.py`).
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError

DECODING_ERRORS = (CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError)
