"""The packages that Penstock is built from, and whether they can be trusted: python -m tests.supply_chain COMMAND.

`lock` writes .ci/lock.txt anew, `lower-bounds` tests the oldest packages that pyproject.toml allows, `sbom` prints the
bill of materials of this environment, `wheel` builds the wheel twice, `image-pins` writes the pins of the container
image, `site` builds the documentation, `release` makes the files of a release from its tag and tries them. Each exits 1
when something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.supply_chain import image_pins, lock, lower_bounds, release, sbom, site, wheel


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.supply_chain", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    locking = commands.add_parser("lock", help="write .ci/lock.txt: every package of CI with its hashes")
    locking.add_argument("--upgrade", action="store_true", help="take the newest versions, not those locked before")
    commands.add_parser("lower-bounds", help="install the oldest versions that pyproject.toml allows, and test them")
    billing = commands.add_parser("sbom", help="print what Penstock brings in this environment, as CycloneDX JSON")
    billing.add_argument("--extra", action="append", default=[], help="an extra that is included; may be repeated")
    billing.add_argument("--dpkg", type=Path, help="a system's var/lib/dpkg, whose packages are listed, too")
    billing.add_argument("--output", type=Path, help="the file to write instead of standard output")
    commands.add_parser("wheel", help="build the wheel twice, in two places, and compare their bytes")
    commands.add_parser("image-pins", help="write the packages of the container image, out of .ci/lock.txt")
    showing = commands.add_parser("site", help="build the documentation as a site, every link checked")
    showing.add_argument("--output", type=Path, default=Path("site"), help="the folder of the versions; default: site")
    showing.add_argument("--version", default="dev", help="its folder; default: dev")
    releasing = commands.add_parser("release", help="build, check and try what a tag releases; sign and upload nothing")
    releasing.add_argument("tag", help="a tag like v0.3.0")
    releasing.add_argument("--output", type=Path, default=Path("dist"), help="a new or empty folder; default: dist")
    releasing.add_argument("--python", action="append", default=[], help="this one alone, 3.13 or a path; repeatable")
    releasing.add_argument("--without-site", action="store_true", help="leave the documentation out")
    arguments = parser.parse_args()
    if arguments.command == "lock":
        return lock.write(upgrade=arguments.upgrade)
    if arguments.command == "lower-bounds":
        return lower_bounds.run()
    if arguments.command == "image-pins":
        return image_pins.write()
    if arguments.command == "site":
        return site.build(arguments.output, arguments.version)
    if arguments.command == "release":
        return release.run(arguments.tag, arguments.output, arguments.python, has_site=not arguments.without_site)
    if arguments.command == "wheel":
        return wheel.compare()
    bill = sbom.bill_of_materials("penstock", arguments.extra, arguments.dpkg)
    if arguments.output is None:
        print(bill)
    else:
        arguments.output.write_text(bill + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
