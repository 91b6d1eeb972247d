"""The processes of a run by their names: members of a group, clients, drivers. None outlives the run.

What a process prints is in NAME.out of the run's directory, of all its lives. A process may be killed, stand still, be
told to end, and begin again with the same command.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class Processes:
    """A context manager: its end kills those that are left."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._commands: dict[str, Sequence[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._processes:
            self.kill(name)

    def begin(self, name: str, command: Sequence[str] = ()) -> None:
        """A process of this command, or of the one that it had before."""
        self._commands[name] = command or self._commands[name]
        with (self._directory / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=out)

    def names(self) -> list[str]:
        """Every process that has ever begun."""
        return list(self._processes)

    def alive(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is None]

    def mend(self) -> None:
        """Begins those anew that have ended by themselves."""
        for name in self._processes.keys() - set(self.alive()):
            self.begin(name)

    def pause(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def end(self, name: str, timeout_s: float) -> None:
        """Ends it by SIGTERM; subprocess.TimeoutExpired if it does not end in time."""
        self._processes[name].terminate()
        self._processes[name].wait(timeout_s)

    def end_all(self, timeout_s: float) -> list[str]:
        """Ends all at once, by SIGTERM; returns the names of those that had to be killed."""
        killed = []
        for name in self.alive():
            self.resume(name)
            self._processes[name].terminate()
        for name in self.alive():
            try:
                self._processes[name].wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill(name)
                killed.append(name)
        return killed
