"""The metrics of replicas, of the fetchers that copy them, and of the copies that reassignments make.

Read from `statistics()` in the thread of a scrape, as in node_readings.py. Not here: what is counted
(broker/replication/), and the traffic of topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.metrics import Reading
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.move_throttle import MoveThrottle


def replica_readings(parts: ReplicaParts) -> Iterator[Reading]:
    replicas = parts.statistics()
    yield from record_readings(replicas)
    help_text = "Record bytes sent to followers."
    yield Reading("penstock_replication_bytes_out", help_text, replicas.replication_bytes_out, True)
    yield from record_readings(parts.refused.statistics())
    yield from labelled("topic", parts.traffic.by_topic.statistics())


def copy_readings(*, sent: MoveThrottle, fetched: MoveThrottle) -> Iterator[Reading]:
    """`sent` and `fetched` throttle what a reassignment copies from here and to here."""
    copied = "Record bytes copied {} replicas that a reassignment adds, until they are in sync."
    yield Reading("penstock_reassignment_bytes_in", copied.format("to"), fetched.bytes_total, True)
    yield Reading("penstock_reassignment_bytes_out", copied.format("from here to"), sent.bytes_total, True)
    held = "Times that such a copy was held by {}.replication.throttled.rate."
    yield Reading("penstock_follower_throttled_copies", held.format("follower"), fetched.holds, True)
    yield Reading("penstock_leader_throttled_copies", held.format("leader"), sent.holds, True)


def fetcher_readings(fetchers: FetcherManager) -> Iterator[Reading]:
    help_text = "Record bytes fetched from leaders."
    yield Reading("penstock_replication_bytes_in", help_text, fetchers.bytes_in(), True)
    help_text = "Answers of leaders whose records failed their checks here; each is asked for again after a back-off."
    yield Reading("penstock_replication_answers_refused", help_text, fetchers.answers_refused(), True)
    found = tuple(fetchers.statistics().values())
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
