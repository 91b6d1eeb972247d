"""The core of transactions as the side of a script (transaction_scripts.py)."""

from __future__ import annotations

from broker.transactions.transaction_metadata import EPOCH_MAX
from broker.transactions.transaction_records import TransactionLogKey
from penstock.errors import ApiError
from tests.support.transaction_core import TransactionsHere
from tests.support.transaction_scripts import Answer, Step


class OurTransactions:
    """One shard for all scripts. A failover may come after every step."""

    def __init__(self, fails_over: bool = False) -> None:
        self._here, self._fails_over = TransactionsHere(), fails_over
        self._here.topics.make("__consumer_offsets", 50)

    def act(self, name: str, step: Step) -> Answer:
        try:
            answer: Answer = getattr(self, f"_{step.verb}")(name, step)
        except ApiError as error:
            answer = Answer(error.kafka_name)
        if self._fails_over:
            self._here.failover()
        self._here.markers_written()
        return answer

    def state(self, name: str) -> tuple[str, int, tuple[str, ...]]:
        found = self._here.shard.transaction(name)
        if found is None:
            return "TRANSACTIONAL_ID_NOT_FOUND", -1, ()
        return found.state.value, found.producer_epoch, tuple(map(str, sorted(found.partitions)))

    def _init(self, name: str, step: Step) -> Answer:
        return Answer("NONE", self._here.init(name, step.named, step.timeout_ms))

    def _exhaust(self, name: str, step: Step) -> Answer:
        """As if so many had come."""
        before = self._here.transaction(name)._replace(producer_epoch=EPOCH_MAX - 2)
        self._here.take(lambda turn: turn.write(TransactionLogKey(transactional_id=name), before))
        return self._init(name, step)

    def _add(self, name: str, step: Step) -> Answer:
        is_verify = step.verb == "verify"
        errors = self._here.add(step.sender, *step.partitions, name=name, version=step.version, verify_only=is_verify)
        words = (
            f"{partition}={'NONE' if error is None else error.kafka_name}"
            for partition, error in sorted(zip(step.partitions, errors, strict=True), key=lambda one: one[0])
        )
        return Answer(" ".join(words))

    _verify = _add

    def _group(self, name: str, step: Step) -> Answer:
        self._here.add_group(step.sender, step.args[0], name)
        return Answer("NONE")

    def _end(self, name: str, step: Step) -> Answer:
        return Answer("NONE", self._here.end(step.sender, "commit" in step.args, name, step.version))

    def _timeout(self, name: str, step: Step) -> Answer:
        self._here.wait(self._here.transaction(name).timeout_ms)
        return Answer("NONE")
