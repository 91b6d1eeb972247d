"""The page about Arrow and pandas, followed literally: its programs run one after another, against a node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.testing import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "arrow.md"
PRINTED = {
    "write.py": "3 orders written\n",
    "read.py": "3 orders of 2 customers\n",
    "frame.py": "{'ann': 5350, 'bob': 900}\n",
}


def test_the_programs_of_the_page_print_what_they_should(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == list(PRINTED)
    with Cluster(nodes=1) as cluster:
        for name, text in blocks:
            program = re.sub(r"(Producer|Consumer|Admin)\((?=[)a])", rf'\1("{cluster.bootstrap}", ', text)
            (tmp_path / name).write_text(program, encoding="utf-8")
            command = [sys.executable, "-W", "ignore::DeprecationWarning", str(tmp_path / name)]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
            )
            assert (done.stdout, done.returncode) == (PRINTED[name], 0), done.stderr
