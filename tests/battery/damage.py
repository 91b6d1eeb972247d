"""One damaged byte, a cut, a stray or a missing file, anywhere in a log dir: nothing wrong is ever read.

Every file of some images is cut at every byte and has one bit flipped in every byte, one at a time; files are taken
away, emptied, or have a directory in their place; leftovers of interrupted operations are put beside them. Then a node
is started and its logs are read in every way: from the end and the middle first, so that indexes decide where, then
whole; as a consumer and as a follower; and by time. Bytes are compared with the truth. A refusal is a typed error,
allowed only where nothing better can be done (`MAY_REFUSE`, with the reason), and touches nothing; the other logs of
the dir are exact, always.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

from penstock.epochs import epoch_for_offset
from penstock.errors import (
    CorruptFileError,
    KafkaStorageError,
    MetaPropertiesError,
    OffsetOutOfRangeError,
    PenstockError,
)
from penstock.record.batch import LEADER_EPOCH_AT, LEADER_EPOCH_BYTES, iter_headers
from penstock.types import TopicPartition
from storage.append.batch_validation import check_fetched
from storage.disk import file_names
from storage.disk.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX, TXN_INDEX_SUFFIX
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_table import LogId
from tests.battery.images import BROKER_EPOCH, FAR_APART, KINDS, STOPPED_IN_ORDER, Image, LogTruth, image, quorum_state
from tests.battery.judge import Verdict, Wrong, judge_producers, judge_transactions, read_whole
from tests.battery.nodes import DIR, start
from tests.battery.outcome import Outcome, Result, Size
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import log_named

MAY_REFUSE = {
    LOG_SUFFIX: "the records themselves: they are fetched from another replica",
    LOG_SUFFIX + SWAP_SUFFIX: "likewise: it stands for a finished cleaning, whose old segments may be gone",
    file_names.PARTITION_METADATA: "whose records they are; a wrong guess shows an old topic's records as a new one's",
    file_names.META_PROPERTIES: "whose disk it is; a wrong guess writes into another node's",
    "quorum-state": "a vote that is forgotten is given twice",
}
A_DIRECTORY = "is a directory"
"""May be refused as well: no write of ours puts one in place of a file; somebody did, and has to take it away."""
Case = tuple[str, str, Callable[[], LosingFileSystem]]
"""The kind of damage, the file, and the damaged disk."""
Kind = Callable[[Size, Image], Iterator[Case]]


def _every_file(path: str) -> bool:
    return True


ONLY: dict[str, Callable[[str], bool]] = {FAR_APART: lambda path: path.endswith(file_names.INDEX_SUFFIXES)}
"""The files that are damaged, and fewer of them, where the others are like those of another image and the logs long."""


def run(size: Size) -> Iterator[Result]:
    for name in KINDS:
        for clean in (True, False) if name in STOPPED_IN_ORDER else (False,):
            fewer = replace(size, share=size.share / 4) if name in ONLY else size
            yield from of_image(fewer, stopped(name, clean), ONLY.get(name, _every_file))


stopped = cache(image)


def of_checkpoints(size: Size) -> Iterator[Result]:
    """The part of `run` that damages checkpoints."""
    for name in KINDS:
        yield from of_image(size, stopped(name, name in STOPPED_IN_ORDER), lambda path: "checkpoint" in path)


def of_snapshots(size: Size) -> Iterator[Result]:
    """The part of `run` that damages snapshots of producers. The images are made anew: mistakes show in them."""
    for name in ("compacted", "plain", "transactional"):
        yield from of_image(size, image(name, clean=True), lambda path: SNAPSHOT_SUFFIX in path)


def of_transaction_indexes(size: Size) -> Iterator[Result]:
    """The part of `run` that damages indexes of aborted transactions; the images are made anew."""
    for clean in (True, False):
        yield from of_image(size, image("transactional", clean), lambda path: TXN_INDEX_SUFFIX in path)


def of_image(size: Size, of: Image, wanted: Callable[[str], bool] = _every_file) -> Iterator[Result]:
    """Damage to the files whose path is wanted."""
    yield Result(f"{of.name}: nothing", *judge(of.fs.clone(), of, "nothing", ""))
    for kind, enough in ENOUGH.items():
        cases = [case for case in kind(size, of) if wanted(case[1])]
        for at in size.of(len(cases), enough):
            what, path, make = cases[at]
            yield Result(f"{of.name}: {path} {what}", *judge(make(), of, path, what))


# -- kinds of damage ---------------------------------------------------------------------------------------------------


def flips(size: Size, of: Image) -> Iterator[Case]:
    for path in of.fs.files():
        unknowable = _unknowable(of, path)
        for position in sorted(set(range(of.fs.size(path))) - unknowable):
            bit = (position + size.seed) % 8
            yield f"bit {bit} of byte {position} flipped", path, partial(_flipped, of, path, position, bit)


def _unknowable(of: Image, path: str) -> set[int]:
    """Bytes that nothing else tells of: the leader epoch, which no checksum covers, of what was never flushed."""
    if of.clean or LOG_SUFFIX not in path:
        return set()
    truth = next(truth for tp, truth in of.logs.items() if f"/{tp}/" in path)
    headers = iter_headers(of.fs.read_file(path))
    unflushed = [at for at, header in headers if header.base_offset >= truth.recovery_point]
    return {at + LEADER_EPOCH_AT + n for at in unflushed for n in range(LEADER_EPOCH_BYTES)}


def _flipped(of: Image, path: str, position: int, bit: int) -> LosingFileSystem:
    damaged = of.fs.clone()
    damaged.damage(path, position, 1 << bit)
    return damaged


def cuts(size: Size, of: Image) -> Iterator[Case]:
    for path in of.fs.files():
        for length in range(of.fs.size(path)):
            yield f"cut to {length}", path, partial(_cut, of, path, length)


def _cut(of: Image, path: str, length: int) -> LosingFileSystem:
    damaged = of.fs.clone()
    damaged.cut(path, length)
    return damaged


def others(size: Size, of: Image) -> Iterator[Case]:
    """Missing; a directory; empty; grown by zeros and by a copy of itself; all zeros."""
    for path in of.fs.files():
        content = of.fs.read_file(path)
        if not path.endswith(SWAP_SUFFIX):  # without it the cleaning has not happened, which is another truth
            yield "missing", path, partial(_replaced, of, path, None)
        yield A_DIRECTORY, path, partial(_replaced_by_directory, of, path)
        changed = {
            "empty": b"",
            "grown by zeros": content + bytes(100),
            "twice": content * 2,
            "zeros": bytes(len(content)),
        }
        for what, wanted in changed.items():
            if wanted != content:
                yield what, path, partial(_replaced, of, path, wanted)


def no_snapshots(size: Size, of: Image) -> Iterator[Case]:
    """All of a log are missing, or damaged."""
    for topic_partition in of.logs:
        paths = [path for path in of.fs.files(f"{DIR}/{topic_partition}") if path.endswith(SNAPSHOT_SUFFIX)]
        for what, content in (("are missing", None), ("are empty", b"")):
            yield what, f"{DIR}/{topic_partition}/*{SNAPSHOT_SUFFIX}", partial(_all_replaced, of, paths, content)


def _all_replaced(of: Image, paths: Sequence[str], content: bytes | None) -> LosingFileSystem:
    damaged = of.fs.clone()
    for path in paths:
        damaged.unlink(path)
        if content is not None:
            put(damaged, path, content)
    return damaged.clone()


def strays(size: Size, of: Image) -> Iterator[Case]:
    """Files that an interrupted operation, or somebody, may have left beside a segment."""
    for path in of.fs.files():
        if os.path.dirname(path) == DIR:
            continue
        contents = {"empty": b"", "garbage": b"\x2a" * 100, "a copy": of.fs.read_file(path)}
        for suffix in (".tmp", ".deleted", ".cleaned", ".swap"):
            for kind, content in contents.items():
                if path + suffix not in of.fs.files():
                    yield f"is there, {kind}", path + suffix, partial(_replaced, of, path + suffix, content)
            if path + suffix not in of.fs.files():
                yield A_DIRECTORY, path + suffix, partial(_replaced_by_directory, of, path + suffix)
    partition = f"{DIR}/{next(iter(of.logs))}"
    for stray in ("00000000000000000999.index", "notes.txt", "00000000000000000003.timeindex.swap", "x.log"):
        yield "is there", f"{partition}/{stray}", partial(_replaced, of, f"{partition}/{stray}", b"\x2a" * 24)


ENOUGH: dict[Kind, int] = {flips: 120, cuts: 80, others: 25, no_snapshots: 6, strays: 25}
"""Cases of each kind for each image in the small battery."""


def _replaced(of: Image, path: str, content: bytes | None) -> LosingFileSystem:
    damaged = of.fs.clone()
    if path in damaged.files(os.path.dirname(path)):
        damaged.unlink(path)
    if content is not None:
        put(damaged, path, content)
    return damaged.clone()


def _replaced_by_directory(of: Image, path: str) -> LosingFileSystem:
    damaged = _replaced(of, path, None)
    damaged.mkdir(path)
    return damaged.clone()


def put(fs: LosingFileSystem, path: str, content: bytes) -> None:
    """A new file that holds the content."""
    fd = fs.open(path, create=True)
    fs.pwritev(fd, [content], 0)
    fs.close(fd)


# -- judging -----------------------------------------------------------------------------------------------------------


def judge(fs: LosingFileSystem, of: Image, path: str, what: str) -> Verdict:
    try:
        outcome = _judge(fs, of, path)
    except Wrong as wrong:
        return Outcome.WRONG, str(wrong)
    except PenstockError as error:
        return Outcome.WRONG, f"not where a refusal belongs: {error!r}"
    except Exception as error:  # nobody could act on it
        return Outcome.WRONG, f"untyped {error!r}"
    if outcome is Outcome.REFUSED and not _may_refuse(path, what):
        return Outcome.WRONG, "refused, where damage should cost time only"
    return outcome, ""


def _may_refuse(path: str, what: str) -> bool:
    name = os.path.basename(path)
    return what == A_DIRECTORY or any(name == end or name.endswith(end) for end in MAY_REFUSE)


def _judge(fs: LosingFileSystem, of: Image, path: str) -> Outcome:
    if of.vote is not None and not _vote_is_true(fs, of):
        return Outcome.REFUSED
    try:
        manager = start(fs)
    except (MetaPropertiesError, KafkaStorageError, CorruptFileError):
        return Outcome.REFUSED
    if next(iter(manager.meta_properties.values())).directory_id != of.directory_id:
        raise Wrong(f"directory id {next(iter(manager.meta_properties.values())).directory_id}")
    if manager.previous_broker_epoch not in ({-1, BROKER_EPOCH} if of.clean else {-1}):
        raise Wrong(f"broker epoch {manager.previous_broker_epoch}")
    outcomes = set()
    for topic_partition, truth in of.logs.items():
        log = log_named(manager, topic_partition)
        if log is not None and log.log_start_offset < truth.log_start_offset and _may_forget_start(of, path):
            log.advance_log_start(truth.log_start_offset)
        outcome = judge_log(manager, topic_partition, truth)
        if f"/{topic_partition}/" not in path and os.path.dirname(path) != DIR and outcome is not Outcome.EXACT:
            raise Wrong(f"{topic_partition} stands beside the damage and is {outcome}")
        outcomes.add(outcome)
    if manager.table.offline and (not of.has_swap or (path.endswith(SWAP_SUFFIX) and path in of.fs.files())):
        _must_be_untouched(fs, of, path)
    manager.close(False)
    return next(o for o in (Outcome.REFUSED, Outcome.TAIL_LOST, Outcome.EXACT) if o in outcomes)


def _must_be_untouched(fs: LosingFileSystem, of: Image, damaged: str) -> None:
    """A log that was refused keeps every record that it had, for whoever can save them."""
    for path in of.fs.files():
        if (
            path != damaged
            and LOG_SUFFIX in path
            and (path not in fs.files() or fs.read_file(path) != of.fs.read_file(path))
        ):
            raise Wrong(f"refused, but {path} is not what it was")


def _may_forget_start(of: Image, path: str) -> bool:
    """After a crash, what the checkpoint said of a log's start is known from nowhere else, unless a flush came after
    the deletion. The segments are there yet, so what was deleted can be read again until it is deleted again."""
    return not of.clean and os.path.basename(path) == file_names.LOG_START_CHECKPOINT


def _vote_is_true(fs: LosingFileSystem, of: Image) -> bool:
    try:
        vote = quorum_state(fs).load()
    except (CorruptFileError, OSError):
        return False
    if vote is not None and vote != of.vote:
        raise Wrong(f"the vote is {vote}")
    return vote is not None


def judge_log(manager: LogManager, topic_partition: TopicPartition, truth: LogTruth) -> Outcome:
    """Reads one log, and judges what is left of it."""
    if topic_partition in manager.table.offline.names():
        return Outcome.REFUSED
    log = log_named(manager, topic_partition)
    if log is None:
        raise Wrong(f"{topic_partition} is gone")
    if log.topic_id != truth.topic_id:
        return Outcome.REFUSED  # the broker sets it aside, for it is not the topic's
    refused = False
    for look in (_read_here_and_there, _read_whole, _look_up_times):
        try:
            look(log, truth)
        except (CorruptFileError, KafkaStorageError):
            refused = True
        except OffsetOutOfRangeError:  # the first segment's file is gone: so it looks after retention, too
            refused = log.log_start_offset > truth.log_start_offset
            if not refused:
                raise
    if refused:
        return Outcome.REFUSED
    _judge_offsets(manager, log, truth)
    return Outcome.EXACT if log.log_end_offset == truth.log_end_offset else Outcome.TAIL_LOST


def _judge_offsets(manager: LogManager, log: Log, truth: LogTruth) -> None:
    if log.log_end_offset < truth.recovery_point:
        raise Wrong(f"{log!r}: lost from {log.log_end_offset}, {truth.recovery_point} was flushed")
    if log.log_end_offset not in (truth.log_end_offset, *(batch.base_offset for batch in truth.batches)):
        raise Wrong(f"{log!r}: ends at {log.log_end_offset}")
    if log.log_start_offset != truth.log_start_offset:
        raise Wrong(f"{log!r}: begins at {log.log_start_offset}, not {truth.log_start_offset}")
    if not _epochs_are_true(log, truth):
        raise Wrong(f"{log!r}: epochs {log.epoch_entries}, not {truth.epochs}")
    cut_into_cleaned = truth.is_compacted and log.log_end_offset < truth.log_end_offset
    history = replace(truth.history, may_forget_producers=cut_into_cleaned)
    judge_producers(log, history)
    judge_transactions(log, read_whole(log), history)
    high_watermark = manager.checkpoints.high_watermarks().get(LogId.of(log), 0)
    if high_watermark not in (0, truth.high_watermark, log.log_end_offset):
        raise Wrong(f"{log!r}: high watermark {high_watermark}, not {truth.high_watermark}")


def _epochs_are_true(log: Log, truth: LogTruth) -> bool:
    """Made anew from a cleaned log, an epoch may begin earlier, or not be known: its first records are gone."""
    epochs = tuple(entry for entry in truth.epochs if entry.start_offset < log.log_end_offset)
    if log.epoch_entries == epochs or not truth.is_compacted:
        return log.epoch_entries == epochs
    starts = dict(epochs)
    batches = [b for b in truth.batches if b.base_offset < log.log_end_offset]
    here = all(
        epoch_for_offset(log.epoch_entries, max(b.base_offset, log.log_start_offset)) == b.leader_epoch for b in batches
    )
    return here and all(entry.start_offset <= starts[entry.epoch] for entry in log.epoch_entries)


def _read_here_and_there(log: Log, truth: LogTruth) -> None:
    """From the end, the middle, the start; one batch each, then some."""
    ends = truth.log_start_offset, log.log_end_offset - 1
    for offset in (ends[1], sum(ends) // 2, sum(ends) // 3, ends[0], sum(ends) * 3 // 4):
        if truth.log_start_offset <= offset < log.log_end_offset:
            for max_bytes in (1, 200):
                _read(log, truth, offset, max_bytes)


def _read_whole(log: Log, truth: LogTruth) -> None:
    offset = max(log.log_start_offset, truth.log_start_offset)
    while offset < log.log_end_offset:
        offset = _read(log, truth, offset, 300)


def _read(log: Log, truth: LogTruth, offset: int, max_bytes: int) -> int:
    """Compare what a read gives with the truth, byte by byte; where to go on."""
    fetched = log.reader.read(offset, max_bytes)
    if fetched.next_offset <= offset:
        raise Wrong(f"{log!r}: nothing to read at {offset}")
    below = [b for b in truth.batches if offset < b.next_offset <= fetched.next_offset]
    if fetched.records != b"".join(batch.content for batch in below):
        raise Wrong(f"{log!r}: wrong bytes at {offset}")
    check_fetched(fetched.records, below[0].base_offset, -1)
    return fetched.next_offset


def _look_up_times(log: Log, truth: LogTruth) -> None:
    times = sorted(time_ms for batch in truth.batches for time_ms, _ in batch.times)
    for time_ms in (times[0] - 1, times[0], times[len(times) // 2], times[-1] + 1, times[-1], *times[::3]):
        wanted = truth.first_at_or_after(time_ms, log.log_start_offset)
        found = offset_for_timestamp(log, time_ms)
        if log.log_end_offset == truth.log_end_offset and (found.offset if found else None) != wanted:
            raise Wrong(f"{log!r}: time {time_ms} at {found}, not {wanted}")
    largest = max_timestamp(log)
    if log.log_end_offset == truth.log_end_offset and (largest is None or largest.timestamp_ms != times[-1]):
        raise Wrong(f"{log!r}: largest time {largest}")
