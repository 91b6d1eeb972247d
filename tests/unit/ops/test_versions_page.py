"""Promises of the versions that Penstock asks for: generated code can be imported with them, and the page has them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def lowest(package: str) -> tuple[int, ...]:
    (found,) = [asked for asked in PROJECT["dependencies"] if re.match(rf"{package}[>=]", asked)]
    return version(re.findall(r">=([\d.]+)", found)[0])


def test_the_generated_code_takes_the_lowest_versions_that_pip_may_bring() -> None:
    """That of protobuf; there is none of gRPC."""
    stubs = (ROOT / "penstock" / "pb").glob("*_pb2*.py")
    texts = [path.read_text(encoding="utf-8") for path in stubs]
    protobuf = {found for text in texts for found in re.findall(r"Protobuf Python Version: ([\d.]+)", text)}
    assert max(map(version, protobuf)) <= lowest("protobuf")
    assert not any("import grpc" in text for text in texts)


def test_the_page_has_every_package_and_the_versions_of_the_project() -> None:
    page = (ROOT / "ops" / "procedures" / "versions-that-match.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9-]+[>=][^`]+)`", page))
    extras = [asked for extra in ("arrow", "spark") for asked in PROJECT["optional-dependencies"][extra]]
    assert named <= {*PROJECT["dependencies"], *extras}
    without = {re.split("[>=]", asked)[0] for asked in PROJECT["dependencies"]}
    assert not [name for name in without if name not in page]
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in page
    (go,) = re.findall(r"(?m)^go (\d+\.\d+)", (ROOT / "examples" / "go" / "go.mod").read_text(encoding="utf-8"))
    assert f"needs Go {go}" in page and "(../../CHANGELOG.md)" in page
