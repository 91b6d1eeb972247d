"""`penstock log recover`: what a start would do, no more; a dry run touches nothing; losing records needs agreement."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, MetaPropertiesError
from penstock.types import TopicPartition
from storage.disk.checkpoint_file import read_offsets, write_offsets
from storage.disk.file_names import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.clean_shutdown import CleanStop, take_marker
from storage.tools.checkpoint_reader import read_knowledge
from storage.tools.overlay import OverlayFileSystem
from storage.tools.recorded import Change
from storage.tools.recover import Recovered, RecoverOptions, recover
from storage.tools.target import LogPath, find_target
from storage.tools.truncation import Repair, Restart, Truncation, find_repair, find_repairs
from storage.tools.verify.findings import Finding
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.log_dirs import (
    BATCH_BYTES,
    FIRST,
    OTHER,
    SECOND,
    THIRD,
    contents,
    cut,
    flip,
    make_log_dir,
    open_values,
)
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

WHOLE = [b"value-%02d" % n for n in range(20)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """With a torn tail: three good batches above the recovery point, and part of one."""
    path = make_log_dir(tmp_path / "data", clean=False, flushed=16)
    cut(path / "orders-0" / THIRD, 5 * BATCH_BYTES + 10)
    return path


def recovered(path: Path, fs: FileSystem | None = None, **options: object) -> list[Change | Finding | Recovered]:
    fs = fs or OsFileSystem()
    options["agreed_at"] = agreed_at(path)
    return list(recover(fs, find_target(fs, str(path)), RecoverOptions(**options), THREADS, ManualClock()))  # type: ignore[arg-type]


def agreed_at(path: Path) -> Callable[[LogPath], int | None]:
    knowledge = read_knowledge(find_target(OsFileSystem(), str(path)).log_dir)

    def find(log: LogPath) -> int | None:
        found = find_repair(log, knowledge, lambda count: None)
        return found and found.offset

    return find


def dry(path: Path, **options: object) -> list[Change | Finding | Recovered]:
    return recovered(path, OverlayFileSystem(), **options)


def repairs(path: Path) -> list[Repair]:
    return list(find_repairs(find_target(OverlayFileSystem(), str(path)), lambda count: None))


def truncations(path: Path) -> list[Truncation]:
    found = [repair for repair in repairs(path) if isinstance(repair, Truncation)]
    assert found == repairs(path)
    return found


def problems(path: Path) -> list[Finding]:
    found = verify(find_target(OverlayFileSystem(), str(path)), VerifyOptions(deep=True))
    return [f for f in found if isinstance(f, Finding) and f.severity != "note"]


def contents_below(found: dict[str, bytes], directory: str) -> dict[str, bytes]:
    return {n.removeprefix(f"{directory}/"): content for n, content in found.items() if n.startswith(f"{directory}/")}


def points(path: Path) -> dict[TopicPartition, int] | None:
    return read_offsets(OsFileSystem(), str(path / RECOVERY_POINT_CHECKPOINT))


def test_a_torn_tail_is_cut_and_the_dir_is_sound_then(killed: Path) -> None:
    assert [finding.kind for finding in problems(killed)] == ["torn-tail"]
    found = recovered(killed)
    orders = next(f for f in found if isinstance(f, Recovered) and f.directory.endswith("orders-0"))
    assert (orders.log_start_offset, orders.log_end_offset, orders.cut_bytes) == (0, 19, 10)
    assert Change("cut", str(killed / "orders-0" / THIRD), 10) in found
    assert problems(killed) == []
    assert points(killed) == {TP: 19, OTHER: 0}
    assert open_values(killed) == WHOLE[:19]


def test_a_dry_run_says_the_same_and_touches_nothing(killed: Path) -> None:
    before = contents(killed)
    found = dry(killed)
    assert contents(killed) == before
    assert found == recovered(killed)


def test_a_dry_run_on_files_that_may_only_be_read(killed: Path) -> None:
    """Nothing is even opened for writing."""

    class Refusing(OsFileSystem):
        def open(self, path: str, *, create: bool = False) -> int:
            raise AssertionError(path)

    overlay = OverlayFileSystem()
    overlay._disk = Refusing()
    assert any(isinstance(f, Recovered) for f in recovered(killed, overlay))


def test_leftovers_are_tidied(data: Path) -> None:
    for name in ("a.tmp", "b.cleaned", "c.deleted", "00000000000000000003.index"):
        (data / "orders-0" / name).write_bytes(b"")
    (data / f"gone-0.{'A' * 22}-delete").mkdir()
    (data / f"lost-0.{'A' * 22}-stray").mkdir()
    (data / f"gone-0.{'A' * 22}-delete" / FIRST).write_bytes(b"x")
    removed = [Path(f.file).name for f in recovered(data) if isinstance(f, Change)]
    assert sorted(removed) == [
        "00000000000000000000.log",
        "00000000000000000003.index",
        "a.tmp",
        "b.cleaned",
        "c.deleted",
        f"gone-0.{'A' * 22}-delete",
    ]
    assert (data / f"lost-0.{'A' * 22}-stray").exists()
    assert problems(data) == []


def test_a_dir_that_was_stopped_in_order_stays_as_it_is(data: Path) -> None:
    before = contents(data)
    assert [f for f in recovered(data) if isinstance(f, Change)] == []
    assert contents(data) == before, "the marker of the clean stop is there as well"


def test_rot_is_refused_and_nothing_of_the_log_is_touched(killed: Path) -> None:
    flip(killed / "orders-0" / THIRD, 40)
    before = contents(killed / "orders-0")
    found = [f for f in recovered(killed) if isinstance(f, Finding)]
    assert [(f.severity, f.kind, f.position) for f in found] == [("damage", "rot", 0)]
    assert contents(killed / "orders-0") == before
    assert points(killed) == {TP: 16, OTHER: 0}, "the next start refuses it, too"


def test_a_log_dir_that_a_node_uses_is_refused(killed: Path) -> None:
    fs = OsFileSystem()
    lock = fs.lock(str(killed / ".lock"))
    before = contents(killed)
    try:
        for run in (recovered, dry):
            for path in (killed, killed / "orders-0"):
                with pytest.raises(MetaPropertiesError, match="in use by another process"):
                    run(path)
    finally:
        fs.close(lock)
    assert contents(killed) == before


def test_one_partition_is_recovered_with_the_checkpoint_of_its_dir(killed: Path) -> None:
    (killed / "other-0" / "x.tmp").touch()
    recovered(killed / "orders-0")
    assert points(killed) == {TP: 19, OTHER: 0}
    assert (killed / "other-0" / "x.tmp").exists(), "the other logs of the dir are not looked at"


def test_a_partition_that_stands_alone_is_recovered_as_without_a_checkpoint(killed: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(killed / "orders-0", tmp_path / "copy")
    assert next(f for f in recovered(copy) if isinstance(f, Recovered)).log_end_offset == 19
    flip(copy / FIRST, 40)
    assert any(isinstance(f, Finding) for f in recovered(copy)), "a bad byte in an older segment is taken for rot"


def test_indexes_are_rebuilt_when_asked_for(data: Path) -> None:
    before = contents(data)
    for segment in (FIRST, SECOND, THIRD):
        flip((data / "orders-0" / segment).with_suffix(".index"), 0, 64)
        (data / "orders-0" / segment).with_suffix(".timeindex").unlink()
    recovered(data, rebuild_indexes=True)
    assert problems(data) == []
    assert open_values(data) == WHOLE
    assert {name for name in contents(data) if name.endswith("index")} == {n for n in before if n.endswith("index")}


# -- losing records, agreed --------------------------------------------------------------------------------------------


@pytest.fixture
def rotten(data: Path) -> Path:
    write_offsets(OsFileSystem(), str(data / HIGH_WATERMARK_CHECKPOINT), {TP: 20})
    write_offsets(OsFileSystem(), str(data / LOG_START_CHECKPOINT), {TP: 3})
    flip(data / "orders-0" / SECOND, 2 * BATCH_BYTES + 50)
    return data


def test_the_price_of_a_truncation_is_told(rotten: Path) -> None:
    (found,) = truncations(rotten)
    assert (found.file, found.position) == (str(rotten / "orders-0" / SECOND), 2 * BATCH_BYTES)
    assert (found.offset, found.lost_offsets, found.readable_records) == (9, 11, 10)


def test_a_voter_is_warned_before_it_forgets(rotten: Path) -> None:
    (rotten / "orders-0").rename(rotten / "__cluster_metadata-0")
    write_offsets(
        OsFileSystem(), str(rotten / RECOVERY_POINT_CHECKPOINT), {TopicPartition("__cluster_metadata", 0): 20}
    )
    (found,) = truncations(rotten)
    assert "may elect a leader that misses it" in found.caution


def test_a_sound_log_and_a_torn_tail_need_no_truncation(killed: Path) -> None:
    assert truncations(killed) == []


def test_a_log_is_truncated_at_its_damage_and_no_checkpoint_claims_more(rotten: Path) -> None:
    directory = str(rotten / "orders-0")
    found = recovered(rotten, truncate_at={directory: 9})
    assert next(f for f in found if isinstance(f, Recovered) and f.directory == directory).log_end_offset == 9
    assert problems(rotten) == []
    fs = OsFileSystem()
    assert points(rotten) == {TP: 9, OTHER: 0}
    assert read_offsets(fs, str(rotten / HIGH_WATERMARK_CHECKPOINT)) == {TP: 9}
    assert read_offsets(fs, str(rotten / LOG_START_CHECKPOINT)) == {TP: 3}
    assert take_marker(fs, str(rotten)) is None, "a node that has lost records was not stopped in order"
    assert open_values(rotten) == WHOLE[3:9]


def test_the_marker_of_a_clean_stop_is_put_back_where_nothing_was_lost(data: Path) -> None:
    recovered(data)
    stop = take_marker(OsFileSystem(), str(data))
    assert isinstance(stop, CleanStop) and stop.broker_epoch == 7


def test_records_that_are_missing_without_a_trace_can_be_given_up(data: Path) -> None:
    cut(data / "orders-0" / THIRD, 5 * BATCH_BYTES)
    assert any(isinstance(f, Finding) for f in recovered(data))
    (found,) = truncations(data)
    assert (found.offset, found.lost_offsets) == (19, 1)
    recovered(data, truncate_at={found.directory: found.offset})
    assert problems(data) == [] and open_values(data) == WHOLE[:19]


def test_a_truncation_that_was_agreed_for_another_offset_is_refused(rotten: Path) -> None:
    """The files have changed since the person was asked: less than that is not given up."""
    flip(rotten / "orders-0" / SECOND, 50)
    before = contents(rotten)
    found = recovered(rotten, truncate_at={str(rotten / "orders-0"): 9})
    assert [f.kind for f in found if isinstance(f, Finding)] == ["changed"]
    assert contents(rotten / "orders-0") == contents_below(before, "orders-0") and points(rotten) == {TP: 20, OTHER: 0}


def test_a_lost_segment_ends_the_log_before_it(data: Path) -> None:
    (data / "orders-0" / SECOND).unlink()
    (found,) = truncations(data)
    assert (found.offset, found.lost_offsets) == (7, 13)
    recovered(data, truncate_at={found.directory: found.offset})
    assert problems(data) == [] and open_values(data) == WHOLE[:7]


# -- damage below the log start ----------------------------------------------------------------------------------------


def with_log_start(path: Path, log_start: int) -> Path:
    write_offsets(OsFileSystem(), str(path / LOG_START_CHECKPOINT), {TP: log_start})
    return path


def begun_behind_damage(path: Path) -> list[Change | Finding | Recovered]:
    (found,) = repairs(path)
    assert isinstance(found, Restart)
    return recovered(path, start_at={found.directory: found.offset})


@pytest.mark.parametrize("segment", [FIRST, SECOND])
def test_damage_below_the_log_start_costs_no_readable_record(data: Path, segment: str) -> None:
    with_log_start(data, 10)
    flip(data / "orders-0" / segment, BATCH_BYTES + 50)
    begun_behind_damage(data)
    assert problems(data) == [] and open_values(data) == WHOLE[10:]


@pytest.mark.parametrize("at", [0, 8, 16, 50], ids=["offset", "length", "magic", "checksum"])
def test_whatever_of_a_deleted_batch_is_damaged_the_readable_ones_are_all_kept_or_counted(data: Path, at: int) -> None:
    with_log_start(data, 16)
    flip(data / "orders-0" / THIRD, at, 0x40)
    (found,) = repairs(data)
    if isinstance(found, Restart):
        recovered(data, start_at={found.directory: found.offset})
        assert problems(data) == [] and open_values(data) == WHOLE[16:]
    else:
        assert found.offset == 14


def test_a_log_begun_behind_its_damage_keeps_its_checkpoints_and_the_marker(data: Path) -> None:
    with_log_start(data, 10)
    flip(data / "orders-0" / SECOND, BATCH_BYTES + 50)
    begun_behind_damage(data)
    fs = OsFileSystem()
    assert points(data) == {TP: 20, OTHER: 0}
    assert read_offsets(fs, str(data / LOG_START_CHECKPOINT)) == {TP: 10}
    assert not (data / "orders-0" / SECOND).exists() and not (data / "orders-0" / FIRST).exists()
    assert take_marker(fs, str(data)) is not None


def test_a_dry_run_of_a_log_that_is_begun_behind_its_damage_says_the_same_and_touches_nothing(data: Path) -> None:
    with_log_start(data, 10)
    flip(data / "orders-0" / SECOND, BATCH_BYTES + 50)
    before = contents(data)
    (found,) = repairs(data)
    said = dry(data, start_at={found.directory: found.offset})
    assert contents(data) == before
    assert said == begun_behind_damage(data)


def test_a_crash_that_left_the_damaged_segment_beside_its_good_rest_is_mended_by_another_run(data: Path) -> None:
    with_log_start(data, 10)
    damaged = data / "orders-0" / SECOND
    flip(damaged, BATCH_BYTES + 50)
    damaged.with_name(f"{9:020d}.log").write_bytes(damaged.read_bytes()[2 * BATCH_BYTES :])
    begun_behind_damage(data)
    assert problems(data) == [] and open_values(data) == WHOLE[10:] and not damaged.exists()


def test_damage_on_both_sides_of_the_log_start_ends_the_log_and_counts_what_can_be_read(data: Path) -> None:
    with_log_start(data, 10)
    flip(data / "orders-0" / SECOND, BATCH_BYTES + 50)
    flip(data / "orders-0" / THIRD, 2 * BATCH_BYTES + 50)
    (found,) = truncations(data)
    assert (found.offset, found.lost_offsets, found.readable_records) == (8, 12, 9)


# -- a crash in the midst of it ----------------------------------------------------------------------------------------


def on_a_losing_disk(flushed: int) -> LosingFileSystem:
    fs = LosingFileSystem()
    manager = open_manager(fs)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True)
    for n in range(20):
        log.append.as_leader(batch(b"value-%02d" % n), n // 8, NOW_MS)
        if n + 1 == flushed:
            log.flush()
            manager.checkpoints.write_recovery_points()
    manager.close(clean=False)
    return fs.clone()


def crashes(fs: LosingFileSystem, options: RecoverOptions) -> Iterator[LosingFileSystem]:
    """The disk after a power cut at each operation of a recovery."""
    at = 0
    while True:
        at += 1
        running = fs.clone()
        running.crash_at = at
        try:
            list(recover(running, find_target(running, "/d"), options, THREADS, ManualClock()))
        except Crashed:
            yield running.after_crash(Random(at))
            continue
        return


def found_at_start(fs: LosingFileSystem) -> list[bytes] | None:
    """The values that a node reads from orders-0; None if it meets the damage, at the start or later."""
    manager = open_manager(fs)
    log = manager.get(TP, TOPIC_ID)
    try:
        return None if log is None else [value for _, value in read_all(log)]
    except CorruptFileError:
        return None
    finally:
        manager.close(clean=False)


def test_a_crash_in_a_recovery_loses_nothing_that_was_flushed() -> None:
    fs = on_a_losing_disk(flushed=16)
    fs.cut(f"/d/orders-0/{THIRD}", 5 * BATCH_BYTES + 10)
    outcomes = [found_at_start(crashed) for crashed in crashes(fs, RecoverOptions())]
    assert len(outcomes) > 10
    assert all(outcome == WHOLE[:19] for outcome in outcomes)


def test_a_crash_in_a_truncation_leaves_the_log_refused_or_truncated() -> None:
    fs = on_a_losing_disk(flushed=20)
    fs.damage(f"/d/orders-0/{SECOND}", 2 * BATCH_BYTES + 50, 1)
    options = RecoverOptions(truncate_at={"/d/orders-0": 9}, agreed_at=lambda log: 9)
    outcomes = [found_at_start(crashed) for crashed in crashes(fs, options)]
    assert None in outcomes and WHOLE[:9] in outcomes
    assert all(outcome in (None, WHOLE[:9]) for outcome in outcomes)


def test_a_crash_while_a_log_is_begun_behind_its_damage_loses_nothing_and_the_next_run_ends_it() -> None:
    fs = on_a_losing_disk(flushed=20)
    write_offsets(fs, f"/d/{LOG_START_CHECKPOINT}", {TP: 10})
    fs.damage(f"/d/orders-0/{SECOND}", BATCH_BYTES + 50, 1)
    options = RecoverOptions(start_at={"/d/orders-0": 9}, agreed_at=lambda log: 9)
    outcomes = 0
    for crashed in crashes(fs, options):
        outcomes += 1
        assert found_at_start(crashed.clone()) in (None, WHOLE[10:])
        list(recover(crashed, find_target(crashed, "/d"), options, THREADS, ManualClock()))
        assert found_at_start(crashed) == WHOLE[10:]
    assert outcomes > 10
