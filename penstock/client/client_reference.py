"""docs/clients.md, made from the tables: `python -m penstock.client.client_reference > docs/clients.md`.

The options are the fields of the client configs, the errors are the wire error table. A test holds the page against
this, so that neither an option nor an error can be added without its line.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from penstock.client.admin.admin_types import AdminStatistics, admin_metrics
from penstock.client.consumer.consumer_metrics import ConsumerStatistics, FetchStatistics, consumer_metrics
from penstock.client.metrics.client_metric import ClientMetric
from penstock.client.options.config import AdminConfig, ConsumerConfig, ProducerConfig
from penstock.client.options.option_text import range_words
from penstock.client.producer.producer_statistics import ProducerStatistics, producer_metrics
from penstock.config_keys import ConfigKey, keys_of
from penstock.errors import (
    ERRORS,
    ApiError,
    AuthenticationFailedError,
    AuthorizationFailedError,
    BootstrapError,
    BufferExhaustedError,
    CalledInCallbackError,
    ClientClosedError,
    CommitFailedError,
    ConfigError,
    FatalProducerError,
    ForkedClientError,
    GreenThreadsError,
    LogTruncationError,
    MissingDependencyError,
    PenstockError,
    PositionsTakenError,
    SubscriptionError,
    TimedOutError,
    TopicRecreatedError,
    TransactionAbortedError,
    TransactionStateError,
    UndecodableBatchError,
)
from penstock.types import TopicPartition

INTRODUCTION = """# The Python clients

Made from `penstock/client/options/config.py` and `penstock/errors.py` by `python -m penstock.client.client_reference`;
do not edit by hand.

`penstock.Producer`, `Consumer` and `Admin` block; `AsyncProducer`, `AsyncConsumer` and `AsyncAdmin` are the same for
asyncio. The first argument is the bootstrap address, `"host:port[,host:port]"` or a list of them. Without it a client
takes `PENSTOCK_BOOTSTRAP` of its environment, or `127.0.0.1:9192`, as the command line does. Options are keyword
arguments, Kafka's names with underscores: `Producer("127.0.0.1:9192", acks="all", linger_ms=20)`. `help(Producer)`
shows them, and type checkers know them: mypy refuses `liger_ms=20`. For options that are only known at run time, pass
a `dict[str, Any]` as `**options`; every value is checked when the client is made. Every type that a call takes or gives
can be imported: from `penstock` those of producers, consumers and processing (`penstock.RecordFuture`, which `send`
returns, `RecordMetadata`, `ConsumerRecord`), from `penstock.admin` what `Admin` tells of topics, brokers, groups and
transactions, and from `penstock.security` ACLs, users and quotas ([an example](security.md#roles)).
[What users of other clients write](from-other-clients.md) has a page of its own, and so have
[consumer groups](consumer-groups.md), [transactions](transactions.md), [going on after a restart](resuming.md),
[tables of Arrow and pandas](arrow.md) and [servers that fork](forking.md).
A client that is dropped without `close` sends what it took, with a `ResourceWarning` about records on their way.

A first call waits `bootstrap_timeout_ms` for a broker that starts later. When the brokers that a client knows do not
answer, it asks the bootstrap addresses again, so brokers may move behind a fixed name (KIP-899). Where a broker
advertises an address that does not exist at the client, errors and `waiting_for()` name it. A call that waits ends with
`ClientClosedError` when another thread, task or signal handler closes its client. A program that cancels all tasks of
its event loop cancels those of its async clients too: they say so in the log, go on at their next use, and close.

In a cluster with ACLs a user needs `penstock acls create User:NAME --producer --topic T` to produce, `--consumer
--topic T --group G` to consume, and one of the [roles](security.md#roles) for what operators do with `Admin`. A call
that lacks a right fails at once with an `AuthorizationFailedError`, which names it.
"""

METRICS_HEAD = """
## Metrics
`metrics()` of each client gives its numbers, each with a name, a value, labels and a meaning. `MetricsCollector`
shows those of all clients of a program to Prometheus:

```python
from prometheus_client import REGISTRY, start_http_server
from penstock import MetricsCollector

collector = MetricsCollector(producer, consumer)  # and collector.add(client) for one that is made later
REGISTRY.register(collector)
start_http_server(9400)
```

There `record-send-total` of a producer is `penstock_producer_record_send_total`. Every number has the label
`client_id`: give each client of a program one of its own. Those of producers also have `transactional_id`, those of
consumers `group_id`, and `records-lag` has `topic` and `partition`. A processor has
[its own](processing.md#options-and-metrics).
Names are Kafka's where Kafka's client has a metric with that meaning; a name that ends with `-total` only grows.
Rates and averages are those of the last 30 to 60 s, maxima those of the client's whole life. A consumer shows the lags
of its 1,000 partitions that are furthest behind. Counting costs nothing for a record: it is done once a batch.

| client | metric | meaning |
| --- | --- | --- |
"""

ERRORS_HEAD = """
## Errors
All are in `penstock.errors`, and all are a `PenstockError`. A wrong argument of a call is
Python's `TypeError` or `ValueError`.

| class | meaning |
| --- | --- |
"""

WIRE_HEAD = """
A broker's error is an `ApiError`, with the attributes `code`, `kafka_name`, `retriable` and `nothing_written`. The
clients retry a retriable one by themselves. *Nothing written* is a promise for a produce request; without it the
records may be in the log.

| code | name | class | retriable | nothing written | meaning |
| --- | --- | --- | --- | --- | --- |
"""

CLIENT_ERRORS: tuple[type[PenstockError], ...] = (
    ConfigError,
    BootstrapError,
    TimedOutError,
    BufferExhaustedError,
    CalledInCallbackError,
    ClientClosedError,
    LogTruncationError,
    TopicRecreatedError,
    PositionsTakenError,
    CommitFailedError,
    SubscriptionError,
    TransactionStateError,
    TransactionAbortedError,
    FatalProducerError,
    AuthenticationFailedError,
    AuthorizationFailedError,
    UndecodableBatchError,
    ForkedClientError,
    GreenThreadsError,
    MissingDependencyError,
)


def reference() -> str:
    """The page."""
    parts = [INTRODUCTION]
    common = keys_of(AdminConfig).keys() & keys_of(ProducerConfig)
    parts.append(_options("Options of every client", AdminConfig, common))
    for client, config in (("Producer", ProducerConfig), ("Consumer", ConsumerConfig), ("Admin", AdminConfig)):
        own = keys_of(config).keys() - common
        parts.append(_options(f"Options of `{client}`", config, own))
    parts.append(METRICS_HEAD)
    parts += [f"| {one.group} | `{one.name}` | {one.meaning} |\n" for one in _every_metric()]
    parts.append(ERRORS_HEAD)
    parts += [f"| `{error.__name__}` | {_meaning(error)} |\n" for error in CLIENT_ERRORS]
    parts.append(WIRE_HEAD)
    parts += [_wire_row(ERRORS[code]) for code in sorted(ERRORS)]
    return "".join(parts)


def _every_metric() -> tuple[ClientMetric, ...]:
    partition: Any = SimpleNamespace(lag=0, paused=False, is_at_follower=False)
    counts = ConsumerStatistics(0, 0, 0, FetchStatistics())
    return (
        *producer_metrics(ProducerStatistics(), {}, 0),
        *consumer_metrics({TopicPartition("orders", 0): partition}, counts, {}, 0),
        *admin_metrics(AdminStatistics(), {}, 0),
    )


def _options(title: str, config: Any, names: set[str]) -> str:
    rows = "".join(
        f"| `{key.name}` | `{key.default}` | {_range_cell(key)} | {key.doc} |\n"
        for key in keys_of(config).values()
        if key.name in names
    )
    return f"\n## {title}\n| option | default | values | meaning |\n| --- | --- | --- | --- |\n{rows}"


def _range_cell(key: ConfigKey) -> str:
    words = range_words(key)
    return ", ".join(words) if key.is_number else ", ".join(f"`{word}`" for word in words)


def _wire_row(error: type[ApiError]) -> str:
    yes = {True: "yes", False: ""}
    cells = (error.code, error.kafka_name, f"`{error.__name__}`", yes[error.retriable], yes[error.nothing_written])
    return f"| {' | '.join(map(str, cells))} | {_meaning(error)} |\n"


def _meaning(error: type[PenstockError]) -> str:
    """The first paragraph of what the class says of itself, on one line."""
    return " ".join((error.__doc__ or "").strip().partition("\n\n")[0].split())


if __name__ == "__main__":
    sys.stdout.write(reference())
