"""The figures of a broker's questions to coordinators of transactions, for the metrics."""

from __future__ import annotations

from penstock.metric_fields import counter, gauge, measured


@measured
class VerificationStatistics:
    """Now, and since the start."""

    waiting: int = gauge(
        "penstock_transaction_verifications_waiting",
        "Partitions led here for which the coordinator of a transaction is being asked whether they belong to it.",
    )
    confirmed: int = counter(
        "penstock_transaction_verifications", "Partitions that a coordinator has confirmed, or added."
    )
    failed: int = counter(
        "penstock_transaction_verifications_failed",
        "Partitions that a coordinator has refused, or of which it has not answered in time. Nothing was written.",
    )
