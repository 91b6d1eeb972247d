"""The protocol of a driver: a process around one client, which is told what to do and says what came of it.

    python -m tests.interop.drivers.confluent BOOTSTRAP

A line of stdin is a JSON object: `do` names a verb, the rest are its arguments. The answer is a JSON object in one line
of stdout; `error` in it has the client's own words, `not_offered` says why the client cannot be asked for this. A
driver in another language speaks the same. Keys and values are text or null; a header is [key, value].

    create topic partitions replicas configs      describe topic         -> partitions: [{leader, replicas, isr}]
    cluster -> cluster_id, nodes: {id: address}   delete topic           add_partitions topic count
    configs topic -> configs                      alter_configs topic configs
    delete_records topic partition before         offsets topic partition timestamp -> earliest, latest, at_timestamp
    produce topic partition records codec acks idempotent -> offsets (null where the client was not told)
    consume topic partition at count -> records   (at: "earliest", an offset, or {"timestamp": ms})
    seek topic partition first to count -> records: those after the jump
    tail topic partition count -> {"ready": true} once it stands at the end, then records
    stream topic partitions count seconds idempotent -> {"progress": n} after a third, then
                                                        acked: [partition, offset, value], failed: texts
    follow topic partitions count -> records: [partition, offset, value], until so many different values were seen
    operate topic -> whatever the client can be asked about the cluster besides
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

WAIT_S = 20
"""How long a driver waits for records that should be there."""


class NotOffered(Exception):
    """The client has no such thing; the text says so in a few words."""


def tell(answer: dict[str, Any]) -> None:
    """One line of the driver's own stdout. What the client prints itself goes to stderr."""
    os.write(_stdout, json.dumps(answer).encode() + b"\n")


def serve(driver: Any) -> None:
    """Answers until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        verb = getattr(driver, request.pop("do"), None)
        try:
            if verb is None:
                raise NotOffered("the client has no such call")
            tell(verb(**request) or {})
        except NotOffered as error:
            tell({"not_offered": str(error)})
        except Exception as error:
            tell({"error": f"{type(error).__name__}: {error}"})
    os._exit(0)  # clients whose threads wait for a broker would keep the process


def paced(count: int, seconds: float) -> Iterator[int]:
    """0 … count - 1, spread evenly over the time."""
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number * seconds / count - time.monotonic()))
        yield number


def answers(asked: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """For `operate`: true for each question that has a true answer, or what was wrong."""
    told: dict[str, Any] = {}
    for name, ask in asked.items():
        try:
            told[name] = bool(ask()) or "empty"
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}"
    return told


class Progress:
    """Tells, once, that a third of the records were acked."""

    def __init__(self, count: int) -> None:
        self._at = count // 3
        self._acked = 0

    def acked(self) -> None:
        self._acked += 1
        if self._acked == self._at:
            tell({"progress": self._acked})


_stdout = os.dup(1)
os.dup2(2, 1)
