"""The frame of a campaign: everything that is the same whatever is played and judged.

    CAMPAIGN = Campaign("tests.failover", __doc__, Options, play)

    def play(run: Run[Options]) -> None:
        cluster = run.cluster(3)                       # ends with the run, whatever happens
        ...                                            # the workload, and faults
        run.report.figures["acked"] = len(acked)
        if lost:
            run.report.wrong("lost", f"{lost} records")

    sys.exit(CAMPAIGN.main())

The frame owns the command line, a new directory for each run, which is kept and named unless all is well, the end of
everything that was entered, the order of the faults, the report, SIGTERM, a limit of time, and the exit code. Progress
goes to stderr; stdout has one JSON line for each run, and a summary of several. A run that fails names the command that
plays it again. A campaign has its workload and its judge, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from penstock.testing import Cluster
from tests.support.campaign import options as of_options

EXAMPLES_MAX = 5
"""Examples of each kind of anomaly."""
Say = Callable[[str], None]
Options = TypeVar("Options")
T = TypeVar("T")


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def to_nobody(text: str) -> None:
    """The suite has no use for progress."""


@dataclass(slots=True)
class Report:
    """The result of a run: figures, and anomalies by their kind with some examples. `table` is for people. Thread-safe
    but for the figures."""

    directory: Path
    figures: dict[str, Any] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    table: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ok(self) -> bool:
        return not self.anomalies

    def wrong(self, kind: str, text: str, count: int = 1) -> None:
        """Adds an anomaly, or `count` of a kind that one text tells."""
        with self._lock:
            self.anomalies[kind] += count
            if sum(example.startswith(f"{kind}: ") for example in self.examples) < EXAMPLES_MAX:
                self.examples.append(f"{kind}: {text}")

    def all_wrong(self, kind: str, texts: Iterable[str]) -> None:
        for text in texts:
            self.wrong(kind, text)

    def take(self, anomalies: Mapping[str, int], examples: Iterable[str]) -> None:
        """Adds the verdict of a judge."""
        self.anomalies.update(anomalies)
        self.examples += examples

    def as_json(self) -> dict[str, Any]:
        """One object for one line."""
        found = {"anomalies": dict(self.anomalies), "examples": self.examples}
        return {"ok": self.ok, **self.figures, **found, **({} if self.ok else {"kept": str(self.directory)})}


class Run(Generic[Options]):
    """One run. `draw` follows from the seed; `faults` counts those that struck."""

    def __init__(self, options: Options, directory: Path, say: Say) -> None:
        self.options, self.directory, self.say = options, directory, say
        self.report = Report(directory)
        self.draw = Random(getattr(options, "seed", 1))
        self.faults: Counter[str] = Counter()
        self._began = time.monotonic()
        self._stack = ExitStack()

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return time.monotonic() - self._began

    def enter(self, context: AbstractContextManager[T]) -> T:
        """The value of the context, which is left when the run ends: the last one first."""
        return self._stack.enter_context(context)

    def cluster(
        self,
        nodes: int,
        config: Mapping[str, object] | None = None,
        *,
        before_open: Callable[[Cluster], object] = lambda cluster: None,
        **more: Any,
    ) -> Cluster:
        """A cluster in the run's directory, open until the run ends."""
        cluster = Cluster(nodes, config, self.directory / "cluster", **more)
        before_open(cluster)
        return self.enter(cluster)

    def strike(self, faults: Mapping[str, Callable[[], object]], seconds: float, then: Callable[[str], None]) -> None:
        """Faults strike until the time is over, each once in a drawn order, and then again; `then` is told of each that
        has struck and healed."""
        until = time.monotonic() + seconds
        for name in in_turns(self.draw, list(faults)):
            if time.monotonic() >= until:
                return
            faults[name]()
            self.faults[name] += 1
            then(name)

    def __enter__(self) -> Run[Options]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def in_turns(draw: Random, names: Sequence[T]) -> Iterator[T]:
    """Endless: each once in a drawn order, and then again."""
    while True:
        yield from draw.sample(names, len(names))


@dataclass(frozen=True)
class Campaign(Generic[Options]):
    """A campaign by its module's name and text. `limit_s`: the run fails if it takes longer. `judge_all` says what is
    wrong with all runs together. `instead` has, by the name of an option, what is done in place of runs where that is
    given: it returns True if all is well."""

    module: str
    text: str | None
    options: type[Options]
    play: Callable[[Run[Options]], None]
    limit_s: Callable[[Options], float] | None = None
    judge_all: Callable[[Sequence[Report]], Iterable[str]] = lambda reports: ()
    instead: Mapping[str, Callable[[Options], bool]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.module.removeprefix("tests.").replace(".", "-").replace("_", "-")

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Plays every run of the command line; the exit code."""
        given, seeds = self._given(arguments)
        reports: list[Report] = []
        with _of_a_program():
            for name, act in self.instead.items():
                if getattr(given, name):
                    return 0 if act(given) else 1
            for seed in seeds:
                options = given if seed is None else replace(given, seed=seed)  # type: ignore[type-var]
                reports.append(self.run(options, to_stderr))
                self._tell(seed, options, reports[-1])
        wrong = list(self.judge_all(reports))
        for text in wrong:
            to_stderr(text)
        if len(reports) > 1:
            print(json.dumps(_summary(seeds, reports)))
        return 0 if all(report.ok for report in reports) and not wrong else 1

    def _tell(self, seed: int | None, options: Options, report: Report) -> None:
        for text in report.table:
            to_stderr(text)
        print(json.dumps({**({} if seed is None else {"seed": seed}), **report.as_json()}), flush=True)
        if not report.ok:
            again = shlex.join([*([] if seed is None else ["--seed", str(seed)]), *of_options.words_of(options)])
            to_stderr(f"kept: {report.directory}; again: python -m {self.module} {again}")

    def run(self, options: Options, say: Say = to_nobody) -> Report:
        """One run in a directory of its own, which is kept unless all is well."""
        directory = Path(tempfile.mkdtemp(prefix=f"penstock-{self.name}-"))
        say(f"data in {directory}")
        run = Run(options, directory, say)
        try:
            with _limited(self.limit_s and self.limit_s(options)), run:
                self.play(run)
        except BaseException as error:
            error.add_note(f"kept: {directory}")
            if isinstance(error, SystemExit):  # it has no traceback, and so no note
                say(f"kept: {directory}")
            raise
        run.report.figures |= {"faults": dict(run.faults)} if run.faults else {}
        run.report.figures["seconds"] = round(run.seconds, 1)
        if run.report.ok:
            shutil.rmtree(directory)
        return run.report

    def _given(self, arguments: Sequence[str] | None) -> tuple[Options, Sequence[int | None]]:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.module}",
            description=self.text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        of_options.add_to(parser, self.options)
        parser.add_argument("--runs", type=int, default=1, help="so many, with one seed after the other")
        is_seeded = hasattr(self.options(), "seed")
        if is_seeded:
            seeds = parser.add_mutually_exclusive_group()
            seeds.add_argument("--seed", type=int, default=getattr(self.options(), "seed", 1))
            seeds.add_argument("--seeds", type=_seeds, metavar="A..B", help="one run for each, B included")
        given = parser.parse_args(arguments)
        try:
            options = of_options.taken(given, self.options)
        except ValueError as error:
            parser.error(str(error))
        if not is_seeded:
            return options, [None] * given.runs
        chosen = given.seeds or range(given.seed, given.seed + given.runs)
        return replace(options, seed=chosen[0]), chosen  # type: ignore[type-var]


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _summary(seeds: Sequence[int | None], reports: Sequence[Report]) -> dict[str, object]:
    bad = [seed for seed, report in zip(seeds, reports, strict=True) if not report.ok]
    found = sum((report.anomalies for report in reports), Counter[str]())
    return {"runs": len(reports), "ok": not bad, "bad_seeds": bad, "anomalies": dict(found)}


@contextmanager
def _of_a_program() -> Iterator[None]:
    """SIGTERM ends what was entered, and stderr is for the progress alone."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit("ended by SIGTERM")

    before, nothing = signal.signal(signal.SIGTERM, end), logging.NullHandler()
    logging.getLogger().addHandler(nothing)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(nothing)
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """SystemExit within, when the time is over; in the main thread alone."""
    if not seconds:
        yield
        return

    def too_long(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(f"the run took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
