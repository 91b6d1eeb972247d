"""Config changes that a broker forwards arrive at the controller unchanged, and so do the answers."""

from __future__ import annotations

from broker.grpc.codec import configs
from metadata.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ConfigOperation,
)
from penstock.errors import InvalidConfigError
from penstock.pb import configs_pb2


def test_changes_survive_the_way_to_the_controller_even_those_that_nobody_knows() -> None:
    changes = tuple(ConfigChange(f"k{operation}", operation, "v") for operation in (*ConfigOperation, 77))
    request = AlterConfigsRequest((AlterConfigsResource("topic", "t", changes),), validate_only=True)
    message = configs.alter_configs_to_pb(request, 500)
    assert message.timeout_ms == 500
    there = configs_pb2.AlterConfigsRequest.FromString(message.SerializeToString())
    assert configs.alter_configs_from_pb(there) == request


def test_an_answer_keeps_each_resources_error() -> None:
    refused = AlterConfigsResult("topic", "t", InvalidConfigError("no such key"))
    response = AlterConfigsResponse((AlterConfigsResult("topic", "u"), refused), 42)
    back = configs.alter_configs_response_from_pb(configs.alter_configs_response_to_pb(response))
    assert back.metadata_offset == 42 and back.resources[0] == response.resources[0]
    assert isinstance(back.resources[1].error, InvalidConfigError)
    assert back.resources[1].error.message == "no such key"
