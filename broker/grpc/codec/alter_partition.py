"""AlterPartition, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from metadata.requests import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from penstock.error_message import error_in_message
from penstock.pb import controller_pb2


def request_from_pb(m: controller_pb2.AlterPartitionRequest) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        m.broker_id,
        m.broker_epoch,
        tuple(
            AlterPartitionData(
                p.topic_id,
                p.partition,
                p.leader_epoch,
                p.partition_epoch,
                tuple(IsrMember(i.broker_id, i.broker_epoch) for i in p.new_isr),
            )
            for p in m.partitions
        ),
    )


def request_to_pb(r: AlterPartitionRequest) -> controller_pb2.AlterPartitionRequest:
    return controller_pb2.AlterPartitionRequest(
        broker_id=r.broker_id,
        broker_epoch=r.broker_epoch,
        partitions=[
            controller_pb2.AlterPartitionData(
                topic_id=p.topic_id,
                partition=p.partition,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                new_isr=[
                    controller_pb2.IsrMember(broker_id=i.broker_id, broker_epoch=i.broker_epoch) for i in p.new_isr
                ],
            )
            for p in r.partitions
        ],
    )


def response_to_pb(r: AlterPartitionResponse) -> controller_pb2.AlterPartitionResponse:
    return controller_pb2.AlterPartitionResponse(
        partitions=[
            controller_pb2.AlterPartitionResult(
                topic_id=p.topic_id,
                partition=p.partition,
                error=error_to_pb(p.error),
                leader_id=p.leader_id,
                leader_epoch=max(0, p.leader_epoch),
                partition_epoch=max(0, p.partition_epoch),
                isr=p.isr,
                elr=p.elr,
            )
            for p in r.partitions
        ]
    )


def response_from_pb(m: controller_pb2.AlterPartitionResponse) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        tuple(
            AlterPartitionResult(
                p.topic_id,
                p.partition,
                error_in_message(p.error),
                p.leader_id,
                p.leader_epoch,
                p.partition_epoch,
                tuple(p.isr),
                tuple(p.elr),
            )
            for p in m.partitions
        )
    )
