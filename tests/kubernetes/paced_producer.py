"""Runs in a container beside the pods: `python paced_producer.py DIRECTORY RATE` writes numbers to the topic orders.

At RATE a second until DIRECTORY has a file `stop`; then it reads the topic, and prints as JSON how many were acked,
failed, lost and doubled, and the longest time between two acks. Needs the package penstock alone.
"""

import json
import os
import sys
import time
from concurrent.futures import Future
from pathlib import Path

from penstock import Consumer, Producer, RecordMetadata, TopicPartition

WHO = {"tls_ca": os.environ["PENSTOCK_TLS_CA"], "username": os.environ["PENSTOCK_USERNAME"]}
WHO |= {"password_file": os.environ["PENSTOCK_PASSWORD_FILE"]}
BOOTSTRAP = os.environ["PENSTOCK_BOOTSTRAP"]


def main(directory: Path, rate: int) -> None:
    """The program."""
    acked: set[int] = set()
    failed: list[str] = []
    last_ack, longest = time.monotonic(), 0.0

    def ended(number: int, future: "Future[RecordMetadata]") -> None:
        nonlocal last_ack, longest
        error = future.exception()
        if error is not None:
            failed.append(repr(error))
            return
        acked.add(number)
        now = time.monotonic()
        longest, last_ack = max(longest, now - last_ack), now

    sent, began = 0, time.monotonic()
    with Producer(BOOTSTRAP, acks="all", linger_ms=5, **WHO) as producer:
        (directory / "begun").touch()
        while not (directory / "stop").exists():
            due = int((time.monotonic() - began) * rate)
            for number in range(sent, due):
                producer.send("orders", value=b"n%d" % number).add_done_callback(lambda done, n=number: ended(n, done))
            sent = max(sent, due)
            time.sleep(0.01)
    seen = read_numbers()
    counts = {
        "acked": len(acked),
        "failed": len(failed),
        "lost": len(acked - set(seen)),
        "doubled": len(seen) - len(set(seen)),
    }
    print(json.dumps({**counts, "longest_gap_ms": round(longest * 1000), "errors": failed[:3]}))


def read_numbers() -> list[int]:
    found = []
    with Consumer(BOOTSTRAP, **WHO) as consumer:
        partitions = [TopicPartition("orders", number) for number in range(6)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [int(one.value[1:]) for one in consumer.poll(timeout_ms=1000) if one.value[:1] == b"n"]
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
