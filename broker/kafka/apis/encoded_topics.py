"""The topics of Metadata answers in bytes, kept while their views (`broker/apis/cluster/topic_views.py`) are the same.

All clients of a cluster ask for its metadata every few minutes, and again whenever a leader changes. The bytes of a
topic are the same in each answer of a version at a listener, so they are made once, and an answer joins them. A client
that asks for what nobody asked for before pays as if nothing were kept.

At most CACHE_BYTES_MAX are kept; the version that was asked for longest ago goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sized
from typing import Final, NamedTuple, Protocol

from broker.kafka.schemas.metadata import MetadataResponse, MetadataResponseTopic
from broker.kafka_codec.codec import encode_element
from penstock.messages.metadata import TopicInfo

CACHE_BYTES_MAX: Final = 32 << 20
"""About 700,000 partitions with three replicas."""


class Form(NamedTuple):
    """The clients that get the same bytes."""

    listener: str
    version: int
    operations: int


class Topics(Container[object], Sized, Protocol):
    """The ids of the topics that there are."""


class _Encoded:
    """The bytes of one form, by topic id, each with the view that they are made of."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[TopicInfo, bytes]] = {}
        self.size = 0

    def put(self, view: TopicInfo, encoded: bytes, topics: Topics) -> None:
        self._drop(view.topic_id)
        self.topics[view.topic_id] = view, encoded
        self.size += len(encoded)
        if len(self.topics) > len(topics):
            for topic_id in [topic_id for topic_id in self.topics if topic_id not in topics]:
                self._drop(topic_id)

    def _drop(self, topic_id: str) -> None:
        if (known := self.topics.pop(topic_id, None)) is not None:
            self.size -= len(known[1])


class EncodedTopics:
    """The bytes that one node keeps."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._forms: dict[Form, _Encoded] = {}
        """The form that was asked for last comes last."""

    @property
    def size_bytes(self) -> int:
        return sum(found.size for found in self._forms.values())

    def form(self, form: Form, topics: Topics) -> Callable[[TopicInfo, Callable[[], MetadataResponseTopic]], bytes]:
        """Gives the bytes of a topic by its view, and makes them of the struct where they are not kept."""
        found = self._forms.pop(form) if form in self._forms else _Encoded()
        self._forms[form] = found

        def encoded(view: TopicInfo, struct: Callable[[], MetadataResponseTopic]) -> bytes:
            known = found.topics.get(view.topic_id)
            if known is not None and known[0] is view:
                return known[1]
            made = encode_element(struct(), MetadataResponse, form.version)
            if view.topic_id:
                found.put(view, made, topics)
                self._make_room()
            return made

        return encoded

    def _make_room(self) -> None:
        while self._forms and self.size_bytes > self._bytes_max:
            del self._forms[next(iter(self._forms))]

    def __repr__(self) -> str:
        return f"EncodedTopics({len(self._forms)} forms, {self.size_bytes} bytes)"
