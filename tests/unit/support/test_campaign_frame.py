"""The frame of the campaigns: its command line, its report, its directory, and everything that must fail a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.support.campaign.beside import beside, every
from tests.support.campaign.frame import Campaign, Report, Run, in_turns
from tests.support.campaign.options import commas, option, words_of


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    minutes: float = option(1.0, "of faults")
    only: tuple[str, ...] = option((), "faults")
    kinds: tuple[str, ...] = option(("ours", "java"), "of members", type=commas)
    words: tuple[str, ...] = option((), "words", nargs="+")
    secure: bool = option(False, "with TLS")
    names: tuple[str, ...] = option((), "names", positional=True)
    lost: int = option(0, "records that the run loses")
    faults_max: int | None = None


def play(run: Run[Options]) -> None:
    run.report.figures["minutes"] = run.options.minutes
    run.report.all_wrong("lost", (f"record {number}" for number in range(run.options.lost)))


CAMPAIGN = Campaign("tests.of_frame", "A campaign of this test.", Options, play)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def kept(report: dict[str, object]) -> Path:
    return Path(str(report["kept"]))


def test_a_good_run_prints_one_line_ends_with_0_and_leaves_no_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert CAMPAIGN.main(["--minutes", "0.5"]) == 0
    said = capsys.readouterr()
    (line,) = lines(said.out)
    del line["seconds"]
    assert line == {"seed": 1, "ok": True, "minutes": 0.5, "anomalies": {}, "examples": []}
    assert not Path(said.err.partition("data in ")[2].strip()).exists()


def test_a_run_with_anomalies_ends_with_1_keeps_its_directory_and_names_the_command_that_plays_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert CAMPAIGN.main(["--seed", "7", "--lost", "9", "--only", "kill", "--only", "stop", "--secure"]) == 1
    said = capsys.readouterr()
    (line,) = lines(said.out)
    assert line["anomalies"] == {"lost": 9} and line["examples"] == [f"lost: record {number}" for number in range(5)]
    assert kept(line).is_dir()
    shutil.rmtree(kept(line))
    assert said.err.endswith("again: python -m tests.of_frame --seed 7 --only kill --only stop --secure --lost 9\n")


@pytest.mark.parametrize("words", [["--seeds", "3..5"], ["--seed", "3", "--runs", "3"]])
def test_each_seed_is_a_run_and_a_summary_names_the_bad_ones(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def of_odd_seeds(run: Run[Options]) -> None:
        if run.options.seed % 2:
            run.report.wrong("odd", "is wrong", count=2)

    assert Campaign("tests.of_frame", "", Options, of_odd_seeds).main(words) == 1
    *each, summary = lines(capsys.readouterr().out)
    assert [line["ok"] for line in each] == [False, True, False]
    assert summary == {"runs": 3, "ok": False, "bad_seeds": [3, 5], "anomalies": {"odd": 4}}
    for line in (each[0], each[2]):
        shutil.rmtree(kept(line))


def test_what_is_wrong_with_all_runs_together_fails_them(capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign("tests.of_frame", "", Options, play, judge_all=lambda reports: [f"{len(reports)} say nothing"])
    assert campaign.main(["--runs", "2"]) == 1
    assert "2 say nothing" in capsys.readouterr().err


def test_options_are_given_back_as_the_words_that_give_them() -> None:
    found = Options(minutes=0.5, only=("kill", "stop"), kinds=("ours",), words=("a", "b"), secure=True, faults_max=3)
    assert words_of(Options(names=("x", "y"))) == ["x", "y"]
    assert CAMPAIGN._given(["x", "y"])[0].names == ("x", "y")
    words = words_of(found)
    assert " ".join(words) == "--minutes 0.5 --only kill --only stop --kinds ours --words a b --secure"
    given, seeds = CAMPAIGN._given([*words, "--seed", "4"])
    assert given == Options(4, minutes=0.5, only=("kill", "stop"), kinds=("ours",), words=("a", "b"), secure=True)
    assert list(seeds) == [4]


def test_an_exception_ends_the_run_with_everything_that_was_entered_and_keeps_the_directory() -> None:
    ended: list[str] = []

    def fails(run: Run[Options]) -> None:
        run.enter(beside(lambda is_over: ended.append(f"{is_over.wait(60)}")))
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken") as error:
        Campaign("tests.of_frame", "", Options, fails).run(Options())
    assert error.value.__context__ is None
    (note,) = error.value.__notes__
    directory = Path(note.removeprefix("kept: "))
    assert ended == ["True"] and directory.is_dir()
    directory.rmdir()


def test_an_error_of_what_ends_with_the_run_does_not_hide_that_of_the_run() -> None:
    @contextmanager
    def breaks_too() -> Iterator[None]:
        try:
            yield
        finally:
            raise ValueError("broken in the end")

    def fails(run: Run[Options]) -> None:
        run.enter(breaks_too())
        raise RuntimeError("broken")

    with pytest.raises(ValueError, match="broken in the end") as error:
        Campaign("tests.of_frame", "", Options, fails).run(Options())
    assert isinstance(error.value.__context__, RuntimeError)
    Path(error.value.__notes__[0].removeprefix("kept: ")).rmdir()


def test_a_run_that_takes_longer_than_its_limit_is_ended() -> None:
    def waits(run: Run[Options]) -> None:
        threading.Event().wait(60)

    campaign = Campaign("tests.of_frame", "", Options, waits, limit_s=lambda options: options.minutes)
    with pytest.raises(SystemExit, match=r"the run took longer than 0\.05 s") as error:
        campaign.run(Options(minutes=0.05))
    Path(error.value.__notes__[0].removeprefix("kept: ")).rmdir()


def test_sigterm_ends_what_was_entered_and_names_the_directory_that_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, ended = signal.getsignal(signal.SIGTERM), list[bool]()

    def waits(run: Run[Options]) -> None:
        run.enter(beside(lambda is_over: ended.append(is_over.wait(60))))
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(60)

    with pytest.raises(SystemExit, match="ended by SIGTERM"):
        Campaign("tests.of_frame", "", Options, waits).main([])
    assert ended == [True] and signal.getsignal(signal.SIGTERM) is before
    Path(capsys.readouterr().err.rpartition("kept: ")[2].strip()).rmdir()


def test_every_fault_comes_once_before_one_comes_again(tmp_path: Path) -> None:
    turns = list(islice(in_turns(Random(1), "abc"), 9))
    assert [sorted(turns[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3
    run, struck = Run(Options(), tmp_path, print), list[str]()
    run.strike({"kill": lambda: time.sleep(0.02), "stop": lambda: time.sleep(0.02)}, 0.05, struck.append)
    assert run.faults.total() == len(struck) >= 2 and set(struck[:2]) == {"kill", "stop"}


def test_an_error_of_work_beside_the_story_is_raised_when_the_story_ends() -> None:
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise RuntimeError("a thread's own")

    with pytest.raises(RuntimeError, match="a thread's own"), beside(every(0.001, fails)):
        assert failed.wait(60)


def test_a_report_takes_what_a_judge_says(tmp_path: Path) -> None:
    report = Report(tmp_path)
    report.take({"lost-write": 2}, ["lost-write: record 0-1"])
    assert not report.ok and report.as_json()["kept"] == str(tmp_path)
