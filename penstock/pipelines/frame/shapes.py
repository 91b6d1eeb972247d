"""Refuses a conf that no longer fits what an earlier run has left: the shape of a checkpoint or of a table.

    CHECKPOINT/_shape.json     {"group_by": ["page"], "window": "5 m", "measures": [["views", "count(*)"]], …}

Spark compares the types of a query's state with those of its checkpoint, not their names and not their meaning. With
another `group_by` of the same type it goes on, and publishes sums of one thing under the name of another. So a job
writes the keys that its conf declares as `fixed` beside what they are fixed by, and compares them at each later run.
A place that an earlier version has begun has no such file, or lacks a key: it is taken as begun with the present conf.

A shape counts from the moment when something was begun: a first run that fails before that leaves the conf free. The
file is replaced in one step, so that a run that is killed leaves the old one or the new one.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.durable import sync_all
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import Duration, Fixed, local_path

CHECKPOINT_SHAPE = "_shape.json"

Shape = Mapping[str, Any]
"""Key to value, in JSON's types."""


def shape_of(conf: Any) -> dict[str, Any]:
    """The keys of a conf that are fixed by the first run."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(conf):
        value, fixed = getattr(conf, field.name), field.metadata.get("fixed")
        if fixed is Fixed.EACH:
            found |= {f"{field.name}.{name}": text for name, text in value.items()}
        elif fixed is Fixed.WHOLE:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    """A table becomes a list of pairs, because its order counts: Spark's state has columns without names."""
    match value:
        case dict():
            return [list(pair) for pair in value.items()]
        case tuple():
            return list(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case Path() | Duration():
            return str(value)
    return value


@dataclass(frozen=True, slots=True)
class ShapeFile:
    """The file with the shape of `place`; `remedy` ends the sentence that refuses another one."""

    path: Path
    place: Path
    remedy: str

    def read(self) -> dict[str, Any] | None:
        """The shape in the file; None if the file does not exist."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise ConfigError(f"{self.place} is not a directory; {self.remedy}") from None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigError(f"{self.path} is damaged; {self.remedy}")
        return found

    def check(self, shape: Shape) -> None:
        """ConfigError names the first key whose value is not the one that the place was begun with."""
        was = self.read() or {}
        for name, value in shape.items():
            if name in was and was[name] != value:
                raise ConfigError(
                    f"{name} = {value!r}, but {self.place} was begun with {was[name]!r}; keep that, or {self.remedy}"
                )

    def write(self, shape: Shape) -> None:
        """Adds to what the file has: a column that was left out meanwhile is still known when it comes back."""
        whole = {**(self.read() or {}), **shape}
        waiting = self.path.with_name(self.path.name + ".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with waiting.open("w", encoding="utf-8") as file:
                json.dump(whole, file)
                file.flush()
                sync_all(file.fileno())
            os.replace(waiting, self.path)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written ({error.strerror}); {self.remedy}") from None


def checkpoint_of(table: Path, given: str) -> Path:
    """The directory that the key `checkpoint` gives; `_checkpoint` in the table if it is empty."""
    try:
        return local_path(given) if given else table / "_checkpoint"
    except ValueError:
        raise ConfigError(f"checkpoint = {given!r} must be a path on this machine") from None


@dataclass(frozen=True, slots=True)
class CheckpointShape:
    """The shape of a job's checkpoint, in which each of `queries` has a directory; "" is the checkpoint itself."""

    checkpoint: Path
    queries: tuple[str, ...]
    remedy: str

    @property
    def file(self) -> ShapeFile:
        return ShapeFile(self.checkpoint / CHECKPOINT_SHAPE, self.checkpoint, self.remedy)

    def is_begun(self) -> bool:
        """True if Spark has planned a micro-batch, which a later run would go on from."""
        return any(self._offsets(query) for query in self.queries)

    def _offsets(self, query: str) -> bool:
        directory = self.checkpoint / query / "offsets"
        return directory.is_dir() and any(path.name.isdecimal() for path in directory.iterdir())

    def check(self, conf: Any) -> None:
        """Checks the conf before Spark is started; ConfigError if the checkpoint was begun with another conf."""
        if self.is_begun():
            self.file.check(shape_of(conf))

    def keep(self, conf: Any) -> None:
        """Right before the queries begin; what a run left that never began does not count any more."""
        self.check(conf)
        if not self.is_begun() and self.file.read() is not None:
            self.file.path.unlink()
        self.file.write(shape_of(conf))
