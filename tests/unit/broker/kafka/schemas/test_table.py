"""Promises of the table of declared messages: a new module of schemas is in it without being listed."""

from __future__ import annotations

from pathlib import Path

from broker.kafka import schemas
from broker.kafka.schemas.table import MESSAGES, REQUESTS, RESPONSES
from broker.kafka_codec.structs import facts_of

FOLDER = Path(schemas.__file__).parent


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(FOLDER.parents[2]).with_suffix("").parts)


def test_every_module_with_a_message_is_looked_through() -> None:
    declaring = {module_of(path) for path in FOLDER.rglob("*.py") if "\n@message(" in path.read_text(encoding="utf-8")}
    assert {message.__module__ for message in MESSAGES} == declaring and len(set(MESSAGES)) == len(MESSAGES)


def test_a_request_and_its_response_have_one_key() -> None:
    assert REQUESTS.keys() == RESPONSES.keys() and len(REQUESTS) > 50
    assert all(facts_of(request).key == key == facts_of(RESPONSES[key]).key for key, request in REQUESTS.items())
