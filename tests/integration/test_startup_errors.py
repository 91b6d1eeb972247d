"""Start-up with bad input: a real process, its exit code, exactly one line on stderr, and no file touched."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.config_keys import to_toml
from penstock.local_nodes.node_process import NodeProcess, wait_all_ready
from penstock.node import EXIT_INTERRUPTED, EXIT_REFUSED, node_command
from penstock.testing.layout import Layout
from penstock.testing.ports import NodePorts, free_ports
from tests.support.python_nursery import quick_node_command

Tree = dict[str, tuple[int, bytes]]
Lines = tuple[str, ...]


BANNER = " INFO broker.node.server: "
"""In each line of the banner, which comes between the configuration's checks and those of the directories."""


@pytest.fixture
def ports() -> NodePorts:
    return free_ports(1)[0]


@pytest.fixture
def node(tmp_path: Path, ports: NodePorts) -> Layout:
    """A good configuration of one node in `node.config_path(0)`, not formatted yet."""
    layout = Layout(tmp_path / "cluster", "cluster-of-these-tests", (ports,))
    (tmp_path / "cluster").mkdir()
    layout.write([{}])
    return layout


def run(*arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines on stderr of the node process, without its banner; it must end by itself."""
    result = subprocess.run(quick_node_command(*arguments), capture_output=True, timeout=60, check=False, text=True)
    return result.returncode, [line for line in result.stderr.splitlines() if BANNER not in line]


def rewrite(node: Layout, **changes: object) -> None:
    """Changes keys of the configuration (underscores for dots); None removes one."""
    values = node.node_config(0) | {name.replace("_", "."): value for name, value in changes.items()}
    text = to_toml({name: value for name, value in values.items() if value is not None})
    node.config_path(0).write_text(text)


def tree(directory: Path) -> Tree:
    """Every file below, with its time of change and content."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def assert_refused(node: Layout, says: str, *arguments: str) -> None:
    """The process exits 2 with one line that has `says`, and leaves every file as it was."""
    before = tree(node.directory)
    code, lines = run(*(arguments or ("start", "--config", str(node.config_path(0)))))
    assert (code, len(lines)) == (EXIT_REFUSED, 1), lines
    assert lines[0].startswith("penstock: ") and says in lines[0]
    assert tree(node.directory) == before


def format_node(node: Layout, cluster_id: str = "") -> None:
    cluster = ("--cluster-id", cluster_id or node.cluster_id)
    code, lines = run("format", "--config", str(node.config_path(0)), *cluster)
    assert (code, lines) == (0, [])


# -- the configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"log_segment_byte": 1}, 'unknown key "log.segment.byte"; did you mean log.segment.bytes?'),
        ({"log_segment_bytes": "1GB"}, "must be an integer of bytes; write 1073741824"),
        ({"num_io_threads": 0}, "num.io.threads = 0: out of range"),
        ({"min_insync_replicas": 2}, "above default.replication.factor = 1"),
        ({"broker_heartbeat_interval_ms": 9000}, "not below broker.session.timeout.ms"),
        ({"process_roles": ""}, "process.roles is empty"),
        ({"listeners": "BROKER://127.0.0.1:9192"}, "add INTERNAL://host:port"),
        ({"advertised_listeners": "BROKER://0.0.0.0:9192"}, "set advertised.listeners = "),
        ({"controller_quorum_voters": "7@127.0.0.1:9193"}, "this controller is missing"),
        ({"controller_quorum_voters": "0@127.0.0.1:1,0@127.0.0.1:2"}, "node id 0 is given twice"),
        ({"log_dirs": []}, "log.dirs is empty"),
        ({"log_dirs": ["/nowhere/a", "/nowhere/a"]}, "are the same directory"),
        ({"log_dirs": ["/nowhere/a", "/nowhere/a/b"]}, "is inside"),
        ({"node_id": None}, "node.id is not set"),
    ],
)
def test_a_bad_configuration_is_one_line(node: Layout, changes: dict[str, object], says: str) -> None:
    rewrite(node, **changes)
    assert_refused(node, says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"node.id = 1\nnode.id = 2\n", "duplicate key node.id in line 2"),
        (b"node.id\n", "not valid TOML"),
        (b"# caf\xe9\n", "not UTF-8 at byte 5"),
    ],
)
def test_a_bad_file_is_one_line(node: Layout, content: bytes, says: str) -> None:
    node.config_path(0).write_bytes(content)
    assert_refused(node, says)


def test_a_missing_file_and_a_directory_are_one_line(node: Layout) -> None:
    assert_refused(node, "no such configuration file", "start", "--config", str(node.directory / "none.toml"))
    assert_refused(node, "is a directory", "start", "--config", str(node.directory))
    assert_refused(node, "give one with --config", "start")


def test_log_dirs_of_one_inode_are_one_line(node: Layout) -> None:
    (node.directory / "a").mkdir()
    (node.directory / "b").symlink_to(node.directory / "a")
    rewrite(node, log_dirs=[str(node.directory / "a"), str(node.directory / "b")])
    assert_refused(node, "are the same directory")


# -- the directories ---------------------------------------------------------------------------------------------------


def test_an_unformatted_directory_names_the_format_command(node: Layout) -> None:
    assert_refused(node, "format it with: penstock node format --config")


def test_formatting_again_is_refused(node: Layout) -> None:
    format_node(node)
    assert_refused(node, "formatted already", "format", "--config", str(node.config_path(0)))


def test_a_directory_that_is_not_empty_is_never_formatted(node: Layout) -> None:
    node.data_directory(0).mkdir()
    (node.data_directory(0) / "thesis.txt").write_text("years of work")
    assert_refused(node, "not empty", "format", "--config", str(node.config_path(0)))


def test_some_directories_formatted_and_some_empty_are_refused(node: Layout) -> None:
    format_node(node)
    rewrite(node, log_dirs=[str(node.data_directory(0)), str(node.directory / "new")])
    assert_refused(node, str(node.directory / "new"))


def test_another_nodes_directory_is_refused(node: Layout) -> None:
    format_node(node)
    controller = node.ports[0].controller
    rewrite(node, node_id=5, controller_quorum_voters=[f"5@127.0.0.1:{controller}"])
    assert_refused(node, "node.id")


def test_start_for_another_cluster_than_the_directories_are_of_is_refused(node: Layout) -> None:
    format_node(node)
    assert_refused(
        node,
        "is formatted for cluster cluster-of-these-tests, but this start is for another-cluster",
        *("start", "--config", str(node.config_path(0)), "--cluster-id", "another-cluster-012345"),
    )


def test_directories_of_two_clusters_are_refused(node: Layout) -> None:
    format_node(node)
    one, two = node.data_directory(0), node.directory / "two"
    rewrite(node, log_dirs=[str(two)])
    format_node(node, "another-cluster-012345")
    rewrite(node, log_dirs=[str(one), str(two)])
    assert_refused(node, "cluster")


def test_a_copied_directory_is_refused(node: Layout) -> None:
    format_node(node)
    copy = node.directory / "copy"
    shutil.copytree(node.data_directory(0), copy)
    rewrite(node, log_dirs=[str(node.data_directory(0)), str(copy)])
    assert_refused(node, "copy")


@pytest.mark.parametrize("damage", [b"", b"version=1\ncluster.id=", b"version=99\n"])
def test_a_damaged_or_newer_meta_properties_is_refused(node: Layout, damage: bytes) -> None:
    format_node(node)
    (node.data_directory(0) / "meta.properties").write_bytes(damage)
    assert_refused(node, "meta.properties")


# -- beside a running node ---------------------------------------------------------------------------------------------


@pytest.fixture
def running(node: Layout) -> Iterator[Layout]:
    """The node of `node`, running."""
    process = NodeProcess("node 0", node.config_path(0), node.log_path(0), node.cluster_id)
    process.spawn()
    try:
        wait_all_ready([process], timeout_s=60)
        yield node
    finally:
        process.kill()


def test_node_that_is_pointed_at_another_cluster_ends_with_one_line(running: Layout) -> None:
    stranger = Layout(running.directory / "stranger", "another-cluster-012345", free_ports(1))
    stranger.directory.mkdir()
    listeners = [each for each in cast(list[str], stranger.node_config(0)["listeners"]) if "CONTROLLER" not in each]
    its_own = {"node.id": 7, "process.roles": ["broker"], "listeners": listeners}
    voters = running.node_config(0)["controller.quorum.voters"]
    stranger.write([{**its_own, "controller.quorum.voters": voters}])
    format_node(stranger)
    code, lines = run("start", "--config", str(stranger.config_path(0)))
    assert code == EXIT_REFUSED and not [line for line in lines if "Traceback" in line]
    assert lines[-1].startswith("penstock: ") and "controller.quorum.voters" in lines[-1]
    assert "are of cluster another-cluster" in lines[-1] and f"this is cluster {running.cluster_id}" in lines[-1]


def test_other_voters_than_those_among_whom_the_node_voted_are_refused(node: Layout) -> None:
    """Started with a shorter list by mistake it would elect itself, beside the leader of the others."""
    process = NodeProcess("node 0", node.config_path(0), node.log_path(0), node.cluster_id)
    process.spawn()
    wait_all_ready([process], timeout_s=60)
    process.kill()
    voters = cast(list[str], node.node_config(0)["controller.quorum.voters"])
    rewrite(node, controller_quorum_voters=[*voters, "1@127.0.0.1:9"])
    assert_refused(node, "has the ids [0, 1], but this controller has voted among [0]")


def test_a_directory_in_use_is_refused(running: Layout) -> None:
    other = running.directory / "other.toml"
    ports = free_ports(1)[0]
    other.write_text(to_toml(Layout(running.directory, running.cluster_id, (ports,)).node_config(0)))
    code, lines = run("start", "--config", str(other))
    assert (code, len(lines)) == (EXIT_REFUSED, 1), lines
    assert str(running.data_directory(0)) in lines[0]


@pytest.mark.parametrize("listener", ["broker", "controller", "metrics"])
def test_a_port_in_use_is_one_line_that_names_it(node: Layout, listener: str) -> None:
    format_node(node)
    port = getattr(node.ports[0], listener)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        code, lines = run("start", "--config", str(node.config_path(0)))
    assert code != 0 and f"127.0.0.1:{port}" in lines[-1] and "in use" in lines[-1]
    assert len(lines) == 1, lines


@pytest.mark.parametrize("action", ["start", "check", "format"])
def test_ctrl_c_before_there_is_a_node_ends_it_without_a_word(tmp_path: Path, action: str) -> None:
    """It waits for its configuration, a pipe that nobody writes to."""
    config = tmp_path / "node.toml"
    os.mkfifo(config)
    with subprocess.Popen(node_command(action, "--config", str(config)), stderr=subprocess.PIPE) as process:
        try:
            pipe = read_by(config, process)
            shown = interrupted(process)
            os.close(pipe)
        finally:
            process.kill()
    assert (process.returncode, shown) == (EXIT_INTERRUPTED, b"")


def interrupted(process: subprocess.Popen[bytes]) -> bytes:
    """The words of the process on Ctrl-C, pressed again as a person does: one that comes when Python has looked for it,
    and before it reads, is noticed after the read, and nobody writes."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=6)[1]
    raise AssertionError("it goes on after ten times")


def read_by(path: Path, process: subprocess.Popen[bytes]) -> int:
    """The writing end of the pipe, as soon as the process has opened it."""
    while True:
        assert process.poll() is None
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO
            time.sleep(0.01)
