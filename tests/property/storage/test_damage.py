"""One damaged byte, anywhere: nothing wrong is ever read, and nothing flushed is gone in silence.

A log dir with three segments and two epochs is stopped, in order and not. Then one bit of every byte of every file is
flipped, and every file is cut at every byte, one at a time, and the node is started. Outcomes: exact; refused (the log
is offline, or the start says why not); a tail lost above the recovery point; WRONG. WRONG must not happen.

Two fields have no check on the read path, by the format: base offset and leader epoch are outside the batch's checksum,
and a read does not parse. After a clean stop a flip there is found by a follower (offsets are dense, epochs do not
fall) and by `verify`; so here it counts as found when `verify` finds it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.errors import CorruptFileError, CorruptMessageError, MetaPropertiesError, PenstockError
from penstock.types import EpochEntry
from storage.batch_scan import verify
from storage.log import Log
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

VALUES = [b"value-%02d" % n for n in range(20)]
EPOCHS = (EpochEntry(0, 0), EpochEntry(4, 13))
RECOVERY_POINT = 17
TIMES = [NOW_MS + n for n in range(len(VALUES))]


def stopped(clean: bool) -> LosingFileSystem:
    """A log dir with 20 records, of which 17 were flushed when the recovery point was written."""
    fs = LosingFileSystem()
    manager = open_manager(fs)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL)
    for n, value in enumerate(VALUES):
        log.append_as_leader(batch(value, timestamp_ms=TIMES[n]), 4 if n >= 13 else 0, NOW_MS)
        if n == RECOVERY_POINT - 1:
            log.flush()
            manager.checkpoint_recovery_points()
            manager.checkpoint_high_watermarks({TP: 12})
    if clean:
        manager.close(True, 5)
    return fs.clone()


def flips(fs: LosingFileSystem) -> Iterator[tuple[str, LosingFileSystem]]:
    for path in fs.files():
        for position in range(fs.size(path)):
            damaged = fs.clone()
            damaged.damage(path, position, 1 << (position % 8))
            yield f"{path} bit {position % 8} of byte {position}", damaged


def cuts(fs: LosingFileSystem) -> Iterator[tuple[str, LosingFileSystem]]:
    for path in fs.files():
        for size in range(fs.size(path)):
            damaged = fs.clone()
            damaged.cut(path, size)
            yield f"{path} cut to {size}", damaged


def missing(fs: LosingFileSystem) -> Iterator[tuple[str, LosingFileSystem]]:
    for path in fs.files():
        damaged = fs.clone()
        damaged.unlink(path)
        yield f"{path} missing", damaged.clone()
        damaged.mkdir(path)
        yield f"{path} is a directory", damaged.clone()


def outcome(fs: LosingFileSystem) -> str:
    """What a start with this log dir comes to."""
    try:
        manager = open_manager_as_it_is(fs)
    except (MetaPropertiesError, PenstockError, OSError):
        return "refused"
    if TP in manager.offline_logs:
        return "refused"
    log = manager.get(TP)
    if log is None:
        return "set aside" if not any("orders" in path for path in fs.files()) else "WRONG: no log"
    try:
        found = read_all(log)
    except (CorruptMessageError, CorruptFileError):
        return "refused"
    wanted = list(enumerate(VALUES))
    if found != wanted[: len(found)]:
        return "found by verify" if verify_finds(log) else f"WRONG: read {found}"
    if len(found) < RECOVERY_POINT:
        return f"WRONG: lost from {len(found)}"
    if log.epoch_entries != EPOCHS:
        return "found by verify" if verify_finds(log) else f"WRONG: epochs {log.epoch_entries}"
    for n in range(len(found)):
        by_time = log.offset_for_timestamp(TIMES[n])
        if by_time is None or by_time.offset != n:
            return "found by verify" if verify_finds(log) else f"WRONG: time {n} at {by_time}"
    high_watermark = manager.high_watermarks().get(TP, 0)
    if not 0 <= high_watermark <= log.log_end_offset:
        return f"WRONG: high watermark {high_watermark}"
    return "exact" if len(found) == len(VALUES) else "unflushed tail lost"


def open_manager_as_it_is(fs: LosingFileSystem):  # type: ignore[no-untyped-def]
    if not fs.exists("/d/meta.properties"):
        raise MetaPropertiesError("not formatted")
    return open_manager(fs)


def verify_finds(log: Log) -> bool:
    """Whether a check of the whole log sees offsets or epochs that do not follow."""
    expected, epoch = 0, 0
    for segment in log.segments:
        with contextlib.suppress(CorruptFileError):
            for _, header in verify(segment.file(), 0):
                if header.base_offset != expected or header.leader_epoch != (4 if expected >= 13 else 0):
                    return True
                expected, epoch = header.next_offset, header.leader_epoch
            continue
        return True
    return epoch < 0


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
@pytest.mark.parametrize("damages", [flips, cuts, missing])
def test_no_damage_makes_a_log_wrong(damages, clean: bool) -> None:  # type: ignore[no-untyped-def]
    outcomes: Counter[str] = Counter()
    wrong = []
    for what, damaged in damages(stopped(clean)):
        result = outcome(damaged)
        outcomes[result.partition(":")[0]] += 1
        if result.startswith("WRONG"):
            wrong.append(f"{what}: {result}")

    assert "\n".join(wrong) == ""
    assert outcomes["exact"] > 0
    assert outcomes["refused"] > 0


def test_undamaged_log_is_exact() -> None:
    assert outcome(stopped(True)) == "exact"
    assert outcome(stopped(False)) == "exact"
