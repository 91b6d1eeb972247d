"""Makes the two bases of the image out of Debian's packages, by mmdebstrap, where no registry is reached.

    final base   Python, its libraries and the certificates of the CAs: no shell, no package manager, no setuid program
    build base   what pip needs besides; nothing of it is in the image

The same packages give the same bytes: files are in order, have the time SOURCE_DATE_EPOCH, and bytecode has the hash of
its source. `finish` is what mmdebstrap calls in the unpacked tree; it also leaves a file for each package, where
scanners look for them (var/lib/dpkg/status.d, as in other images without a package manager).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
FINAL_PACKAGES: Final = ("base-files", "ca-certificates", "libpython3.11-stdlib", "libstdc++6", "python3-minimal")
BUILD_PACKAGES: Final = ("python3-pip", "python3-venv")
NOT_WANTED: Final = frozenset({"debconf", "dpkg", "mawk", "openssl", "readline-common", "tar"})
"""The scripts of packages need them, and do not run here."""
NOT_WANTED_PATHS: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
APT_PATHS: Final = (
    "etc/apt/sources.list.d",
    "etc/apt/trusted.gpg.d",
    "etc/apt/preferences.d",
    "var/cache/apt",
    "var/lib/apt",
)
OF_THIS_MACHINE: Final = ("etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/hostname", "etc/resolv.conf")
MERGED: Final = ("bin", "lib", "lib64", "sbin")
"""Links into usr, as the system's own base has them."""
USER_ID: Final = 10_001
PASSWD: Final = (
    f"root:x:0:0:root:/root:/sbin/nologin\npenstock:x:{USER_ID}:{USER_ID}::/var/lib/penstock:/sbin/nologin\n"
)
GROUP: Final = f"root:x:0:\npenstock:x:{USER_ID}:\n"
NSSWITCH: Final = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n"
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"


def make(target: Path, *, is_final: bool, epoch: int) -> None:
    """Writes the archive of a base. subprocess.CalledProcessError where mmdebstrap fails."""
    packages = FINAL_PACKAGES if is_final else BUILD_PACKAGES
    command = ["mmdebstrap", "--quiet", "--mode=root", f"--variant={'extract' if is_final else 'minbase'}"]
    command += [f"--include={','.join(packages)}", f"--dpkgopt=path-exclude={'/usr/share/doc/*'}"]
    if is_final:
        here = " ".join(map(shlex.quote, (sys.executable, "-P", str(Path(__file__).resolve()))))
        command += ["--skip=cleanup/apt", f'--setup-hook={here} prepare "$1"', f'--extract-hook={here} finish "$1"']
    subprocess.run([*command, SUITE, str(target)], env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}, check=True)


def prepare(root: Path) -> None:
    """The links into usr, BEFORE the first package is unpacked."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")


def finish(root: Path) -> None:
    """The unpacked tree becomes a base."""
    for archive in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        fields = _output("dpkg-deb", "--field", str(archive))
        name = next(line.split()[1] for line in fields.splitlines() if line.startswith("Package:"))
        if name in NOT_WANTED:
            _remove_files(root, archive)
        else:
            note = root / "var/lib/dpkg/status.d" / name
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(fields, encoding="utf-8")
    for path in (*NOT_WANTED_PATHS, *APT_PATHS, "var/log", "usr/sbin"):
        shutil.rmtree(root / path, ignore_errors=True)
    for path in OF_THIS_MACHINE:
        (root / path).unlink(missing_ok=True)
    (root / "usr/sbin").mkdir()
    for path, text in (("etc/passwd", PASSWD), ("etc/group", GROUP), ("etc/nsswitch.conf", NSSWITCH)):
        (root / path).write_text(text, encoding="utf-8")
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (root / CERTIFICATES).parent.mkdir(parents=True, exist_ok=True)
    (root / CERTIFICATES).write_bytes(b"".join(one.read_bytes() for one in authorities))
    compile_ = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/usr/lib/python3.11")
    _output("chroot", str(root), "/usr/bin/python3.11", "-S", *compile_)


def _remove_files(root: Path, archive: Path) -> None:
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], capture_output=True, check=True).stdout
    listed = subprocess.run(["tar", "-t"], input=files, capture_output=True, check=True).stdout.decode()
    for line in listed.splitlines():
        path = root / line.removeprefix("./")
        if not line.endswith("/") and (path.is_symlink() or path.is_file()):
            path.unlink()


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    {"prepare": prepare, "finish": finish}[sys.argv[1]](Path(sys.argv[2]))
