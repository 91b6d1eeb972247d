"""`penstock node format --add-scram`: Kafka's form of a user, and what is refused before a disk is touched."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest

from broker.config.config import parse_config
from broker.node.commands.add_scram import ask_for_password, user_of
from broker.node.commands.format import format_node, users_of
from broker.quorum.bootstrap_users import read_bootstrap_users
from metadata.scram import credential_of
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from storage.disk.file_names import BOOTSTRAP_USERS
from storage.disk.file_system import OsFileSystem

SHA_256, SHA_512 = ScramMechanism
IDS = system_ids()


def made(text: str, asked: str = "") -> tuple[str, ScramCredential]:
    record = user_of(text, lambda: b"new salt", lambda name: asked)
    return record.name, credential_of(record)


def test_a_user_has_a_password_and_a_new_salt() -> None:
    assert made("SCRAM-SHA-256=[name=anna,password=pw]") == (
        "anna",
        ScramCredential.of_password(SHA_256, "pw", b"new salt", 4096),
    )
    assert made('SCRAM-SHA-512=[iterations=8192,password="a,b=c",name=anna]') == (
        "anna",
        ScramCredential.of_password(SHA_512, "a,b=c", b"new salt", 8192),
    )


def test_a_salted_password_is_taken_as_kafka_s_tool_takes_it() -> None:
    salt, salted = (
        base64.b64encode(part).decode() for part in (b"some salt", SHA_256.salted("pw", b"some salt", 4096))
    )
    text = f'SCRAM-SHA-256=[name=anna,iterations=4096,salt="{salt}",saltedpassword="{salted}"]'
    assert made(text)[1] == ScramCredential.of_password(SHA_256, "pw", b"some salt", 4096)


def test_a_password_comes_from_a_file_or_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("from file\nmore\n")
    _, credential = made(f"SCRAM-SHA-256=[name=anna,password-file={tmp_path}/secret]")
    assert credential.is_of("from file")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbffrom file\r\n")
    assert made(f"SCRAM-SHA-256=[name=anna,password-file={tmp_path}/marked]")[1].is_of("from file")
    assert made("SCRAM-SHA-256=[name=anna]", asked="typed")[1].is_of("typed")
    monkeypatch.setattr("sys.stdin", io.StringIO("first\nsecond\n"))
    assert [ask_for_password("a"), ask_for_password("b")] == ["first", "second"]


BAD = {
    "anna:pw": "must be SCRAM-SHA-256=",
    "SCRAM-SHA-1=[name=anna,password=pw]": "SCRAM-SHA-1 is no mechanism of SCRAM.*did you mean",
    "PLAIN=[name=anna,password=pw]": "PLAIN is no mechanism",
    "SCRAM-SHA-256=[password=pw]": "must have a name",
    "SCRAM-SHA-256=[name=anna,password=]": "must have from 1 to 1024 bytes",
    "SCRAM-SHA-256=[name=anna,passwrd=pw]": "passwrd is none of .*did you mean 'password'",
    "SCRAM-SHA-256=[name=anna,name=bob]": "name is there twice",
    "SCRAM-SHA-256=[name=anna,password=pw,iterations=1]": "iterations must be from 4096",
    "SCRAM-SHA-256=[name=anna,password=pw,iterations=x]": "iterations must be from 4096",
    'SCRAM-SHA-256=[name=anna,password="a"b]': "put a value with a comma or a quote into quotes",
    "SCRAM-SHA-256=[name=anna,password=pw,password-file=x]": "not both",
    "SCRAM-SHA-256=[name=anna,password-file=/nowhere/x]": "/nowhere/x: No such file",
    "SCRAM-SHA-256=[name=anna,saltedpassword=QQ==]": "goes with salt",
    "SCRAM-SHA-256=[name=anna,salt=QQ==,saltedpassword=QQ==]": "has 32 bytes",
    "SCRAM-SHA-256=[name=anna,salt=!,password=pw]": "salt must be base64",
    "SCRAM-SHA-256=[name=anna,salt=,password=pw]": "from 1 to 1024 bytes",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_user_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ConfigError, match=BAD[text]) as refusal:
        made(text)
    assert "password=pw" not in str(refusal.value)


def config(tmp_path: Path, roles: str = '["broker", "controller"]') -> object:
    import tomllib

    return parse_config(
        tomllib.loads(
            f"""
"node.id" = 1
"process.roles" = {roles}
listeners = ["BROKER://127.0.0.1:9192", "INTERNAL://127.0.0.1:9194", "CONTROLLER://127.0.0.1:9193"]
"controller.quorum.voters" = ["1@127.0.0.1:9193"]
"log.dirs" = ["{tmp_path}/a"]
"""
        )
    )


def test_users_are_written_beside_the_metadata_log_and_read_again(tmp_path: Path) -> None:
    users = [user_of(f"{one.sasl_name}=[name=anna,password=pw]", lambda: b"s", str) for one in ScramMechanism]
    fs = OsFileSystem()
    format_node(config(tmp_path), "", fs, IDS, users=users)  # type: ignore[arg-type]
    assert read_bootstrap_users(fs, f"{tmp_path}/a") == tuple(users)
    assert "pw" not in (tmp_path / "a" / BOOTSTRAP_USERS).read_text()
    with pytest.raises(MetaPropertiesError):
        format_node(config(tmp_path), "", fs, IDS, users=users)  # type: ignore[arg-type]
    (tmp_path / "a" / BOOTSTRAP_USERS).write_text("{}")
    with pytest.raises(CorruptFileError):
        read_bootstrap_users(fs, f"{tmp_path}/a")
    assert read_bootstrap_users(fs, str(tmp_path)) == ()


def test_a_user_is_named_once_for_each_mechanism(tmp_path: Path) -> None:
    text = "SCRAM-SHA-256=[name=anna,password=pw]"
    assert len(users_of(config(tmp_path), [text, text.replace("256", "512")], IDS)) == 2  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="anna is there twice"):
        users_of(config(tmp_path), [text, text], IDS)  # type: ignore[arg-type]
