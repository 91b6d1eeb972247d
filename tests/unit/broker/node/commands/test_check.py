"""`penstock node check`: what a start would refuse, and what it would only warn of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.config.config import load_config
from broker.config.exposed_listeners import exposed_listeners, node_listeners
from broker.config.node_config import NodeConfig
from broker.node.commands.check import main
from broker.node.commands.format import format_node
from broker.node.commands.initial_controllers import QuorumOptions
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import VoterMemory
from metadata.codec import encode_record
from metadata.records import FeatureLevelRecord
from penstock import __version__
from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import HealthCheck
from penstock.client.admin.health.judge import judge
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.messages.admin_apis import DESCRIBE_CLUSTER
from penstock.messages.cluster import ClusterInfo, NodeStanding
from penstock.messages.metadata import BrokerInfo
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo
from penstock.node import main as launch
from penstock.record.builder import build_batch
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import Layout, new_layout
from penstock.wire.message_codec import response_codec
from raft.quorum_state import ElectionState
from storage.disk.file_system import OsFileSystem

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = new_layout(tmp_path, 1, None)
    made.write([TEST_CONFIG])
    return made


def files(layout: Layout) -> list[Path]:
    return sorted(layout.directory.rglob("*"))


def test_a_new_node_could_start_once_it_is_formatted(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(layout)
    assert main(str(layout.config_path(0))) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"penstock {__version__}\n")
    assert "warning: no log dir is formatted yet" in said and said.endswith(
        "could start once its log dirs are formatted; 1 warning\n"
    )
    assert files(layout) == before
    format_node(load_config(str(layout.config_path(0))), CLUSTER, OsFileSystem(), system_ids())
    assert main(str(layout.config_path(0))) == 0
    assert capsys.readouterr().out.endswith("node 0 could start; no warnings\n")


def test_for_scripts_it_is_one_document(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(layout.config_path(0))
    assert main(path, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["config"], found["node_id"], len(found["warnings"])) == (path, 0, 1)
    assert found["version"] == __version__
    assert found["state"].startswith("could start once") and len(found["listeners"]) >= 3
    assert launch(["check", "--config", path + ".not", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["name"], error["exit_code"]) == ("ConfigError", 2) and "no such configuration" in error["message"]


def test_a_node_that_runs_is_said_to_run(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    format_node(load_config(str(layout.config_path(0))), CLUSTER, OsFileSystem(), system_ids())
    held = OsFileSystem().lock(str(layout.data_directory(0) / ".lock"))
    try:
        assert main(str(layout.config_path(0))) == 0
    finally:
        OsFileSystem().close(held)
    assert "node 0 runs, and could start again" in capsys.readouterr().out


def test_what_a_start_refuses_is_refused(layout: Layout) -> None:
    config = layout.config_path(0)
    layout.data_directory(0).mkdir()
    (layout.data_directory(0) / "photo.jpg").touch()
    with pytest.raises(MetaPropertiesError, match=r"is not empty \(it holds photo.jpg\)"):
        main(str(config))
    (layout.data_directory(0) / "photo.jpg").unlink()
    format_node(load_config(str(config)), CLUSTER, OsFileSystem(), system_ids())
    config.write_text(config.read_text().replace("node.id = 0", "node.id = 3").replace('"0@', '"3@'))
    with pytest.raises(MetaPropertiesError, match=r"belongs to node 0, but node\.id = 3"):
        main(str(config))
    written = config.read_text().replace("node.id = 3", "node.id = 0").replace('"3@', '"0@')
    config.write_text(f'{written}audit.log.location = "{layout.directory}/none/audit.log"\n')
    with pytest.raises(ConfigError, match=r"audit\.log\.location"):
        main(str(config))
    config.write_text(written + "log.segment.bytes = 1\n")
    with pytest.raises(ConfigError, match=r"log\.segment\.bytes"):
        main(str(config))


def dynamic(layout: Layout) -> Path:
    path = layout.config_path(0)
    at = layout.ports[0].controller
    text = path.read_text().replace(
        f'controller.quorum.voters = ["0@127.0.0.1:{at}"]', f'controller.quorum.bootstrap.servers = ["127.0.0.1:{at}"]'
    )
    path.write_text(text)
    return path


def test_a_lost_vote_of_a_dynamic_quorum_is_refused_as_by_the_start(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fs = dynamic(layout), OsFileSystem()
    format_node(load_config(str(path)), CLUSTER, fs, system_ids(), quorum=QuorumOptions(standalone=True))
    assert main(str(path)) == 0
    assert capsys.readouterr().out.endswith("node 0 could start; no warnings\n")
    data = str(layout.data_directory(0))
    memory = VoterMemory(data, fs)
    memory.note_dynamic()
    memory.note_voted()
    with pytest.raises(CorruptFileError, match=r"quorum-state.*must not vote as.*--join"):
        main(str(path))
    fs.mkdir(f"{data}/__cluster_metadata-0")
    QuorumStateFile(f"{data}/__cluster_metadata-0", fs).save(ElectionState(3, 0, 0))
    assert main(str(path)) == 0
    (layout.data_directory(0) / "first-voters").write_text("{")
    with pytest.raises(CorruptFileError, match=r"first-voters.*format the dir anew with --join"):
        main(str(path))


def test_a_dir_without_first_voters_is_said_to_begin_no_quorum(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    format_node(load_config(str(layout.config_path(0))), CLUSTER, OsFileSystem(), system_ids())
    assert main(str(dynamic(layout))) == 0
    assert "this controller can only join a quorum; to begin one, empty the dir" in capsys.readouterr().out


def test_configured_voters_that_do_nothing_are_warned_of(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    static = layout.config_path(0).read_text()
    path = dynamic(layout)
    format_node(load_config(str(path)), CLUSTER, OsFileSystem(), system_ids(), quorum=QuorumOptions(standalone=True))
    path.write_text(static)
    assert main(str(path)) == 0
    assert "warning: controller.quorum.voters does nothing here: the metadata log names" in capsys.readouterr().out


def test_each_listener_is_described_and_keys_that_lock_nothing_are_warned_of(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    config = layout.config_path(0)
    config.write_text(config.read_text() + 'authorizer.class.name = "StandardAuthorizer"\n')
    assert main(str(config)) == 0
    said = capsys.readouterr().out
    at = load_config(str(config)).listeners
    assert f"BROKER://{at['BROKER']} speaks gRPC, PLAINTEXT: nobody is asked who they are\n" in said
    assert f"KAFKA://{at['KAFKA']} speaks Kafka's protocol, PLAINTEXT: nobody is asked who they are\n" in said
    assert "warning: authorizer.class.name is set, and super.users is empty" in said
    assert "warning: authorizer.class.name is set, and no listener asks who a client is" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "0", "[::ffff:0.0.0.0]"])
def test_a_listener_of_the_nodes_that_is_open_to_every_network_is_warned_of(
    layout: Layout, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = layout.config_path(0)
    text = config.read_text()
    open_ones = text.replace("INTERNAL://127.0.0.1", f"INTERNAL://{host}")
    config.write_text(open_ones + 'advertised.listeners = ["INTERNAL://127.0.0.1:1"]\n')
    loaded = load_config(str(config))
    warnings = list(exposed_listeners(loaded))
    assert len(warnings) == 1 and warnings[0].startswith("listeners = INTERNAL://")
    listener = loaded.listeners["INTERNAL"]
    assert health_of(loaded).details == (
        f"node 0: INTERNAL://{listener}: every machine that reaches it can act as a node of the cluster",
    )
    assert main(str(config)) == 0 and "can act as a node of the cluster" in capsys.readouterr().out
    config.write_text(text)
    closed = load_config(str(config))
    assert list(exposed_listeners(closed)) == [] and health_of(closed).status == "ok"


def test_metadata_of_a_later_release_are_told_with_what_to_install(layout: Layout) -> None:
    config = load_config(str(layout.config_path(0)))
    format_node(config, CLUSTER, OsFileSystem(), system_ids())
    log = Path(config.metadata_log_dir, "__cluster_metadata-0")
    log.mkdir()
    records = FeatureLevelRecord("metadata.version", 2, "0.3.0"), FeatureLevelRecord("metadata.version", 9, "9.1.0")
    for count in (1, 2):
        values = [encode_record(record) for record in records[:count]]
        batch = build_batch(values, timestamps_ms=0, base_offset=0, leader_epoch=1)
        (log / f"{0:020d}.log").write_bytes(bytes(batch))
        if count == 1:
            assert main(str(layout.config_path(0))) == 0
    with pytest.raises(MetaPropertiesError, match=r"metadata\.version is 9.*too old.*install release 9\.1\.0"):
        main(str(layout.config_path(0)))


def health_of(config: NodeConfig) -> HealthCheck:
    """The check that `penstock cluster health` makes of the node's answer, as it comes over the wire."""
    status = NodeStanding(0, False, 0, 0, 0, 0, 0, 0, (), node_listeners=tuple(node_listeners(config)))
    codec = response_codec(DESCRIBE_CLUSTER)
    received = codec.decode(
        codec.encode(ClusterInfo("c", 0, (BrokerInfo(0, "h", 1, "", False),), 1, status, {}, 0, ()))
    )
    health = judge(ClusterViews({0: received}), QuorumInfo(0, 1, 1, (QuorumReplicaInfo(0, 1, 0),), ()))
    assert health.status == "healthy"
    return next(check for check in health.checks if check.name == "node listeners")
