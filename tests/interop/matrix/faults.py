"""The known causes of features that fail for a client, in words for the page; none of them is ours to mend.

Each was found in the client's code or in what it sent, or its project knows of it. A feature that fails and is not here
has an unknown cause.
"""

from __future__ import annotations

import fnmatch

UNKNOWN = "the cause is not known."
NO_LOG_DIRS = "it asks for log dirs by version 0 alone, which Kafka 4 and Penstock do not have."
FAULTS: dict[tuple[str, str, str], str] = {
    ("kafka-python", "2.*", "operate"): NO_LOG_DIRS,
    ("sarama", "1.38.*", "operate"): NO_LOG_DIRS,
    ("kafka-python", "2.3.*", "acks-0"): "it queues a request without an answer, and never sends it.",
    ("kafka-python", "2.3.*", "transactions-offsets"): (
        "its sender ends with a ValueError in an abort whose records are not yet acked, and the abort never returns."
    ),
    ("sarama", "1.38.*", "*-eager"): (
        "it commits offsets by version 1 of OffsetCommit, which Kafka 4 and Penstock do not have; with"
        " `Consumer.Offsets.Retention` set it commits by version 2."
    ),
    ("sarama", "1.[34]*", "kill-idempotent"): (
        "its idempotent producer can lose its place in the sequence when a broker dies (its issues 2619, 2803,"
        " 2860); it does not do so each time."
    ),
    ("platformatic", "1.*", "kill*"): "it asks the dead leader 61 times, and does not ask for the new one.",
    ("platformatic", "1.*", "share-eager"): "the cause is not known; it passed in two later runs.",
    ("kafka-go", "*", "transactions-read"): (
        "it reads the list of aborted transactions of an answer, and gives their records to the reader all the same."
    ),
    ("kafka-go", "*", "empties"): "its reader makes null of an empty key or value.",
}
"""Client, versions and features, as patterns of file names, and why they fail."""


def fault_of(client: str, version: str, feature: str) -> str:
    for (name, versions, features), why in FAULTS.items():
        if name == client and fnmatch.fnmatch(version, versions) and fnmatch.fnmatch(feature, features):
            return why
    return UNKNOWN
