"""AlterConfigs and DescribeConfigs, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from metadata.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
)
from penstock.error_message import error_in_message
from penstock.pb import configs_pb2


def alter_configs_from_pb(message: configs_pb2.AlterConfigsRequest) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        tuple(
            AlterConfigsResource(
                r.resource_type,
                r.resource_name,
                tuple(ConfigChange(c.key, int(c.operation), c.value) for c in r.changes),
            )
            for r in message.resources
        ),
        message.validate_only,
    )


def alter_configs_to_pb(request: AlterConfigsRequest, timeout_ms: int) -> configs_pb2.AlterConfigsRequest:
    message = configs_pb2.AlterConfigsRequest(timeout_ms=timeout_ms, validate_only=request.validate_only)
    for resource in request.resources:
        entry = message.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
        for change in resource.changes:
            # An enum is open on the wire: a number that is not known travels on, to be judged by the controller.
            made = configs_pb2.ConfigChange(key=change.key, value=change.value)
            made.operation = change.operation  # type: ignore[assignment]
            entry.changes.append(made)
    return message


def alter_configs_response_to_pb(response: AlterConfigsResponse) -> configs_pb2.AlterConfigsResponse:
    return configs_pb2.AlterConfigsResponse(
        resources=[
            configs_pb2.AlterConfigsResult(
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                error=error_to_pb(r.error),
            )
            for r in response.resources
        ],
        metadata_offset=response.metadata_offset,
    )


def alter_configs_response_from_pb(message: configs_pb2.AlterConfigsResponse) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        tuple(
            AlterConfigsResult(r.resource_type, r.resource_name, error_in_message(r.error)) for r in message.resources
        ),
        message.metadata_offset,
    )


def describe_configs_from_pb(message: configs_pb2.DescribeConfigsRequest) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        tuple(DescribeConfigsResource(r.resource_type, r.resource_name, tuple(r.keys)) for r in message.resources)
    )


def describe_configs_to_pb(response: DescribeConfigsResponse) -> configs_pb2.DescribeConfigsResponse:
    return configs_pb2.DescribeConfigsResponse(
        resources=[_described(result) for result in response.resources], metadata_offset=response.metadata_offset
    )


def _described(result: DescribeConfigsResult) -> configs_pb2.DescribeConfigsResult:
    message = configs_pb2.DescribeConfigsResult(
        resource_type=result.resource_type,
        resource_name=result.resource_name,
        error=error_to_pb(result.error),
    )
    for entry in result.configs:
        message.configs.add(
            key=entry.key,
            value=entry.value,
            source=configs_pb2.ConfigSource.Name(entry.source),
            type=entry.type,
            documentation=entry.documentation,
            is_read_only=entry.is_read_only,
        )
    return message
