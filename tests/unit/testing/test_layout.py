"""Where a local cluster's nodes stand: ports, directories, configuration files that a node accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.config.config import load_config
from penstock.errors import ConfigError
from penstock.testing.cluster import TEST_CONFIG, Cluster
from penstock.testing.layout import Layout, new_layout, stored_kafka_ports, stored_layout
from penstock.testing.ports import fixed_ports
from storage.disk.file_names import LOCK
from storage.disk.file_system import OsFileSystem


@pytest.mark.parametrize(("nodes", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 3)])
def test_every_node_file_is_a_configuration_that_a_node_accepts(tmp_path: Path, nodes: int, voters: int) -> None:
    layout = new_layout(tmp_path, nodes, 20_000)
    layout.write([TEST_CONFIG] * nodes)
    configs = [load_config(str(layout.config_path(index))) for index in range(nodes)]
    assert [config.node_id for config in configs] == list(range(nodes))
    assert sum(config.is_controller for config in configs) == voters
    assert all(config.is_broker and len(config.first_voters) == voters for config in configs)
    assert configs[0].log_dirs == (str(layout.data_directory(0)),)


def test_a_directory_is_found_again_as_it_was(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 3, None)
    layout.write([{}] * 3)
    assert stored_layout(tmp_path, 3, None) == layout
    assert stored_layout(tmp_path, 3, 9192) == Layout(tmp_path, layout.cluster_id, fixed_ports(3, 9192))


def test_a_directory_from_before_the_brokers_had_a_listener_of_their_own_gets_one(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 1, 9192).with_kafka_ports([0])
    layout.write([{}])
    state = {"cluster_id": layout.cluster_id, "ports": [[9192, 9292, 9392]]}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    assert stored_layout(tmp_path, 1, None) == layout
    (tmp_path / "cluster.json").write_text(json.dumps({**state, "ports": [[9192, 9292]]}))
    with pytest.raises(ConfigError, match=r"cluster\.json: damaged"):
        stored_layout(tmp_path, 1, None)


def test_a_directory_from_before_kafkas_clients_goes_on_without_a_listener_for_them(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 3, 20_000)
    layout.write([TEST_CONFIG] * 3)
    state = json.loads((tmp_path / "cluster.json").read_text())
    assert [len(ports) for ports in state["ports"]] == [4, 4, 4], "as the release before reads it"
    assert stored_kafka_ports(tmp_path) == tuple(state.pop("kafka_ports")) == (20_400, 20_401, 20_402)
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    old = stored_layout(tmp_path, 4, None)
    assert old is not None and old.kafka_bootstrap == "" and stored_kafka_ports(tmp_path) is None
    assert all("KAFKA" not in str(old.node_config(index)["listeners"]) for index in range(4))
    assert old.with_kafka_ports([9092, 0, 9093, 9094]).kafka_bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_a_directory_is_unused_until_a_node_has_data_in_it(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 3, None)
    layout.write([{}] * 3)
    assert layout.is_unused
    layout.data_directory(2).mkdir()
    assert not layout.is_unused


def test_a_cluster_that_grows_keeps_its_voters_and_its_ports(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 3, 9192)
    layout.write([{}] * 3)
    grown = stored_layout(tmp_path, 5, None)
    assert grown is not None and (grown.voters, grown.ports) == ((0, 1, 2), fixed_ports(5, 9192))
    grown.write([{}] * 5)
    assert stored_layout(tmp_path, 5, None) == grown
    config = grown.node_config(4)
    assert config["process.roles"] == ["broker"] and "CONTROLLER" not in str(config["listeners"])
    assert config["controller.quorum.voters"] == layout.node_config(0)["controller.quorum.voters"]
    random_ports = new_layout(tmp_path / "other", 1, None)
    assert random_ports.grown(3).ports[0] == random_ports.ports[0] and random_ports.grown(3).voters == (0,)


def test_a_directory_with_fewer_nodes_is_refused(tmp_path: Path) -> None:
    new_layout(tmp_path, 3, None).write([{}] * 3)
    with pytest.raises(ConfigError, match="holds a cluster of 3 nodes, not 1"):
        stored_layout(tmp_path, 1, None)


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cluster\.json: damaged"):
        stored_layout(tmp_path, 1, None)


def test_a_cluster_that_is_not_open_says_so() -> None:
    for address in ("bootstrap", "kafka_bootstrap"):
        with pytest.raises(Exception, match="the cluster is not open"):
            getattr(Cluster(), address)


def test_ports_for_kafkas_clients_are_one_a_node() -> None:
    with pytest.raises(ConfigError, match="kafka_ports: has 1 entries for 3 nodes; give one for each"):
        Cluster(3, kafka_ports=[9092])


@pytest.mark.parametrize("nodes", [0, 51])
def test_a_number_of_nodes_out_of_range_is_refused(nodes: int) -> None:
    with pytest.raises(ConfigError, match=f"nodes = {nodes}"):
        Cluster(nodes)


def test_a_directory_that_cannot_be_made_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    layout = new_layout(tmp_path / "file" / "data", 1, port=None)
    with pytest.raises(ConfigError, match=r"file.*: cannot be written \(Not a directory\); give another directory"):
        layout.write([{}])


def test_a_directory_in_which_a_node_runs_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 3, 20_000)
    layout.write([{}] * 3)
    layout.data_directory(1).mkdir()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    fs = OsFileSystem()
    lock = fs.lock(str(layout.data_directory(1) / LOCK))
    try:
        with pytest.raises(ConfigError, match=r"node-1/data is in use by another process.*stop the cluster"):
            Cluster(3, directory=tmp_path, port=21_000).open()
    finally:
        fs.close(lock)
        (layout.data_directory(1) / LOCK).unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    layout.require_no_node_runs()


@pytest.mark.parametrize(
    "name", ["emoji-😀", "𝔘nicode", 'quo"te', "back\\slash", "del\x7fete", "bell\x07", "tab\there"]
)
def test_a_directory_with_unusual_letters_is_read_back_as_it_is(tmp_path: Path, name: str) -> None:
    layout = new_layout(tmp_path / name, 1, 20_000)
    layout.write([TEST_CONFIG])
    assert load_config(str(layout.config_path(0))).log_dirs == (str(layout.data_directory(0)),)


def test_a_directory_that_no_configuration_file_can_name_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not valid UTF-8, so no configuration file can name it"):
        new_layout(tmp_path / "bad-\udcff", 1, 20_000).write([TEST_CONFIG])


def test_clients_elsewhere_reach_a_host_and_the_nodes_stay_among_themselves(tmp_path: Path) -> None:
    new_layout(tmp_path, 3, 20_000, "box.example").write([TEST_CONFIG] * 3)
    layout = stored_layout(tmp_path, 3, None)
    assert layout is not None and layout.bootstrap == "box.example:20000,box.example:20001,box.example:20002"
    config = load_config(str(layout.config_path(1)))
    assert str(config.listeners["BROKER"]) == "0.0.0.0:20001"
    assert str(config.advertised_listeners["BROKER"]) == "box.example:20001"
    assert (str(config.listeners["KAFKA"]), config.kafka_listeners) == ("0.0.0.0:20401", ("KAFKA",))
    assert str(config.advertised_listeners["KAFKA"]) == layout.kafka_bootstrap.split(",")[1] == "box.example:20401"
    assert {config.listeners[name].host for name in ("INTERNAL", "CONTROLLER")} == {"127.0.0.1"}
    again = stored_layout(tmp_path, 3, None, "127.0.0.1")
    assert again is not None and again.bootstrap.startswith("127.0.0.1:20000")


def test_a_refused_cluster_has_a_repr_and_a_plan_needs_a_directory(tmp_path: Path) -> None:
    seen: list[Cluster] = []

    class Seen(Cluster):
        def __init__(self, nodes: int) -> None:
            seen.append(self)
            super().__init__(nodes)

    with pytest.raises(ConfigError, match="nodes = 0"):
        Seen(0)
    assert repr(seen[0]) == "Cluster(0 nodes, not open)"
    with pytest.raises(ConfigError, match="directory is not given"):
        Cluster(1).planned_configs()
    plan = Cluster(2, directory=tmp_path / "d", port=20_000).planned_configs()
    assert [path for path, _ in plan] == [tmp_path / "d" / f"node-{n}" / "node.toml" for n in (0, 1)]
    assert "node.id = 1" in plan[1][1] and not (tmp_path / "d").exists()
