"""Turns an error of Spark into one sentence of the right type: Spark wraps it in traces of Java and Python.

An error that Penstock raised in a worker is found again by its class name. A mistake in a conf that only Spark can see
(an unknown column, a wrong expression) is a `ConfigError`. Anything else is a `PenstockError` with Spark's first line.
That Spark's Java is not there any more, most often for want of memory, is a sentence of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import ConfigError, PenstockError
from penstock.spark.plain_errors import sentence_in
from penstock.spark.planning import DataLossError

JAVA_GONE = (
    "Spark's Java process has ended: it was killed, or out of memory; run the job again, it goes on where it was"
)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Maps what Spark raises inside the block. PySpark converts no exception of Java that it does not know."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import AnalysisException, ParseException, PySparkException, StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        raise plain_error(str(error)) from error
    except (ParseException, AnalysisException) as error:
        found = plain_error(str(error))
        raise ConfigError(str(found)) if type(found) is PenstockError else found from error
    except PySparkException as error:
        raise plain_error(str(error)) from error
    except Py4JJavaError as error:
        raise plain_error(error.java_exception.toString()) from error
    except (Py4JError, ConnectionError) as error:
        trace = str(error).partition("Trace:\n")[2]  # of a Java that answered
        raise (plain_error(trace) if trace else PenstockError(JAVA_GONE)) from error


def in_words_of_a_conf(sentence: str) -> str:
    """A source's or sink's error names Spark's options; a job's conf has other names for them."""
    for pattern, words in _CONF_WORDS:
        sentence = pattern.sub(words, sentence)
    return sentence


_CONF_WORDS = (
    (re.compile(r"(?:set )?the option failOnDataLoss="), "set fail_on_data_loss = "),
    (re.compile(r"the option skipUndecodable=(\{.*\}\})"), r"skip_undecodable = '\1'"),
    (re.compile(r"\bkafka\.(?=[a-z]+\.)"), "[run] client."),
)


def plain_error(text: str) -> PenstockError:
    """The one line that matters."""
    kind, sentence = sentence_in(text)
    if sentence:
        sentence = in_words_of_a_conf(sentence)
        return {"DataLossError": DataLossError, "ConfigError": ConfigError}.get(kind, PenstockError)(sentence)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return PenstockError(f"Spark failed: {first}")
