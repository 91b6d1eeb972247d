"""The cores of a user's clients: the invariants look at what a client knows, and a fault makes one short of memory.

The classes that users see have no way to them, and should have none.
"""

from __future__ import annotations

from typing import overload

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.async_admin import AsyncAdmin
from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.producer.async_producer import AsyncProducer
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.async_atomic_batches import AsyncAtomicBatches
from penstock.client.producer.transactions.batches_core import BatchesCore


@overload
def core_of(client: AsyncAtomicBatches) -> BatchesCore: ...
@overload
def core_of(client: AsyncAdmin) -> AdminCore: ...
@overload
def core_of(client: AsyncConsumer) -> ConsumerCore: ...
@overload
def core_of(client: AsyncProducer) -> ProducerCore: ...
def core_of(
    client: AsyncAdmin | AsyncAtomicBatches | AsyncConsumer | AsyncProducer,
) -> AdminCore | BatchesCore | ConsumerCore | ProducerCore:
    """The same object as long as the client lives."""
    return client._calls if isinstance(client, AsyncAtomicBatches) else client._core
