"""One poll of `penstock consume`: a batch that cannot be decoded is told, and passed over if the user wants that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.output import note
from penstock.errors import UndecodableBatchError

if TYPE_CHECKING:
    from penstock import Consumer

POLL_MS = 500


def poll_once(consumer: Consumer, skip_undecodable: bool, max_records: int | None = None) -> Sequence[Any]:
    """The next records, maybe none."""
    try:
        return consumer.poll(timeout_ms=POLL_MS, max_records=max_records)
    except UndecodableBatchError as error:
        bounds = (error.offset, error.next_offset)
        if not skip_undecodable:
            raise UndecodableBatchError(error.topic_partition, bounds, error.why, "add --skip-undecodable") from error
        note(f"{error.topic_partition}: offsets [{bounds[0]}, {bounds[1]}) are skipped: {error.why}")
        consumer.seek(error.topic_partition, error.next_offset)
        return ()
