"""A node as in a container: variables configure it, its first start formats its dir, and the next ones keep it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.config_keys import config_text
from penstock.node import PARENT_VARIABLE
from penstock.testing.layout import Layout, new_layout

PROGRAM = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
OTHER_CLUSTER = "another-cluster-012345"
STOP_S = 60


class Machine:
    """One container after the other, with the same variables and the same volume."""

    def __init__(self, layout: Layout) -> None:
        given = layout.node_config(0)
        voters = given.pop("controller.quorum.voters")
        assert isinstance(voters, list)
        given["controller.quorum.bootstrap.servers"] = [one.partition("@")[2] for one in voters]
        texts = {key: config_text(tuple(value) if isinstance(value, list) else value) for key, value in given.items()}
        self.variables = {f"PENSTOCK_{key.replace('.', '_').upper()}": text for key, text in texts.items()}
        self.variables |= {"PENSTOCK_CONFIG": "env:", "PENSTOCK_CLUSTER_ID": layout.cluster_id}
        self.log = layout.directory / "log"

    def process(self, command: str, **more: str) -> subprocess.Popen[bytes]:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}
        environ |= {**self.variables, PARENT_VARIABLE: str(os.getpid())}
        environ |= {f"PENSTOCK_{name}": text for name, text in more.items()}
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "node", command], env=environ, stdin=subprocess.DEVNULL, stderr=log
            )

    @contextmanager
    def running(self, **more: str) -> Iterator[None]:
        process = self.process("start", **more)
        try:
            yield
            process.terminate()
            assert process.wait(STOP_S) == 0, self.log.read_text()
        finally:
            process.kill()
            process.wait()

    def refusal(self, command: str = "start", **more: str) -> str:
        """The last line of a command that is refused: the reason."""
        assert self.process(command, **more).wait(STOP_S) == 2, self.log.read_text()
        return self.log.read_text().splitlines()[-1]


def test_identity_and_records_outlive_the_process_and_strangers_are_refused(tmp_path: Path) -> None:
    layout = new_layout(tmp_path / "cluster", 1, None)
    layout.write([{}])
    machine = Machine(layout)
    assert "did you mean PENSTOCK_NODE_ID?" in machine.refusal(NODEID="1")
    with machine.running(FIRST_START="begin"):
        with Admin(layout.bootstrap) as admin:
            admin.create_topic("kept", 1, 1)
        with Producer(layout.bootstrap, acks="all") as producer:
            assert producer.send("kept", b"first").result().offset == 0
    with machine.running():  # another process, and no word of the beginning any more
        with Producer(layout.bootstrap, acks="all") as producer:
            assert producer.send("kept", b"second").result().offset == 1
        with Consumer(layout.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("kept", 0)])
            found = [record.value for record in consumer.poll(10_000)]
        assert found and found[0] == b"first"
    assert "is formatted for cluster" in machine.refusal(CLUSTER_ID=OTHER_CLUSTER)
    assert "belongs to node 0" in machine.refusal(NODE_ID="5")
    assert "belongs to node 0" in machine.refusal("check", NODE_ID="5")


def test_an_empty_volume_is_not_formatted_without_a_cluster_id(tmp_path: Path) -> None:
    layout = new_layout(tmp_path / "cluster", 1, None)
    layout.write([{}])
    assert "is not formatted" in Machine(layout).refusal(CLUSTER_ID="")
