"""Kafka's configuration keys that a node does not have: the key of ours in its place, or why nothing takes its place.

For operators that convert a `server.properties`: the error for such a key says this and does not guess a similar name,
and docs/configuration.md lists all of them. A name that ends in `*` stands for all names that begin with the text
before it. Keys that Kafka and this system share are in config_table.py. Source: Kafka 4.1, "Broker Configs"; older
names from 3.9.
"""

from __future__ import annotations

from typing import NamedTuple


class KafkaKey(NamedTuple):
    """`ours` is empty where there is no such key; `why` says what holds instead."""

    name: str
    ours: str
    why: str


_HOURS = "the same in milliseconds: hours × 3600000"
_MINUTES = "the same in milliseconds: minutes × 60000"
_MODE_OF_FILE = "the key is not encrypted: its file's owner and mode keep others out, and no password lies beside it"
_TLS = "always TLS 1.2 or 1.3, with suites that have forward secrecy and authenticated encryption"
_NO_ZOOKEEPER = "there is no ZooKeeper: the controllers are the quorum"
_NO_SHARE_GROUPS = "there are no share groups"
_NO_GROUP_CONFIGS = "groups have no configuration of their own: all have the node's value"
_QUOTAS = "`penstock quotas alter` gives users and clients their quotas"
_REPLICATION_QUOTAS = "the rates of moves are leader. and follower.replication.throttled.rate"
_TRANSPORT = "gRPC sizes its windows by itself, and the operating system the buffers of Kafka's clients"
_ONE_FORMAT = "there is one record format, version 2"

KAFKA_KEYS = (
    KafkaKey("telemetry.max.bytes", "", "always 1 MiB, Kafka's default"),
    KafkaKey("broker.id", "node.id", "the same"),
    KafkaKey("broker.id.generation.enable", "node.id", "every node is given its id"),
    KafkaKey("reserved.broker.max.id", "node.id", "every node is given its id"),
    KafkaKey("log.dir", "log.dirs", "a list with one directory"),
    KafkaKey("log.retention.hours", "log.retention.ms", _HOURS),
    KafkaKey("log.retention.minutes", "log.retention.ms", _MINUTES),
    KafkaKey("log.roll.hours", "log.roll.ms", _HOURS),
    KafkaKey("log.roll.jitter.hours", "log.roll.jitter.ms", _HOURS),
    KafkaKey("host.name", "listeners", "BROKER://host:port"),
    KafkaKey("port", "listeners", "BROKER://host:port"),
    KafkaKey("advertised.host.name", "advertised.listeners", "BROKER://host:port"),
    KafkaKey("advertised.port", "advertised.listeners", "BROKER://host:port"),
    KafkaKey("controller.listener.names", "listeners", "the controller's is always named CONTROLLER"),
    KafkaKey("control.plane.listener.name", "listeners", "the controller's is always named CONTROLLER"),
    KafkaKey("early.start.listeners", "", "the CONTROLLER listener is always the first"),
    KafkaKey("zookeeper.*", "controller.quorum.bootstrap.servers", _NO_ZOOKEEPER),
    KafkaKey(
        "controller.socket.timeout.ms", "", "each call has its own time limit, and ends at once when another node leads"
    ),
    KafkaKey("listener.name.*", "", "a listener has a few keys of its own (see Listeners)"),
    KafkaKey("security.inter.broker.protocol", "listener.security.protocol.map", "INTERNAL:SSL and CONTROLLER:SSL"),
    KafkaKey("security.*", "", "no classes are loaded from outside"),
    KafkaKey("ssl.key.password", "", _MODE_OF_FILE),
    KafkaKey("ssl.keystore.password", "", _MODE_OF_FILE),
    KafkaKey("ssl.truststore.password", "", "certificates of CAs are no secret"),
    KafkaKey("ssl.keystore.key", "ssl.keystore.location", "a file; secrets are not in the configuration"),
    KafkaKey("ssl.keystore.certificate.chain", "ssl.keystore.location", "the same file as the key's"),
    KafkaKey("ssl.truststore.certificates", "ssl.truststore.location", "a file"),
    KafkaKey("ssl.protocol", "", _TLS),
    KafkaKey("ssl.enabled.protocols", "", _TLS),
    KafkaKey("ssl.cipher.suites", "", _TLS),
    KafkaKey(
        "ssl.endpoint.identification.algorithm", "", "the host is always looked for in the other node's certificate"
    ),
    KafkaKey("ssl.allow.*", "", "a new certificate is taken as it is"),
    KafkaKey(
        "ssl.*",
        "",
        "see Security in docs/configuration.md; no classes are loaded from outside",
    ),
    KafkaKey("sasl.*", "", "see Security in docs/configuration.md; no classes are loaded from outside"),
    KafkaKey(
        "principal.builder.class",
        "",
        "a principal is the user who logged in, or what ssl.principal.mapping.rules makes of a certificate's name",
    ),
    KafkaKey("delegation.token.*", "", "there are no delegation tokens: give each program a user"),
    KafkaKey("password.encoder.*", "", "no key of a node is a password; users are in the metadata, hashed"),
    KafkaKey("num.network.threads", "", "a node has one event loop; run several nodes on a host (docs/adr/0015)"),
    KafkaKey("background.threads", "", "periodic jobs have threads of their own for each log dir"),
    KafkaKey("socket.send.buffer.bytes", "", _TRANSPORT),
    KafkaKey("socket.receive.buffer.bytes", "", _TRANSPORT),
    KafkaKey("socket.listen.backlog.size", "", "the operating system's net.core.somaxconn"),
    KafkaKey("max.connections.per.ip.overrides", "max.connections.per.ip", "one limit for every address"),
    KafkaKey("request.timeout.ms", "", "each request has the time-out that its client gives"),
    KafkaKey("replica.socket.timeout.ms", "", "an answer may be 30 s late before a follower gives its stream up"),
    KafkaKey("replica.socket.receive.buffer.bytes", "", _TRANSPORT),
    KafkaKey("controlled.shutdown.max.retries", "controlled.shutdown.enable", "tried until its time is up"),
    KafkaKey("controlled.shutdown.retry.backoff.ms", "controlled.shutdown.enable", "tried until its time is up"),
    KafkaKey("delete.topic.enable", "", "topics can always be deleted"),
    KafkaKey("log.cleaner.io.buffer.size", "", "the cleaner reads what it needs"),
    KafkaKey("log.cleaner.io.buffer.load.factor", "log.cleaner.dedupe.buffer.size", "counted in bytes as used"),
    KafkaKey("log.preallocate", "", "segments grow"),
    KafkaKey(
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "into the past; log.message.timestamp.after.max.ms is for the future",
    ),
    KafkaKey("log.message.format.version", "", _ONE_FORMAT),
    KafkaKey("log.message.downconversion.enable", "", _ONE_FORMAT),
    KafkaKey("inter.broker.protocol.version", "", "each record and message has its own version"),
    KafkaKey("log.dir.failure.timeout.ms", "", "a failed log dir is reported at once"),
    KafkaKey("metadata.log.*", "metadata.log.dir", "the metadata log has fixed settings"),
    KafkaKey("metadata.max.idle.interval.ms", "", "an idle quorum writes nothing"),
    KafkaKey("offsets.commit.required.acks", "", "a commit is answered when it is committed, as with acks=all"),
    KafkaKey("offsets.load.buffer.size", "", "a coordinator loads its log in portions of 4 MiB"),
    KafkaKey("group.coordinator.threads", "", "one event loop decides, and a thread for each log dir loads"),
    KafkaKey("group.coordinator.append.linger.ms", "", "what comes while the loop is busy is one append"),
    KafkaKey("group.coordinator.cached.buffer.max.bytes", "", "no buffers are kept"),
    KafkaKey("group.coordinator.new.enable", "", "there is one coordinator, for both protocols"),
    KafkaKey("group.coordinator.rebalance.protocols", "", "both protocols, classic and consumer, are always served"),
    KafkaKey("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms", _NO_GROUP_CONFIGS),
    KafkaKey("group.consumer.max.session.timeout.ms", "group.consumer.session.timeout.ms", _NO_GROUP_CONFIGS),
    KafkaKey("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms", _NO_GROUP_CONFIGS),
    KafkaKey("group.consumer.max.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms", _NO_GROUP_CONFIGS),
    KafkaKey(
        "group.consumer.regex.refresh.interval.ms", "", "the topics of a pattern follow every change of topics at once"
    ),
    KafkaKey("group.share.*", "", _NO_SHARE_GROUPS),
    KafkaKey("group.streams.*", "", "there are no streams groups"),
    KafkaKey("share.*", "", _NO_SHARE_GROUPS),
    KafkaKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", "", "each transaction is aborted at its time"
    ),
    KafkaKey("transaction.state.log.load.buffer.size", "", "a coordinator loads its log in portions of 4 MiB"),
    KafkaKey("transaction.two.phase.commit.enable", "", "there are no two-phase commits (KIP-939)"),
    KafkaKey("producer.id.expiration.check.interval.ms", "", "silent producers are looked for every 10 minutes"),
    KafkaKey("quota.*", "", _QUOTAS),
    KafkaKey("replication.quota.*", "", _REPLICATION_QUOTAS),
    KafkaKey(
        "alter.log.dirs.*",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "the rate of moves between log dirs is one key",
    ),
    KafkaKey("num.replica.alter.log.dirs.threads", "", "each log dir has one thread for moves to it"),
    KafkaKey("client.quota.callback.class", "", "no classes are loaded from outside"),
    KafkaKey("create.topic.policy.class.name", "", "no classes are loaded from outside"),
    KafkaKey("alter.config.policy.class.name", "", "no classes are loaded from outside"),
    KafkaKey("metric.reporters", "metrics.listener", "Prometheus scrapes it"),
    KafkaKey("metrics.*", "metrics.listener", "Prometheus scrapes it"),
    KafkaKey("kafka.metrics.*", "metrics.listener", "Prometheus scrapes it"),
    KafkaKey("auto.include.jmx.reporter", "metrics.listener", "Prometheus scrapes it"),
    KafkaKey("remote.*", "", "there is no tiered storage"),
    KafkaKey("fetch.max.wait.ms", "", "each fetch says how long it waits"),
    KafkaKey("fetch.purgatory.purge.interval.requests", "", "a request that was answered is gone at once"),
    KafkaKey("producer.purgatory.purge.interval.requests", "", "a request that was answered is gone at once"),
)


def hint(name: str) -> str:
    """The remedy for a key of Kafka's that is not ours; "" for a key that is not Kafka's either."""
    for key in KAFKA_KEYS:
        if name == key.name or (key.name.endswith("*") and name.startswith(key.name[:-1])):
            return f"Kafka's {name} is {key.ours} here: {key.why}" if key.ours else f"no such key here: {key.why}"
    return ""
