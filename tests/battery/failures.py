"""The n-th call to the disk fails, for every n: reads and opens too, with five errors, or a write takes half.

The script goes on as a broker would. A shortage (no room, no descriptors) is tried again at once, for the one failure
is over, and has to succeed on the same log; so in the end everything must be there. A truncation that one interrupts
half-way is the exception: until a restart that log is out of use. Any other error may cost the step; what was promised
before must be there after a restart, whether the process is killed or the power cut. Nothing but typed errors may come
out, apart from the few calls whose contract is an OSError. A disk that stays full for a while is a case of its own:
nothing grows from one call on, until that has been noticed; then there is room.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from random import Random

from penstock.errors import PenstockError
from storage.disk.disk_errors import is_shortage
from tests.battery.judge import Judge
from tests.battery.nodes import DIR
from tests.battery.outcome import Outcome, Result, Size
from tests.battery.scripts import Script, entries_far_apart, every_change, removals
from tests.battery.workload import Workload
from tests.support.losing_fs import LosingFileSystem

CODES = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)
SHORT = 0
"""In place of an errno: a write takes half."""
GROWING = ("write", "create", "mkdir", "rename")
"""The calls that a full disk refuses."""
OPENING = ("open", "create", "dup", "read_file", "listdir", "fsync_dir")
"""The calls that need a descriptor."""
FINAL = ("truncate", "format: /d is formatted already")
"""A truncation that was interrupted half-way; a format that was not, up to its last fsync, and so is not made again."""
SMALL_CALLS = 150
TRIES = 3


class Violated(Exception):
    """Something came out of storage that must not; the text says what."""


class Broker:
    """Tries each step as a broker does: shortages again, everything else not."""

    def __init__(self, fs: LosingFileSystem) -> None:
        self.fs = fs
        self.node = Workload(fs, self)
        self.failed: list[str] = []
        self.refused: list[str] = []

    def __call__(self, name: str, step: Callable[[], object], *, raw: bool = False) -> bool:
        error: BaseException | None = None
        for _ in range(TRIES):
            try:
                step()
                return True
            except PenstockError as typed:
                error = typed
            except OSError as untyped:
                if not raw:
                    raise Violated(f"{name} raised {untyped!r}") from untyped
                error = untyped
                if not is_shortage(error) and self.node.manager is not None:
                    self.node.manager.fail_log_dir(DIR, error)
            except Exception as other:
                raise Violated(f"{name} raised {other!r}") from other
            if name not in ("format", "open") and not is_shortage(error):
                break
            self.refused.append(f"{name}: {error}")
            self.fs.fail_on.clear()
        self.failed.append(f"{name}: {error}")
        return False


def run(size: Size) -> Iterator[Result]:
    yield from of_script(size, every_change)
    yield from full_disk(size, every_change)
    fewer = replace(size, share=size.share / 5)
    yield from of_script(fewer, entries_far_apart)
    yield from full_disk(fewer, entries_far_apart)


def _calls(script: Script) -> list[str]:
    fs = LosingFileSystem()
    script(Workload(fs))
    return fs.calls


def of_flushes(size: Size) -> Iterator[Result]:
    """The part of `run` in which a sync of a file fails."""
    yield from of_script(size, every_change, ("fdatasync",))


def of_removals(size: Size) -> Iterator[Result]:
    """Renames fail while logs are set aside and deleted."""
    yield from of_script(size, removals, ("rename",))


def of_script(size: Size, script: Script, only: Container[str] | None = None) -> Iterator[Result]:
    """One failure at each call, of these kinds if any are named; in the small battery at some, with one error each."""
    calls = _calls(script)
    numbers = [at for at, call in enumerate(calls) if only is None or call in only]
    for at in (numbers[index] for index in size.of(len(numbers), SMALL_CALLS)):
        kinds = [kind for kind in (*CODES, SHORT) if _can_happen(calls[at], kind)]
        for kind in kinds if size.whole else [kinds[(at + size.seed) % len(kinds)]]:
            name = errno.errorcode.get(kind, "a short write")
            what = f"call {at + 1} ({calls[at]}) fails with {name}"
            must_go_on = calls[at] in {errno.ENOSPC: GROWING, errno.EMFILE: OPENING, SHORT: GROWING}.get(kind, ())
            fs = LosingFileSystem()
            if kind == SHORT:
                fs.short_call.add(at + 1)
            else:
                fs.fail_call[at + 1] = kind
            yield from _judged(what, fs, script, must_go_on, at)


def _can_happen(call: str, kind: int) -> bool:
    """Nothing but a write takes half, and what opens nothing lacks no descriptor."""
    return {SHORT: call == "write", errno.EMFILE: call in OPENING}.get(kind, True)


def full_disk(size: Size, script: Script) -> Iterator[Result]:
    """From some operation on nothing grows, until it has been noticed; then there is room."""
    whole = LosingFileSystem()
    script(Workload(whole))
    for at in size.of(whole.operations, SMALL_CALLS // 5):
        fs = LosingFileSystem()

        def fill(now: LosingFileSystem, at: int = at) -> None:
            if now.operations == at:
                now.fail_on = dict.fromkeys(GROWING, errno.ENOSPC)

        fs.watch = fill
        yield from _judged(f"the disk is full from {whole.trace[at]} on", fs, script, True, at)


def _judged(what: str, fs: LosingFileSystem, script: Script, must_go_on: bool, seed: int) -> Iterator[Result]:
    broker = Broker(fs)
    try:
        script(broker.node)
    except Violated as violated:
        yield Result(what, Outcome.WRONG, str(violated))
        return
    except Exception as error:  # of the script's own calls
        yield Result(what, Outcome.WRONG, f"untyped {error!r}")
        return
    if must_go_on and broker.failed and not broker.failed[0].startswith(FINAL):
        yield Result(what, Outcome.WRONG, f"did not go on: {broker.failed}")
        return
    fs.fail_on.clear()
    ends = (
        ("a kill", fs.after_kill().snapshot()),
        ("a power cut", fs.after_crash()),
        ("a lucky power cut", fs.after_crash(Random(seed))),
    )
    judged = Judge(broker.node.history)
    for end, disk in ends:
        outcome, why = judged(disk)
        yield Result(
            f"{what}; then {end}", outcome, f"{why} (before: {broker.failed or broker.refused})" if why else ""
        )
