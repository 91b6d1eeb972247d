"""All floods, one after the other, each beside honest clients: python -m tests.attack --floods.

For each row of the table the flooder is started and waits; the honest clients are measured alone; the flood runs; the
node's memory, descriptors and threads are watched meanwhile. Where honest clients were held up, and the flooder had
more than a tenth of a core, the control is played: the same work against nobody (sink.py). Then the honest clients must
be at work again, or the next flood gets a new cluster.

Not here: floods (the tables of the modules of floods), bounds (table.py), and the verdict (verdict.py).
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.attack.floods import honest, sink
from tests.attack.floods.links import Target
from tests.attack.floods.measures import Beside, Watch, compared, look_at
from tests.attack.floods.stage import Stage
from tests.attack.floods.table import Row
from tests.attack.floods.verdict import Played

ROOT: Final = Path(__file__).resolve().parents[3]
KINDS: Final = {kind.name: kind.pause_s for kind in honest.KINDS}
ERRORS_IN_LOGS: Final = ("Traceback", "InvariantViolation")
END_S: Final = 15.0
CONTROL_S: Final = 2.0
CONTROLLED_CORE: Final = 0.1
"""A flooder with less than this part of a core slows nobody down on a machine with two."""
ERRORS_TOLD: Final = 5


@dataclass(frozen=True)
class Settings:
    """The duration of a flood, and its share of the machine."""

    seconds: float = 6.0
    alone_s: float = 1.5
    share: float = 0.25
    """The part of one core that the flooder has."""


class FlooderFailedError(Exception):
    """A flood was not played to its end, which is a fault of the campaign."""


class Flooding:
    """A flooder's process, which waits for `go`."""

    def __init__(self, flood: str, target: Target, seconds: float, share: float) -> None:
        self._seconds = seconds
        order = {"flood": flood, "target": target.as_order(), "seconds": seconds, "share": share}
        command = [sys.executable, "-m", "tests.attack.floods.flooder", json.dumps(order)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )

    def wait_ready(self) -> None:
        """FlooderFailedError if it does not get so far."""
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise FlooderFailedError(f"the flooder did not start: {self._process.communicate()[1][-500:]}")

    def flood(self) -> dict[str, Any]:
        """Floods for its time; returns the figures. Its connections stay until `end`. FlooderFailedError if there are
        no figures."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], self._seconds + END_S)[0]:
            raise FlooderFailedError(f"the flooder did not end within {self._seconds + END_S:g} s")
        told = self._process.stdout.readline()
        if not told:
            raise FlooderFailedError(f"the flooder failed: {self._process.communicate()[1][-500:]}")
        return dict(json.loads(told))

    def end(self) -> None:
        """Its connections are gone."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Flooding:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()


def play(stage: Stage, row: Row, flooding: Flooding, settings: Settings) -> Played:
    """One flood, with its control if it is needed."""
    flooding.wait_ready()
    alone = _spent(settings.alone_s)
    lines_before, log_before = stage.log_words(ERRORS_IN_LOGS), stage.log_bytes
    began = time.monotonic()
    with Watch(stage.pid) as watch:
        figures = flooding.flood()
        figures["left"] = look_at(stage.pid).descriptors - watch.before.descriptors
        figures["log_kib"] = (stage.log_bytes - log_before) >> 10
    flooding.end()
    beside = compared(stage.acts, KINDS, alone, (began, time.monotonic()))
    facts = [f"the log has {word}" for word, n in stage.log_words(ERRORS_IN_LOGS).items() if n > lines_before[word]]
    if not stage.is_alive:
        facts.append("the node ended")
    errors = stage.acts.errors(began, time.monotonic())[:ERRORS_TOLD]
    played = Played(row, beside, watch.most.above(watch.before), figures, facts, errors=errors)
    if played.slow and not facts and figures["core"] > CONTROLLED_CORE:
        return replace(played, control=_control(stage, played, settings))
    return played


def _spent(seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def _control(stage: Stage, played: Played, settings: Settings) -> Mapping[str, Beside] | None:
    """None where the honest clients did not recover, so that there is nothing to compare."""
    if stage.idle_kinds():
        return None
    with Flooding(sink.NAME, stage.target(played.row), CONTROL_S, played.figures["core"]) as flooding:
        flooding.wait_ready()
        began = time.monotonic()
        flooding.flood()
    ended = time.monotonic()
    measured = compared(stage.acts, KINDS, (began, ended), (began, ended))
    return {kind: replace(one, alone=played.beside[kind].alone) for kind, one in measured.items()}


def run(
    rows: Sequence[Row], settings: Settings, tell: Callable[[Played], None], config: Mapping[str, object] | None = None
) -> list[Played]:
    """Every row, in their order; those of a cluster stand together."""
    found = []
    for is_plain in (False, True):
        wanted = [row for row in rows if row.is_plain is is_plain]
        for played in _on_stages(wanted, settings, is_plain, config):
            tell(played)
            found.append(played)
    return found


def _on_stages(
    rows: Iterable[Row], settings: Settings, is_plain: bool, config: Mapping[str, object] | None
) -> Iterator[Played]:
    """A stage is taken down when a flood, or the work of its own honest clients, has left it unfit for the next one."""
    stage, opened = None, ExitStack()
    with ExitStack() as last:
        last.callback(lambda: opened.close())
        for row in rows:
            flooding = None if stage is None or stage.is_spent or row.config else _begun(stage, row, settings)
            if stage is None or flooding is None:
                opened.close()
                stage = opened.enter_context(Stage(is_plain=is_plain, config={**row.config, **(config or {})}))
                flooding = _begun(stage, row, settings)
            if flooding is None:
                raise TimeoutError("the honest clients of a new cluster stand still without a flood")
            with flooding:
                try:
                    played = play(stage, row, flooding, settings)
                except FlooderFailedError as error:
                    played = Played(row, {}, facts=[str(error)])
            yield played
            if row.spoils or row.config or played.facts:
                opened.close()
                stage = None


def _begun(stage: Stage, row: Row, settings: Settings) -> Flooding | None:
    """The row's flooder, which waits; None where honest clients do not work any more. It starts while they are looked
    at."""
    flooding = Flooding(row.flood, stage.target(row), row.seconds or settings.seconds, settings.share)
    with ExitStack() as on_failure:
        on_failure.enter_context(flooding)
        if stage.idle_kinds():
            return None
        on_failure.pop_all()
    return flooding
