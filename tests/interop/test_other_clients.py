"""Real clients in Go, JavaScript and Java against a cluster: some features of each, and more at night.

Each has the version that is pinned, is installed from its registry at its first test, and is kept outside the
repository (matrix/installs.py). A client that cannot be installed is skipped with the reason, and the summary of the
tests names it. All features, and other versions, are `python -m tests.interop.matrix`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.matrix.subjects import penstock
from tests.interop.runs import Note, Runs, pairs_at_night

COMMON = (
    *("cluster", "create", "describe", "configs", "offsets", "produce-zstd", "nulls-headers", "timestamps"),
    *("consume-gzip", "from-time", "tail", "resume-eager"),
)
NIGHT = {"cluster", "create", "describe", "configs", "offsets", "nulls-headers", "timestamps", "from-time", "tail"}
"""Left to the night, since librdkafka, kafka-python and aiokafka are asked the same before each merge: a client of each
language writes, reads what is compressed, and goes on in a group."""
FEATURES = {
    "franz-go": (*COMMON, "idempotent", "resume-consumer"),
    "sarama": (*COMMON, "idempotent"),
    "kafka-go": COMMON,
    "kafkajs": (*COMMON, "idempotent"),
    "platformatic": (*COMMON, "idempotent"),
    "java": (*COMMON, "idempotent", "share-consumer", "groups", "transactions-commit", "transactions-offsets"),
    "java-tools": ("create", "configs", "groups"),
}
"""The slow ones are left to the whole matrix."""
NIGHT_OF_ONE = {
    *(("java", feature) for feature in ("share-consumer", "groups", "transactions-commit")),
    ("java-tools", "groups"),
    ("franz-go", "resume-consumer"),
}
"""Each command of Kafka's tools starts a JVM, and so does each member of a group of Java's."""
PAIRS = [(client, feature) for client, features in FEATURES.items() for feature in features]
AT_NIGHT = [pair for pair in PAIRS if pair in NIGHT_OF_ONE or (pair[1] in NIGHT and pair != ("java-tools", "create"))]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with penstock() as subject, Runs(subject) as made:
        yield made


@pytest.mark.parametrize(("client", "feature"), pairs_at_night(PAIRS, AT_NIGHT))
def test_a_client_of_another_language_gets_what_it_would_get_from_kafka(
    runs: Runs, client: str, feature: str, record_property: Note
) -> None:
    runs.require(client, feature, record_property)
