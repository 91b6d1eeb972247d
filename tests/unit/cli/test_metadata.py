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
    told = penstock("digest", "--bootstrap", cluster.bootstrap, "--at", 4)
    lines = "".join(f"{node}\t4\t3\t2\t{SHA256}\n" for node in (1, 2))
    assert (told.exit_code, told.stdout, told.stderr) == (0, f"node\toffset\tepoch\trecords\tsha256\n{lines}", "")
    cluster.metadata_lines[2] = b"{}\n"
    told = penstock("digest", "--json", bootstrap=cluster.bootstrap)
    del cluster.metadata_lines[2]
    assert told.exit_code == 1 and "they differ" in told.stderr
    assert [(row["node_id"], row["offset"], row["records"]) for row in json.loads(told.stdout)] == [
        (1, 0, 2),
        (2, 0, 1),
    ]
    cluster.metadata_refusals[1].append(NetworkError("it stops"))
    told = penstock("digest", bootstrap=cluster.bootstrap)
    assert (told.exit_code, told.stderr) == (1, "")
    assert told.stdout.splitlines()[1:] == ["1\t0\t-\t-\terror: it stops", f"2\t0\t3\t2\t{SHA256}"]


def test_a_dump_is_the_same_as_one_of_files(cluster: FakeCluster) -> None:
    told = penstock("dump", "--bootstrap", cluster.bootstrap, "--node", 2, "--at", 9)
    assert told.exit_code == 0 and [json.loads(line) for line in told.stdout.splitlines()] == [
        {"type": "Topic", "name": "a"},
        {"type": "Topic", "name": "b"},
    ]
    assert told.stderr == f"2 records at offset 9, epoch 3: {SHA256}\n"
    told = penstock("dump", "--json", bootstrap=cluster.bootstrap)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
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
    told = penstock(*arguments)
    assert isinstance(told.exception, ConfigError) and says in str(told.exception) and not told.stdout


def test_the_environment_means_nothing_where_a_path_is_given(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = penstock("digest", tmp_path, bootstrap="localhost:1")
    assert told.exit_code == 2 and "there is no metadata log" in capfd.readouterr().err
