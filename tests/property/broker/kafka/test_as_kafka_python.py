"""Our bytes are those of kafka-python, which reads Kafka's definitions, and both read the same values in them."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from random import Random
from typing import Any

from broker.kafka_codec.codec import decode, encode
from tests.support.kafka_messages import PAIRS, differences, drawn, spelled

DRAWN = 2
PREFIXED = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")
"""Data that carries its version in front of it."""


def their_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its definitions by a function that will go
        import kafka.protocol

        for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and not module.name.endswith("generate_stubs"):
                values = vars(importlib.import_module(module.name))
                found |= {name: value for name, value in values.items() if hasattr(value, "valid_versions")}
    return found


def their_fields(theirs: Any, version: int) -> list[tuple[str, Any]]:
    names = [field.name for field in theirs._struct._fields if field.for_version_q(version)]
    return [(name, getattr(theirs, name)) for name in names]


def plain(value: Any) -> Any:
    """It makes a set of the bits of authorized operations."""
    if isinstance(value, set):
        bits = sum(1 << bit for bit in value)
        return bits - (1 << 32) if bits >> 31 else bits
    return spelled(value)


def same_name(ours: str, theirs: str) -> bool:
    return theirs == ours or (theirs == "authorized_operations" and ours.endswith(theirs))


def test_every_message_that_kafka_python_has_has_its_bytes_and_its_values() -> None:
    theirs_by_name = their_classes()
    compared = set()
    for cls, version in PAIRS:
        theirs_cls = theirs_by_name.get(cls.__name__)
        if theirs_cls is None or version > theirs_cls.valid_versions[1]:
            continue
        prefix = version.to_bytes(2, "big") if cls.__name__ in PREFIXED else b""
        for seed in range(DRAWN):
            ours = drawn(cls, version, Random(f"{cls.__name__} {version} {seed}"))
            if cls.__name__ == "ApiVersionsResponse":
                ours.error_code = 0  # else it reads version 0
            body = prefix + b"".join(bytes(part) for part in encode(ours, version))

            theirs = theirs_cls.decode(body, version=version)
            theirs._header = None
            again = bytes(theirs.encode(version=version))

            assert differences(ours, theirs, version, their_fields, plain, same_name) == []
            assert again == body, f"{cls.__name__} of version {version}"
            assert decode(cls, version, memoryview(again), at=len(prefix))[0] == ours
            compared.add((cls, version))
    assert len(compared) >= 480
