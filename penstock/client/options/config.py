"""The options of each client, with their defaults and limits: ProducerConfig, ConsumerConfig, AdminConfig.

Kafka's option names in snake case. Defaults differ from Kafka's where Python does: batches are larger, because here
few and large messages are what is fast: against three brokers on two cores, 512 KiB took half more records than 128
KiB, and more than that no more. Not here: checking (options.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from penstock.client.options.options import build_config
from penstock.client.wire.login import ClientLogin, login_of
from penstock.client.wire.tls_files import FilePath, TlsOptions
from penstock.client.wire.token_login import TokenProvider, token_login
from penstock.config_keys import KIB, MIB, Kind, did_you_mean, option
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fetch import RACK_LENGTH_MAX

_log = logging.getLogger(__name__)

IDEMPOTENT_IN_FLIGHT_MAX = 5
"""How many batches of one producer a broker remembers, to recognize duplicates."""

GROUP_ID_CHARACTERS_MAX = 255
"""Brokers take no longer id of a group."""

Acks = Literal[0, 1, -1, "0", "1", "-1", "all"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OffsetReset = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
SaslMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]

PartitionerFunction = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) to a partition, or None for 'any, batched together'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """The options that every client needs to reach a cluster."""

    client_id: str = option(
        "a name that every produce and fetch request carries; brokers show how many streams have it", "penstock"
    )
    request_timeout_ms: int = option("how long one request may take before it is retried or fails", 30_000, 1)
    bootstrap_timeout_ms: int = option(
        "how long the first contact waits for any bootstrap address to answer; a broker may start later", 10_000, 1
    )
    retry_backoff_ms: int = option("the wait before the first retry; doubles with each one after it", 100, 0)
    retry_backoff_max_ms: int = option("the longest wait between retries", 1_000, 0)
    metadata_max_age_ms: int = option("metadata older than this is asked for again, though nothing failed", 300_000, 1)
    metadata_max_idle_ms: int = option(
        "a topic that was not used for so long is forgotten, and asked for when it is used again", 300_000, 5_000
    )
    tls: bool | None = option(
        "whether connections are encrypted, and the brokers' certificates checked; None: if another tls_ option is"
        " given (security.md)",
        None,
        kind=Kind.BOOL,
    )
    tls_ca: FilePath | None = option(
        "a PEM file with the certificates of the authorities that brokers are trusted by; None: those of the system",
        None,
    )
    tls_cert: FilePath | None = option(
        "a PEM file with the client's own certificate and those of the authorities between, for brokers that ask for"
        " one",
        None,
    )
    tls_key: FilePath | None = option(
        "a PEM file with the private key of tls_cert, not encrypted; None: it is in the file tls_cert", None
    )
    tls_server_name: str | None = option(
        "the name that a broker's certificate must have; None: the host of its address", None, kind=Kind.STRING
    )
    username: str | None = option("the user that the client logs in as (SASL)", None, kind=Kind.STRING)
    password: str | None = option("the user's password; it is in no error and no log", None, secret=True)
    password_file: FilePath | None = option(
        "a file with the user's password instead; a line break at its end does not count", None
    )
    token: str | None = option("a token that says who the user is (OAUTHBEARER); needs TLS", None, secret=True)
    token_file: FilePath | None = option("a file with the token instead; it is read again at each log-in", None)
    token_provider: TokenProvider | None = option(
        "a function that returns the token instead; it is called at each log-in, in a thread of its own", None
    )
    sasl_mechanism: SaslMechanism = option(
        "how the user logs in; PLAIN gives the password itself to the broker, and needs TLS; OAUTHBEARER by itself with"
        " a token",
        "SCRAM-SHA-256",
        choices=get_args(SaslMechanism),
    )

    @property
    def tls_options(self) -> TlsOptions | None:
        """The options of TLS; None where connections are in plain text."""
        found = TlsOptions(self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)
        return found if self.tls or (self.tls is None and found != TlsOptions()) else None

    @property
    def login(self) -> ClientLogin | None:
        """The client's login; None where it has no user. ConfigError for a file that has no password, or no token."""
        if self.username is None:
            return token_login(self.token, self.token_file, self.token_provider)
        return login_of(self.username, self.password, self.password_file, self.sasl_mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ConnectionConfig):
    """Options of Producer and AsyncProducer."""

    acks: Acks = option(
        "0: do not wait; 1: the leader has it; all (-1): every in-sync replica has it", "all", kind=Kind.OTHER
    )
    enable_idempotence: bool = option(
        "whether a record is written once, whatever is sent again (delivery.md); needs acks=all, retries and at"
        " most 5 requests in flight",
        True,
    )
    compression_type: CompressionType = option("how batches are compressed", "none", choices=get_args(CompressionType))
    batch_size: int = option("a batch of one partition is closed at this many bytes", 512 * KIB, 1, 64 * MIB)
    linger_ms: int = option("how long a batch waits for more records; 0 sends at once when idle", 5, 0, 600_000)
    buffer_memory: int = option("bytes that may wait to be acked; beyond it send blocks", 64 * MIB, 1, 2**40)
    max_block_ms: int = option("how long send may block for metadata or memory", 60_000, 0)
    max_request_size: int = option(
        "the largest record that is accepted, in bytes of the batch that it makes alone", MIB, 1, 64 * MIB
    )
    max_in_flight_requests_per_connection: int = option("requests per broker without any answer", 5, 1, 1_000)
    delivery_timeout_ms: int = option(
        "a record is acked or has failed this long after send, retries included", 120_000, 1
    )
    retries: int = option("how often a batch is retried; delivery_timeout_ms bounds it as well", 2**31 - 1, 0)
    transactional_id: str | None = option(
        "the name under which the producer writes transactions, the same over restarts: a new producer with it fences"
        " the one before (transactions.md); None: no transactions",
        None,
    )
    transaction_timeout_ms: int = option(
        "the coordinator aborts a transaction that is open for so long", 60_000, 1, 2**31 - 1
    )
    partitioner: PartitionerFunction | None = option(
        "a function (topic, key, value, partitions) that returns a partition; None: key's murmur2, or sticky", None
    )

    @property
    def required_acks(self) -> int:
        """acks as the wire has it."""
        return -1 if self.acks in ("all", "-1") else int(self.acks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ConnectionConfig):
    """Options of Consumer and AsyncConsumer."""

    auto_offset_reset: OffsetReset = option(
        "the new position if there is none, it is out of range, or its topic was deleted and made anew",
        "latest",
        choices=get_args(OffsetReset),
    )
    fetch_min_bytes: int = option("the broker waits for this many bytes, at most fetch_max_wait_ms", 1, 0)
    fetch_max_wait_ms: int = option("how long the broker waits for fetch_min_bytes", 500, 0)
    fetch_max_bytes: int = option("bytes that may be fetched ahead, all partitions together", 16 * MIB, 1)
    max_partition_fetch_bytes: int = option("bytes of one partition per answer; one batch always fits", MIB, 1)
    max_poll_records: int = option("records that one poll returns at most; it also ends after about 8 MiB", 50_000, 1)
    check_crcs: bool = option("whether the checksum of every batch is verified", True)
    group_id: str | None = option(
        "the group that the consumer shares topics with, and under which it commits; None: no group", None
    )
    group_instance_id: str | None = option(
        "a name that stays the same over restarts: a static member, whose partitions wait for it (KIP-345)", None
    )
    enable_auto_commit: bool = option(
        "whether polls commit what earlier polls gave; also before partitions are revoked, and at close", True
    )
    auto_commit_interval_ms: int = option("how often a poll commits by itself", 5_000, 1)
    max_poll_interval_ms: int = option(
        "a member that has not polled for so long leaves its group, until it polls again", 300_000, 1, 2**31 - 1
    )
    group_remote_assignor: str | None = option(
        "the assignor that the coordinator is to use, uniform or range; None: its own default", None
    )
    client_rack: str = option(
        "the rack that the consumer is in: it reads from in-sync replicas there, where the brokers have"
        " replica.selector.class (KIP-392); assignors may look at it",
        "",
    )
    isolation_level: IsolationLevel | None = option(
        "read_committed: records of transactions once they are committed, and of aborted ones never; read_uncommitted:"
        " all; None: read_committed with a group_id, else read_uncommitted",
        None,
        kind=Kind.OTHER,
    )

    @property
    def reads_committed(self) -> bool:
        """True if records of transactions are read once they are committed, and not before."""
        return self.isolation_level == "read_committed" or (self.isolation_level is None and self.group_id is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ConnectionConfig):
    """Options of Admin and AsyncAdmin."""

    default_api_timeout_ms: int = option("how long one call may take, retries included", 60_000, 1)


def producer_config(options: Mapping[str, Any]) -> ProducerConfig:
    """The checked options of a producer."""
    acks = options.get("acks", "all")
    if type(acks) not in (int, str) or acks not in get_args(Acks):
        raise ConfigError(f"Producer option acks={acks!r} must be 0, 1 or 'all' (-1)")
    partitioner = options.get("partitioner")
    if partitioner is not None and not callable(partitioner):
        raise ConfigError(
            f"Producer option partitioner={partitioner!r} must be callable as (topic, key, value, partitions)"
        )
    _check_name("Producer", "transactional_id", options)
    config = build_config(ProducerConfig, "Producer", options)
    if config.delivery_timeout_ms < config.linger_ms:
        raise ConfigError(
            f"Producer option delivery_timeout_ms={config.delivery_timeout_ms} must be at least"
            f" linger_ms={config.linger_ms}"
        )
    if config.transactional_id is None and "transaction_timeout_ms" in options:
        raise ConfigError("Producer option transaction_timeout_ms needs transactional_id, too")
    if config.transactional_id is not None and not config.enable_idempotence:
        raise ConfigError("Producer option transactional_id needs enable_idempotence=True, which is the default")
    asked = "transactional_id" if config.transactional_id is not None else "enable_idempotence"
    return _idempotent_or_not(config, asked=asked if asked in options else None)


def _check_name(client: str, option_name: str, options: Mapping[str, Any]) -> None:
    given = options.get(option_name)
    if given is not None and not (isinstance(given, str) and 1 <= len(given) <= GROUP_ID_CHARACTERS_MAX):
        raise ConfigError(
            f"{client} option {option_name}={given!r} must be a str of 1 to {GROUP_ID_CHARACTERS_MAX} characters, or"
            " None"
        )


def _idempotent_or_not(config: ProducerConfig, *, asked: str | None) -> ProducerConfig:
    """Idempotence needs more than one option: the others win unless it was asked for by name (KIP-679), or by an option
    that needs it. `asked` is that option."""
    against = {
        "acks": (config.acks, "'all'", config.required_acks == -1),
        "retries": (config.retries, "at least 1", config.retries > 0),
        "max_in_flight_requests_per_connection": (
            config.max_in_flight_requests_per_connection,
            f"at most {IDEMPOTENT_IN_FLIGHT_MAX}",
            config.max_in_flight_requests_per_connection <= IDEMPOTENT_IN_FLIGHT_MAX,
        ),
    }
    for name, (value, needed, fits) in against.items():
        if fits or not config.enable_idempotence:
            continue
        if asked is not None:
            raise ConfigError(
                f"Producer option {asked}={getattr(config, asked)!r} needs {name} to be {needed}, not {value!r}; leave"
                " out one of the two"
            )
        may = "a batch is sent once only" if not config.retries else "a retry may write a record twice"
        _log.info("the producer is not idempotent, because %s=%r: %s", name, value, may)
        return replace(config, enable_idempotence=False)
    return config


def consumer_config(options: Mapping[str, Any]) -> ConsumerConfig:
    """The checked options of a consumer."""
    for name in ("group_id", "group_instance_id", "group_remote_assignor"):
        _check_name("Consumer", name, options)
    level = options.get("isolation_level")
    if level is not None and level not in get_args(IsolationLevel):
        hint = did_you_mean(str(level), get_args(IsolationLevel))
        words = " or ".join(map(repr, get_args(IsolationLevel)))
        raise ConfigError(f"Consumer option isolation_level={level!r} must be {words}{hint}")
    config = build_config(ConsumerConfig, "Consumer", options)
    if len(config.client_rack) > RACK_LENGTH_MAX:
        raise ConfigError(
            f"Consumer option client_rack has {len(config.client_rack)} characters; at most {RACK_LENGTH_MAX} count"
        )
    if config.group_id is None:
        for name in ("group_instance_id", "group_remote_assignor"):
            if getattr(config, name) is not None:
                raise ConfigError(f"Consumer option {name}={getattr(config, name)!r} needs group_id, too")
        if options.get("enable_auto_commit") is True:
            raise ConfigError("Consumer option enable_auto_commit=True needs group_id: only a group commits offsets")
    return config


def admin_config(options: Mapping[str, Any]) -> AdminConfig:
    """The checked options of an admin client."""
    return build_config(AdminConfig, "Admin", options)
