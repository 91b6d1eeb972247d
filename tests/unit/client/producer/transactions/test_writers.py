"""A plain writer of an atomic batch after its end, and that of its client."""

from __future__ import annotations

import pytest

from penstock import AtomicBatches, AtomicWriter
from penstock.client.producer.transactions.atomic_calls import Begun
from penstock.client.producer.transactions.batches_core import OpenWriter
from penstock.errors import ClientClosedError, TransactionStateError
from penstock.types import ProducerIdAndEpoch


def begun(batches: AtomicBatches) -> AtomicWriter:
    """A writer as the coordinator's answer makes one."""
    pool = batches._calls.pool

    async def abort(identity: ProducerIdAndEpoch, timeout: float | None) -> None: ...

    async def opened() -> OpenWriter:
        writer = Begun("app#7", ProducerIdAndEpoch(5, 2))
        return OpenWriter(writer, pool.begin(writer), pool, abort)

    return AtomicWriter(batches, batches._background.run(opened()))


def test_a_writer_that_is_closed_says_so_and_what_to_do() -> None:
    with AtomicBatches("127.0.0.1:1") as batches:
        writer = begun(batches)
        assert repr(writer) == "AtomicWriter(app#7, epoch 2, open)"
        writer.close()
        writer.close()
        assert repr(writer) == "AtomicWriter(app#7, epoch 2, closed)"
        for call in (lambda: writer.send("t", b"v"), writer.flush):
            with pytest.raises(TransactionStateError, match=r"^writer app#7, epoch 2, closed: begin another one$"):
                call()


def test_a_writer_can_be_closed_after_its_client_and_cannot_be_aborted() -> None:
    batches = AtomicBatches("127.0.0.1:1")
    left, late = begun(batches), begun(batches)
    batches.close()
    left.close()
    with pytest.raises(ClientClosedError):
        late.abort()
