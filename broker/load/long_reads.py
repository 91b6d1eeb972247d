"""Remembers whose reads take long, so that their next ones have turns among the long work (long_work.py). Pure.

A request of few bytes may ask for all groups, ACLs or topics, or for a record of a log with a thousand segments. What
that takes of the event loop is not known before, and most of them take little. So the last one counts: after one of
READS that took a piece or more, the party waits for a turn with its next one of that API. Once one has taken little, no
other of the party waits any longer: else a queue from a slow moment would have a turn for each, behind all other
parties', and members would miss their session time-out by heartbeats that take nothing.

Not here: requests with many elements, which are long work from the first one on (dispatcher.py).
"""

from __future__ import annotations

from typing import Final

from broker.load.long_work import PIECE_NS

READS: Final = frozenset(
    {
        "ConsumerGroupHeartbeat",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "ListGroups",
        "ListOffsets",
        "ListTransactions",
        "Metadata",
        "OffsetFetch",
    }
)
"""The APIs whose requests may be overtaken by others of the same client: they change nothing, or, as heartbeats, are
sent one at a time by whom they change."""
HEARTBEAT: Final = "ConsumerGroupHeartbeat"
"""One with a pattern may look at the names of all topics. Any other keeps its member in the group, and never waits."""
REMEMBERED_MAX: Final = 1_000


def may_take_long(api: str, body: object) -> bool:
    """True of a request that may cost more than its bytes tell."""
    return api in READS and (api != HEARTBEAT or getattr(body, "subscribed_topic_regex", None) is not None)


class LongReads:
    """The reads of one node that took long."""

    def __init__(self) -> None:
        self._long: dict[tuple[str, str], None] = {}
        """Their APIs and parties; the oldest first."""

    def is_long(self, api: str, party: str) -> bool:
        """True if the party's last request of that API took long."""
        return (api, party) in self._long

    def took(self, api: str, party: str, spent_ns: int) -> None:
        """A request of the party took `spent_ns` of the event loop."""
        if api not in READS:
            return
        self._long.pop((api, party), None)
        if spent_ns >= PIECE_NS:
            self._long[api, party] = None
            if len(self._long) > REMEMBERED_MAX:
                del self._long[next(iter(self._long))]

    def __repr__(self) -> str:
        return f"LongReads({len(self._long)} remembered)"
