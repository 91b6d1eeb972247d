"""Compares the transcript of a scene with the reviewed one, or writes it anew with PENSTOCK_REWRITE=1."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def compare(directory: Path, name: str, about: str | None, lines: Sequence[str]) -> None:
    """`about`: what the scene's docstring says."""
    title = f": {about}" if about else ""
    head = [line.rstrip() for line in f"# {name.replace('_', ' ')}{title}".replace("\n", "\n# ").splitlines()]
    transcript = "\n".join([*head, *lines]) + "\n"
    path = directory / f"{name}.txt"
    if os.environ.get("PENSTOCK_REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(transcript, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == transcript
