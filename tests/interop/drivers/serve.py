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
    take topic group how count -> records: [partition, offset, value], by a member of the group that commits and leaves
    share topic group how -> {"assigned": [partition]} whenever that changes, then records, as above, once there was a
                             LAST in each partition that it had when the first record came
    committed topic group -> offsets: {partition: offset}
    administer topic group -> true, or what was wrong, of each thing that the client can do to a group without members:
                              list, describe, offsets, reset (to RESET_TO), delete offsets, delete
    transact topic partition id transactions -> the producer of that transactional id sends the `values` of each, and
                                                ends it (`end`: "commit" or "abort")
    fence topic partition id older newer -> refused: what the producer of a transaction with the value `older` was told
                                            when it committed, after one with the same id had committed `newer`
    read topic partition isolation count -> values, read with "read_committed" or "read_uncommitted"
    relay source topic group id ends -> for each end a new member of the group reads RELAYED records of `source`, and
                                        sends them to `topic` with their offsets, in a transaction that ends so
    inspect topic id -> true, or what was wrong, of each thing that the client can ask about a transactional id, whose
                        last transaction was committed: list, describe, producers, fence
    operate topic -> whatever the client can be asked about the cluster besides
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

NAME = re.compile(r"cannot import name '(\w+)'")

LAST = "last"
"""The value of the last record of a partition that members share."""
RESET_TO = 3
RELAYED = 10
"""Records that are sent on in one transaction."""
WAIT_S = 40
"""How long a driver waits for records that should be there."""
_ANSWERS = [1]
"""The last one is the descriptor for answers; its own one once this process serves."""


class NotOffered(Exception):
    """The client has no such thing; the text says so in a few words."""


def lacks(error: BaseException) -> str | None:
    """A name that the driver took from the client's library and that this version does not have, or none.

    An error below the driver's own lines is the library's, and says nothing of the kind.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or Path(at.tb_frame.f_code.co_filename).parent != Path(__file__).parent:
        return None
    if isinstance(error, ImportError):
        return f"{error.name}.{found[1]}" if (found := NAME.search(str(error))) else error.name
    return error.name if isinstance(error, AttributeError) and not _is_drivers(error.obj) else None


def _is_drivers(value: Any) -> bool:
    """Its type is one of the drivers' own, or of Python's: a mistake of a driver is no gap of a client."""
    module = value.__name__ if inspect.ismodule(value) else type(value).__module__
    return module == "__main__" or module.partition(".")[0] in {"tests", *sys.stdlib_module_names}


def tell(answer: dict[str, Any]) -> None:
    """One line of the driver's own stdout. What the client prints itself goes to stderr."""
    os.write(_ANSWERS[-1], json.dumps(answer).encode() + b"\n")


def serve(*drivers: Any) -> None:
    """Answers until stdin ends, by the first driver that has the verb."""
    _ANSWERS.append(os.dup(1))
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("do")
        verb = next((found for driver in drivers if (found := getattr(driver, name, None)) is not None), None)
        try:
            if verb is None:
                raise NotOffered("the client has no such call")
            tell(verb(**request) or {})
        except NotOffered as error:
            tell({"not_offered": str(error)})
        except Exception as error:
            if (name := lacks(error)) is not None:
                tell({"not_offered": f"this version has no {name}"})
            else:
                tell({"error": f"{type(error).__name__}: {error}"})
    os._exit(0)  # clients whose threads wait for a broker would keep the process


def paced(count: int, seconds: float) -> Iterator[int]:
    """0 … count - 1, spread evenly over the time."""
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number * seconds / count - time.monotonic()))
        yield number


def answers(asked: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """For `operate`: true for each question that has a true answer, or what was wrong. Questions that this version of
    the client does not have are left out."""
    answer: dict[str, Any] = {}
    for name, ask in asked.items():
        try:
            answer[name] = bool(ask()) or "empty"
        except Exception as error:
            if lacks(error) is None:
                answer[name] = f"{type(error).__name__}: {error}"
    if not answer:
        raise NotOffered(f"this version has none of: {', '.join(asked)}")
    return answer


class Shared:
    """The records of one member that shares a topic with others, and whether it has all that is its own."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, str]] = []
        self._assigned: list[int] = []
        self._own: set[int] | None = None
        self._ended: set[int] = set()
        self._deadline = time.monotonic() + 3 * WAIT_S

    def assigned(self, partitions: Iterable[int]) -> None:
        """As the client says now."""
        if (now := sorted(partitions)) != self._assigned:
            self._assigned = now
            tell({"assigned": now})

    def add(self, partition: int, offset: int, value: str) -> None:
        if self._own is None:
            self._own = set(self._assigned)
        self.records.append((partition, offset, value))
        if value == LAST:
            self._ended.add(partition)

    @property
    def is_over(self) -> bool:
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"{len(self.records)} records came, of {self._own}, and all of {self._ended}")
        return self._own is not None and self._own <= self._ended


class Progress:
    """Tells, once, that a third of the records were acked."""

    def __init__(self, count: int) -> None:
        self._at = count // 3
        self._acked = 0

    def acked(self) -> None:
        self._acked += 1
        if self._acked == self._at:
            tell({"progress": self._acked})
