"""Whether the pages in ops/runbooks/ find what they look for: each `journalctl … | grep …` of an alert's page has to
find a line in a node's log while the alert's fault lasts. What else a page names is checked by
tests/unit/ops/test_alerts.py, without nodes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

RUNBOOKS = Path(__file__).resolve().parents[2] / "ops" / "runbooks"
COMMAND = re.compile(r"`journalctl -u penstock@N \| (grep [^`]+)`")


def that_find_nothing(alerts: Iterable[str], logs: Iterable[Path]) -> Iterator[str]:
    """The commands of the alerts' pages without a line in any of the logs."""
    said = b"".join(path.read_bytes() for path in logs)
    for alert in sorted(alerts):
        for command in COMMAND.findall((RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")):
            if subprocess.run(shlex.split(command), input=said, capture_output=True, check=False).returncode != 0:
                yield command
