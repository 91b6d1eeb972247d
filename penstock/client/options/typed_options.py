"""The options of each client for type checkers and editors: `**options: Unpack[ProducerOptions]`.

Made from penstock/client/options/config.py by
`python -m penstock.client.options_source > penstock/client/options/typed_options.py`; do not edit by hand.
"""

from __future__ import annotations

from typing import TypedDict

from penstock.client.options.config import (
    Acks,
    CompressionType,
    IsolationLevel,
    OffsetReset,
    PartitionerFunction,
    SaslMechanism,
)
from penstock.client.wire.tls_files import FilePath
from penstock.client.wire.token_login import TokenProvider


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    client_id: str
    """a name that every produce and fetch request carries; brokers show how many streams have it"""
    request_timeout_ms: int
    """how long one request may take before it is retried or fails"""
    bootstrap_timeout_ms: int
    """how long the first contact waits for any bootstrap address to answer; a broker may start later"""
    retry_backoff_ms: int
    """the wait before the first retry; doubles with each one after it"""
    retry_backoff_max_ms: int
    """the longest wait between retries"""
    metadata_max_age_ms: int
    """metadata older than this is asked for again, though nothing failed"""
    metadata_max_idle_ms: int
    """a topic that was not used for so long is forgotten, and asked for when it is used again"""
    tls: bool | None
    """whether connections are encrypted, and the brokers' certificates checked; None: if another tls_ option is given
    (security.md)"""
    tls_ca: FilePath | None
    """a PEM file with the certificates of the authorities that brokers are trusted by; None: those of the system"""
    tls_cert: FilePath | None
    """a PEM file with the client's own certificate and those of the authorities between, for brokers that ask for
    one"""
    tls_key: FilePath | None
    """a PEM file with the private key of tls_cert, not encrypted; None: it is in the file tls_cert"""
    tls_server_name: str | None
    """the name that a broker's certificate must have; None: the host of its address"""
    username: str | None
    """the user that the client logs in as (SASL)"""
    password: str | None
    """the user's password; it is in no error and no log"""
    password_file: FilePath | None
    """a file with the user's password instead; a line break at its end does not count"""
    token: str | None
    """a token that says who the user is (OAUTHBEARER); needs TLS"""
    token_file: FilePath | None
    """a file with the token instead; it is read again at each log-in"""
    token_provider: TokenProvider | None
    """a function that returns the token instead; it is called at each log-in, in a thread of its own"""
    sasl_mechanism: SaslMechanism
    """how the user logs in; PLAIN gives the password itself to the broker, and needs TLS; OAUTHBEARER by itself with a
    token"""


class ProducerOptions(ClientOptions, total=False):
    """Options of Producer and AsyncProducer."""

    acks: Acks
    """0: do not wait; 1: the leader has it; all (-1): every in-sync replica has it"""
    enable_idempotence: bool
    """whether a record is written once, whatever is sent again (delivery.md); needs acks=all, retries and at most 5
    requests in flight"""
    compression_type: CompressionType
    """how batches are compressed"""
    batch_size: int
    """a batch of one partition is closed at this many bytes"""
    linger_ms: int
    """how long a batch waits for more records; 0 sends at once when idle"""
    buffer_memory: int
    """bytes that may wait to be acked; beyond it send blocks"""
    max_block_ms: int
    """how long send may block for metadata or memory"""
    max_request_size: int
    """the largest record that is accepted, in bytes of the batch that it makes alone"""
    max_in_flight_requests_per_connection: int
    """requests per broker without any answer"""
    delivery_timeout_ms: int
    """a record is acked or has failed this long after send, retries included"""
    retries: int
    """how often a batch is retried; delivery_timeout_ms bounds it as well"""
    transactional_id: str | None
    """the name under which the producer writes transactions, the same over restarts: a new producer with it fences the
    one before (transactions.md); None: no transactions"""
    transaction_timeout_ms: int
    """the coordinator aborts a transaction that is open for so long"""
    partitioner: PartitionerFunction | None
    """a function (topic, key, value, partitions) that returns a partition; None: key's murmur2, or sticky"""


class ConsumerOptions(ClientOptions, total=False):
    """Options of Consumer and AsyncConsumer."""

    auto_offset_reset: OffsetReset
    """the new position if there is none, it is out of range, or its topic was deleted and made anew"""
    fetch_min_bytes: int
    """the broker waits for this many bytes, at most fetch_max_wait_ms"""
    fetch_max_wait_ms: int
    """how long the broker waits for fetch_min_bytes"""
    fetch_max_bytes: int
    """bytes that may be fetched ahead, all partitions together"""
    max_partition_fetch_bytes: int
    """bytes of one partition per answer; one batch always fits"""
    max_poll_records: int
    """records that one poll returns at most; it also ends after about 8 MiB"""
    check_crcs: bool
    """whether the checksum of every batch is verified"""
    group_id: str | None
    """the group that the consumer shares topics with, and under which it commits; None: no group"""
    group_instance_id: str | None
    """a name that stays the same over restarts: a static member, whose partitions wait for it (KIP-345)"""
    enable_auto_commit: bool
    """whether polls commit what earlier polls gave; also before partitions are revoked, and at close"""
    auto_commit_interval_ms: int
    """how often a poll commits by itself"""
    max_poll_interval_ms: int
    """a member that has not polled for so long leaves its group, until it polls again"""
    group_remote_assignor: str | None
    """the assignor that the coordinator is to use, uniform or range; None: its own default"""
    client_rack: str
    """the rack that the consumer is in: it reads from in-sync replicas there, where the brokers have
    replica.selector.class (KIP-392); assignors may look at it"""
    isolation_level: IsolationLevel | None
    """read_committed: records of transactions once they are committed, and of aborted ones never; read_uncommitted:
    all; None: read_committed with a group_id, else read_uncommitted"""


class AdminOptions(ClientOptions, total=False):
    """Options of Admin and AsyncAdmin."""

    default_api_timeout_ms: int
    """how long one call may take, retries included"""
