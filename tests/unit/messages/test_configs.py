"""Config changes that a broker forwards arrive at the controller unchanged, and so do the answers."""

from __future__ import annotations

from penstock.errors import InvalidConfigError
from penstock.messages.client_apis import ALTER_CONFIGS
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ConfigOperation,
)
from penstock.wire.message_codec import request_codec, response_codec


def test_changes_survive_the_way_to_the_controller_even_those_that_nobody_knows() -> None:
    changes = tuple(ConfigChange(f"k{operation}", operation, "v") for operation in (*ConfigOperation, 77))
    request = AlterConfigsRequest((AlterConfigsResource("topic", "t", changes),), validate_only=True)
    codec = request_codec(ALTER_CONFIGS)
    assert codec.decode(codec.encode(request)) == request


def test_an_answer_keeps_each_resources_error() -> None:
    refused = AlterConfigsResult("topic", "t", InvalidConfigError("no such key"))
    response = AlterConfigsResponse((AlterConfigsResult("topic", "u"), refused), 42)
    codec = response_codec(ALTER_CONFIGS)
    back = codec.decode(codec.encode(response))
    assert back.metadata_offset == 42 and back.resources[0] == response.resources[0]
    assert isinstance(back.resources[1].error, InvalidConfigError)
    assert back.resources[1].error.message == "no such key"
