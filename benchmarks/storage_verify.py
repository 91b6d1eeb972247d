"""`penstock log verify` in this process beside reading and checksumming the same file in megabytes.

The batches of a broker's usual size, of a quarter of it, and with one record each, where what Python does for a batch
is all that counts; and the first again with every record decoded. Not here: the process around it (0.4 s to start).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.storage_log import BATCHES, bare_check, batch_of, filled_log
from benchmarks.storage_rows import MIB, Row, Scale, best_of, rate_row
from storage.recovery.recovery import LastKnown
from storage.tools.target import LogPath
from storage.tools.verify.findings import Finding
from storage.tools.verify.verify_log import VerifyOptions, verify_log

GOAL = 0.5
SMALL_MIB = 64
"""Size of the log of one-record batches: a gibibyte of them would take a minute a round."""


def verify_rows(root: str, scale: Scale) -> Iterator[Row]:
    for name, records in BATCHES.items():
        mib = SMALL_MIB if records == 1 else scale.segment_mib
        log = filled_log(root, batch_of(records), mib * MIB - MIB)
        log.close()
        path = next(Path(log.directory).glob("*.log"))
        rounds = max(2, scale.rounds // 2)
        bare = partial(bare_check, path)
        for deep in (False, True) if name == "64 KiB" else (False,):
            ours, beside = best_of(rounds, partial(verify, log.directory, deep), bare)
            what = f"a segment of {mib} MiB, batches of {name}{', every record decoded' if deep else ''}"
            yield rate_row(
                "verify", what, path.stat().st_size, ours, beside, GOAL if name == "64 KiB" and not deep else None
            )
        shutil.rmtree(log.directory)


def verify(directory: str, deep: bool) -> None:
    found = list(verify_log(LogPath(directory, None), LastKnown(), VerifyOptions(deep=deep)))
    wrong = [finding for finding in found if isinstance(finding, Finding) and finding.kind != "partition-metadata"]
    if wrong:
        raise SystemExit(f"verify found {wrong[0]}")
