"""The shape of a Parquet table, as the driver tells it to tasks: where it is, how it is partitioned and compressed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

PENDING = "_pending"
"""The directory in a table for files that do not belong to it yet; readers leave out names with this first letter."""
CODEC_SETTING = "spark.sql.parquet.compression.codec"
CODECS: Mapping[str, str] = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
"""Spark's names of codecs, and Arrow's. Spark's `lz4` is Hadoop's own form, which few can read: this is `lz4_raw`."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table; `partition_by` is "date" (of the record's time, UTC), "partition" or "none"."""

    output: str
    partition_by: str = "none"
    codec: str = "snappy"

    @property
    def table(self) -> Path:
        return Path(self.output)

    @property
    def suffix(self) -> str:
        """The end of a file's name, as Spark has it."""
        return "parquet" if self.codec == "none" else f"{self.codec}.parquet"

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> TableSpec:
        return TableSpec(**json.loads(text))


def codec_of(setting: str) -> str:
    """Arrow's name of the codec that Spark's setting names."""
    found = CODECS.get(setting.lower())
    if found is None:
        raise ConfigError(f"{CODEC_SETTING} = {setting!r} must be one of {', '.join(CODECS)}")
    return found
