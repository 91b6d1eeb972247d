"""Gives the node's log the levels and the form of the configuration in force, at the start and when they change."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, TextIO

from broker.config.keys.config_table import KEYS
from broker.config.log_levels import AUDIT_LOG, parse_log_levels, without_module
from broker.config.node_config import NodeConfig
from broker.node.process.audit_file import audit_file
from broker.node.process.log_output import LogOutput
from penstock.errors import ConfigError

_log = logging.getLogger(__name__)

OF_NODES_LOG: Final = ("logger.level", "logger.format")


class NodeLog:
    """The log of the process, and its audit log. One, made before everything else that logs."""

    def __init__(self, stream: TextIO, config: NodeConfig) -> None:
        self._audit = audit_file(config)
        self._output = LogOutput(stream, config.node_id, has_audits=self._audit is None)
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
