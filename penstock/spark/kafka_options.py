"""Options of Spark's Kafka connector that mean nothing here: some are accepted with a warning, some refused.

Accepted is what changes no row: knobs of Kafka's own client and of its consumer groups. Refused, each with its reason,
is what a job relies on: encryption, log-in, transactions. An unknown name is refused in options.py. Names are in lower
case, as Spark passes them. Pure except for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError

_log = logging.getLogger(__name__)

_NO_GROUP = "offsets are in Spark's checkpoint, and no consumer group is used"
_RETRIES = "requests are retried within kafka.default.api.timeout.ms and kafka.request.timeout.ms"
_GRPC = "the connection is gRPC's"
_NO_TRANSACTIONS = "there are no transactions, so every record that can be read is committed"
_AT_ONCE = "a micro-batch takes what is there, up to maxOffsetsPerTrigger and maxBytesPerTrigger"

HARMLESS: dict[str, str] = {
    "groupidprefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafka.group.instance.id": _NO_GROUP,
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
    "kafka.max.poll.interval.ms": _NO_GROUP,
    "kafka.partition.assignment.strategy": _NO_GROUP,
    "kafkaconsumer.polltimeoutms": _RETRIES,
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
    "minoffsetspertrigger": _AT_ONCE,
    "maxtriggerdelay": _AT_ONCE,
    "kafka.isolation.level": _NO_TRANSACTIONS,
    "kafka.receive.buffer.bytes": _GRPC,
    "kafka.send.buffer.bytes": _GRPC,
    "kafka.connections.max.idle.ms": _GRPC,
    "kafka.reconnect.backoff.ms": _GRPC,
    "kafka.reconnect.backoff.max.ms": _GRPC,
    "kafka.socket.connection.setup.timeout.ms": _GRPC,
    "kafka.client.dns.lookup": _GRPC,
}
_PLAIN_TEXT = (
    "Penstock connects without encryption and log-in; remove it, and keep brokers and Spark in a trusted network"
)
REFUSED_PREFIXES: dict[str, str] = {
    "kafka.security.": _PLAIN_TEXT,
    "kafka.ssl.": _PLAIN_TEXT,
    "kafka.sasl.": _PLAIN_TEXT,
    "kafka.transactional.id": "there are no transactions; a repeated task writes its rows again",
}


def is_harmless(key: str, value: str) -> bool:
    """Whether the option is one of Kafka's that changes no row here; ConfigError if it would be missed."""
    if key == "kafka.security.protocol" and value.strip().upper() == "PLAINTEXT":
        return True
    for prefix, why in REFUSED_PREFIXES.items():
        if key.startswith(prefix):
            raise ConfigError(f"option {key!r}: {why}")
    return key in HARMLESS


def reasons(given: Mapping[str, str]) -> tuple[str, ...]:
    """What to say about each option without effect."""
    return tuple(
        f"option {key!r} has no effect: {HARMLESS.get(key, 'Penstock has no other')}"
        for key, value in sorted(given.items())
        if is_harmless(key, value)
    )


_told: set[str] = set()


def warn_once(sentences: Iterable[str]) -> None:
    """Logs each sentence once in this process."""
    for sentence in sentences:
        if sentence not in _told:
            _told.add(sentence)
            _log.warning("%s", sentence)
