"""`penstock metadata` of a running cluster: a row for each broker, exit codes, and the records; and where it looks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.errors import ConfigError, NetworkError
from tests.support.fake_broker import FakeCluster
from tests.support.fake_node import METADATA_LINES

SHA256 = hashlib.sha256(METADATA_LINES).hexdigest()


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        yield found


def penstock(*arguments: object, bootstrap: str = "") -> Result:
    """The command, with PENSTOCK_BOOTSTRAP in its environment."""
    words = ["metadata", *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"PENSTOCK_BOOTSTRAP": bootstrap or None})


def test_equal_digests_exit_0_and_others_1(cluster: FakeCluster) -> None:
    done = penstock("digest", "--bootstrap", cluster.bootstrap, "--at", 4)
    lines = "".join(f"{node}\t4\t3\t2\t{SHA256}\n" for node in (1, 2))
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"node\toffset\tepoch\trecords\tsha256\n{lines}", "")
    cluster.metadata_lines[2] = b"{}\n"
    done = penstock("digest", "--json", bootstrap=cluster.bootstrap)
    del cluster.metadata_lines[2]
    assert done.exit_code == 1 and "they differ" in done.stderr
    assert [(row["node_id"], row["offset"], row["records"]) for row in json.loads(done.stdout)] == [
        (1, 0, 2),
        (2, 0, 1),
    ]
    cluster.metadata_refusals[1].append(NetworkError("it stops"))
    done = penstock("digest", bootstrap=cluster.bootstrap)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1:] == ["1\t0\t-\t-\terror: it stops", f"2\t0\t3\t2\t{SHA256}"]


def test_a_dump_is_the_same_as_one_of_files(cluster: FakeCluster) -> None:
    done = penstock("dump", "--bootstrap", cluster.bootstrap, "--node", 2, "--at", 9)
    assert done.exit_code == 0 and [json.loads(line) for line in done.stdout.splitlines()] == [
        {"type": "Topic", "name": "a"},
        {"type": "Topic", "name": "b"},
    ]
    assert done.stderr == f"2 records at offset 9, epoch 3: {SHA256}\n"
    done = penstock("dump", "--json", bootstrap=cluster.bootstrap)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["type"] for row in rows] == ["record", "record", "digest"] and rows[0]["record"]["name"] == "a"
    assert (rows[2]["sha256"], rows[2]["records"]) == (SHA256, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("digest", "x", "--bootstrap", "localhost:1"), "PATH and --bootstrap are two places to look"),
        (("dump", "x", "--bootstrap", "localhost:1"), "PATH and --bootstrap are two places to look"),
        (("dump", "x", "--node", "1"), "--node is of a running cluster"),
    ],
)
def test_two_places_to_look_are_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    done = penstock(*arguments)
    assert isinstance(done.exception, ConfigError) and says in str(done.exception) and not done.stdout


def test_the_environment_means_nothing_where_a_path_is_given(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = penstock("digest", tmp_path, bootstrap="localhost:1")
    assert done.exit_code == 2 and "there is no metadata log" in capfd.readouterr().err
