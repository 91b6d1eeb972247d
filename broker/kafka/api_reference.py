"""Makes docs/kafka-apis.md of the table of APIs: `python -m broker.kafka.api_reference > docs/kafka-apis.md`.

A test compares the page with this module, so an API is not served without its line. Not here: what differs from Kafka
behind these APIs (docs/kafka-clients.md).
"""

from __future__ import annotations

import sys
from typing import Final

from broker.kafka.api_row import ApiRow
from broker.kafka.api_rows import SERVED
from broker.kafka_codec.structs import facts_of

INTRODUCTION = """# APIs of Kafka's protocol

Made from `broker/kafka/api_rows.py` by `python -m broker.kafka.api_reference`; do not edit by hand.

The APIs that a listener of the type KAFKA serves ([Kafka's clients](kafka-clients.md)). *Versions* are those that
ApiVersions tells clients, *Kafka's* those of Apache Kafka 4.4. A request of another API or version ends the connection,
as in Kafka, and the node's log says so; ApiVersions itself answers with UNSUPPORTED_VERSION and this table. Produce
tells versions that Kafka 4 tells, too, and answers with an error below 3: by these, older clients of librdkafka know
that they may compress.

*Elements* are those of all arrays of one request together, nested ones too. A request with more ends its connection
before it costs work; of those that are worked on at once a node has 20,000, one address half of them, and others wait.
`socket.request.max.bytes` bounds every request ([configuration](configuration.md)), 8 MiB one without records, and
1 MiB a JoinGroup, which its group's coordinator keeps. The next request of a connection is read when this one is
answered, as in Kafka; after Produce, and after an OffsetCommit of up to 2,000 partitions, at once. A request that comes
slower than 1 kB a second for half a minute loses its connection, because it holds memory. So does the client that reads
an answer as slowly, or too slowly to have it within a minute.

| key | API | versions | Kafka's | elements |
| --- | --- | --- | --- | --- |
"""
NOT_SERVED = """
## Not served
Clients are not told of these, so they do without them or say that the cluster is too old for them.

"""
NEWER_IN_4_4: Final = {18: 5, 28: 6, 42: 3}
"""The last versions of APIs that Kafka 4.4 has and our schemas, which are those of 4.3, do not."""
LEFT_OUT: Final = {
    27: "WriteTxnMarkers",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
    93: "StreamsGroupTopologyDescriptionUpdate",
}
"""The APIs of Kafka 4.4 for clients that no listener serves, by their keys. Their messages are not declared."""


def reference() -> str:
    """The page."""
    rows = {one.row.key: one.row for one in SERVED}
    left = [f"{name} ({key})" for key, name in LEFT_OUT.items()]
    served = "".join(_row(rows[key]) for key in sorted(rows))
    return INTRODUCTION + served + NOT_SERVED + ", ".join(sorted(left)) + ".\n"


def _row(row: ApiRow) -> str:
    versions, (first, last) = row.advertised or row.versions, facts_of(row.request).versions
    kafkas = _range(first, NEWER_IN_4_4.get(row.key, last))
    cells = (str(row.key), row.name, _range(*versions), kafkas, f"{row.elements_max:,}")
    return f"| {' | '.join(cells)} |\n"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


if __name__ == "__main__":
    sys.stdout.write(reference())
