"""Every command of a bundle is one of the command line, changes nothing and asks for no records."""

from __future__ import annotations

from typing import Any

import typer

from penstock.cli.main import app
from penstock.debug.parts import CLUSTER_PARTS, DESCRIBED, broker_part, node_parts

PARTS = (*CLUSTER_PARTS, broker_part(3), *node_parts("nodes/1", "1.toml", ("data", "more")))
READING = {"describe", "list", "health", "export", "dump", "check", "find-hanging"}


def test_commands_are_parsed() -> None:
    root: Any = typer.main.get_command(app)
    for part in PARTS:
        command, words = root, list(part.command)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)


def test_no_command_changes_anything_and_none_reads_records() -> None:
    for part in PARTS:
        assert READING & set(part.command[:2]), part
        assert part.command[0] not in ("consume", "log")


def test_paths_are_of_one_file_each() -> None:
    paths = [part.path for part in PARTS]
    assert len(set(paths)) == len(paths) and DESCRIBED in paths
    assert not any(path.startswith("/") or ".." in path for path in paths)


def test_a_node_without_log_dirs_has_no_metadata_log() -> None:
    assert [part.path for part in node_parts("nodes/1", "1.toml", ())] == ["nodes/1/check.json"]
