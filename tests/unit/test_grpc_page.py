"""docs/grpc.md says what the code does: its tables, its bytes and its commands."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from broker.grpc import client_streams, servers
from broker.grpc.errors import _STATUS as STATUS
from penstock.client.cluster.error_meaning import LEADERSHIP_ERRORS
from penstock.errors import ERRORS
from penstock.pb import broker_pb2, groups_pb2, transactions_pb2
from penstock.record import batch
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_columns

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "grpc.md").read_text(encoding="utf-8")
BROKER = broker_pb2.DESCRIPTOR.services_by_name["Broker"]


def section(title: str) -> str:
    found = re.search(rf"(?ms)^##+ {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE)
    assert found is not None, title
    return found[1]


def rows(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first row is `head`."""
    table = re.search(rf"(?m)^{re.escape(head)}\n\|[-| ]+\n((?:\|.*\n)+)", text)
    assert table is not None, head
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def test_every_rpc_is_listed_with_its_kind() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows(section("Services"), "| rpc | kind | ask | note |")}

    assert listed == {
        method.name: "stream" if method.client_streaming and method.server_streaming else "call"
        for method in BROKER.methods
    }


def test_every_field_that_is_named_exists() -> None:
    files = (broker_pb2, groups_pb2, transactions_pb2)
    messages = {name: one for file in files for name, one in file.DESCRIPTOR.message_types_by_name.items()}
    named = re.findall(r"`([A-Z]\w+)\.(\w+)`", section("Services"))

    assert named
    assert [(message, field) for message, field in named if field not in messages[message].fields_by_name] == []


def test_the_page_has_the_statuses_of_errors() -> None:
    listed = {
        int(code): status
        for status, codes in rows(section("Errors"), "| status | codes |")
        for code in re.findall(r"-?\d+", codes)
    }

    assert listed == {error.code: status.name for error, status in STATUS.items()}
    assert grpc.StatusCode.FAILED_PRECONDITION.name in section("Errors")


def test_the_errors_after_which_another_node_may_lead_are_the_clients() -> None:
    listed = {(int(code), name) for code, name in rows(section("Errors"), "| code | name |")}

    assert listed == {(error.code, error.kafka_name) for error in LEADERSHIP_ERRORS}


def test_every_code_that_is_named_has_that_name() -> None:
    named = re.findall(r"(-?\b\d+) ([A-Z]+(?:_[A-Z]+)+)", PAGE)

    assert named
    assert [(code, name) for code, name in named if ERRORS[int(code)].kafka_name != name] == []


def test_the_limits_of_streams_are_the_servers() -> None:
    assert f"up to {client_streams.PRODUCES_PIPELINED_MAX} requests of a stream" in section("Produce")
    assert f"up to {client_streams.FETCHES_PIPELINED_MAX} requests of a stream" in section("Fetch")
    assert f"at most {servers.CONNECTION_STREAMS_MAX} streams and calls" in section("Connections")


def test_the_layout_of_the_header_is_the_codes() -> None:
    listed = [
        (row[2], int(row[0]), int(row[1]))
        for row in rows(section("The record batch"), "| at | bytes | field | a producer writes |")
        if row[1]
    ]
    constants = {"base_timestamp_ms": "BASE_TIMESTAMP", "max_timestamp_ms": "MAX_TIMESTAMP"}

    assert [name for name, _, _ in listed] == list(batch.BatchHeader._fields)
    for name, at, size in listed:
        constant = constants.get(name, name.upper())
        assert (at, size) == (getattr(batch, f"{constant}_AT"), getattr(batch, f"{constant}_BYTES"))
    assert ", ".join(f"{codec.value} {codec.name.lower()}" for codec in Codec) in section("The record batch")


def example() -> bytes:
    block = re.search(r"(?s)```hex\n(.*?)```", PAGE)
    assert block is not None
    return bytes.fromhex("".join(line.split("   ")[0] for line in block[1].splitlines()))


def test_the_worked_example_is_what_the_builder_makes_and_the_reader_reads() -> None:
    times = [1_700_000_000_000, 1_700_000_000_005]
    built = build_batch([b"v1", b"value 2"], keys=[b"k", None], headers=[[("h", b"1")], []], timestamps_ms=times)

    assert example() == built
    assert f"{len(built)} bytes" in section("A worked example")
    columns = read_columns(example())
    assert (columns.values, columns.keys, columns.timestamps_ms) == ([b"v1", b"value 2"], [b"k", None], times)
    assert columns.headers == [(("h", b"1"),), ()]


def commands() -> list[tuple[str, str]]:
    """The method and the JSON of every grpcurl command with a request."""
    found = re.findall(
        r"grpcurl -plaintext(?: -emit-defaults)?(?: -d '(.*)')? \$(?:NODE|LEADER) penstock\.v1\.Broker/(\w+)", PAGE
    )
    return [(method, body.replace("'$ID'", "an id") or "{}") for body, method in found]


@pytest.mark.parametrize(("method", "body"), commands())
def test_the_requests_of_grpcurl_are_messages_of_the_protocol(method: str, body: str) -> None:
    request: Any = GetMessageClass(BROKER.methods_by_name[method].input_type)()

    json_format.ParseDict(json.loads(body), request)

    for part in request.partitions if method == "Produce" else ():
        assert read_columns(part.records).values == [b"hello"]


def test_the_batch_of_the_command_is_one_that_a_producer_may_send() -> None:
    ((_, body),) = [one for one in commands() if one[0] == "Produce"]
    records = base64.b64decode(json.loads(body)["partitions"][0]["records"])

    assert records == build_batch([b"hello"], timestamps_ms=1_700_000_000_000)
