"""The record of an application in `__transaction_state`. Its key has a type of our own, which Kafka's tools pass over.

    key      int16 1000, then the application
    value    int16 version (0), then the fields; null is a tombstone

The checksum is a tagged field: a broker of an earlier version reads the rest, and drops it with its next record.

Not here: the codec of the topic (transaction_records.py), and what the fields mean (application.py).
"""

from __future__ import annotations

from typing import Final

from broker.kafka_codec.fields import array, boolean, int64, string
from broker.kafka_codec.structs import message
from broker.transactions.atomic_batches.application import BatchApplication
from penstock.messages.transactions.atomic_batches import NO_CHECKSUM

APPLICATION_KEY_TYPE: Final = 1000


@message(versions="0")
class BatchApplicationKey:
    application: str = string()


@message(versions="0", flexible="0+")
class BatchApplicationValue:
    last_version: int = int64()
    last_records: int = int64()
    open_version: int = int64()
    accepted: list[int] = array(int64)
    run: str = string()
    fenced_runs: list[str] = array(string)
    is_one_off: bool = boolean()
    update_timestamp_ms: int = int64()
    last_checksum: int = int64(tag=0, default=NO_CHECKSUM)


def application_value(application: BatchApplication) -> BatchApplicationValue:
    return BatchApplicationValue(
        last_version=application.last_version,
        last_records=application.last_records,
        open_version=application.open_version,
        accepted=list(application.accepted),
        run=application.run,
        fenced_runs=list(application.fenced_runs),
        is_one_off=application.is_one_off,
        update_timestamp_ms=application.update_ms,
        last_checksum=application.last_checksum,
    )


def application_of(value: BatchApplicationValue) -> BatchApplication:
    return BatchApplication(
        last_version=value.last_version,
        last_records=value.last_records,
        open_version=value.open_version,
        accepted=tuple(value.accepted),
        run=value.run,
        fenced_runs=tuple(value.fenced_runs),
        is_one_off=value.is_one_off,
        update_ms=value.update_timestamp_ms,
        last_checksum=value.last_checksum,
    )
