"""Limits the batches of a Produce, which cost more than their bytes: each is checked by itself when it is appended.

A batch of 69 bytes takes some 20 microseconds of the event loop, so a message of 20 MiB could hold it for seconds. No
element of the message is a batch, so request_decoder.py cannot count them: they are counted here, by their lengths.
Kafka's protocol takes one batch for each partition, and so do our own clients send them.

Not here: what is wrong with a batch (storage/append/batch_validation.py). Bytes that are no batch end the count.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.errors import InvalidRequestError
from penstock.messages.client_apis import FURTHER_BATCHES_MAX
from penstock.messages.produce import ProduceRequest
from penstock.record.batch import BATCH_LENGTH_AT, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, Buffer

_LENGTH: Final = Struct(">i")


def check_batches(request: ProduceRequest) -> None:
    """InvalidRequestError for more batches than one for each partition and FURTHER_BATCHES_MAX."""
    left = FURTHER_BATCHES_MAX
    for _, _, records in request.partitions:
        left -= _further(records, left)
        if left < 0:
            raise InvalidRequestError(
                f"Produce: the request has more than {FURTHER_BATCHES_MAX:,} record batches besides the first one of "
                "each partition; put more records into a batch, or send several requests"
            )


def _further(records: Buffer, most: int) -> int:
    """Batches behind the first one; counted up to `most` and one."""
    at, count, end = 0, -1, len(records) - HEADER_BYTES
    while at <= end and count <= most:
        (length,) = _LENGTH.unpack_from(records, at + BATCH_LENGTH_AT)
        if length <= 0:
            break
        at += LENGTH_OVERHEAD_BYTES + length
        count += 1
    return max(count, 0)
