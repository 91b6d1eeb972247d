"""Views as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.console.as_json import jsonable
from penstock.errors import UnknownTopicOrPartitionError
from penstock.messages.configs import ConfigSource
from penstock.types import Endpoint, TopicPartition


@dataclass(frozen=True, slots=True)
class View:
    one: Any


def test_every_value_of_a_view_has_a_form() -> None:
    view = View(
        {
            TopicPartition("orders.eu", 3): (1, None, True),
            "at": Endpoint("a", 1),
            "source": ConfigSource.DEFAULT_CONFIG,
            "raw": b"\xff",
            "set": frozenset({1}),
            "error": UnknownTopicOrPartitionError("gone"),
            "other": View(2.5),
        }
    )
    found = json.loads(json.dumps(jsonable(view)))["one"]
    assert found["orders.eu:3"] == [1, None, True]
    assert found["at"] == {"host": "a", "port": 1}
    assert found["source"] == "DEFAULT_CONFIG" and found["raw"] == "/w==" and found["set"] == [1]
    assert found["error"] == {"name": "UNKNOWN_TOPIC_OR_PARTITION", "message": "gone"}
    assert found["other"] == {"one": 2.5}
