"""The generated Go code of examples/go is what the protos and the table of error codes say; proven without Go."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.pb import (
    acls_pb2,
    broker_pb2,
    common_pb2,
    configs_pb2,
    elections_pb2,
    features_pb2,
    groups_pb2,
    log_dirs_pb2,
    quotas_pb2,
    reassignments_pb2,
    transactions_pb2,
    users_pb2,
    voters_pb2,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "go"
FILES = {
    "broker": broker_pb2,
    "common": common_pb2,
    "configs": configs_pb2,
    "elections": elections_pb2,
    "features": features_pb2,
    "groups": groups_pb2,
    "log_dirs": log_dirs_pb2,
    "quotas": quotas_pb2,
    "acls": acls_pb2,
    "reassignments": reassignments_pb2,
    "transactions": transactions_pb2,
    "users": users_pb2,
    "voters": voters_pb2,
}
REMEDY = "run python examples/go/generate.py"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_go", EXAMPLE / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def descriptor(data: bytes) -> FileDescriptorProto:
    """Without the names in JSON, which follow from the others; only one of the two generators writes them."""
    found = FileDescriptorProto.FromString(data)
    left = list(found.message_type)
    while left:
        message = left.pop()
        left += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    return found


def test_the_table_of_codes_is_pythons() -> None:
    codes = (EXAMPLE / "penstock" / "codes.go").read_text(encoding="utf-8")

    assert codes == generator().codes_file(), REMEDY


@pytest.mark.parametrize("name", generator().PROTOS)
def test_the_messages_are_the_protos(name: str) -> None:
    code = (EXAMPLE / "penstockpb" / f"{name}.pb.go").read_text(encoding="utf-8")
    embedded = re.search(rf'(?m)^const file_penstock_v1_{name}_proto_rawDesc = "" \+\n((?:\t".*"(?: \+)?\n)+)', code)
    assert embedded is not None
    pieces = [line.strip().removesuffix(" +") for line in embedded[1].splitlines()]
    raw = b"".join(ast.literal_eval(f"b{piece}") for piece in pieces)

    assert descriptor(raw) == descriptor(FILES[name].DESCRIPTOR.serialized_pb), REMEDY


def test_every_rpc_is_in_the_generated_client() -> None:
    code = (EXAMPLE / "penstockpb" / "broker_grpc.pb.go").read_text(encoding="utf-8")

    rpcs = [method.name for method in broker_pb2.DESCRIPTOR.services_by_name["Broker"].methods]
    assert [name for name in rpcs if f'"/penstock.v1.Broker/{name}"' not in code] == [], REMEDY
