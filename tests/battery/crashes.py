"""A power cut at every file operation, and again inside the recovery from it.

One run of a script keeps a copy of the disk and of the history before each operation. Of each copy several disks are
made that a power cut may leave: nothing that was not synced; all of it but half of the last write; and random subsets,
each write whole, torn or lost, each creation, rename and removal lost or not. And the one that a kill leaves, where
nothing is lost, and nothing more durable. A start on each is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.battery.history import History
from tests.battery.judge import Judge, judge
from tests.battery.nodes import is_formatted
from tests.battery.nodes import start as start_node
from tests.battery.outcome import Result, Size
from tests.battery.scripts import Script, deletion_before_the_flush, drawn, entries_far_apart, every_change
from tests.battery.workload import Workload
from tests.support.losing_fs import LosingFileSystem

Moment = tuple[str, LosingFileSystem, History]
SMALL_MOMENTS = 60
"""Operations of the script at which the small battery cuts the power."""
LUCK = 3
"""Random disks for each operation in the whole battery; one in the small one."""
DRAWN_SCRIPTS = 12
RECOVERIES, RECOVERIES_OF_WHOLE = 7, 13
"""One in so many starts is interrupted in its turn; in the whole battery at every operation. Each moment has 4 starts,
in the whole battery 6: with a common divisor, some kinds of them never had their turn."""
SMALL_OPERATIONS_OF_A_START = 3


def run(size: Size) -> Iterator[Result]:
    """Every operation of three scripts, and in the whole battery of others that are drawn."""
    yield from of_script(size, "every change", every_change)
    yield from of_deletion(size)
    yield from of_script(size, "entries far apart", entries_far_apart, SMALL_MOMENTS // 3)
    if size.whole:
        for seed in range(size.seed, size.seed + DRAWN_SCRIPTS):
            yield from of_script(Size(seed=seed), f"script {seed}", drawn(seed))


def of_deletion(size: Size) -> Iterator[Result]:
    """The part of `run` in which a power cut takes records below a written log start."""
    yield from of_script(size, "deletion", deletion_before_the_flush)


def of_script(size: Size, name: str, script: Script, enough: int = SMALL_MOMENTS) -> Iterator[Result]:
    """Cut the power at the operations of one script."""
    number = 0
    for at, (operation, disk, history) in _moments(script, size, enough):
        judged = Judge(history)
        starts = [*survivors(disk, at, LUCK if size.whole else 1), ("only the process died", disk)]
        for kind, survivor in starts:
            what = f"{name}: stopped before {operation}, {kind}"
            yield Result(what, *judged(survivor.snapshot()))
            number += 1
            if number % (RECOVERIES_OF_WHOLE if size.whole else RECOVERIES) == 0:
                yield from inside_recovery(what, survivor, history, at, size)


def _moments(script: Script, size: Size, enough: int) -> list[tuple[int, Moment]]:
    """Disk and history before some operations of the script."""
    whole = LosingFileSystem()
    script(Workload(whole))
    wanted = set(size.of(whole.operations, enough))
    fs = LosingFileSystem()
    node = Workload(fs)
    moments: list[tuple[int, Moment]] = []

    def watch(now: LosingFileSystem) -> None:
        if now.operations in wanted:
            operation = whole.trace[now.operations]
            moments.append((now.operations, (operation, now.snapshot(), node.history.copy())))

    fs.watch = watch
    script(node)
    moments.append((fs.operations, ("the end", fs.snapshot(), node.history.copy())))
    return moments[::-1] if size.backwards else moments


def survivors(disk: LosingFileSystem, seed: int, luck: int) -> Iterator[tuple[str, LosingFileSystem]]:
    """The disks that a power cut may leave."""
    yield "nothing unsynced survived", disk.after_crash()
    yield "half of the last write survived", disk.after_lucky_crash()
    for number in range(luck):
        yield f"luck {number}", disk.after_crash(Random(seed * 100 + number))


def inside_recovery(what: str, disk: LosingFileSystem, history: History, seed: int, size: Size) -> Iterator[Result]:
    """The power is cut while the node starts on this."""
    disks: list[tuple[str, LosingFileSystem]] = []
    fs = disk.snapshot()
    fs.watch = lambda now: disks.append((f"operation {now.operations + 1}", now.snapshot()))
    if is_formatted(fs):
        start_node(fs)
    for at in size.of(len(disks), SMALL_OPERATIONS_OF_A_START):
        operation, cut = disks[at]
        survivor = cut.after_crash(Random(seed * 1000 + at)) if at % 2 else cut.after_crash()
        yield Result(f"{what}; stopped again in {operation} of the start", *judge(survivor, history))
