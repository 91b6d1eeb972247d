"""The one error of both halves of a dialogue: the other side has not proved who it is, or does not speak the protocol.

An edge turns it into the error of its protocol. Not here: when a refused client may try again.
"""

from __future__ import annotations


class SaslRefusedError(Exception):
    """Authentication failed. Its text may be shown to the other side: it says nothing about which users there are."""
