"""AssignReplicasToDirs, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec import hosted_replicas
from broker.grpc.codec.error import error_to_pb
from metadata.requests import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.error_message import error_in_message
from penstock.pb import controller_pb2


def request_from_pb(m: controller_pb2.AssignReplicasToDirsRequest) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(m.broker_id, m.broker_epoch, hosted_replicas.from_pb(m.replicas))


def request_to_pb(r: AssignReplicasToDirsRequest) -> controller_pb2.AssignReplicasToDirsRequest:
    return controller_pb2.AssignReplicasToDirsRequest(
        broker_id=r.broker_id, broker_epoch=r.broker_epoch, replicas=hosted_replicas.to_pb(r.replicas)
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
