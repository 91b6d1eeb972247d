"""The metrics of a node, each with the part that it is read from. Times and logs are elsewhere in this folder.

Reads `statistics()` only. Metrics of a role that this node does not have are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordination.memory_shares import SHOWN_MAX
from broker.metrics.door_readings import door_readings
from broker.metrics.field_readings import labelled, readings
from broker.metrics.group_readings import group_readings
from broker.metrics.metrics import Reading
from broker.metrics.node_view import BrokerView, NodeView
from broker.metrics.quorum_readings import quorum_readings
from broker.metrics.storage_readings import storage_readings
from broker.network.io_threads import IoWork
from penstock.messages.apis import APIS
from penstock.messages.client_apis import FETCH

_FETCHES = ("FetchConsumer", "FetchFollower")
APIS_THAT_WAIT = tuple(
    name for api in APIS.values() if api.waits for name in (_FETCHES if api is FETCH else (api.name,))
)


def node_readings(node: NodeView) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from quorum_readings(node)
    yield from _load(node)
    if node.broker is not None:
        yield from _request_path(node.broker)
        yield from _replication(node.broker)
        yield from door_readings(node.broker)
        yield from group_readings(node.broker)
    yield from storage_readings(node)
    yield from _certificates(node)


def _request_path(broker: BrokerView) -> Iterator[Reading]:
    channel = broker.channel.statistics()
    yield Reading("penstock_request_queue_size", "Requests that wait for a handler.", channel.request_queue_size)
    yield Reading("penstock_response_queue_size", "Answers that wait to be sent.", channel.response_queue_size)
    for api in APIS_THAT_WAIT:
        yield Reading(
            "penstock_purgatory_size",
            "Handled requests that wait: for acks, records or the controller.",
            channel.waiting.get(api, 0),
            labels=(("api", api),),
        )
    help_text = "Open produce and fetch streams, and connections in Kafka's protocol."
    yield Reading("penstock_connections", help_text, channel.connections)
    io = broker.io_threads.statistics()
    yield from readings(io)
    help_text = "Reads by an I/O thread because the page cache did not have it: records of a fetch, look-ups by time."
    for kind in IoWork:
        yield Reading("penstock_cold_reads", help_text, io.done.get(kind, 0), True, (("work", kind.value),))


def _load(node: NodeView) -> Iterator[Reading]:
    """load/node_load.py defines idle."""
    load = node.load.statistics()
    if node.broker is not None:
        yield Reading(
            "penstock_network_processor_avg_idle_percent",
            "Share of the last minute (0 to 1) that was left for decoding requests and encoding answers.",
            load.processor_idle_ratio,
        )
        yield Reading(
            "penstock_request_handler_avg_idle_percent",
            "Share of the last minute (0 to 1) that was left for handling requests.",
            load.handler_idle_ratio,
        )
    yield from readings(load)
    for kind, seconds in load.cpu_seconds.items():
        help_text = "Processor time of the node by what it was for; together the process's own."
        yield Reading("penstock_cpu_seconds", help_text, seconds, True, (("kind", kind.value),))


def _certificates(node: NodeView) -> Iterator[Reading]:
    found = node.certificates.statistics()
    help_text = "When the first certificate of a keystore ends, or the last CA of a truststore: seconds since 1970."
    for one in found:
        files = {"keystore": one.keystore_not_after_ms, "truststore": one.truststore_not_after_ms}
        for file, ends_ms in files.items():
            if ends_ms is not None:
                of_file = (("listener", one.listener), ("file", file))
                yield Reading("penstock_certificate_not_after_seconds", help_text, ends_ms / 1000, labels=of_file)
    help_text = "1 while a changed file of certificates does not work, and the old one stays in force."
    for one in found:
        labels = (("listener", one.listener),)
        yield Reading("penstock_certificates_refused", help_text, float(one.is_refused), labels=labels)
    help_text = "Changed files of certificates that were taken while the node ran, by each listener that has them."
    yield Reading("penstock_certificate_reloads", help_text, node.certificates.reloads, True)

    help_text = "Public keys in force that verify tokens."
    for keys in node.tokens.statistics():
        yield Reading("penstock_token_keys", help_text, keys.keys, labels=(("listener", keys.listener),))
    help_text = "1 while the newest public keys cannot be had or do not work, and the old ones stay in force."
    for keys in node.tokens.statistics():
        labels = (("listener", keys.listener),)
        yield Reading("penstock_token_keys_refused", help_text, float(keys.is_refused), labels=labels)


def _replication(broker: BrokerView) -> Iterator[Reading]:
    yield from readings(broker.lifecycle.statistics())
    replicas = broker.replicas.statistics()
    yield from readings(replicas)
    yield Reading(
        "penstock_replication_bytes_in", "Record bytes fetched from leaders.", broker.fetchers.bytes_in(), True
    )
    help_text = "Answers of leaders whose records failed their checks here; each is asked for again after a back-off."
    refused = broker.fetchers.answers_refused()
    yield Reading("penstock_replication_answers_refused", help_text, refused, True)
    yield Reading(
        "penstock_replication_bytes_out", "Record bytes sent to followers.", replicas.replication_bytes_out, True
    )
    into, out = broker.follower_throttle, broker.leader_throttle
    copied = "Record bytes copied {} replicas that a reassignment adds, until they are in sync."
    yield Reading("penstock_reassignment_bytes_in", copied.format("to"), into.bytes_total, True)
    yield Reading("penstock_reassignment_bytes_out", copied.format("from here to"), out.bytes_total, True)
    held = "Times that such a copy was held by {}.replication.throttled.rate."
    yield Reading("penstock_follower_throttled_copies", held.format("follower"), into.holds, True)
    yield Reading("penstock_leader_throttled_copies", held.format("leader"), out.holds, True)
    yield from readings(broker.stable_offsets.statistics())
    yield from readings(broker.verifier.statistics())
    yield from readings(broker.transaction_figures.statistics())
    help_text = (
        f"Memory of transactional ids by principal, or by network of anonymous clients; of the {SHOWN_MAX} largest."
    )
    for party in broker.transaction_figures.largest_parties():
        labels = (("party", party.party),)
        yield Reading("penstock_transaction_coordinator_party_memory_bytes", help_text, party.bytes, labels=labels)
    yield from labelled("topic", broker.replicas.traffic.by_topic.statistics())
    yield from _fetchers(broker)


def _fetchers(broker: BrokerView) -> Iterator[Reading]:
    found = tuple(broker.fetchers.statistics().values())
    followed = sum(fetcher.partitions for fetcher in found)
    yield Reading("penstock_fetcher_partitions", "Partitions that the fetchers of this broker follow.", followed)
    lag = max((fetcher.lag_max for fetcher in found), default=0)
    help_text = (
        "Records by which the partition that lags most is behind its leader's high watermark. A member of the ISR "
        "holds that back itself, so it lags little."
    )
    yield Reading("penstock_fetcher_lag_max", help_text, max(0, lag))
    failed = sum(fetcher.failed_partitions for fetcher in found)
    help_text = "Followed partitions that are not fetched before their next leader epoch."
    yield Reading("penstock_fetcher_failed_partitions", help_text, failed)
    delayed = sum(fetcher.delayed_partitions for fetcher in found)
    help_text = "Followed partitions that are asked for again after a back-off."
    yield Reading("penstock_fetcher_delayed_partitions", help_text, delayed)
