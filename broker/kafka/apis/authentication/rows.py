"""The rows of the APIs in this folder."""

from __future__ import annotations

from broker.kafka.api_row import ApiRow
from broker.kafka.apis.authentication.delegation_tokens import delegation_token_rows
from broker.kafka.apis.authentication.sasl import sasl_rows
from broker.kafka.apis.authentication.users import user_rows


def authentication_rows() -> list[ApiRow]:
    return [*sasl_rows(), *user_rows(), *delegation_token_rows()]
