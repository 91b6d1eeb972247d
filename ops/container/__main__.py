"""Builds the image where no registry is reached: `python -m ops.container`, as root, with buildah and mmdebstrap."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from ops.container.image import FINAL_BASE, NAME, NEEDS, Builder, download_wheels
from penstock.version import __version__


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.container", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", default=__version__)
    parser.add_argument("--storage-driver", default="overlay", help="of containers-storage; vfs works everywhere")
    parser.add_argument("--root", default="", help="where the images are kept; default: that of podman")
    options = parser.parse_args()
    missing = [program for program in NEEDS if shutil.which(program) is None]
    if missing:
        sys.stderr.write(f"this command needs {', '.join(missing)}: apt-get install buildah mmdebstrap\n")
        return 2
    storage = ["--storage-driver", options.storage_driver, *(["--root", options.root] if options.root else [])]
    builder = Builder(tuple(storage))
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as directory:
        download_wheels(Path(directory))
        for is_final in (True, False):
            builder.base(Path(directory), is_final=is_final)
        digest = builder.image(Path(directory), options.tag)
    size = builder.size(f"{NAME}:{options.tag}") - builder.size(FINAL_BASE)
    on = f"{size / 1e6:.0f} MB on a base of {builder.size(FINAL_BASE) / 1e6:.0f} MB"
    sys.stdout.write(f"{NAME}:{options.tag} {digest}, {on}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
