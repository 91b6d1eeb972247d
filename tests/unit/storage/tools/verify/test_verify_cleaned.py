"""`penstock log verify` on logs that are compacted: at each step of the cleaner, and after a power cut there."""

from __future__ import annotations

from pathlib import Path
from random import Random

from storage.recovery.recovery import LastKnown
from storage.tools.target import LogPath
from storage.tools.verify.findings import Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions, verify_log
from tests.support.compaction import DIRECTORY, CompactedLog
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import TP


def verified(fs: LosingFileSystem, path: Path, flushed: int) -> list[Finding | LogReport]:
    """Verifies the directory as it stands on the losing disk, written out to a real one."""
    path.mkdir(parents=True)
    for file in fs.files(DIRECTORY):
        (path / file.rpartition("/")[2]).write_bytes(fs.read_file(file))
    return list(verify_log(LogPath(str(path), TP), LastKnown(False, flushed), VerifyOptions(deep=True)))


def severities(found: list[Finding | LogReport]) -> set[str]:
    return {finding.severity for finding in found if isinstance(finding, Finding)}


def test_a_log_is_sound_while_and_after_it_is_cleaned(tmp_path: Path) -> None:
    random, log = Random(4), CompactedLog()
    states: list[LosingFileSystem] = []
    for _ in range(3):
        for _ in range(40):
            log.append((b"%d" % random.randrange(8), random.choice([b"value", None])))
        log.seal()
        log.clock.advance(2000)
        log.clean_once(lambda step: states.append(log.fs.after_crash(Random(step))))
        log.log.full.run_file_changes()
        log.log.flush()
    flushed = log.log.recovery_point
    for at, state in enumerate(states):
        found = verified(state, tmp_path / str(at), 40)
        assert "damage" not in severities(found), found
        assert isinstance(found[-1], LogReport) and found[-1].log_end_offset >= 40
    found = verified(log.fs, tmp_path / "end", flushed)
    assert isinstance(found[-1], LogReport)
    assert found[-1].log_end_offset == flushed == 120 and found[-1].records < 40
    assert {finding.kind for finding in found if isinstance(finding, Finding)} <= {"leftover", "index-missing"}
