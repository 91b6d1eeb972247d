"""The life of a registered broker, as a table.

                 caught up                  wants to stop
      FENCED ───────────────► UNFENCED ───────────────────► CONTROLLED_SHUTDOWN
        ▲  │ wants to stop      │ │ wants to stop,              │ nothing left to move
        │  │          fences    │ │ nothing to move             │
        └──┼────────────────────┘ └───────────────┐             │
           └────────────────────────► SHUTDOWN_NOW ◄────────────┘

Two bits of the registration hold the state: fenced and in_controlled_shutdown. Only a new registration leads back from
the two states of shutting down, because the process is going to end. The end of a session is not in the table: it
fences the broker in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from metadata.registrations import BrokerRegistration


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"  # unfenced; gives its partitions away
    SHUTDOWN_NOW = "shutdown now"  # fenced, and the process may end


class HeartbeatEvent(Enum):
    """The request that a heartbeat makes, judged with the controller's own knowledge."""

    RUNS = "runs, and has published its own registration"
    LAGS = "runs, but has not yet read up to its own registration"
    WANTS_FENCE = "asks to be fenced"
    WANTS_STOP = "asks to stop, and leads partitions that another replica could lead"
    MAY_STOP = "asks to stop, and nothing can or need be moved any more"


_F, _U = BrokerState.FENCED, BrokerState.UNFENCED
_C, _N = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW
_E = HeartbeatEvent

TRANSITIONS: Final[Mapping[BrokerState, Mapping[HeartbeatEvent, BrokerState]]] = {
    _F: {_E.RUNS: _U, _E.LAGS: _F, _E.WANTS_FENCE: _F, _E.WANTS_STOP: _N, _E.MAY_STOP: _N},
    _U: {_E.RUNS: _U, _E.LAGS: _U, _E.WANTS_FENCE: _F, _E.WANTS_STOP: _C, _E.MAY_STOP: _N},
    _C: {_E.RUNS: _C, _E.LAGS: _C, _E.WANTS_FENCE: _N, _E.WANTS_STOP: _C, _E.MAY_STOP: _N},
    _N: {_E.RUNS: _N, _E.LAGS: _N, _E.WANTS_FENCE: _N, _E.WANTS_STOP: _N, _E.MAY_STOP: _N},
}

_STATE_BY_BITS: Final = {(True, False): _F, (False, False): _U, (False, True): _C, (True, True): _N}
_BITS_BY_STATE: Final = {state: bits for bits, state in _STATE_BY_BITS.items()}


def state_of(broker: BrokerRegistration) -> BrokerState:
    return _STATE_BY_BITS[broker.fenced, broker.in_controlled_shutdown]


def bits_of(state: BrokerState) -> tuple[bool, bool]:
    """The two bits of a state: fenced, in_controlled_shutdown."""
    return _BITS_BY_STATE[state]
