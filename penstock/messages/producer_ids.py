"""InitProducerId, and AllocateProducerIds between a broker and the controller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Asks for a producer id."""


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse:
    """An id that no other producer has, and its first epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest:
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse:
    """The block: `count` ids from `first_producer_id` on, which nobody was given before."""

    first_producer_id: int
    count: int
