"""One client in front of one cluster: its driver, the reference client beside it, and the outcome of each check."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator

from tests.interop.matrix.checks import SINGLE, Stage
from tests.interop.matrix.clients import REFERENCE, WITH_LOGIN, command_of, name_of
from tests.interop.matrix.group_checks import GROUPS
from tests.interop.matrix.installs import Command, MissingError
from tests.interop.matrix.process import ClientError, DriverProcess, NotOfferedError
from tests.interop.matrix.subjects import Subject
from tests.interop.matrix.table import Outcome
from tests.interop.matrix.transaction_checks import TRANSACTIONS

CHECKS: dict[str, Callable[[Stage], None]] = {**SINGLE, **GROUPS, **TRANSACTIONS}
"""Every feature of the matrix, in the order of its rows."""
IN_TOPICS = str.maketrans("@", "-")
"""A topic's name has no @."""


def start(command: Command, subject: Subject) -> DriverProcess:
    return DriverProcess(command.words, subject.bootstrap, command.folder, subject.login)


class ClientRun:
    """One client, by NAME or NAME@VERSION. Used by `with`. After a check that failed the next one has new processes of
    both clients, because the old ones are in its midst, and a whole cluster, whatever the check has left of it."""

    def __init__(self, subject: Subject, name: str) -> None:
        if subject.login and name_of(name) not in WITH_LOGIN:
            raise MissingError("its driver does not log in")
        self._command = command_of(name)
        self._another_client = functools.partial(start, self._command, subject)
        self._another_reference = functools.partial(start, command_of(REFERENCE), subject)
        self._subject = subject
        self._name = name
        self.version = self._command.version

    def __enter__(self) -> ClientRun:
        self._client, self._reference = self._another_client(), self._another_reference()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__()
        self._reference.__exit__()

    def outcome(self, feature: str) -> Outcome:
        """The check's, within it all that the client said."""
        prefix, began = f"{self._name.translate(IN_TOPICS)}-{feature}", time.monotonic()
        another = (self._another_client, self._another_reference)
        state, why = "ok", ""
        try:
            CHECKS[feature](Stage(self._subject, self._client, self._reference, *another, prefix))
        except NotOfferedError as error:
            state, why = "not offered", str(error)
        except Exception as error:
            state, why = "fails", _why(error)
            self.__exit__()
            self._subject.heal()
            self.__enter__()
        return Outcome(self._name, feature, state, why, self._command.version, time.monotonic() - began)


def _why(error: BaseException) -> str:
    """The error, and the one before it: a cluster that did not come back hides why the check had failed."""
    text = str(error) if isinstance(error, ClientError | AssertionError) else repr(error)
    before = None if error.__suppress_context__ else error.__context__
    return text if before is None else f"{text}; before that: {_why(before)}"


def outcomes(subject: Subject, name: str, features: list[str]) -> Iterator[Outcome]:
    """Each as it comes; a client that cannot be had here has one."""
    try:
        run = ClientRun(subject, name)
    except MissingError as error:
        yield Outcome(name, "", "missing", str(error))
        return
    with run:
        for feature in features:
            yield run.outcome(feature)
