"""The node's log: its lines as text or JSON, its levels, and no line twice within `REPEAT_SECONDS`.

A node that waits (for its quorum, for room on a disk) tries again many times a second, and would say the same each
time. Here the line is written once, then again after `REPEAT_SECONDS` with the number of those that were left out. A
traceback is of a defect, which a client may be able to repeat under other names: one place in the code has
TRACEBACKS_MAX in `REPEAT_SECONDS`.

`NodeLog` gives the log the levels and the form of the configuration in force, at the start and when they change. Not
here: lines that clients cause without a defect (`penstock/throttled_lines.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from broker.config.keys.config_table import KEYS
from broker.config.log_levels import AUDIT_LOG, LogLevels, parse_log_levels, without_module
from broker.config.node_config import NodeConfig
from broker.node.process.audit_file import audit_file
from penstock.errors import ConfigError
from penstock.plain_text import plain_json, plain_lines

_log = logging.getLogger(__name__)

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_INDENT = "    "
REPEAT_SECONDS = 30
TRACEBACKS_MAX = 10
LINES_MAX = 1_000
"""The most different lines that are remembered; the oldest is forgotten first."""

OF_NODES_LOG: Final = ("logger.level", "logger.format")


class LogOutput(logging.StreamHandler[TextIO]):
    """The one handler of the node's process."""

    def __init__(self, stream: TextIO, node_id: int, name: str = "", *, has_audits: bool = True) -> None:
        """`has_audits`: False if they have a file of their own."""
        super().__init__(stream)
        self._has_audits = has_audits
        self._node_id, self._name = node_id, name
        self._said: dict[tuple[str, str, str], tuple[float, int]] = {}
        """The time at which each line (logger, text, exception) was written last, and how many like it were left out
        since."""
        self._named: tuple[str, ...] = ()
        self._traces = _Traces()

    def apply(self, levels: LogLevels, form: str) -> None:
        """Gives the log these levels, and this form: text or json."""
        self.setFormatter(JsonLines(self._node_id) if form == "json" else TextLines(self._name))
        for name in self._named:
            logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger().setLevel(levels.others)
        for name, level in levels.named:
            logging.getLogger(name).setLevel(level)
        self._named = tuple(name for name, _ in levels.named)

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held. An audit has its own bounds, and equal lines are two acts."""
        if record.name == AUDIT_LOG:
            if self._has_audits:
                super().emit(record)
            return
        try:
            key = record.name, record.getMessage(), repr(record.exc_info and record.exc_info[1])
        except Exception:  # the text and its arguments do not fit: the caller has a fault, and goes on
            self.handleError(record)
            return
        said_at, left_out = self._said.get(key, (record.created - REPEAT_SECONDS, 0))
        if 0 <= record.created - said_at < REPEAT_SECONDS:  # a clock that went back ends the silence
            self._said[key] = said_at, left_out + 1
            return
        others = self._traces.left_out_before(record) if record.exc_info else 0
        if others is None:
            return
        self._said.pop(key, None)
        self._said[key] = record.created, 0
        if len(self._said) > LINES_MAX:
            del self._said[next(iter(self._said))]
        if left_out + others:
            text = f"{key[1]} ({left_out + others} more times since the last such line)"
            record = logging.makeLogRecord({**record.__dict__, "msg": text, "args": None})
        super().emit(record)

    def __repr__(self) -> str:
        return f"LogOutput(node {self._node_id}, {len(self._said)} lines remembered)"


class _Traces:
    """The tracebacks of each place in the code."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, int], tuple[float, int]] = {}
        """The time at which the period of a place began, and how many tracebacks came since. There are as many places
        as the code has."""

    def left_out_before(self, record: logging.LogRecord) -> int | None:
        """The number of its tracebacks that were left out since the last one; None: leave this one out, too."""
        where, left_out = (record.pathname, record.lineno), 0
        began, count = self._begun.get(where, (record.created, 0))
        if not 0 <= record.created - began < REPEAT_SECONDS:
            began, count, left_out = record.created, 0, max(0, count - TRACEBACKS_MAX)
        self._begun[where] = began, count + 1
        return left_out if count < TRACEBACKS_MAX else None


class TextLines(logging.Formatter):
    """Each record begins a line, and no other line begins at the margin: the later lines of a text and of a traceback
    are indented. Names that clients choose are in some texts: one with a line break, or with the codes of a terminal,
    must not look like a record."""

    def __init__(self, name: str = "") -> None:
        """`name` begins each line, where several nodes write to one place."""
        super().__init__(f"{name.replace('%', '%%')}: {TEXT}" if name else TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _indented(super().formatMessage(record))

    def formatException(self, info: Any) -> str:
        return f"{_INDENT}{_indented(super().formatException(info))}"


def _indented(text: str) -> str:
    return plain_lines(text).replace("\n", f"\n{_INDENT}")


class JsonLines(logging.Formatter):
    """Each line is a JSON object: time (UTC), level, logger, node, message, and exception where there is one."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found: Mapping[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "node": self._node_id,
            "message": record.getMessage(),
        }
        trace = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        return plain_json(json.dumps({**found, **trace}, ensure_ascii=False))


class NodeLog:
    """The log of the process, and its audit log. One, made before everything else that logs."""

    def __init__(self, stream: TextIO, config: NodeConfig, name: str = "") -> None:
        """`name` begins each line of text, where several nodes write to one place."""
        self._audit = audit_file(config)
        self._output = LogOutput(stream, config.node_id, name, has_audits=self._audit is None)
        logging.basicConfig(handlers=[self._output])
        if self._audit is not None:
            self._audit.take(logging.getLogger(AUDIT_LOG))
        self.apply(config)

    def apply(self, config: NodeConfig) -> None:
        """Applies the configuration in force, as a listener of OF_NODES_LOG."""
        levels = parse_log_levels(config.logger_level, any_room=True)
        useless = without_module(levels)
        named = tuple((name, level) for name, level in levels.named if name not in useless)
        self._output.apply(replace(levels, named=named), config.logger_format)
        if self._audit is not None:
            logging.getLogger(AUDIT_LOG).setLevel(logging.INFO)
        for name in useless:
            _log.warning("logger.level: there is no module %s; its level does nothing", name)

    def close(self) -> None:
        """The last lines of the audit log are written, if its disk lets them."""
        if self._audit is not None:
            self._audit.close()

    def __repr__(self) -> str:
        return f"NodeLog({self._output!r})"


def with_log_options(config: NodeConfig, level: str, form: str) -> NodeConfig:
    """Puts the command line's log options before the file, until that is read again; "" says nothing."""
    forms = KEYS["logger.format"].choices
    if form and form not in forms:
        raise ConfigError(f"--log-format {form}: must be one of {', '.join(forms)}")
    wanted = tuple(filter(None, map(str.strip, level.split(",")))) or config.logger_level
    parse_log_levels(wanted)
    return replace(config, logger_level=wanted, logger_format=form or config.logger_format)
