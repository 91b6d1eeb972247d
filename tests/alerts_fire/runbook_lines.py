"""Checks that the pages in ops/runbooks/ find what they look for: each `journalctl … | grep …` of an alert's page has
to find a line that a node has logged since the alert's fault began. The rest of what a page names is checked by
tests/unit/ops/test_alerts.py, without nodes."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

RUNBOOKS = Path(__file__).resolve().parents[2] / "ops" / "runbooks"
COMMAND = re.compile(r"`journalctl -u penstock@N \| (grep [^`]+)`")


def that_find_nothing(alerts: Iterable[str], logs: Mapping[Path, int]) -> Iterator[str]:
    """The commands of the alerts' pages without a line in any of the logs, each from its byte on."""
    said = b"".join(path.read_bytes()[begin:] for path, begin in logs.items())
    for alert in sorted(alerts):
        for command in COMMAND.findall((RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")):
            if subprocess.run(shlex.split(command), input=said, capture_output=True, check=False).returncode != 0:
                yield command
