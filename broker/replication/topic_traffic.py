"""Counts records and bytes of each topic, for the metrics, on the leaders' side.

Each topic is some series in a monitoring system, so only a limited number of topics has counts of its own: the first
ones that are written or read, until they are deleted. All others are counted together. What was counted of a deleted
topic goes with it: added to another count, a monitoring system would show it as an increase. Changed on the event loop,
once for each batch.
"""

from __future__ import annotations

from collections.abc import Mapping

from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter

TOPICS_MAX = 200
"""Topics with counts of their own: three series each."""
OTHERS = "(others)"
"""No topic can have this name."""
_LIMIT = f"beyond {TOPICS_MAX} topics, together."


@dataclass(slots=True)
class TopicTraffic:
    """The counts of topics since the start of the node."""

    messages_in: int = counter(
        "penstock_topic_messages_in", f"Records appended for producers by topic; {_LIMIT}", default=0
    )
    bytes_in: int = counter(
        "penstock_topic_bytes_in", f"Record bytes appended for producers by topic; {_LIMIT}", default=0
    )
    bytes_out: int = counter(
        "penstock_topic_bytes_out", f"Record bytes sent to consumers by topic; {_LIMIT}", default=0
    )


class TrafficByTopic:
    """The traffic of one broker."""

    def __init__(self) -> None:
        self._others = TopicTraffic()
        self._topics: dict[str, TopicTraffic] = {}

    def of(self, topic: str) -> TopicTraffic:
        """The counters of the topic; those of all others once there are too many topics."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= TOPICS_MAX:
                return self._others
            found = self._topics[topic] = TopicTraffic()
        return found

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A subscriber of the metadata: a deleted topic gives its row to another one."""
        for topic_id in delta.deleted_topic_ids:
            self._topics.pop(delta.image.topics_by_id[topic_id].name, None)

    def statistics(self) -> Mapping[str, TopicTraffic]:
        """The traffic by topic; may be called in any thread."""
        return {**dict(self._topics), OTHERS: self._others}

    def __repr__(self) -> str:
        return f"TrafficByTopic({len(self._topics)} topics)"
