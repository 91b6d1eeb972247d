"""`penstock users`: all passwords of a user change together, and none comes by the command line."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.security import users
from penstock.cli.security import users as source
from penstock.cli.security.users import new_password
from penstock.client.admin.admin_types import (
    UserDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from penstock.errors import (
    ApiError,
    ConfigError,
    DuplicateResourceError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
)


class FakeAdmin:
    """Users with the password of each mechanism."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, str]] = {}

    def describe_user_scram_credentials(self, names: Sequence[str] | None = None) -> dict[str, UserDescription]:
        found = sorted(self.users) if names is None else [name for name in names if name in self.users]
        return {name: UserDescription(name, dict.fromkeys(self.users[name], 4096)) for name in found}

    def alter_user_scram_credentials(self, alterations: Sequence[Any]) -> dict[str, ApiError | None]:
        for one in alterations:
            own = self.users.setdefault(one.user, {})
            if one.user == "refused":
                return {one.user: UnacceptableCredentialError("no")}
            if isinstance(one, UserScramCredentialUpsertion):
                own[one.mechanism] = one.password
            else:
                assert isinstance(one, UserScramCredentialDeletion)
                del own[one.mechanism]
                if not own:
                    del self.users[one.user]
        return {one.user: None for one in alterations}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()

    @contextlib.contextmanager
    def given(bootstrap: str) -> Iterator[FakeAdmin]:
        yield made

    monkeypatch.setattr(users, "patient_admin", given)
    return made


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """At a terminal."""
    left = list(lines)
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(source.getpass, "getpass", lambda prompt: left.pop(0))


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("first line\nanother\n")
    return str(path)


SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def test_a_user_is_added_once_and_can_log_in_by_both_mechanisms(
    admin: FakeAdmin, secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    users.add("anna", new_password_file=secret)
    assert admin.users == {"anna": {SHA_256: "first line", SHA_512: "first line"}}
    with pytest.raises(DuplicateResourceError, match="penstock users alter"):
        users.add("anna", new_password_file=secret)
    users.add("bob", [SHA_512], 8192, secret, as_json=True)
    assert admin.users["bob"] == {SHA_512: "first line"}
    assert capsys.readouterr().out == 'added anna\n{"user": "bob", "added": true}\n'


def test_no_mechanism_keeps_the_old_password(admin: FakeAdmin, secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    admin.users = {"one": {SHA_512: "old"}, "both": {SHA_256: "old", SHA_512: "old"}, "narrow": {SHA_256: "old"}}
    users.set_password("one", new_password_file=secret)
    users.set_password("both", new_password_file=secret)
    users.set_password("narrow", [SHA_512], new_password_file=secret)
    assert admin.users == {
        "one": {SHA_512: "first line"},
        "both": {SHA_256: "first line", SHA_512: "first line"},
        "narrow": {SHA_512: "first line"},
    }
    with pytest.raises(ResourceNotFoundError, match="users list"):
        users.set_password("nobody", new_password_file=secret)
    assert "first line" not in capsys.readouterr().out


def test_users_are_listed_and_deleted(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.users = {"b": {SHA_256: "x", SHA_512: "x"}, "a": {SHA_512: "x"}}
    users.list_users()
    assert capsys.readouterr().out == f"user\tmechanisms\na\t{SHA_512}\nb\t{SHA_256}, {SHA_512}\n"
    users.list_users(as_json=True)
    assert json.loads(capsys.readouterr().out)[0] == {"user": "a", "mechanisms": {SHA_512: 4096}}
    users.delete("b", [SHA_256])
    users.delete("a")
    assert admin.users == {"b": {SHA_512: "x"}}
    with pytest.raises(ResourceNotFoundError):
        users.delete("a")


def test_a_refusal_of_the_controller_is_the_command_s(admin: FakeAdmin, secret: str) -> None:
    with pytest.raises(UnacceptableCredentialError):
        users.add("refused", new_password_file=secret)


def test_a_mechanism_that_there_is_not_is_refused_before_the_password_is_asked_for(admin: FakeAdmin) -> None:
    for command in (users.add, users.set_password, users.delete):
        with pytest.raises(ConfigError, match="SCRAM-SHA-1: must be one of"):
            command("anna", ["SCRAM-SHA-1"])  # type: ignore[operator]


def test_a_person_types_the_password_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "pw", "pw")
    assert new_password(None) == "pw"
    typed(monkeypatch, "pw", "other")
    with pytest.raises(ConfigError, match="differ"):
        new_password(None)
    typed(monkeypatch, "")
    with pytest.raises(ConfigError, match="no password"):
        new_password(None)


@pytest.mark.parametrize("file", [None, "-"])
def test_a_script_gives_it_on_standard_input(monkeypatch: pytest.MonkeyPatch, file: str | None) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("pä w\r\nmore\n"))
    assert new_password(file) == "pä w"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(ConfigError, match="standard input gives no password"):
        new_password(file)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\n", "gives no password"), (b"x" * 1025, "gives no password"), (b"\xff\n", "UTF-8"), (None, "No such file")],
)
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        new_password(str(path))


def test_several_users_are_deleted_and_a_dry_run_changes_nothing(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.users = {"anna": {SHA_256: "x"}, "bob": {SHA_512: "x"}}
    users.add("carl", dry_run=True)
    users.set_password("anna", dry_run=True)
    users.delete(["anna", "bob"], dry_run=True)
    assert admin.users == {"anna": {SHA_256: "x"}, "bob": {SHA_512: "x"}}
    said = ["would be added: carl", "would be changed: anna", "would be deleted: anna", "would be deleted: bob"]
    assert capsys.readouterr().out.splitlines() == said
    users.delete(["anna", "bob"], as_json=True)
    assert not admin.users
    assert json.loads(capsys.readouterr().out) == [{"user": name, "deleted": True} for name in ("anna", "bob")]
