"""Batch reads by Spark on demand: python -m tests.chaos.spark_reads BOOTSTRAP; a line in, a line out.

A request has a topic and two maps of partition to offset; the answer has, by partition, offsets and values (as
latin-1), sorted by offset with nothing left out, or an error. Fetches are small, so that a task takes many.
"""

from __future__ import annotations

import json
import sys

from penstock.spark.session import spark_session

FETCH_BYTES = 16_384


def main(bootstrap: str) -> None:
    """Answers until stdin ends."""
    session = spark_session("chaos", "local[1]", quick=True)
    for line in sys.stdin:
        request = json.loads(line)
        topic = request["topic"]
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": json.dumps({topic: request["begins"]}),
            "endingOffsets": json.dumps({topic: request["ends"]}),
            "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        }
        found: dict[int, tuple[list[int], list[str]]] = {}
        try:
            frame = session.read.format("penstock").options(**options).load()
            rows = frame.select("partition", "offset", "value").collect()
        except Exception as error:  # a job that fails is an answer
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}), flush=True)
            continue
        for partition, offset, value in sorted(rows, key=lambda row: (row[0], row[1])):
            offsets, values = found.setdefault(partition, ([], []))
            offsets.append(offset)
            values.append(bytes(value).decode("latin-1"))
        print(json.dumps(found), flush=True)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
