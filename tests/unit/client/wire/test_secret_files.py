"""The files of a client's secrets, as editors and shells of every kind write them."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from penstock.cli.security.users import new_password
from penstock.client.wire.login import login_of
from penstock.client.wire.tls_files import file_bytes
from penstock.client.wire.token_login import token_in
from penstock.errors import ConfigError


def test_the_mark_of_utf_8_at_the_start_of_a_file_is_no_part_of_the_secret(tmp_path: Path) -> None:
    token, password = tmp_path / "token", tmp_path / "password"
    token.write_bytes(codecs.BOM_UTF8 + b"abc.def.ghi\r\n")
    password.write_bytes(codecs.BOM_UTF8 + b"secret\r\n")
    assert token_in(token) == "abc.def.ghi"
    assert file_bytes("password_file", password) == b"secret\r\n"
    assert new_password(str(password)) == "secret"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_refused_by_name(tmp_path: Path, encoding: str) -> None:
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else codecs.BOM_UTF16_BE
    (tmp_path / "secret").write_bytes(mark + "abc".encode(encoding))
    for read in (
        lambda: token_in(tmp_path / "secret"),
        lambda: login_of("anna", None, tmp_path / "secret", "SCRAM-SHA-256"),
    ):
        with pytest.raises(ConfigError, match=r"secret' is UTF-16; save it as UTF-8"):
            read()
