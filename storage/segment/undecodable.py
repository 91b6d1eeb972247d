"""The errors of a batch whose records cannot be decoded although its checksum is right. Only names.

A log appends batches without decoding their records. So a producer can store bytes that are no records, or that unpack
to more than a reader accepts. That is no damage: every replica holds the same bytes, and no copy is better. Code of the
broker that decodes records names such a batch in the node's log and goes on behind it; it must never take a log out of
use for it. Damaged bytes are found by the checksum BEFORE (`batch_scan.py`).
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError

DECODING_ERRORS = (CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError)
