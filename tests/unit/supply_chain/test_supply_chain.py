"""The lock file of CI fits pyproject.toml, and what is wrong with one is named; the bill of materials is whole."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.supply_chain import image_pins
from tests.supply_chain.lock import EXTRAS, LOCK, gaps, pins, requirements
from tests.supply_chain.lower_bounds import untrue_bounds
from tests.supply_chain.sbom import bill_of_materials, closure

GOOD = """rich==15.0.0 \\
    --hash=sha256:00 \\
    --hash=sha256:01
numpy==1.0 ; python_version < '3' \\
    --hash=sha256:02
"""
RICH = [Requirement("rich>=13.9")]


def test_ci_installs_what_pyproject_asks_for() -> None:
    assert gaps(requirements(*EXTRAS), LOCK.read_text(encoding="utf-8")) == []


def test_ci_builds_from_locked_packages_too() -> None:
    """The sdists among them are built by setuptools, this project by hatchling: without build isolation."""
    locked = {pin.name for pin, _ in pins(LOCK.read_text(encoding="utf-8"))}
    assert {"setuptools", "hatchling"} <= locked


def test_a_good_lock_file_has_no_gaps() -> None:
    assert gaps(RICH, GOOD) == []


@pytest.mark.parametrize(
    ("wanted", "text", "wrong"),
    [
        ("rich>=16", GOOD, "rich>=16 is not met by 15.0.0"),
        ("typer", GOOD, "typer is not met by any line"),
        ("numpy", GOOD, "numpy is not met by any line"),  # its line is for another Python
        ("rich", "rich==15.0.0\n", "rich has not one version with hashes"),
        ("rich", "rich>=15.0.0 --hash=sha256:00\n", "rich has not one version with hashes"),
        ("rich", GOOD + "--index-url index\n", "an address: --index-url index"),
        ("rich", GOOD + "# from https://index\n", "an address: # from https://index"),
    ],
)
def test_a_gap_of_a_lock_file_is_named(wanted: str, text: str, wrong: str) -> None:
    assert gaps([Requirement(wanted)], text)[0].startswith(wrong)


def test_every_range_has_a_lower_bound() -> None:
    every = requirements("arrow", "spark", "dev", "plots", "supply-chain")
    assert [str(one) for one in every if ">=" not in str(one.specifier)] == []


def test_a_lower_bound_that_nobody_gets_is_named() -> None:
    assert untrue_bounds(RICH, {"rich": "13.9.0"}) == []
    assert untrue_bounds(RICH, {"rich": "13.9.2"}) == ["rich>=13.9: the oldest that can be had is 13.9.2"]
    assert untrue_bounds([Requirement("rich")], {"rich": "0.1"}) == [
        "rich: no lower bound; the oldest that can be had is 0.1"
    ]


def test_the_bill_of_materials_has_what_a_node_loads_and_nothing_of_the_tests() -> None:
    bill = json.loads(bill_of_materials("penstock", []))
    names = {re.sub(r"[-_.]+", "-", one["name"]).lower() for one in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "penstock"
    direct = {
        Requirement(line).name.lower() for line in distribution("penstock").requires or [] if "extra ==" not in line
    }
    assert {"grpcio", "uvloop"} <= direct <= names
    assert names & {"pytest", "ruff", "pyspark"} == set()
    assert all(one["version"] and one["purl"].startswith("pkg:pypi/") for one in bill["components"])
    edges = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert "pygments" in edges["rich"]  # what comes indirectly is there, with whom it comes by


def test_an_extra_adds_to_the_bill_and_two_bills_are_equal() -> None:
    assert set(closure("penstock", [])) < set(closure("penstock", ["dev"]))
    assert bill_of_materials("penstock", ["dev"]) == bill_of_materials("penstock", ["dev"])


def test_the_packages_of_the_image_are_blocks_of_the_lock_file() -> None:
    """The oldest Python needs the most of them: later ones need none that it does not."""
    lock = LOCK.read_text(encoding="utf-8")
    for path, names in image_pins.wanted().items():
        text = path.read_text(encoding="utf-8")
        assert names <= set(dict(image_pins.blocks(text))), "run python -m tests.supply_chain image-pins"
        assert all(block in lock for _, block in image_pins.blocks(text))
        assert gaps([], text) == []
        if sys.version_info < (3, 12):
            assert text == image_pins.subset(lock, names), "run python -m tests.supply_chain image-pins"


def test_the_image_has_what_a_node_and_the_console_need_and_no_tool_of_development() -> None:
    runtime, _ = (set(dict(image_pins.blocks(path.read_text(encoding="utf-8")))) for path in image_pins.wanted())
    assert {"grpcio", "uvloop", "starlette", "uvicorn"} <= runtime
    assert not {"pytest", "pyspark", "pyarrow", "hatchling"} & runtime


def test_a_package_that_the_lock_file_lacks_is_named() -> None:
    assert image_pins.subset(GOOD, ["rich"]) == image_pins.HEAD + GOOD.partition("numpy")[0]
    with pytest.raises(KeyError, match="pandas"):
        image_pins.subset(GOOD, ["pandas"])


@pytest.mark.parametrize("is_apart", [True, False])
def test_the_bill_of_an_image_has_the_systems_packages(tmp_path: Path, is_apart: bool) -> None:
    notes = [f"Package: {name}\nVersion: 1:2-{name}\nArchitecture: amd64\nDescription: a\n b: c\n" for name in "ba"]
    if is_apart:
        (tmp_path / "status.d").mkdir()
        for name, note in zip("ba", notes, strict=True):
            (tmp_path / "status.d" / name).write_text(note)
    else:
        (tmp_path / "status").write_text("\n".join(notes))
    bill = json.loads(bill_of_materials("penstock", [], tmp_path))
    of_system = [one["purl"] for one in bill["components"] if one["purl"].startswith("pkg:deb/")]
    assert of_system == ["pkg:deb/debian/a@1:2-a?arch=amd64", "pkg:deb/debian/b@1:2-b?arch=amd64"]
    assert bill_of_materials("penstock", [], tmp_path) != bill_of_materials("penstock", [])
