"""Waits until readers of committed records see all that is in some partitions.

A commit is answered once it is decided, and its markers come a little later. The end that a reader of committed records
is told right after that answer may lie before the transaction, so a test would miss what it has just committed. Here
the two ends, for such a reader and for one of everything, are compared until they are equal. They differ as long as a
transaction is open, so a test with one of those looks at the records itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Final

from penstock import Consumer, TopicPartition
from tests.support.waiting import wait_until

DECIDED_S: Final = 30.0
"""Longer than a failover, after which a coordinator writes the markers of the one before."""


def wait_decided(bootstrap: str, partitions: Collection[TopicPartition], timeout_s: float = DECIDED_S) -> bool:
    """True once no transaction is open in the partitions; False after `timeout_s`, for the test's own check to fail."""
    with (
        Consumer(bootstrap, isolation_level="read_uncommitted") as every,
        Consumer(bootstrap, isolation_level="read_committed") as committed,
        contextlib.suppress(TimeoutError),
    ):
        # the end of everything comes FIRST: it is no later than the end that it is compared with
        wait_until(lambda: every.end_offsets(partitions) == committed.end_offsets(partitions), timeout_s)
        return True
    return False


def wait_topic_decided(bootstrap: str, topic: str, timeout_s: float = DECIDED_S) -> bool:
    """The same for all partitions of a topic."""
    with Consumer(bootstrap) as consumer:
        partitions = consumer.partitions_for(topic)
    return wait_decided(bootstrap, partitions, timeout_s)
