"""Checks the options of a write: SinkOptions.

The rules are those of options.py. A write is exactly once unless `semantics` says otherwise. A stream names its atomic
batches by itself (batch_key.py); a batch write may be given a name, so that its repetition writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from penstock.client.options.config import ProducerConfig, producer_config
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.spark.kafka_options import checked, client_options, reasons
from penstock.spark.options import BOOTSTRAP_NAMES, TABLE_SINK_NAMES, Options, bootstrap_of, lowered

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
APPLICATION, VERSION, GOES_BACK_TO = "txnAppId", "txnVersion", "txnGoesBackTo"
ACCEPTS = "txnAcceptsRepetition"
RUN = "txnRun"
"""Set by write_batch alone, beside a name that it has made; "" if it does not know the run."""
TIMEOUT = "kafka.transaction.timeout.ms"
_EXACT_ONLY = (APPLICATION, VERSION, GOES_BACK_TO, ACCEPTS)
SINK_NAMES = (*BOOTSTRAP_NAMES, *TABLE_SINK_NAMES, *_EXACT_ONLY)
CHECKPOINT = "checkpointlocation"
"""Spark passes it to a stream's sink, if it is an option of the query."""
TIMEOUT_MS = 15 * 60_000
"""A batch that takes longer is aborted. Brokers allow four times that by default (transaction.max.timeout.ms)."""
VERSION_MAX = 2**63 - 1
APPLICATION_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """A checked set of options for writing; `topic` empty means that a column says where each row goes."""

    bootstrap: str
    topic: str = ""
    is_exactly_once: bool = True
    application: str = ""
    """The name of a batch write, with its version; empty: of its own."""
    version: int = 0
    goes_back_to: int = -1
    """The one version that may be below the application's last one."""
    accepts: int = -1
    """The one version whose repetition may have other rows than were committed."""
    is_write_batch: bool = False
    """The name is write_batch's, and stands for one write of one query."""
    run: str = ""
    """The query's run, as far as write_batch knows it."""
    checkpoint: str = ""
    """The directory where a stream has its plans, if its sink knows it."""
    timeout_ms: int = TIMEOUT_MS
    client: dict[str, Any] = field(default_factory=dict, repr=False)
    """It may have a password."""
    without_effect: tuple[str, ...] = ()


def sink_options(options: Options, *, streaming: bool = False) -> SinkOptions:
    """The checked options of a write; ConfigError says what is wrong and what would be right."""
    run = next((value for key, value in options.items() if key.lower() == RUN.lower()), None)
    given = lowered({key: value for key, value in options.items() if key.lower() != RUN.lower()}, "sink", SINK_NAMES)
    client = client_options(given, ProducerConfig)
    if client.pop("acks", "all") not in ("all", "-1"):
        raise ConfigError(
            "option kafka.acks: the sink always writes with acks=all, because Spark counts rows as written"
        )
    timeout_ms = client.pop("transaction_timeout_ms", TIMEOUT_MS)
    if timeout_ms < 1:
        raise ConfigError(f"option {TIMEOUT}={timeout_ms} must be at least 1")
    is_exactly_once = _is_exactly_once(given)
    without_effect = reasons(given)
    if is_exactly_once:
        if client.get("enable_idempotence") is False:
            raise ConfigError(
                f"option kafka.enable.idempotence=false is against semantics={EXACTLY_ONCE}; leave it out, or choose "
                f"semantics={AT_LEAST_ONCE}"
            )
        checked({**client, "enable_idempotence": True}, producer_config)
    elif TIMEOUT in given:
        without_effect += (f"option {TIMEOUT!r} has no effect: semantics={AT_LEAST_ONCE} has no transactions",)
    application, version = _name(given, streaming=streaming)
    return SinkOptions(
        bootstrap=bootstrap_of(given),
        topic=given.get("topic", ""),
        is_exactly_once=is_exactly_once,
        application=application,
        version=version,
        goes_back_to=_version(given, GOES_BACK_TO, -1),
        accepts=_version(given, ACCEPTS, -1),
        is_write_batch=run is not None,
        run=run or "",
        checkpoint=given.get(CHECKPOINT, ""),
        timeout_ms=timeout_ms,
        client=checked(client, producer_config),
        without_effect=without_effect,
    )


def _is_exactly_once(given: Mapping[str, str]) -> bool:
    text = given.get("semantics", EXACTLY_ONCE).strip().lower()
    if text not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise ConfigError(f"option semantics={given['semantics']!r} must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if text == AT_LEAST_ONCE:
        for name in _EXACT_ONLY:
            if name.lower() in given:
                raise ConfigError(f"option {name} is for semantics={EXACTLY_ONCE}, which is the default; leave one out")
    return text == EXACTLY_ONCE


def _name(given: Mapping[str, str], *, streaming: bool) -> tuple[str, int]:
    """The application and the version of a batch write; an empty one where it has no name."""
    present = [name for name in (APPLICATION, VERSION) if name.lower() in given]
    if streaming and present:
        raise ConfigError(
            f"option {present[0]} is for batch writes; a stream names its writes by its checkpoint and its batch id"
        )
    if len(present) == 1:
        missing = VERSION if present[0] == APPLICATION else APPLICATION
        raise ConfigError(f"option {present[0]} needs {missing}, too: together they name a write")
    if not present:
        return "", 0
    application = given[APPLICATION.lower()].strip()
    if not 1 <= len(application) <= APPLICATION_CHARACTERS_MAX or "#" in application:
        raise ConfigError(
            f"option {APPLICATION}={application!r} must have 1 to {APPLICATION_CHARACTERS_MAX} characters, and no '#'"
        )
    return application, _version(given, VERSION, 0)


def _version(given: Mapping[str, str], name: str, default: int) -> int:
    if (text := given.get(name.lower())) is None:
        return default
    if not text.strip().isdecimal() or int(text) > VERSION_MAX:
        raise ConfigError(f"option {name}={text!r} must be a whole number from 0 to 2^63-1")
    return int(text)
