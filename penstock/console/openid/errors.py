"""The two ways in which a log-in by an identity provider ends badly. Neither text has a token, a code or a secret."""

from __future__ import annotations

from penstock.errors import PenstockError


class OpenIdRefusedError(PenstockError):
    """The log-in does not count: the provider refuses it, or what came is not what was asked for."""


class ProviderAwayError(PenstockError):
    """The provider does not answer, or not with what OpenID Connect says. Later it may."""
