"""The settings of transactions that their core looks at. Names and defaults are Kafka's.

Not here: the settings of the topic that holds them (`transaction.state.log.*`).
"""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Times are milliseconds. Every field is the configuration key of its name, with dots."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    record_bytes_max: int = 1_048_588
    """The largest batch that the topic takes (`max.message.bytes`): a record that is larger is never written."""
