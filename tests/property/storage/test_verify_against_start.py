"""The verdict of `penstock log verify` on a damaged dir, compared with a start on it.

One byte anywhere in the dir is flipped, or a file is cut there. Then where verify reports no damage, a node finds every
flushed record, and no other ones; where a node misses one, verify has said so. Verify looks at more than a start does,
so it may warn of what a start would come upon later. In every case both end without an unexpected error.

Longer: `python -m tests.property.storage.test_verify_against_start 5000`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from penstock.errors import CorruptFileError, PenstockError
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import find_target
from storage.tools.verify.findings import Finding
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.log_dirs import BATCHES, contents, make_log_dir
from tests.support.machine import machine
from tests.support.storage import CLUSTER_ID, SMALL, TP, log_named, read_all

CASES = 40
FLUSHED_AFTER_A_KILL = 16


class Damaged:
    """A log dir that is damaged anew for each case."""

    def __init__(self, path: Path, *, clean: bool) -> None:
        self.flushed = BATCHES if clean else FLUSHED_AFTER_A_KILL
        self._path = path
        self._files = contents(make_log_dir(path, clean=clean, flushed=self.flushed))

    def case(self, random: Random) -> str:
        """Damages the directory; returns how."""
        shutil.rmtree(self._path)
        for name, content in self._files.items():
            (self._path / name).parent.mkdir(parents=True, exist_ok=True)
            (self._path / name).write_bytes(content)
        name = random.choice([name for name, content in self._files.items() if content])
        data = bytearray(self._files[name])
        at = random.randrange(len(data))
        if random.random() < 0.3:
            (self._path / name).write_bytes(data[:at])
            return f"{name} cut at {at}"
        bit = random.randrange(8)
        data[at] ^= 1 << bit
        (self._path / name).write_bytes(data)
        return f"{name} flipped at {at}, bit {bit}"

    def verdict(self) -> set[str]:
        found = verify(find_target(OverlayFileSystem(), str(self._path)), VerifyOptions(deep=True))
        return {finding.severity for finding in found if isinstance(finding, Finding)}

    def found_by_a_start(self) -> list[bytes] | None:
        """The values of orders-0; None when they are refused, at the start or by a read."""
        config = LogManagerConfig(1, CLUSTER_ID, SMALL)
        try:
            manager = LogManager.open([self._path], config, machine())
        except PenstockError:
            return None
        try:
            log = log_named(manager, TP)
            return None if log is None else [value for _, value in read_all(log)]
        except CorruptFileError:
            return None
        finally:
            manager.close(clean=False)


def check(damaged: Damaged, seed: int) -> None:
    what = f"seed {seed}: {damaged.case(Random(seed))}"
    verdict, values = damaged.verdict(), damaged.found_by_a_start()
    whole = [b"value-%02d" % n for n in range(BATCHES)]
    if values is not None:
        assert values == whole[: len(values)], what
    if "damage" not in verdict:
        assert values is not None and len(values) >= damaged.flushed, f"{what}: verify says {verdict}"


@pytest.mark.parametrize("clean", [True, False])
def test_no_flushed_record_is_lost_unsaid(tmp_path: Path, clean: bool) -> None:
    damaged = Damaged(tmp_path / "data", clean=clean)
    for seed in range(CASES):
        check(damaged, seed)


def main(cases: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for clean in (True, False):
            damaged = Damaged(Path(directory) / f"clean-{clean}", clean=clean)
            for seed in range(cases):
                check(damaged, seed)
            print(f"{cases} damaged dirs, clean={clean}: nothing was lost unsaid", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
