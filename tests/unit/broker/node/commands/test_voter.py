"""`penstock node`'s half of `quorum add-voter --config`: a controller as a voter, by its files alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from broker.config.config import load_config
from broker.node.commands.format import format_node
from broker.node.commands.voter import main
from penstock.cli.edge.voters import parse_voter, voter_of_config
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties


def config_of(tmp_path: Path, roles: str = '"controller"', host: str = "127.0.0.1", node_id: int = 4) -> str:
    listeners = f"CONTROLLER://{host}:9193" if "controller" in roles else ""
    if "broker" in roles:
        listeners = ",".join(filter(None, (listeners, "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194")))
    path = tmp_path / f"node-{node_id}.toml"
    path.write_text(
        f'node.id = {node_id}\nprocess.roles = [{roles}]\nlisteners = "{listeners}"\n'
        f'controller.quorum.voters = "{node_id if "controller" in roles else 1}@{host}:9193"\n'
        f'log.dirs = "{tmp_path}/data"\n'
    )
    return str(path)


def formatted(config: str) -> str:
    fs = OsFileSystem()
    format_node(load_config(config), "A" * 22, fs=fs, ids=system_ids())
    properties = read_meta_properties(fs, load_config(config).metadata_log_dir)
    assert properties is not None
    return properties.directory_id


def test_a_controller_is_shown_with_its_id_its_address_and_its_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path)
    directory_id = formatted(config)
    assert main(config) == 0
    text = capsys.readouterr().out.strip()
    assert text == f"4@127.0.0.1:9193:{directory_id}" == str(parse_voter(text, needs_address=True))
    assert main(config, as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"voter_id": 4, "directory_id": directory_id, "address": "127.0.0.1:9193"}
    assert str(voter_of_config(config)) == text, "the command line asks a process that has the server's packages"


def test_the_command_line_passes_on_why_it_is_no_voter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not formatted; run `penstock node format` first"):
        voter_of_config(config_of(tmp_path))
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "absent.toml"))):
        voter_of_config(str(tmp_path / "absent.toml"))


def test_a_node_that_is_not_formatted_or_no_controller_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MetaPropertiesError, match="is not formatted"):
        main(config_of(tmp_path))
    with pytest.raises(ConfigError, match="is no controller"):
        main(config_of(tmp_path, '"broker"'))


def test_the_files_of_another_node_are_refused(tmp_path: Path) -> None:
    formatted(config_of(tmp_path))
    with pytest.raises(MetaPropertiesError, match="belongs to node 4"):
        main(config_of(tmp_path, node_id=5))
