"""The replicas in a broker's log dirs, between protobuf and values: a part of two requests."""

from __future__ import annotations

from collections.abc import Iterable

from metadata.requests import HostedReplicas
from penstock.pb import controller_pb2


def from_pb(messages: Iterable[controller_pb2.HostedReplicas]) -> tuple[HostedReplicas, ...]:
    return tuple(HostedReplicas(m.topic_id, tuple(m.partitions), m.log_dir) for m in messages)


def to_pb(replicas: Iterable[HostedReplicas]) -> list[controller_pb2.HostedReplicas]:
    return [
        controller_pb2.HostedReplicas(topic_id=held.topic_id, partitions=held.partitions, log_dir=held.log_dir)
        for held in replicas
    ]
