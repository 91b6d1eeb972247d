"""The bill of materials of an installation: Penstock and every distribution that it brings, as CycloneDX 1.6 JSON.

It is read from the installed distributions, so it tells what is there, not what a file promises. It names versions,
licences and who needs whom, and has no hashes: those of the files are in .ci/lock.txt. That of a container image has
Debian's packages beside them, by dpkg's notes. Two calls print the same bytes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EPOCH = 1_577_836_800  # 2020-01-01, as in the wheel, where SOURCE_DATE_EPOCH names no other time


def _wanted(found: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The distributions that one needs here, with the extras that it wants of each."""
    for line in found.requires or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def closure(root: str, extras: list[str]) -> dict[str, set[str]]:
    """Every installed distribution that the root brings, with what each needs; what is not installed is left out."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, frozenset(extras))]
    while waiting:
        name, asked = waiting.pop()
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        mine = needs.setdefault(name, set())
        for wanted in _wanted(distribution(name), asked):
            try:
                distribution(wanted[0])
            except PackageNotFoundError:
                continue
            mine.add(wanted[0])
            waiting.append(wanted)
    return needs


def _component(name: str) -> Component:
    found = distribution(name)
    licence = found.metadata.get("License-Expression")
    stated = found.metadata.get("License") or ""
    licences: list[LicenseExpression | DisjunctiveLicense] = []
    if licence:
        licences.append(LicenseExpression(licence))
    elif stated and "\n" not in stated and len(stated) <= 100:
        licences.append(DisjunctiveLicense(name=stated))
    return Component(
        name=found.metadata["Name"],
        version=found.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", None, name, found.version),
        bom_ref=name,
        licenses=licences,
    )


def of_debian(dpkg: Path) -> list[Component]:
    """The packages of a system, by its var/lib/dpkg: one file with all, or one for each where there is no dpkg."""
    notes = sorted((dpkg / "status.d").glob("*")) or [dpkg / "status"]
    found = []
    for paragraph in (part for note in notes for part in note.read_text(encoding="utf-8").split("\n\n")):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields:
            name, version = fields["Package"], fields["Version"]
            purl = PackageURL("deb", "debian", name, version, {"arch": fields["Architecture"]})
            found.append(
                Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=f"deb/{name}")
            )
    return sorted(found, key=lambda component: component.name)


def bill_of_materials(root: str, extras: list[str], dpkg: Path | None = None) -> str:
    """The text of the bill. SOURCE_DATE_EPOCH is its time; its serial number follows from what it lists."""
    system = [] if dpkg is None else of_debian(dpkg)
    needs = closure(root, extras)
    components = {name: _component(name) for name in sorted(needs)}
    components[root].type = ComponentType.APPLICATION
    bom = Bom(components=[*(one for name, one in components.items() if name != root), *system])
    bom.metadata.component = components[root]
    for name, wanted in needs.items():
        bom.register_dependency(components[name], [components[one] for one in sorted(wanted)])
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH)), UTC)
    listed = " ".join(str(one.purl) for one in (*components.values(), *system))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, listed)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
