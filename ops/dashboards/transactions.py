"""Transactions: whether readers of committed records stand still, how transactions end, and the coordinators."""

from __future__ import annotations

from ops.dashboards.panels import Dashboard, Query, Row, Unit, gauge, graph, rate, rise, selected

PARTITIONS = "penstock_transaction_coordinator_partitions"

READERS = Row(
    "Readers of committed records",
    (
        graph(
            "Last stable offset stands still",
            "For how long, where it is longest: readers of committed records wait for a transaction that nobody ends.",
            Unit.SECONDS,
            gauge("penstock_last_stable_offset_stuck_seconds"),
        ),
        graph(
            "Behind undecided transactions",
            "Led partitions that have some, and the records between the last stable offset and the high watermark of"
            " the partition that has most.",
            Unit.COUNT,
            gauge("penstock_partitions_with_undecided_transactions", "partitions {{instance}}"),
            gauge("penstock_last_stable_offset_lag_max", "records {{instance}}"),
        ),
        graph(
            "Leaders ask coordinators",
            "Whether a partition belongs to a transaction: answers, refusals, and what waits.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_transaction_verifications_total", "yes {{instance}}"),
            rate("penstock_transaction_verifications_failed_total", "no, or no answer {{instance}}"),
            gauge("penstock_transaction_verifications_waiting", "waiting {{instance}}"),
        ),
    ),
)
ENDS = Row(
    "Transactions",
    (
        graph(
            "Begun and ended",
            "By all coordinators. Aborted ones count those that timed out or were fenced, too.",
            Unit.OPERATIONS_PER_SECOND,
            Query(f"sum(rate({selected('penstock_transactions_begun_total')}[$__rate_interval]))", "begun"),
            rate("penstock_transactions_ended_total", "{{outcome}}", "outcome"),
        ),
        graph(
            "Timed out and fenced",
            "Aborted because their time was up: programs that hang, or were killed. Fenced: a newer producer with the"
            " same transactional id began; again and again: two programs share one id.",
            Unit.COUNT,
            rise("penstock_transactions_timed_out_total", "timed out {{instance}}"),
            rise("penstock_transactions_fenced_total", "fenced {{instance}}"),
        ),
        graph(
            "Transactional ids by state",
            "With an open transaction, with one that is decided and lacks markers, or with none; and those that were"
            " forgotten, because nobody used them for transactional.id.expiration.ms.",
            Unit.COUNT,
            Query(f"sum by (state) ({selected('penstock_transactions')})", "{{state}}"),
            rise("penstock_transactional_ids_expired_total", "forgotten {{instance}}"),
        ),
    ),
)
BATCHES = Row(
    "Atomic batches",
    (
        graph(
            "Versions decided",
            "Of applications that write with many producers at a time, as Spark's sink does. Aborted: given up for a"
            " newer version or another run, or by a request.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_atomic_batches_decided_total", "{{outcome}}", "outcome"),
        ),
        graph(
            "Runs that were fenced",
            "One for each restart of an application. Again and again without restarts: two runs of one application, as"
            " with a copied checkpoint, fence each other.",
            Unit.COUNT,
            rise("penstock_atomic_batch_runs_fenced_total", "fenced {{instance}}"),
        ),
        graph(
            "Applications",
            "That the coordinators know. They are forgotten when they were not used for twice"
            " transactional.id.expiration.ms, and those for one version after an hour.",
            Unit.COUNT,
            gauge("penstock_atomic_batch_applications"),
        ),
    ),
)
MARKERS = Row(
    "Markers",
    (
        graph(
            "Markers that wait",
            "Partitions that lack the marker of a decided transaction. Failing: their leaders have not written it in"
            " several tries, and their readers of committed records stand still.",
            Unit.COUNT,
            gauge("penstock_transaction_markers_waiting", "waiting {{instance}}"),
            gauge("penstock_transaction_markers_failing", "failing {{instance}}"),
        ),
        graph(
            "Oldest decision without all of its markers",
            "More than a few seconds: a partition has no leader, or its leader does not answer.",
            Unit.SECONDS,
            gauge("penstock_transaction_markers_oldest_seconds"),
        ),
        graph(
            "Markers written",
            "And tries that failed; each is tried again.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_transaction_markers_written_total", "written {{instance}}"),
            rate("penstock_transaction_marker_failures_total", "failed {{instance}}"),
        ),
    ),
)
COORDINATORS = Row(
    "Coordinators",
    (
        graph(
            "Partitions of __transaction_state",
            "Those that serve are not shown. Loading: their transactional ids wait. Failed: they have no coordinator;"
            " the node's log says why.",
            Unit.COUNT,
            gauge(PARTITIONS, "loading {{instance}}", 'state="loading"'),
            gauge(PARTITIONS, "failed {{instance}}", 'state="failed"'),
        ),
        graph(
            "Load time of transactions",
            "From the begin of a lead until the ids of the partition have a coordinator: the last load, and the longest"
            " since the node started.",
            Unit.SECONDS,
            gauge("penstock_transaction_load_seconds", "last {{instance}}"),
            gauge("penstock_transaction_load_max_seconds", "longest {{instance}}"),
        ),
        graph(
            "Loads of transactions",
            "Partitions that were loaded, and the records that this took.",
            Unit.COUNT,
            rise("penstock_transaction_loads_total", "partitions {{instance}}"),
            rise("penstock_transaction_loaded_records_total", "records {{instance}}"),
        ),
        graph(
            "Memory of transactions",
            "Of the limit, transaction.coordinator.memory.max.bytes: what lasts, and open transactions, which have a"
            " limit of their own, as large. A principal may hold as much as stays free for others.",
            Unit.SHARE,
            Query(
                selected("penstock_transaction_coordinator_memory_bytes")
                + " / "
                + selected("penstock_transaction_coordinator_memory_max_bytes"),
                "{{instance}}",
            ),
            Query(
                selected("penstock_transaction_coordinator_memory_open_bytes")
                + " / "
                + selected("penstock_transaction_coordinator_memory_max_bytes"),
                "open {{instance}}",
            ),
        ),
        graph(
            "Who holds the memory of transactions",
            "The principals, or networks of anonymous clients, that hold most of it on a node.",
            Unit.BYTES,
            gauge("penstock_transaction_coordinator_party_memory_bytes", "{{party}} {{instance}}"),
        ),
        graph(
            "Refused for want of memory of transactions",
            "By a coordinator, because the principal holds its share already. The error says what to do.",
            Unit.COUNT,
            rise("penstock_transaction_coordinator_memory_refusals_total", "{{instance}}"),
        ),
    ),
)

DASHBOARD = Dashboard("transactions", "transactions", __doc__.strip(), (READERS, ENDS, BATCHES, MARKERS, COORDINATORS))
