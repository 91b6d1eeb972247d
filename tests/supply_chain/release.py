"""A release: from a tag to files that can be taken, each checked as its users will get it.

    the tag      names the version; the changelog has its part; the tree is that commit's, whatever lies beside it
    built twice  wheel and sdist, in two places that differ in times, umask and time zone: the same bytes
    shown        metadata and README as an index renders them (twine, strict)
    installed    the wheel in a bare environment of each Python, where the demo runs
    listed       SHA256SUMS, the bill of materials (CycloneDX), the changes, the site of the documentation

Nothing is signed or uploaded here: a key of a person's machine says little. The workflow that publishes has an identity
(PyPI's trusted publishing, PEP 740 attestations, SLSA's provenance), and signs what this command has made. Missing
interpreters are said, and are no failure unless they were asked for by name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from tests.supply_chain import sbom, site
from tests.supply_chain.lock import ROOT
from tests.supply_chain.release_texts import changes_of, readme_for_index, version_of, with_version

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OTHER_TIME = 1_000_000_000
DEMO = ("demo", "--max-mb", "2", "--no-spark")


def run(tag: str, output: Path, pythons: Sequence[str], *, has_site: bool) -> int:
    """0 when every check holds; the files are in `output` then, which must be empty or new."""
    version = version_of(tag)
    if output.exists() and any(output.iterdir()):
        raise SystemExit(f"{output}: is not empty; give a new directory")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as folder:
        sources = Path(folder) / "sources"
        export(tag, sources)
        changes = changes_of((sources / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        prepare(sources, tag, version)
        files = build_twice(sources, Path(folder), tag)
        rendered(files)
        for file in files:
            shutil.copy(file, output / file.name)
        wheel = next(file for file in files if file.suffix == ".whl")
        if not installed(wheel, Path(folder), pythons, version):
            return 1
        (output / f"penstock-{version}.cdx.json").write_text(sbom.bill_of_materials("penstock", []) + "\n", "utf-8")
        (output / "CHANGES.md").write_text(changes + "\n", encoding="utf-8")
        if has_site and site.build(output / "site", version, tag, sources):
            return 1
    write_sums(output)
    print(f"{output}: penstock {version}, not signed: the workflow that publishes it does that")
    return 0


def export(tag: str, target: Path) -> None:
    """The files of the tag's commit; SystemExit for a tag that is not there."""
    done = subprocess.run(["git", "archive", "--format=tar", tag], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{tag}: git knows no such tag ({done.stderr.decode().strip()})")
    target.mkdir()
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")


def prepare(sources: Path, tag: str, version: str) -> None:
    """The version of the tag, and a README whose links lead somewhere from an index."""
    module, readme = sources / "penstock" / "version.py", sources / "README.md"
    module.write_text(with_version(module.read_text(encoding="utf-8"), version), encoding="utf-8")
    readme.write_text(readme_for_index(readme.read_text(encoding="utf-8"), tag), encoding="utf-8")


def build_twice(sources: Path, folder: Path, tag: str) -> list[Path]:
    """Wheel and sdist; SystemExit where two builds differ."""
    time = subprocess.run(
        ["git", "log", "-1", "--format=%ct", tag], cwd=ROOT, capture_output=True, text=True, check=True
    )
    epoch = time.stdout.strip()
    there = folder / "there"
    shutil.copytree(sources, there, symlinks=True)
    for path in there.rglob("*"):
        os.utime(path, (OTHER_TIME, OTHER_TIME))
    first = built(sources, folder / "dist", 0o022, SOURCE_DATE_EPOCH=epoch)
    second = built(there, folder / "dist-there", 0o077, SOURCE_DATE_EPOCH=epoch, TZ="Pacific/Auckland")
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or sha256(one) != sha256(other):
            raise SystemExit(f"{one.name}: two builds of the same files differ")
        print(f"{sha256(one)}  {one.name}, built twice", flush=True)
    return first


def built(source: Path, target: Path, umask: int, **variables: str) -> list[Path]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, umask=umask)
    if done.returncode:
        raise SystemExit(f"it could not be built: {done.stdout}{done.stderr}")
    return sorted(target.iterdir())


def rendered(files: list[Path]) -> None:
    """SystemExit where an index would refuse the metadata, or show README as plain text."""
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    print(f"metadata and README of {len(files)} files are as an index wants them", flush=True)


def installed(wheel: Path, folder: Path, pythons: Sequence[str], version: str) -> bool:
    """True when the wheel runs the demo in a bare environment of each Python that is here. One that was asked for by
    name must be here."""
    is_right = True
    for asked in pythons or PYTHONS:
        python = interpreter(asked)
        if python is None:
            print(f"Python {asked}: not here, not tried")
            is_right = is_right and not pythons
            continue
        environment = folder / f"venv-{asked}"
        said_by([python, "-m", "venv", str(environment)], folder)
        here = environment / "bin"
        said_by([str(here / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)], folder)
        said = said_by([str(here / "penstock"), "--version"], folder).stdout.strip()
        demo = said_by([str(here / "penstock"), *DEMO], folder)
        word = "everything holds" in demo.stdout and demo.returncode == 0 and said == version
        print(f"Python {asked}: penstock {said}, the demo {'holds' if word else 'FAILED'}", flush=True)
        if not word:
            print(f"{demo.stdout[-2_000:]}{demo.stderr[-2_000:]}")
        is_right = is_right and word
    return is_right


def said_by(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command elsewhere than in this tree, and without what leads Python to other packages than those that are
    installed."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=bare, check=False)


def interpreter(version: str) -> str | None:
    """The command of that Python; None where it is not here. A path stands for itself."""
    for command in candidates(version):
        done = subprocess.run([command, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if done.returncode == 0 and ("/" in version or done.stdout.startswith(version)):
            return command
    return None


def candidates(version: str) -> Iterator[str]:
    if "/" in version:
        yield version
        return
    found = shutil.which(f"python{version}")
    if found:
        yield found
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"), reverse=True))


def write_sums(output: Path) -> None:
    """SHA256SUMS of the files beside it, as `sha256sum --check` reads it."""
    files = sorted(path for path in output.iterdir() if path.is_file())
    text = "".join(f"{sha256(path)}  {path.name}\n" for path in files)
    (output / "SHA256SUMS").write_text(text, encoding="utf-8")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
