"""The command as a whole: exit codes, what it loads, and one line for every expected error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import command_line
from tests.support.command_line import penstock
from tests.support.python_nursery import quick_python

SERVER_PACKAGES = ("raft", "metadata", "storage", "broker")
HEAVY = ("grpc", "google.protobuf", "numpy", "pyarrow", "penstock.client", "pyspark")


def process(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
    return subprocess.run([quick_python(), "-c", program, *arguments], capture_output=True, check=False)


def test_the_command_line_loads_neither_the_servers_nor_grpc() -> None:
    program = "import sys, json, penstock.cli.main; print(json.dumps(list(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert not [name for name in (*SERVER_PACKAGES, *HEAVY) if name in loaded]


def test_help_and_version_exit_0() -> None:
    assert b"produce" in process("--help").stdout
    version = process("--version")
    assert version.returncode == 0 and version.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named", "help_of"),
    [
        (("nope",), "nope", ""),
        (("topics", "nope"), "nope", " topics"),
        (("topics", "create"), "TOPIC", " topics create"),
        (("topics", "create", "x", "--what"), "--what", " topics create"),
        (("topics", "create", "x", "-p", "many"), "many", " topics create"),
        (("dev", "--nodes", "10"), "10", " dev"),
        (("produce", "x", "--acks", "2"), "'--acks': '2' is not one of '0', '1', 'all'", " produce"),
    ],
)
def test_wrong_usage_is_one_line_that_names_it_and_the_help(
    arguments: tuple[str, ...], named: str, help_of: str
) -> None:
    result = penstock(*arguments)
    said = result.stderr.decode()
    assert (result.returncode, result.stdout, said.count("\n")) == (2, b"", 1)
    assert said.startswith("penstock: ") and said.endswith(f"; see `penstock{help_of} --help`\n")
    assert named in said


@pytest.mark.parametrize(
    ("arguments", "name", "says", "exit_code"),
    [
        (("topics", "create", "x", "-p", "many", "--json"), "Usage", "many", 2),
        (("topics", "create", "x", "-c", "a", "--json"), "ConfigError", "-c a: must be key=value", 2),
        (("topics", "list", "--json", "--bootstrap", "127.0.0.1:1"), "BootstrapError", "127.0.0.1:1", 1),
    ],
)
def test_with_json_an_error_is_one_document_on_stderr(
    arguments: tuple[str, ...], name: str, says: str, exit_code: int
) -> None:
    result = penstock(*arguments)
    error = json.loads(result.stderr)["error"]
    assert (result.returncode, result.stdout) == (exit_code, b"")
    assert (error["name"], error["exit_code"]) == (name, exit_code) and says in error["message"]


def test_what_follows_a_double_dash_is_no_option() -> None:
    result = penstock("topics", "create", "-c", "a", "--", "--json")
    assert result.returncode == 2 and result.stderr.startswith(b"penstock: -c a: must be key=value")


def test_a_shell_completes_commands_and_gets_no_topic_where_no_broker_answers() -> None:
    def completed(words: str) -> list[str]:
        environ = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        environ |= {**os.environ, "PENSTOCK_BOOTSTRAP": "127.0.0.1:1", **environ}
        program = "import sys; from penstock.cli.main import main; sys.argv = ['penstock']; main()"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environ, check=True, text=True)
        return done.stdout.split()

    assert completed("penstock topi") == ["topics"]
    assert completed("penstock topics describe or") == []


def test_a_group_without_a_sub_command_shows_its_help() -> None:
    result = penstock("topics")
    assert result.returncode == 2 and b"create" in result.stdout + result.stderr and b"penstock: " not in result.stderr


def test_a_config_pair_without_equals_is_named() -> None:
    result = process("topics", "create", "orders", "-c", "retention.ms")
    assert result.returncode == 2
    assert result.stderr == b"penstock: -c retention.ms: must be key=value, like retention.ms=86400000\n"


def test_a_config_pair_given_twice_is_named() -> None:
    result = penstock("topics", "create", "orders", "-c", "a=1", "-c", "a=2")
    assert result.returncode == 2 and b"a is given twice" in result.stderr


def test_node_start_becomes_the_node_and_passes_on_its_exit_code(tmp_path: Path) -> None:
    result = process("node", "format", "--config", str(tmp_path / "missing.toml"))
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1 and b"no such configuration file" in result.stderr


def test_a_node_without_a_file_is_checked_by_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:  # of the tests themselves
        monkeypatch.delenv(name)
    result = process("node", "check", "--config", "env:")
    assert result.returncode == 2
    assert (
        result.stderr.startswith(b"penstock: the environment: node.id is not set") and result.stderr.count(b"\n") == 1
    )


def test_how_a_first_start_begins_needs_the_cluster_it_is_for() -> None:
    result = process("node", "start", "--config", "env:", "--first-start", "begin")
    assert result.returncode == 2 and b"--first-start: it is for a start with --cluster-id" in result.stderr


def test_a_first_start_is_a_word_that_the_node_knows(tmp_path: Path) -> None:
    words = ("--cluster-id", "7PC9ms0-Q_u3kKqQvVvr8A", "--first-start", "now")
    result = process("node", "start", "--config", str(tmp_path / "missing.toml"), *words)
    assert result.returncode == 2 and b"missing.toml: no such configuration file" in result.stderr


def test_dev_in_a_place_that_cannot_be_written_exits_2_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = process("dev", "--data", str(tmp_path / "file" / "data"))
    assert result.returncode == 2
    assert result.stderr.startswith(b"penstock: ") and result.stderr.count(b"\n") == 1


def test_the_branch_of_a_command_is_what_it_is_among_all_of_them() -> None:
    whole = command_line("")
    assert len(whole.commands) > 20
    for name, command in whole.commands.items():
        branch = command_line(name)
        assert list(branch.commands) == [name] and branch.params[0].opts == whole.params[0].opts
        assert words_of(branch.commands[name]) == words_of(command)


def words_of(command: Any) -> Any:
    """The options, arguments and commands below it, with their help."""
    params = [(one.name, one.opts, one.help if hasattr(one, "help") else "") for one in command.params]
    return command.help, params, {name: words_of(one) for name, one in getattr(command, "commands", {}).items()}


def test_words_that_name_no_command_meet_all_of_them() -> None:
    done = penstock("topcs")
    assert done.returncode == 2 and b"Did you mean 'topics'" in done.stderr
    assert b"cluster" in penstock("--help").stdout
    assert b"cluster" not in penstock("topics", "--help").stdout
