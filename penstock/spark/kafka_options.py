"""Options of Spark's Kafka connector that begin with `kafka.`: those of our client, and those that mean nothing here.

The client judges its own, with Python's spelling. Other options that change no row are accepted with a warning: knobs
of Kafka's own client and of its consumer groups. Options that a job relies on are refused, each with its reason:
Kafka's words for encryption and log-in, with those to write instead, and transactions. An unknown name is refused in
options.py. Names are in lower case, as Spark passes them. Pure except for the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.client.options.config import (
    GROUP_ID_CHARACTERS_MAX,
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    admin_config,
    consumer_config,
)
from penstock.config_keys import ConfigKey, Kind, did_you_mean, keys_of
from penstock.errors import ConfigError
from penstock.spark.plain_errors import PREFIX, option_name

_log = logging.getLogger(__name__)

BOOTSTRAP = PREFIX + "bootstrap.servers"

_NO_GROUP = "offsets are in Spark's checkpoint, and no consumer group is used"
GROUP_ID = PREFIX + "group.id"
_OF_GROUP = f"{_NO_GROUP} without commitOffsetsToGroup=true or startingOffsets=group"
_RETRIES = "requests are retried within kafka.default.api.timeout.ms and kafka.request.timeout.ms"
_GRPC = "the connection is gRPC's"
_AT_ONCE = "a micro-batch takes what is there, up to maxOffsetsPerTrigger and maxBytesPerTrigger"

HARMLESS: dict[str, str] = {
    "groupidprefix": _NO_GROUP,
    GROUP_ID: _OF_GROUP,
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
    "kafka.receive.buffer.bytes": _GRPC,
    "kafka.send.buffer.bytes": _GRPC,
    "kafka.connections.max.idle.ms": _GRPC,
    "kafka.reconnect.backoff.ms": _GRPC,
    "kafka.reconnect.backoff.max.ms": _GRPC,
    "kafka.socket.connection.setup.timeout.ms": _GRPC,
    "kafka.client.dns.lookup": _GRPC,
}
PASSWORD, TOKEN = PREFIX + "password", PREFIX + "token"
FUNCTIONS = frozenset(("partitioner", "token_provider"))
"""Options of a client that no text can be."""
MECHANISM = PREFIX + "sasl.mechanism"
_OF_TLS = "write kafka.tls.ca (or kafka.tls=true), kafka.tls.cert and kafka.tls.key, which are PEM files of each worker"
_OF_LOGIN = "write kafka.username and kafka.password.file, or kafka.token.file, a file of each worker"
REFUSED_PREFIXES: dict[str, str] = {
    "kafka.security.": f"{_OF_TLS}; {_OF_LOGIN}",
    "kafka.ssl.": _OF_TLS,
    "kafka.sasl.": _OF_LOGIN,
    "kafka.transactional.id": "a write names its transactions itself; txnAppId and txnVersion name a batch write",
}


def is_harmless(key: str, value: str) -> bool:
    """True if the option is one of Kafka's that changes no row here; ConfigError if it would be missed."""
    if key == "kafka.security.protocol" and value.strip().upper() == "PLAINTEXT":
        return True
    if key == MECHANISM:
        return False
    for prefix, why in REFUSED_PREFIXES.items():
        if key.startswith(prefix):
            raise ConfigError(f"option {key!r}: {why}")
    return key in HARMLESS


def checked_group_id(given: Mapping[str, str]) -> str:
    """The group that is named; "" if none is."""
    group_id = given.get(GROUP_ID, "")
    if GROUP_ID in given and not 1 <= len(group_id) <= GROUP_ID_CHARACTERS_MAX:
        raise ConfigError(f"option {GROUP_ID}={group_id!r} must have 1 to {GROUP_ID_CHARACTERS_MAX} characters")
    return group_id


def reasons(given: Mapping[str, str], *, uses_group: bool = False) -> tuple[str, ...]:
    """A sentence about each option without effect."""
    return tuple(
        f"option {key!r} has no effect: {HARMLESS.get(key, 'Penstock has no other')}"
        for key, value in sorted(given.items())
        if is_harmless(key, value) and not (uses_group and key == GROUP_ID)
    )


def client_options(given: Mapping[str, str], *configs: type) -> dict[str, Any]:
    """`kafka.linger.ms` as the client's `linger_ms`."""
    known = {name: key for config in configs for name, key in keys_of(config).items()}
    every = {name for config in (ConsumerConfig, ProducerConfig, AdminConfig) for name in keys_of(config)}
    others = every - {*known, *FUNCTIONS}
    found: dict[str, Any] = {}
    for key, text in given.items():
        if not key.startswith(PREFIX) or key == BOOTSTRAP or is_harmless(key, text):
            continue
        name = key.removeprefix(PREFIX).replace(".", "_")
        if name in others:
            continue
        if name not in known or name in FUNCTIONS:
            hint = did_you_mean(name, known.keys() - FUNCTIONS).replace("_", ".").replace("'", "'" + PREFIX, 1)
            raise ConfigError(f"option {key!r} is not an option of the Penstock client{hint}")
        found[name] = _converted(key, text, known[name])
    return found


def checked_for_reading(client: dict[str, Any]) -> dict[str, Any]:
    """Reading takes a consumer for records, and an admin for topics and offsets."""
    for config, check in ((ConsumerConfig, consumer_config), (AdminConfig, admin_config)):
        checked(options_of(config, client), check)
    return client


def options_of(config: type, client: Mapping[str, Any]) -> dict[str, Any]:
    """The options that this part of the client has."""
    return {name: client[name] for name in keys_of(config) if name in client}


def checked(client: dict[str, Any], check: Callable[[Mapping[str, Any]], object]) -> dict[str, Any]:
    """The options, after the client has checked them here, in the driver: else each task would fail for them."""
    try:
        check(client)
    except ConfigError as error:
        text = _OF_CLIENT.sub("", str(error))
        for name in client:
            text = text.replace(f"option {name}=", f"option {option_name(name)}=")
        raise ConfigError(text) from None
    return client


_OF_CLIENT = re.compile(r"^(Producer|Consumer|Admin) ")


def _converted(option: str, text: str, key: ConfigKey) -> Any:
    if key.kind is Kind.BOOL:
        return flag({option: text}, option, False)
    if key.kind is Kind.INT:
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"option {option}={text!r} must be a whole number") from None
    return text


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """The truth value of an option, or its default."""
    text = str(given.get(name.lower(), default)).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option {name}={text!r} must be true or false")
    return text == "true"


def size_option(given: Mapping[str, str], name: str) -> int:
    """A number, alone or with a unit as Spark has them: 512k, 64m, 2g, 64mb; 0 when it is not given."""
    if (text := given.get(name.lower())) is None:
        return 0
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    if found is None or not int(found[1]):
        raise ConfigError(f"option {name}={text!r} must be a number of bytes, at least 1: 67108864, 64m or 1g")
    return int(found[1]) << 10 * " kmgt".index(found[2] or " ")


_logged: set[str] = set()


def warn_once(sentences: Iterable[str]) -> None:
    """Logs each sentence once in this process."""
    for sentence in sentences:
        if sentence not in _logged:
            _logged.add(sentence)
            _log.warning("%s", sentence)
