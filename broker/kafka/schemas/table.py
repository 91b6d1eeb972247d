"""All messages that are declared: the requests and the responses by API key. Each module of this folder is looked
through, so a new one is listed nowhere."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Final

from broker.kafka import schemas
from broker.kafka_codec.structs import facts_of


def _modules() -> tuple[ModuleType, ...]:
    found = (module.name for module in walk_packages(schemas.__path__, f"{schemas.__name__}."))
    return tuple(import_module(name) for name in found if name != __name__)


def _declared(module: ModuleType) -> list[type]:
    values = [value for value in vars(module).values() if isinstance(value, type)]
    return [value for value in values if "__wire__" in vars(value) and facts_of(value).is_message]


def _by_key(suffix: str) -> dict[int, type]:
    ends = [(facts_of(one).key, one) for one in MESSAGES if one.__name__.endswith(suffix)]
    return {key: one for key, one in ends if key is not None}


MESSAGES: Final = tuple(message for module in _modules() for message in _declared(module))
REQUESTS: Final = _by_key("Request")
RESPONSES: Final = _by_key("Response")
"""The responses by API key, as `REQUESTS` has the requests."""
