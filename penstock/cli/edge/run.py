"""The edge of the command line: whatever a command ends with becomes one line on stderr and an exit code.

    0    done
    1    failed: the cluster refused or did not answer, or a file or stream cannot be read or written
    2    wrong usage or configuration: an option, an argument, a file of keys
    130  Ctrl-C

With `--json` the line is {"error": {"name": …, "message": …, "exit_code": …}}; the error of a broker has "code" and
"retriable", too. An exception that nobody expected is a bug: the line says so, and that PENSTOCK_TRACEBACK=1 shows
where it was raised. Standard streams may be closed, full, or in an encoding that lacks a letter: no traceback either.
The texts of servers and of files are plain (`plain_text.py`): none of them steers the terminal.
Not here: which errors a command adds notes to, and the codes of their own that a few commands have.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple

import typer

from penstock.cli.edge.usage import EXIT_USAGE, UsageError, show_usage, usage_message
from penstock.cli.output import is_utf8
from penstock.errors import ApiError, ConfigError, MetaPropertiesError, PenstockError
from penstock.own_process.standard_streams import give_up_unwritten, open_standard_streams
from penstock.plain_text import one_line, plain_json, plain_lines

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
TRACEBACK_VARIABLE = "PENSTOCK_TRACEBACK"
NO_HOME = "Could not determine home directory."
"""pathlib's RuntimeError for a user without HOME who is in no list of users."""


_OF_WRITING = (errno.EBADF, errno.EIO, errno.EFBIG, errno.ENOSPC, errno.EDQUOT, errno.EPIPE)
"""The errors of a write; Python does not say which stream or file it was."""


class Failure(NamedTuple):
    """An error as a user is told of it."""

    name: str  # "" where the text alone says it
    text: str
    exit_code: int
    kind: str  # its name for scripts
    of_broker: Mapping[str, object] = {}


def run_command(command: Callable[[], int | None]) -> int:
    """Runs a typer app, with `standalone_mode=False`; its exit code, or that of the error that it has told."""
    open_standard_streams()
    _allow_every_letter()
    try:
        code = command() or 0
        sys.stdout.flush()
    except UsageError as error:
        code = _tell_usage(error)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            sys.excepthook = _show
            raise
        code = tell(failure_of(error))
    give_up_unwritten()
    return code


def failure_of(error: Exception) -> Failure:
    """The words and the exit code for an error."""
    if isinstance(error, typer.Abort):  # a question was not answered with yes
        return _of_penstock(PenstockError("not confirmed; nothing was changed"))
    if isinstance(error, PenstockError):
        return _of_penstock(error)
    if isinstance(error, UnicodeEncodeError):
        return Failure("", _not_utf8(error), EXIT_USAGE, "Usage")
    if isinstance(error, (ValueError, OverflowError)):  # the clients' word for an argument that they do not take
        return Failure("", _one_line(str(error)), EXIT_USAGE, "Usage")
    if isinstance(error, OSError):
        return Failure("", _system_words(error), EXIT_FAILED, "OSError")
    if isinstance(error, RuntimeError) and NO_HOME in str(error):
        return Failure("", "this user has no home directory; set HOME to a directory", EXIT_FAILED, "NoHome")
    name = type(error).__name__
    hint = f"this is a bug of Penstock; with {TRACEBACK_VARIABLE}=1 the command shows where it is"
    return Failure(f"unexpected {name}", f"{_one_line(str(error)) or '(no words)'}; {hint}", EXIT_FAILED, name)


def tell(failure: Failure) -> int:
    """Writes the line; the exit code."""
    if wants_json():
        error = {"name": failure.kind, "message": failure.text, "exit_code": failure.exit_code, **failure.of_broker}
        line = plain_json(json.dumps({"error": error}, ensure_ascii=not is_utf8(sys.stderr)))
    else:
        line = one_line(f"penstock: {f'{failure.name}: ' if failure.name else ''}{failure.text}")
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    return failure.exit_code


def _tell_usage(error: typer.BadParameter) -> int:
    if wants_json():
        return tell(Failure("", usage_message("penstock", error), EXIT_USAGE, "Usage"))
    with contextlib.suppress(OSError):
        show_usage("penstock", error)
    return EXIT_USAGE


def _show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """A traceback whose texts may be a server's."""
    sys.stderr.write(plain_lines("".join(traceback.format_exception(kind, error, frames))))


def wants_json() -> bool:
    """True if `--json` is among the options. An argument behind `--` is no option."""
    arguments = sys.argv[1:]
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def _of_penstock(error: PenstockError) -> Failure:
    """The error, then the notes that a command added with `add_note`."""
    text = "; ".join([str(error).rstrip(), *getattr(error, "__notes__", [])])
    exit_code = EXIT_USAGE if isinstance(error, (ConfigError, MetaPropertiesError)) else EXIT_FAILED
    kind = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
    name = "" if type(error) in (PenstockError, ConfigError, MetaPropertiesError) else kind
    more = {"code": error.code, "retriable": error.retriable} if isinstance(error, ApiError) else {}
    return Failure(name, text, exit_code, kind, more)


def _system_words(error: OSError) -> str:
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {why}"
    if error.errno not in _OF_WRITING:
        return why
    try:
        sys.stdout.flush()
        os.write(1, b"")  # a large text is not kept for another flush; a full device refuses nothing, too
        stream = "standard output, or a file"
    except OSError:
        stream = "standard output"
    return f"{stream}: {why}; what was written is incomplete"


def _not_utf8(error: UnicodeEncodeError) -> str:
    """The text of the error, which names the argument that is not UTF-8: its bytes are lone surrogates in Python, which
    no name in a cluster has."""
    for argument in sys.argv[1:]:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            try:
                text = argument.encode("utf-8", "surrogateescape").decode("utf-8")
            except UnicodeError:
                return f"{argument!a} is not valid UTF-8, as names and texts in a cluster are"
            return f"{text}: the locale of this shell has no such letters; set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
    return _one_line(str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _allow_every_letter() -> None:
    """A letter that the encoding of a stream lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
