"""A host's file is read whole or refused by name, and every node's file comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config.config import load_config
from broker.host.host_file import HOST_KEYS, load_host_file, with_id
from broker.host.node_files import node_files, page_config, write_node_files
from penstock.errors import ConfigError

QUORUM = '[node]\ncontroller.quorum.voters = "10@a:9292,20@b:9292,30@c:9292"\n'


def host_text(directory: Path, more: str = "", node: str = QUORUM) -> str:
    return f'[host]\nnodes = 3\nfirst.node.id = 10\naddress = "a"\ndirectory = "{directory}"\n{more}\n{node}'


def loaded(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "host.toml"
    path.write_text(text, encoding="utf-8")
    return load_host_file(str(path), lambda: "this-machine")


def test_ids_ports_roles_rack_and_dirs_are_derived(tmp_path: Path) -> None:
    files = node_files(loaded(tmp_path, host_text(tmp_path / "d")))
    assert [one.node_id for one in files] == [10, 11, 12]
    assert [sorted(one.config.process_roles) for one in files] == [["broker", "controller"], ["broker"], ["broker"]]
    assert [one.config.listeners["BROKER"].port for one in files] == [9192, 9193, 9194]
    assert [one.config.listeners["KAFKA"].port for one in files] == [9092, 9093, 9094]
    assert {one.config.broker_rack for one in files} == {"a"}
    assert all(one.config.replica_placement_one_per_rack for one in files)
    assert [one.config.log_dirs for one in files] == [(f"{tmp_path}/d/{n}/data",) for n in (10, 11, 12)]
    assert str(files[1].config.metrics_listener) == "127.0.0.1:9393"
    assert str(files[1].config.advertised) == "a:9193"


def test_disks_are_taken_in_turn_and_a_nodes_own_key_wins(tmp_path: Path) -> None:
    more = 'data.directories = ["/one", "/two"]\nrack = "r"'
    own = QUORUM + 'num.io.threads = 4\n[node-12]\nnum.io.threads = 9\nbroker.rack = "other"\n'
    files = node_files(loaded(tmp_path, host_text(tmp_path / "d", more, own)))
    assert [one.config.log_dirs[0] for one in files] == ["/one/10/data", "/two/11/data", "/one/12/data"]
    assert [one.config.num_io_threads for one in files] == [4, 4, 9]
    assert [one.config.broker_rack for one in files] == ["r", "r", "other"]


def test_an_id_stands_where_a_text_asks_for_it() -> None:
    assert with_id(["/k/node-{id}.pem", "x"], 7) == ["/k/node-7.pem", "x"]
    assert with_id("{id}{id}", 7) == "77" and with_id(7, 1) == 7


def test_the_files_are_what_a_node_reads_and_are_written_again(tmp_path: Path) -> None:
    host = loaded(tmp_path, host_text(tmp_path / "d"))
    for _ in range(2):
        write_node_files(node_files(host))
    assert load_config(f"{tmp_path}/d/11/node.toml").node_id == 11


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    host = loaded(tmp_path, host_text(tmp_path / "d"))
    write_node_files(node_files(host))
    before = (tmp_path / "d" / "10" / "node.toml").read_bytes()
    (tmp_path / "d" / "12" / "node.toml").unlink()
    (tmp_path / "d" / "12").rmdir()
    (tmp_path / "d" / "12").touch()  # no directory can be there
    with pytest.raises(ConfigError, match="/d/12"):
        write_node_files(node_files(loaded(tmp_path, host_text(tmp_path / "d", node=QUORUM + "num.io.threads = 5"))))
    assert (tmp_path / "d" / "10" / "node.toml").read_bytes() == before
    assert not list((tmp_path / "d" / "10").glob("*.new"))


def test_tls_of_the_page_is_the_hosts_and_the_nodes_pages_stay_on_loopback(tmp_path: Path) -> None:
    secured = (
        'listener.security.protocol.map = "BROKER:SSL,KAFKA:SSL,INTERNAL:SSL,CONTROLLER:SSL,METRICS:SSL"\n'
        'ssl.keystore.location = "/etc/penstock/node-{id}.pem"\nssl.truststore.location = "/etc/penstock/ca.pem"\n'
    )
    host = loaded(tmp_path, host_text(tmp_path / "d", 'metrics.listener = "0.0.0.0:9404"', QUORUM + secured))
    files = node_files(host)
    assert "METRICS" not in files[0].config.tls_listeners
    config = page_config(host, files[0])
    assert "METRICS" in config.tls_listeners and config.tls("METRICS").keystore == "/etc/penstock/node-10.pem"


@pytest.mark.parametrize(
    ("more", "node", "words"),
    [
        ("nodez = 4", QUORUM, ("host.nodez", "nodes, first.node.id")),
        ("port = 0", QUORUM, ("[host] port", "from 1 to")),
        ("port = true", QUORUM, ("[host] port",)),
        ("kafka.port = 9193", QUORUM, ("kafka.port", "9192")),
        ("controllers = 4", QUORUM, ("[host] controllers = 4", "0 to 3")),
        ('address = "a b"', QUORUM, ("address",)),
        ('data.directories = ["relative"]', QUORUM, ("data.directories", "absolute")),
        ("data.directories = [1]", QUORUM, ("data.directories", "list")),
        ('rack = "r{id}"', QUORUM, ("[host] rack", "one rack")),
        ("rack = 3", QUORUM, ("[host] rack", "quotes")),
        ('metrics.listener = "0.0.0.0:9193"', QUORUM, ("9193", "metrics.listener of [host]")),
        ('metrics.listener = "nowhere"', QUORUM, ("metrics.listener",)),
        ("", QUORUM + "node.id = 4", ("[node] node.id", "[node-ID]")),
        ("", QUORUM + "[node-13]\nnum.io.threads = 3", ("[node-13]", "10 to 12")),
        ("", QUORUM + "[node-12]\nnode.id = 10", ("node 12", "node 10")),
        ("", QUORUM + "[node-12]\nnum.io.treads = 3", ("node 12", "num.io.treads", "num.io.threads")),
        ("", QUORUM + '[node-12]\nlisteners = "BROKER://0.0.0.0:9192,INTERNAL://0.0.0.0:9999"', ("9192", "node 10")),
        ("", QUORUM + 'log.dirs = ["/one"]', ("node 11", "/one", "node 10")),
        ("", "", ("node 10", "controller.quorum")),
        ("", QUORUM + "[other]\nx = 1", ("other.x", "[node-ID]")),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, more: str, node: str, words: tuple[str, ...]) -> None:
    text = host_text(tmp_path / "d", more, node)
    if 'address = "a b"' in more:
        text = text.replace('address = "a"\n', "")
    with pytest.raises(ConfigError) as raised:
        node_files(loaded(tmp_path, text))
    assert all(word in str(raised.value) for word in (*words, "host.toml")), raised.value


def test_a_directory_in_which_no_socket_can_be_is_refused_before_the_start(tmp_path: Path) -> None:
    fits = "/" + "d" * 94
    assert loaded(tmp_path, host_text(Path(fits))).control_socket == f"{fits}/control"
    with pytest.raises(ConfigError, match=r"\[host\] directory = .* more than 95 bytes"):
        loaded(tmp_path, host_text(Path(fits + "d")))


def test_the_machines_name_stands_in_for_an_address_and_nodes_must_be_given(tmp_path: Path) -> None:
    read = loaded(tmp_path, "[host]\nnodes = 1\n")
    assert read.address == read.rack == "this-machine" and read.data_directories == (read.directory,)
    with pytest.raises(ConfigError, match=r"\[host\] nodes: must be given"):
        loaded(tmp_path, "[host]\n")
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_host_file(str(tmp_path / "none.toml"))


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[4] / "docs" / "host.md").read_text(encoding="utf-8")
    assert [key for key in HOST_KEYS if f"| `{key}` |" not in page] == []
