"""Atomic batches on a core of transactions without its driver (transaction_core.py)."""

from __future__ import annotations

from itertools import count

from penstock.messages.transactions.atomic_batches import (
    AbortAtomicBatchRequest,
    AbortAtomicBatchResponse,
    BeginAtomicBatchRequest,
    BeginAtomicBatchResponse,
    CommitAtomicBatchRequest,
    CommitAtomicBatchResponse,
)
from penstock.types import ProducerIdAndEpoch, TopicPartition
from tests.support.transaction_core import P0, TIMEOUT_MS, TransactionsHere

Writer = ProducerIdAndEpoch


def name_of(writer: Writer, application: str = "app") -> str:
    return f"penstock.batch:{application}#{writer.producer_id}"


class BatchesHere(TransactionsHere):
    """The coordinator of the applications of a test."""

    def load(self) -> None:
        """Another broker leads, and has not begun to look at what is open. Producer ids are never given twice."""
        self.fresh = count(2000)
        self.shard = self._loaded()

    def begin(
        self,
        version: int,
        *,
        application: str = "app",
        run: str = "",
        goes_back: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        one_off: bool = False,
    ) -> Writer | None:
        request = BeginAtomicBatchRequest(application, version, timeout_ms, run, goes_back, one_off)
        answer: BeginAtomicBatchResponse = self.ask(request)
        if answer.is_committed:
            assert answer == BeginAtomicBatchResponse(True)
            return None
        writer = Writer(answer.producer_id, answer.producer_epoch)
        assert answer.transactional_id == name_of(writer, application)
        return writer

    def begun(self, version: int, *partitions: TopicPartition, run: str = "", application: str = "app") -> Writer:
        """A writer that has written to these partitions."""
        writer = self.begin(version, run=run, application=application)
        assert writer is not None
        if partitions:
            assert self.writes(writer, *partitions, application=application) is None
        return writer

    def writes(self, writer: Writer, *partitions: TopicPartition, application: str = "app") -> Exception | None:
        """The error of the leader's question, if there is one."""
        errors = self.add((writer.producer_id, writer.epoch), *(partitions or (P0,)), name=name_of(writer, application))
        return errors[0]

    def commit(
        self,
        version: int,
        *writers: Writer,
        application: str = "app",
        run: str = "",
        goes_back: bool = False,
        records: int = -1,
    ) -> bool:
        request = CommitAtomicBatchRequest(application, version, writers, run, goes_back, records)
        answer: CommitAtomicBatchResponse = self.ask(request)
        return answer.was_committed

    def abort(self, version: int, *, application: str = "app", run: str = "") -> bool:
        answer: AbortAtomicBatchResponse = self.ask(AbortAtomicBatchRequest(application, version, run))
        return answer.is_committed

    def states(self, *writers: Writer, application: str = "app") -> list[str]:
        return [self.state(name_of(writer, application)) for writer in writers]

    def ends(self) -> dict[int, bool]:
        """By producer id, the markers that left since the last look; they are written now."""
        return {end.producer_id: end.is_committed for end in self.markers_written()}
