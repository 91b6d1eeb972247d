"""Puts the sentence of our own errors first in what Spark shows, without the stack of a Python worker before it.

A worker sends Spark the text of an exception. With SPARK_HIDE_TRACEBACK in its environment it sends the type and the
sentence alone (pyspark.util.handle_worker_exception; `spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets it
for all of a session). Here only an error of Penstock sets it, when it leaves for Spark: it says what is wrong and what
helps. The worker ends after that, so no other error loses its stack. Any other exception keeps its own: it is a bug,
ours or the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
WORKER_PREFIX = "PYTHON_WORKER_FACTORY_"
"""Spark starts its Python workers with variables of these names, and nothing else has them."""
_SENTENCE = re.compile(r"\b(penstock(?:\.\w+)+): (.*)")


@contextmanager
def sentence_first() -> Iterator[None]:
    """Around each call from Spark; usable as a decorator."""
    try:
        yield
    except PenstockError:
        if any(name.startswith(WORKER_PREFIX) for name in os.environ):
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def sentence_in(text: str) -> tuple[str, str]:
    """The class and the sentence of Penstock's error in the text of one of Spark's; empty if there is none."""
    found = _SENTENCE.search(text)
    if found is None:
        return "", ""
    return found[1].rpartition(".")[2], re.sub(r"( SQLSTATE: \w+)+$", "", found[2])
