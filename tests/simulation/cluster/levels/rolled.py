"""The machines of a story as the operator of releases sees them: the release of each, and how it gets another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from metadata.features import TABLE
from storage.disk.file_names import CLEAN_SHUTDOWN
from tests.simulation.cluster.machine import Machine

OLDER_RELEASE: Final = TABLE.of_release("0.2.0")
"""The features of the older release: it knows `metadata.version` 1 alone."""


class RolledNodes:
    """The nodes of one story by their places."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines

    def is_old(self, index: int) -> bool:
        """True if the node has the older release."""
        return self._machines[index].features is OLDER_RELEASE

    def applied_offset(self, index: int) -> int:
        """The metadata offset of a node in service; -1 of another one."""
        machine = self._machines[index]
        return machine.node.loader.image.offset if machine.node is not None and machine.is_in_service else -1

    def stop_in_order(self, index: int) -> bool:
        """Asks a node in service to end; False if it is none."""
        machine = self._machines[index]
        is_asked = machine.is_in_service and not machine.is_held
        if is_asked:
            machine.stop()
        return is_asked

    def is_down(self, index: int) -> bool:
        return not self._machines[index].is_up

    def ended_in_order(self, index: int) -> bool:
        """True if its disks say so, and nothing is wrong with them."""
        machine = self._machines[index]
        faults = machine.faults
        is_sound = machine.has_power and not (faults.full or faults.failing or faults.hung)
        directory = machine.config.metadata_log_dir
        return is_sound and not machine.is_up and machine.disk.exists(f"{directory}/{CLEAN_SHUTDOWN}")

    def start_with(self, index: int, *, old: bool) -> None:
        """Starts the node with that release, if it is down."""
        machine = self._machines[index]
        if not machine.is_up:
            machine.features = OLDER_RELEASE if old else TABLE
            machine.network.scheduler.at(machine.network.scheduler.now_s, machine.network.manager, machine.start)

    def __repr__(self) -> str:
        old = [machine.name for machine in self._machines if machine.features is OLDER_RELEASE]
        return f"RolledNodes(old: {', '.join(old) or 'none'})"
