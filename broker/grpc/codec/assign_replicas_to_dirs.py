"""AssignReplicasToDirs, between protobuf and values; and the replicas in log dirs, a part of two requests."""

from __future__ import annotations

from collections.abc import Iterable

from broker.grpc.codec.error import error_to_pb
from metadata.requests import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, HostedReplicas
from penstock.error_message import error_in_message
from penstock.pb import controller_pb2


def request_from_pb(m: controller_pb2.AssignReplicasToDirsRequest) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(m.broker_id, m.broker_epoch, hosted_from_pb(m.replicas))


def request_to_pb(r: AssignReplicasToDirsRequest) -> controller_pb2.AssignReplicasToDirsRequest:
    return controller_pb2.AssignReplicasToDirsRequest(
        broker_id=r.broker_id, broker_epoch=r.broker_epoch, replicas=hosted_to_pb(r.replicas)
    )


def response_to_pb(r: AssignReplicasToDirsResponse) -> controller_pb2.AssignReplicasToDirsResponse:
    return controller_pb2.AssignReplicasToDirsResponse(
        replicas=[
            controller_pb2.AssignedReplica(topic_id=a.topic_id, partition=a.partition, error=error_to_pb(a.error))
            for a in r.replicas
        ]
    )


def response_from_pb(m: controller_pb2.AssignReplicasToDirsResponse) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        tuple(AssignedReplica(a.topic_id, a.partition, error_in_message(a.error)) for a in m.replicas)
    )


def hosted_from_pb(messages: Iterable[controller_pb2.HostedReplicas]) -> tuple[HostedReplicas, ...]:
    return tuple(HostedReplicas(m.topic_id, tuple(m.partitions), m.log_dir) for m in messages)


def hosted_to_pb(replicas: Iterable[HostedReplicas]) -> list[controller_pb2.HostedReplicas]:
    return [
        controller_pb2.HostedReplicas(topic_id=held.topic_id, partitions=held.partitions, log_dir=held.log_dir)
        for held in replicas
    ]
