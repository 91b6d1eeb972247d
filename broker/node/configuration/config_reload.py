"""Takes a node's configuration file again when the node is told to (SIGHUP): whole, or not at all.

    asked ──► read the file ──► check it ──► DynamicBrokerConfig.file_changed
                  └─ unreadable ──┴─ a mistake ──┴─ a changed key needs a restart ──► one line in the log, no change

While logs are opened there is no event loop yet, and nobody to keep waiting: `now` reads the file on the spot. From
`serve` on it is read off the loop. What asks while the file is read has it read once more. The log dirs are not looked
at: their disk may hang, and a change of them is refused anyway.
"""

from __future__ import annotations

import asyncio
import logging

from broker.config.config import load_config, parse_config_file
from broker.config.config_file import FILE_BYTES_MAX, unreadable
from broker.config.config_variables import file_of, shown_source
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from penstock.errors import ConfigError
from storage.disk.async_files import AsyncFiles

_log = logging.getLogger(__name__)


class ConfigReload:
    """Reads the configuration file again. There is one per process."""

    def __init__(self, path: str, dynamic: DynamicBrokerConfig) -> None:
        """`path`: as `--config` names it, which may ask for variables too."""
        self.dynamic = dynamic
        self.is_reading = False
        self._path, self._shown = path, shown_source(path)
        self._asked = asyncio.Event()

    def now(self) -> None:
        """Reads the file and takes it at once, before there is an event loop."""
        try:
            found = load_config(self._path)
        except ConfigError as error:
            self._refuse(str(error))
        except Exception as error:  # as in `serve`
            self._refuse(f"{self._shown}: {_unexpected(error)}")
        else:
            self._take(found)

    def ask(self) -> None:
        """Has the file read soon, on the event loop."""
        self._asked.set()

    async def serve(self, files: AsyncFiles) -> None:
        """Reads the file whenever it is asked for, until it is cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                found = parse_config_file(self._path, await self._read(files), looks_at_dirs=False)
            except ConfigError as error:
                self._refuse(str(error))
            except Exception as error:  # a mistake of ours: the next file must be taken all the same
                self._refuse(f"{self._shown}: {_unexpected(error)}")
            else:
                self._take(found)

    async def _read(self, files: AsyncFiles) -> bytes:
        path = file_of(self._path)
        if not path:  # variables stay as they are while the process runs
            return b""
        self.is_reading = True
        try:
            data = await files.read_start(path, FILE_BYTES_MAX + 1)
        except OSError as error:
            self.is_reading = False
            raise unreadable(path, error) from None
        self.is_reading = False  # and stays True where the wait was cancelled: a thread still waits for the disk
        return data

    def _take(self, found: NodeConfig) -> None:
        try:
            changed = self.dynamic.file_changed(found)
        except ConfigError as error:
            self._refuse(f"{self._shown}: {error}")
            return
        except Exception as error:  # a part that must not raise did; nobody knows which parts were told before
            _log.error("SIGHUP: %s was applied only in part: %s; restart the node", self._shown, _unexpected(error))
            return
        shadowed = [key for key in changed if self.dynamic.is_set_in_metadata(key)]
        if not changed:
            _log.info("SIGHUP: nothing has changed in %s", self._shown)
        if shadowed:
            _log.warning("%s: the metadata has another value, which stays in force", ", ".join(shadowed))

    def _refuse(self, why: str) -> None:
        _log.error("SIGHUP: nothing was applied, and the node goes on as before: %s", why)

    def __repr__(self) -> str:
        return f"ConfigReload({self._path}, is_reading={self.is_reading})"


def _unexpected(error: Exception) -> str:
    """The error on one line."""
    return f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
