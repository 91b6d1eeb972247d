"""Ages of calls: one call's, in looks; what comes late to a log dir that was given up fails."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from storage.disk.call_watch import LOOK_MS, STEP_MS_MAX, CallWatch
from storage.disk.watched_file_system import WatchedFileSystem
from tests.support.faulty_fs import FaultyFileSystem


def looked(watch: CallWatch, *times_ms: int) -> dict[str, int]:
    for now_ms in times_ms:
        watch.look(now_ms)
    return watch.ages_ms()


def test_the_age_is_that_of_one_call_however_much_work_queues() -> None:
    watch = CallWatch(["/a", "/b"])
    now_ms = 0
    for _ in range(200):  # each takes three looks, and there is never a moment without one
        call = watch.begin("/a", "fdatasync")
        for _ in range(3):
            now_ms += LOOK_MS
            watch.look(now_ms)
        assert watch.ages_ms()["/a"] <= 3 * LOOK_MS
        watch.end(call)
    assert looked(watch, now_ms + LOOK_MS) == {"/a": 0, "/b": 0}


def test_a_call_that_hangs_grows_old_beside_others_that_come_back() -> None:
    watch = CallWatch(["/a", "/b"])
    watch.begin("/b", "rename")
    for look in range(61):
        call = watch.begin("/b", "write")
        watch.look(look * LOOK_MS)
        watch.end(call)
    assert watch.ages_ms() == {"/a": 0, "/b": 30_000}
    assert watch.look(61 * LOOK_MS)["/b"].operation == "rename"


def test_a_process_that_was_stopped_says_nothing_of_the_disk() -> None:
    """SIGSTOP, a suspended machine, a loop that stands still: the next look is late."""
    watch = CallWatch(["/a"])
    watch.begin("/a", "fdatasync")
    assert looked(watch, 0, LOOK_MS, 3_600_000) == {"/a": LOOK_MS + STEP_MS_MAX}
    assert looked(watch, 7_200_000) == {"/a": LOOK_MS + 2 * STEP_MS_MAX}


def test_what_comes_back_late_to_a_log_dir_that_was_given_up_fails(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    hung, good = str(tmp_path / "a"), str(tmp_path / "b")
    faulty, watch = FaultyFileSystem(), CallWatch([hung, good])
    fs = WatchedFileSystem(faulty, watch)
    held = fs.open(f"{hung}/held", create=True)
    outcomes: list[BaseException | None] = []

    def sync() -> None:
        try:
            fs.fdatasync(held)
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)

    with faulty.standing_still("fdatasync", "/a/") as fault:
        thread = threading.Thread(target=sync)
        thread.start()
        assert fault.was_met.wait(60)
        assert looked(watch, 0, LOOK_MS)[hung] == LOOK_MS
        watch.give_up(hung)
    thread.join(60)
    assert [error.errno for error in outcomes if isinstance(error, OSError)] == [errno.ETIMEDOUT]
    for late in (
        lambda: fs.rename(f"{hung}/held", f"{hung}/other"),
        lambda: fs.open(f"{hung}/new", create=True),
        lambda: fs.pwritev(held, [b"x"], 0),
        lambda: fs.fsync_dir(hung),
    ):
        with pytest.raises(OSError) as refused:
            late()
        assert refused.value.errno == errno.ETIMEDOUT
    fs.close(held)  # asks no disk
    faulty.fdatasync(held)
    assert watch.ages_ms() == {good: 0}
    fs.close(fs.open(f"{good}/one", create=True))
    assert fs.listdir(good) == ["one"] and faulty.listdir(hung) == ["held"]


def test_a_name_that_only_begins_like_a_log_dir_is_none_of_its() -> None:
    watch = CallWatch(["/data/a"])
    places = [watch.log_dir_of(path) for path in ("/data/a", "/data/a/t-0/x.log", "/data/ab/t-0", "/data")]
    assert places == ["/data/a", "/data/a", None, None]
