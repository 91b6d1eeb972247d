"""Builds the image by buildah, with the bases of base.py: twice the same source, twice the same digest.

Files, layers and the image's configuration have one time. The format is OCI's: Docker's keeps the name of the container
in which the build ran. Packages come from pip's index, or from a folder of wheels
where the build reaches none; .ci/lock.txt's hashes hold for both. Not here: what the image is (Containerfile).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.container import base
from penstock.version import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "ops" / "container"
EPOCH: Final = 1_577_836_800
"""2020-01-01, as in the wheel."""
NAME: Final = "localhost/penstock"
FINAL_BASE, BUILD_BASE = "localhost/penstock-base", "localhost/penstock-build-base"
NEEDS: Final = ("buildah", "mmdebstrap", "dpkg-deb")


@dataclass(frozen=True, slots=True)
class Builder:
    """How this machine builds."""

    storage: tuple[str, ...] = ("--storage-driver", "vfs")
    """vfs works on every file system, also in a container; overlay is quicker and smaller, where it can be."""
    epoch: int = EPOCH

    def base(self, directory: Path, *, is_final: bool) -> str:
        """Makes a base and returns the digest of its image."""
        archive = directory / ("base.tar" if is_final else "build-base.tar")
        base.make(archive, is_final=is_final, epoch=self.epoch)
        name = FINAL_BASE if is_final else BUILD_BASE
        arguments = ["--build-arg", f"ARCHIVE={archive.name}"]
        digest = self._built(FOLDER / "Base.Containerfile", name, directory, arguments)
        archive.unlink()
        return digest

    def image(self, wheels: Path | None, tag: str = __version__) -> str:
        """Builds the image on both bases and returns its digest. `wheels`: the folder that has all of them."""
        arguments = ["--build-arg", f"BASE={FINAL_BASE}", "--build-arg", f"BUILD_BASE={BUILD_BASE}"]
        arguments += [
            "--build-arg",
            f"SOURCE_DATE_EPOCH={self.epoch}",
            "--label",
            f"org.opencontainers.image.version={tag}",
        ]
        if wheels is not None:
            arguments += [
                "--volume",
                f"{wheels}:/wheels:ro",
                "--build-arg",
                "PIP_OPTIONS=--no-index --find-links /wheels",
            ]
        return self._built(FOLDER / "Containerfile", f"{NAME}:{tag}", ROOT, arguments)

    def size(self, name: str) -> int:
        """The bytes of an image's layers, unpacked."""
        manifest = json.loads(json.loads(self._run("inspect", "--type", "image", name))["Manifest"])
        return sum(int(layer["size"]) for layer in manifest["layers"])

    def _built(self, file: Path, name: str, context: Path, arguments: Sequence[str]) -> str:
        options = ["--isolation", "chroot", "--format", "oci", "--timestamp", str(self.epoch), "--layers=false"]
        options += ["--pull-never", "--quiet", "--tag", name, "--file", str(file), *arguments]
        self._run("bud", *options, str(context))
        return str(json.loads(self._run("inspect", "--type", "image", name))["FromImageDigest"])

    def _run(self, *command: str) -> str:
        done = subprocess.run(["buildah", *self.storage, *command], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout


def download_wheels(target: Path) -> None:
    """Puts the wheels of both lists of packages into a folder, by pip as it is set up on this machine."""
    for name in ("build.txt", "runtime.txt"):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary", ":all:"]
        command += ["--no-deps", "--dest", str(target), "--requirement", str(FOLDER / name)]
        subprocess.run(command, check=True)
