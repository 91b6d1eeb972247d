"""Reads the conf of a job: a TOML file becomes a frozen dataclass, or one error that names file, key and remedy.

A job declares its keys as fields of a dataclass, each made with `conf_key(…)`. The annotation is the type of the value:
str, int, bool, Path, Duration, datetime, tuple[str, ...] or dict[str, str]. Keys that all jobs have stand in
the table `[run]` (`RunConf`). Nothing is converted by guess: a number in quotes is an error. Checks that need two keys
belong to the dataclass's `__post_init__`, which raises `ConfigError` without the file's name; it is added here.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from penstock.client.options.config import AdminConfig, ConsumerConfig
from penstock.config_keys import REQUIRED, ConfigKey, config_text, did_you_mean, keys_of, option
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.spark.kafka_options import client_options, options_of

C = TypeVar("C")
RUN_TABLE = "run"
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time; in a conf a number and its unit: "500 ms", "30 s", "10 m", "1 h", "7 d"."""

    ms: int

    @staticmethod
    def parse(text: str) -> Duration:
        """The duration in a text; ValueError if the text is not a duration."""
        found = _DURATION.fullmatch(text.strip())
        if found is None:
            raise ValueError(text)
        return Duration(int(found[1]) * UNITS_MS[found[2]])

    @property
    def seconds(self) -> float:
        return self.ms / 1000

    @property
    def spark(self) -> str:
        """The interval, as Spark writes it."""
        return f"{self.ms} milliseconds"

    def __str__(self) -> str:
        unit = next(name for name in reversed(UNITS_MS) if self.ms % UNITS_MS[name] == 0 and (self.ms or name == "s"))
        return f"{self.ms // UNITS_MS[unit]} {unit}"


class Fixed(Enum):
    """How a key is fixed by the first run (shapes.py): as it is, or each name of a table by itself."""

    WHOLE = "whole"
    EACH = "each"


def conf_key(
    meaning: str,
    default: Any = REQUIRED,
    *,
    choices: tuple[str, ...] = (),
    minimum: int | None = None,
    fixed: Fixed | None = None,
    secret: bool = False,
) -> Any:
    """One key of a conf; without a default it must be given."""
    return option(meaning, default, minimum, None, choices=choices, fixed=fixed, secret=secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConf:
    """The table `[run]`: how a job runs, whichever it is."""

    every: Duration = conf_key(
        "a stream begins a micro-batch this often and runs until it is stopped; `0 s`: it ends with what is there now",
        Duration(0),
    )
    metrics_port: int = conf_key("serves metrics on 127.0.0.1 at this port; 0: not at all", 0, minimum=0)
    master: str = conf_key("Spark's master", "local[2]")
    quick: bool = conf_key("a faster start for small inputs; long runs get slower", False)
    accepts_repetition: int = conf_key(
        "the micro-batch of a topic that may be repeated with other rows than were committed; -1: none", -1, minimum=-1
    )
    spark: dict[str, str] = conf_key("settings of Spark, like `spark.driver.memory`", {})
    client: dict[str, str] = conf_key(
        "options of the Penstock client, like `request.timeout.ms`, `tls.ca` or `password.file`", {}, secret=True
    )

    @property
    def client_options(self) -> dict[str, str]:
        """The options, as the Spark source and sink take them."""
        return {f"kafka.{name}": value for name, value in self.client.items()}

    @property
    def reader_options(self) -> dict[str, Any]:
        """The options, as a client takes them that reads, or asks about the cluster."""
        return client_options(self.client_options, ConsumerConfig, AdminConfig)

    @property
    def admin_options(self) -> dict[str, Any]:
        return options_of(AdminConfig, self.reader_options)


DEFAULT_RUN = RunConf()
"""The connection of a conf without the table."""


@dataclass(frozen=True, slots=True)
class ConfRow:
    """A key as people read about it; `default` is None where the key must be given."""

    name: str
    kind: str
    default: str | None
    meaning: str


def read_conf(path: Path) -> dict[str, Any]:
    """The file's tables; ConfigError when there is no such file or it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the job's conf with --conf FILE") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give another file with --conf FILE") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None


def parse_job(job: str, conf: type[C], values: Mapping[str, Any], where: str) -> tuple[C, RunConf]:
    """The job's own keys and those of `[run]`."""
    own = {name: value for name, value in values.items() if name != RUN_TABLE}
    run = values.get(RUN_TABLE, {})
    if not isinstance(run, dict):
        raise ConfigError(f"{where}: '{RUN_TABLE}' must be a table: [run]")
    return _parse(conf, own, f"{where}: ", f"the job {job}"), _parse(RunConf, run, f"{where}: [run] ", "[run]")


def rows_of(conf: type[Any]) -> list[ConfRow]:
    """The keys in the order of the dataclass."""
    hints, fixed = typing.get_type_hints(conf), {f.name: f.metadata.get("fixed") for f in dataclasses.fields(conf)}
    return [
        ConfRow(key.name, _KINDS[hints[key.name]].name, _default_text(key.default), _meaning(key, fixed[key.name]))
        for key in keys_of(conf).values()
    ]


def _parse(conf: type[C], values: Mapping[str, Any], where: str, owner: str) -> C:
    hints, known = typing.get_type_hints(conf), keys_of(conf)
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"{where}{name}: {owner} has no such key{hint or '; it has ' + ', '.join(known)}")
    found: dict[str, Any] = {}
    for name, key in known.items():
        if name in values:
            found[name] = _value(hints[name], values[name], key, where)
        elif key.default is REQUIRED:
            raise ConfigError(f"{where}{name} is missing; it is {key.doc}")
    try:
        return conf(**found)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None


def _value(kind: Any, value: Any, key: ConfigKey, where: str) -> Any:
    try:
        parsed = _KINDS[kind].parse(value)
    except ValueError:
        shown = "{…}" if isinstance(value, dict) else repr(value)  # a table may have a password
        raise ConfigError(f"{where}{key.name} = {shown} must be {_KINDS[kind].name}") from None
    if not key.fits(parsed):
        wanted = f"one of {', '.join(key.choices)}" if key.choices else f"at least {key.low}"
        raise ConfigError(f"{where}{key.name} = {value!r} must be {wanted}")
    return parsed


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _time(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise ValueError(value)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(value)
    return tuple(map(_text, value))


def local_path(text: str) -> Path:
    """ValueError for an address such as s3://…: it would become a directory of that name."""
    if _ADDRESS.match(text):
        raise ValueError(text)
    return Path(text).expanduser().absolute()


def _table(value: Any) -> dict[str, str]:
    """Dotted keys without quotes are tables within tables to TOML; they become dotted names again."""
    if not isinstance(value, dict):
        raise ValueError(value)
    found: dict[str, str] = {}
    for name, one in value.items():
        if isinstance(one, dict):
            found |= {f"{name}.{inner}": text for inner, text in _table(one).items()}
        else:
            found[name] = str(one).lower() if isinstance(one, bool) else _text(str(one))
    return found


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    parse: Callable[[Any], Any]


_KINDS: dict[Any, _Kind] = {
    str: _Kind("a text", _text),
    int: _Kind("a whole number", _number),
    bool: _Kind("true or false", _flag),
    Path: _Kind("a path on this machine", lambda value: local_path(_text(value))),
    Duration: _Kind('a time such as "10 m" (ms, s, m, h, d)', lambda value: Duration.parse(_text(value))),
    datetime: _Kind("a date and time such as 2026-01-31T12:00:00Z", _time),
    tuple[str, ...]: _Kind("a list of texts", _texts),
    dict[str, str]: _Kind("a table of texts", _table),
}


def _default_text(default: Any) -> str | None:
    if default is REQUIRED:
        return None
    return "" if default in ((), {}, None) else config_text(default)


def _meaning(key: ConfigKey, fixed: Fixed | None) -> str:
    more = [", ".join(key.choices)] if key.choices else []
    more += [_FIXED[fixed]] if fixed else []
    return key.doc + (f" ({'; '.join(more)})" if more else "")


_FIXED = {Fixed.WHOLE: "fixed by the first run", Fixed.EACH: "each fixed by its first run"}
