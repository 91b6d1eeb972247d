"""The topic of dead letters, at the start of a processor: does it exist, and does it take what may have to go there?

Without this check a worker finds out at its first bad record, after days maybe. A topic that does not exist, or that
may not be seen, ends the call. A topic that takes smaller records than the topics that are read is only logged: most
records are smaller than their limit. Not here: the right to write, which only a write can prove.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.processing.clients import Clients
from penstock.client.processing.verdicts import OUTAGES, REFUSALS, place_of
from penstock.errors import PenstockError, ProcessingError
from penstock.messages.metadata import TopicInfo

RECORD_BYTES: Final = 1_048_588
"""The limit of a topic that has none of its own, unless the cluster's `message.max.bytes` was set."""
NOISE_BYTES: Final = 1_024
"""A difference that is told: the defaults of a producer and of a topic differ by less."""

_log = logging.getLogger(__name__)


async def look_at(clients: Clients, topic: str) -> None:
    """Checks the topic of dead letters. If no broker answers, the start does not wait for it."""
    try:
        takes, sends, reads = (
            await clients.topic_to_write(topic),
            clients.max_request_size,
            await clients.topics_to_read(),
        )
    except OUTAGES as error:
        _log.warning("no broker tells whether there is a topic for dead_letters=%r: %s", topic, error)
    except REFUSALS as error:
        error.add_note(f"dead_letters={topic!r}: make the topic, and the right to write there, before the start")
        raise
    else:
        if doubt := size_doubt(takes, sends, reads):
            _log.warning("dead_letters=%r: a large record would have no place, which ends the call: %s", topic, doubt)


def size_doubt(takes: TopicInfo | None, sends: int, reads: list[TopicInfo]) -> str:
    """The reason why a dead letter may be refused for its size; "" if every record fits."""
    largest = max(reads, key=record_limit, default=None)
    if largest is None:
        return ""
    read = record_limit(largest)
    found = []
    if read > record_limit(takes):
        found.append(f"it takes {record_limit(takes)} bytes (max.message.bytes)")
    if read > sends + NOISE_BYTES:
        found.append(f"the producer sends {sends} (max_request_size)")
    return f"{', and '.join(found)}; topic {largest.name!r}, which is read, takes {read}" if found else ""


def record_limit(topic: TopicInfo | None) -> int:
    """The most bytes that a record of the topic may have."""
    text = topic.config.get("max.message.bytes", "") if topic is not None else ""
    return int(text) if text.isdigit() else RECORD_BYTES


def no_letter(record: ConsumerRecord, topic: str | None, refusal: PenstockError) -> ProcessingError:
    """The end of a call that has found no place for a record: it is not dropped."""
    error = ProcessingError(
        f"{place_of(record)}: its dead letter is refused, too: {refusal}. Nothing is lost: the record stays the next"
        f" one. Let topic {topic!r} take what the topic that is read takes, and the headers (max.message.bytes there,"
        " and max_request_size of the producer)"
    )
    error.__cause__ = refusal
    return error
