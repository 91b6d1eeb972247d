"""The audit log of a secured node, in a file of its own: what was done and who came in, and no password anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin
from penstock.client.admin.admin_types import UserScramCredentialUpsertion
from penstock.errors import AuthenticationFailedError
from penstock.testing import Cluster

CANARY = "canary-5b0c"


def test_acts_and_log_ins_are_in_the_file_and_no_password_is_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with Cluster(1, {"audit.log.location": str(path)}, secure=True) as cluster:
        who = cluster.client_options
        with Admin(cluster.bootstrap, **who) as admin:
            admin.create_topic("orders", 3, 1)
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", CANARY)])
            admin.delete_topic("orders")
        password = tmp_path / "password"
        password.write_text(f"{CANARY}-wrong")
        with (
            pytest.raises(AuthenticationFailedError) as caught,
            Admin(cluster.bootstrap, **{**who, "username": "anna", "password_file": str(password)}) as admin,
        ):
            admin.list_topics()
        arguments = list(arguments_of_processes())
        nodes_log = cluster.log_path(0).read_text()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [(line["outcome"], line["principal"]) for line in of(lines, "SaslAuthenticate")] == [
        ("logged in", "User:admin"),
        ("not logged in", "User:ANONYMOUS"),
    ]
    for api in ("CreateTopics", "AlterUserScramCredentials", "DeleteTopics"):
        assert [(line["outcome"], line["principal"]) for line in of(lines, api)] == [("done", "User:admin")], api
    (credential,) = of(lines, "AlterUserScramCredentials")[0]["request"]["upsertions"]
    assert credential.keys() == {"user", "mechanism", "iterations"}
    assert CANARY not in path.read_text() + nodes_log + str(caught.value)
    assert '"outcome"' not in nodes_log, "audits have a file of their own"
    assert arguments and not [one for one in arguments if CANARY.encode() in one]


def arguments_of_processes() -> Iterator[bytes]:
    """As `ps` shows them to every user of the machine."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield one.read_bytes()


def of(lines: list[dict[str, Any]], api: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["api"] == api]
