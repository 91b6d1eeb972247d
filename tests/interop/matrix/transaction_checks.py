"""The features of a client that has to do with transactions: what is committed is read, and what is not is not.

What a client has written is read by the reference client, at both levels of isolation; what it reads was written by the
reference client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.drivers.serve import RELAYED
from tests.interop.matrix.checks import Stage, equal, eventually
from tests.interop.matrix.process import DriverProcess

SOME = 20
Transaction = dict[str, Any]


def _transaction(number: int, end: str) -> Transaction:
    return {"values": [f"{number}-{n}-{end}" for n in range(SOME)], "end": end}


def _transact(client: DriverProcess, topic: str, transactions: list[Transaction]) -> None:
    client.ask("transact", topic=topic, partition=0, id=f"x-{topic}", transactions=transactions)


def _reads(client: DriverProcess, topic: str, isolation: str, values: list[str]) -> None:
    found = client.ask("read", topic=topic, partition=0, isolation=isolation, count=len(values))["values"]
    equal(found, values)


def _values(transactions: list[Transaction]) -> list[str]:
    return [value for one in transactions for value in one["values"]]


def _mixed(stage: Stage, writer: DriverProcess, reader: DriverProcess, ends: tuple[str, ...]) -> None:
    """The last one is committed, so that a reader would see records of those before that it should not."""
    topic = stage.topic()
    transactions = [_transaction(number, end) for number, end in enumerate(ends)]
    _transact(writer, topic, transactions)
    committed = [one for one in transactions if one["end"] == "commit"]
    _reads(reader, topic, "read_committed", _values(committed))
    _reads(reader, topic, "read_uncommitted", _values(transactions))


def commits(stage: Stage) -> None:
    _mixed(stage, stage.client, stage.reference, ("commit", "commit", "commit"))


def aborts(stage: Stage) -> None:
    _mixed(stage, stage.client, stage.reference, ("commit", "abort", "abort", "commit"))


def reads_committed(stage: Stage) -> None:
    _mixed(stage, stage.reference, stage.client, ("abort", "commit", "abort", "commit"))


def fences(stage: Stage) -> None:
    """A second producer with the same id takes over: the first one cannot commit any more."""
    topic = stage.topic()
    answer = stage.client.ask("fence", topic=topic, partition=0, id=f"x-{topic}", older="older", newer="newer")
    refused = (answer["refused"] or "nothing").lower()
    if "fence" not in refused and "epoch" not in refused:
        raise AssertionError(f"the older producer was told {refused}")
    _transact(stage.reference, topic, [{"values": ["last"], "end": "commit"}])
    _reads(stage.reference, topic, "read_committed", ["newer", "last"])


def sends_offsets(stage: Stage) -> None:
    """Offsets count if the transaction is committed, and the records of one that is aborted are read again."""
    source, topic = stage.topic(), stage.topic()
    records = [{"key": None, "value": f"{n}"} for n in range(2 * RELAYED)]
    stage.reference.ask(
        "produce", topic=source, partition=0, records=records, codec="none", acks="all", idempotent=False
    )
    group, ends = f"g-{source}", ["abort", "commit", "abort", "commit"]
    stage.client.ask("relay", source=source, topic=topic, group=group, id=f"x-{topic}", ends=ends)
    equal(stage.reference.ask("committed", topic=source, group=group)["offsets"], {"0": 2 * RELAYED})
    _reads(stage.reference, topic, "read_committed", [record["value"] for record in records])


def inspects(stage: Stage) -> None:
    topic = stage.topic()
    _transact(stage.reference, topic, [_transaction(0, "commit")])

    def answers() -> None:
        answer = stage.client.ask("inspect", topic=topic, id=f"x-{topic}")
        wrong = [f"{name}: {value}" for name, value in answer.items() if value is not True]
        if wrong:
            raise AssertionError(", ".join(wrong))

    eventually(answers)


TRANSACTIONS: dict[str, Callable[[Stage], None]] = {
    "transactions-commit": commits,
    "transactions-abort": aborts,
    "transactions-read": reads_committed,
    "transactions-fence": fences,
    "transactions-offsets": sends_offsets,
    "transactions-admin": inspects,
}
"""In the order of the rows."""
