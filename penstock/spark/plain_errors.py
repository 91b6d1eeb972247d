"""Puts the sentence of our own errors first in what Spark shows, without the stack of a Python worker before it.

It also has the names that a user of Spark gave: `kafka.max.request.size`, where the client says `max_request_size`.

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
from dataclasses import fields
from functools import cache

from penstock.client.options.config import AdminConfig, ConsumerConfig, ProducerConfig
from penstock.errors import PenstockError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
PREFIX = "kafka."
WORKER_PREFIX = "PYTHON_WORKER_FACTORY_"
"""Spark starts its Python workers with variables of these names, and nothing else has them."""
_SENTENCE = re.compile(r"\b(penstock(?:\.\w+)+): (.*)")


@contextmanager
def sentence_first() -> Iterator[None]:
    """The context of each call from Spark; usable as a decorator."""
    try:
        yield
    except PenstockError as error:
        _retell(error, _with_spark_names(str(error)))
        if any(name.startswith(WORKER_PREFIX) for name in os.environ):
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def add_context(error: PenstockError, more: str) -> None:
    """Puts into the sentence where in Spark's work the error came; a note would be on a line that Spark cuts off."""
    _retell(error, f"{error} ({more})")


def _retell(error: PenstockError, text: str) -> None:
    if text != str(error):
        error.args = (text, *error.args[1:])


def _with_spark_names(text: str) -> str:
    return _client_names().sub(lambda found: option_name(found[0]), text)


@cache
def _client_names() -> re.Pattern[str]:
    """Names of client options that are no words of English."""
    names = {
        f.name for config in (AdminConfig, ConsumerConfig, ProducerConfig) for f in fields(config) if "_" in f.name
    }
    return re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")


def option_name(client_name: str) -> str:
    """The name of a client's option as Spark's user writes it."""
    return PREFIX + client_name.replace("_", ".")


def sentence_in(text: str) -> tuple[str, str]:
    """The class and the sentence of Penstock's error in the text of one of Spark's; two empty strings if the text has
    no such error."""
    found = _SENTENCE.search(text)
    if found is None:
        return "", ""
    return found[1].rpartition(".")[2], re.sub(r"( SQLSTATE: \w+)+$", "", found[2])
