"""The directory of one campaign: made empty, printed, and kept unless the campaign succeeds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar


class Judged(Protocol):
    """The result of a campaign."""

    @property
    def ok(self) -> bool: ...


Result = TypeVar("Result", bound=Judged)


def in_directory(name: str, say: Callable[[str], None], run: Callable[[Path], Result]) -> Result:
    """The result of `run` in a new directory, which is removed only if the result is good."""
    directory = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
    say(f"data in {directory}")
    try:
        result = run(directory)
    except BaseException as error:
        error.add_note(f"kept: {directory}")
        raise
    if result.ok:
        shutil.rmtree(directory)
    return result
