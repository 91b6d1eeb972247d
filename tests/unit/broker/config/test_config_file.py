"""The configuration file itself: dotted names, tables, and every way in which it cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.config.config_file import FILE_BYTES_MAX, config_values, read_config_file
from penstock.errors import ConfigError


def read(tmp_path: Path, text: str) -> dict[str, object]:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return config_values(str(path), read_config_file(str(path)))


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        config_values(str(path), read_config_file(str(path)))
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))
    return str(caught.value)


def test_dotted_names_and_tables_are_the_same(tmp_path: Path) -> None:
    dotted = read(tmp_path, "log.segment.bytes = 1\nlog.dirs = ['a']\n")
    tables = read(tmp_path, "[log]\nsegment.bytes = 1\ndirs = ['a']\n")
    assert dotted == tables == {"log.segment.bytes": 1, "log.dirs": ["a"]}


def test_a_name_may_be_the_beginning_of_another(tmp_path: Path) -> None:
    values = read(tmp_path, "max.connections = 10\nmax.connections.per.ip = 5\n")
    assert values == {"max.connections": 10, "max.connections.per.ip": 5}


def test_comments_and_quoted_names_are_toml(tmp_path: Path) -> None:
    assert read(tmp_path, '# x\n"node.id" = 1  # y\n') == {"node.id": 1}


@pytest.mark.parametrize("text", ["node.id = 1\nnode.id = 2\n", 'node.id = 1\n"node.id" = 2\n'])
def test_a_duplicate_key_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"duplicate key \"?node\.id\"? in line 2; keep one"):
        read(tmp_path, text)


def test_a_key_in_a_table_and_as_a_dotted_name_is_a_duplicate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"duplicate key log\.segment\.bytes"):
        read(tmp_path, "log.segment.bytes = 1\n[log]\nsegment.bytes = 2\n")


def test_what_is_not_toml_says_where(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not valid TOML: .*line 1"):
        read(tmp_path, "node.id: 1\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "no such configuration file" in refusal(tmp_path / "missing.toml")


def test_a_directory_is_named(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path)


def test_what_is_not_utf8_names_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    assert "not UTF-8 at byte 5" in refusal(path)


def test_a_file_of_absurd_size_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"")
    os.truncate(path, FILE_BYTES_MAX + 2)
    assert "larger than" in refusal(path)


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.toml"
    path.write_text("")

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # the mode would not stop root
    assert "cannot be read (Permission denied)" in refusal(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 100_000, "arrays or tables in each other"),
        ("a = " + "9" * 5_000, "not valid TOML"),
    ],
)
def test_toml_that_is_too_much_for_its_reader_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    assert says in refusal(path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"\xef\xbb\xbfnode.id = 1\r\n")
    assert config_values(str(path), path.read_bytes()) == {"node.id": 1}


def test_a_file_in_utf_16_says_so(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes("node.id = 1\n".encode("utf-16"))
    assert "is UTF-16" in refusal(path)


def test_the_file_of_a_kafka_broker_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=0\n# listeners\nlisteners=PLAINTEXT://:9092\nlog.dirs=/tmp/kafka-logs\n")
    assert "in the form of Kafka's server.properties" in refusal(path)
    path.write_text('listeners = ["BROKER://:9192"]\nlog.dirs = /tmp/x\n')
    assert "not valid TOML" in refusal(path)
