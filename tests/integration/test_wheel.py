"""The wheel as a stranger installs it, beside modules of theirs that are named like our server packages.

Built from this checkout without the network, installed into a fresh environment that borrows the dependencies of the
running one (but not this checkout: a path in a .pth file brings no other .pth file's paths).
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.supply_chain.wheel import build_elsewhere, sha256

ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = ("raft", "metadata", "storage", "broker")

ROUND_TRIP = """
import importlib, sys
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
import penstock, pathlib

assert "site-packages" in penstock.__file__, penstock.__file__
with Cluster() as cluster:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", partitions=1)
    with Producer(cluster.bootstrap) as producer:
        print(producer.send("orders", value=b"v").result(60).offset)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        records = []
        while not records:
            records = list(consumer.poll(timeout_ms=1000))
        print(records[0].value)
for name in ("raft", "metadata", "storage", "broker"):
    try:
        importlib.import_module(name)
    except RuntimeError as error:
        print(name, error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment in which the wheel, and not this checkout, is installed."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", str(wheel)], check=True, capture_output=True)  # half of it is never imported
    site_packages = next(folder.glob("lib/python*/site-packages"))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A user's folder whose own modules have the names of our server packages."""
    for name in ("raft", "storage"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('is theirs')\n")
    for name in ("metadata", "broker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('is theirs')\n")
    return tmp_path


def run(hostile: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """In the user's folder, which is on PYTHONPATH as well."""
    environ = {**os.environ, "PYTHONPATH": str(hostile)}
    return subprocess.run(command, cwd=hostile, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_the_wheel_adds_only_penstock_and_the_spark_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"penstock"} | ({"pyspark_penstock.py"} if (ROOT / "pyspark_penstock.py").exists() else set())
    private = {name.split("/")[2] for name in names if name.startswith("penstock/_server/")}
    assert private == {*SERVER_PACKAGES, "ops"}
    assert sorted(name for name in names if name.startswith("penstock/_server/ops/")) == [
        "penstock/_server/ops/systemd/penstock-console.service",
        "penstock/_server/ops/systemd/penstock-host.service",
        "penstock/_server/ops/systemd/penstock@.service",
    ]
    assert not [name for name in names if name.endswith(".pyc")]


def test_every_module_of_this_checkout_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = [path.relative_to(ROOT).as_posix() for path in (ROOT / "penstock").rglob("*.py")]
    theirs = [
        f"penstock/_server/{p.relative_to(ROOT).as_posix()}" for n in SERVER_PACKAGES for p in (ROOT / n).rglob("*.py")
    ]
    assert not [name for name in ours + theirs if name not in names]


def test_the_console_has_its_templates_and_styles_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = [path.relative_to(ROOT).as_posix() for path in (ROOT / "penstock" / "console").rglob("*.*")]
    wanted = [name for name in ours if "/templates/" in name or "/static/" in name]
    assert len(wanted) > 5 and not [name for name in wanted if name not in names]


def test_a_node_and_a_client_work_beside_hostile_modules(environment: Path, hostile: Path) -> None:
    result = run(hostile, str(environment / "python"), "-c", ROUND_TRIP)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["0", "b'v'", *(f"{name} is theirs" for name in SERVER_PACKAGES)]


def test_the_command_works_beside_hostile_modules(environment: Path, hostile: Path) -> None:
    result = run(hostile, str(environment / "penstock"), "node", "start", "--config", "none.toml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("penstock: none.toml: no such configuration file")


def test_server_packages_are_invisible_to_a_user_without_such_modules(environment: Path, tmp_path: Path) -> None:
    program = (
        "import importlib.util as u; print([n for n in ('raft', 'metadata', 'storage', 'broker') if u.find_spec(n)])"
    )
    result = run(tmp_path, str(environment / "python"), "-c", program)
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.long
def test_two_builds_in_two_places_have_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    other = build_elsewhere(tmp_path)
    assert (other.name, sha256(other)) == (wheel.name, sha256(wheel))
